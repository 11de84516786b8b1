"""A network that travels: the same labels from its file and recipe as from its run, also for who has neither."""

import json
import shutil
from dataclasses import replace

import nibabel as nib
import numpy as np
import pytest
import torch

import coranet
from coranet.cli import main
from coranet.engine.checkpoint import warn
from coranet.engine.prediction.fitted import Fitted
from coranet.engine.prediction.loading import load_segmenter
from coranet.engine.prediction.onnx_export import export
from coranet.engine.prediction.onnx_network import open_network
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.prediction.recipe import STEPS
from coranet.engine.run import Accel, Run
from coranet.errors import InputError
from coranet.feed.windows import Patches, Slices
from coranet.methods.one_vs_rest import OneVsRest
from coranet.metrics.expectation import DiceFit
from coranet.nets import MakeNet, Net
from coranet.uncertainty import Aleatoric, Ensemble, MCDropout, Softmax
from coranet.uncertainty.wrongness import Wrongness

runtime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def file(finished, tmp_path_factory):
    """The run of all tests, exported."""
    path = tmp_path_factory.mktemp("travel") / "net.onnx"
    run = Run.read(finished)
    segmenter = load_segmenter(finished, run, uncertainty=True, best=False, say=warn)
    assert export(run, segmenter, path) < 1e-5
    return path


def test_a_file_says_what_its_run_says_on_every_voxel(finished, file, scans):
    scan = scans / "imagesTs/phantom_007_0000.nii.gz"
    ours, theirs = coranet.load(finished, "cpu").predict(scan), coranet.load(file).predict(scan)
    np.testing.assert_array_equal(theirs.label, ours.label)
    np.testing.assert_array_equal(theirs.uncertain, ours.uncertain)
    np.testing.assert_allclose(theirs.probabilities, ours.probabilities, atol=1e-5)
    assert sorted(theirs.masks) == ["conservative", "radical"]
    for name, mask in theirs.masks.items():
        np.testing.assert_array_equal(mask, ours.masks[name])
    assert len(np.unique(ours.label)) > 1
    alone = coranet.load(file, uncertainty=False).predict(scan)
    assert alone.uncertain is None
    np.testing.assert_array_equal(alone.label, ours.label)


def test_a_file_measures_and_warns_as_its_run(finished, file, scans, tmp_path):
    run, travelled = coranet.load(finished, "cpu"), coranet.load(file)
    found = [one.predict_files(scans / "imagesTs", tmp_path / name) for name, one in (("a", travelled), ("b", run))]
    sizes = [{case: facts.sizes for case, facts in each.items()} for each in found]
    assert sizes[0] == sizes[1]
    assert travelled.classes == run.classes
    assert travelled.run.data.volumes == run.run.data.volumes
    assert travelled.parameters == run.parameters


def test_a_file_has_what_was_fitted_for_its_run(finished, scans, tmp_path):
    """Scores, and every number of cases.csv, from the file as from the run."""
    run = shutil.copytree(finished, tmp_path / "run")
    voxels, cases = Wrongness(weights=(-1.0, -0.5, 0.2, 0.7)), DiceFit(weights=(0.3, 0.8, 0.1), spread=0.4, level=0.75)
    Fitted(run=Run.read(run).identity, voxels=voxels, cases=cases, held_out={"phantom_001": {"a": 0.5}}).write(run)
    with pytest.raises(SystemExit, match="0"):
        main(["export", str(run), "--onnx", str(tmp_path / "travel/net.onnx")])
    for name in ("run", "travel/net.onnx"):
        out = tmp_path / f"of_{name[:3]}"
        with pytest.raises(SystemExit, match="0"):
            main(["predict", str(tmp_path / name), str(scans / "imagesTs"), "--out", str(out), "--device", "cpu"])
    ours, theirs = (tmp_path / name for name in ("of_run", "of_tra"))
    tables = [(folder / "cases.csv").read_text() for folder in (ours, theirs)]
    assert "phantom_007" in tables[0]
    assert tables[1] == tables[0]
    for file in sorted(ours.glob("*_score.nii.gz")):
        scores = [nib.load(folder / file.name).get_fdata() for folder in (ours, theirs)]
        np.testing.assert_allclose(scores[1], scores[0], atol=1 / 250)
    recipe = json.loads((tmp_path / "travel/recipe.json").read_text())
    assert recipe["fit"]["voxels"]["weights"] == [-1.0, -0.5, 0.2, 0.7]
    assert "phantom_001" not in json.dumps(recipe)


def test_a_recipe_holds_no_path_and_no_name_of_a_case(finished, file):
    text, run = file.with_name("recipe.json").read_text(), Run.read(finished)
    assert not [name for name in (*run.split.stored, *run.split.test, run.data.source) if name in text]
    assert json.loads(text)["steps"] == list(STEPS)


def test_a_stranger_needs_the_two_files_alone(finished, file, scans):
    """The recipe's steps by numpy and onnxruntime, for slices that are not resampled."""
    recipe = json.loads(file.with_name("recipe.json").read_text())
    session = runtime.InferenceSession(str(file.with_name(recipe["network"])))
    scan = nib.as_closest_canonical(nib.load(scans / "imagesTs/phantom_008_0000.nii.gz"))
    grey = np.asarray(scan.dataobj, np.float32)
    assert recipe["orientation"] == "RAS"
    assert recipe["preparation"]["intensity"] == "zscore"
    grey = (grey - grey.mean(dtype=np.float64)) / grey.std(dtype=np.float64)
    assert recipe["window"]["kind"] == "slices"
    slices = np.moveaxis(grey, recipe["window"]["axis"], 0)[:, None].astype(np.float32)
    assert list(slices.shape[2:]) == recipe["window"]["size"]
    main, con, rad = session.run(["main", "con", "rad"], {"image": slices})
    answer = coranet.load(finished, "cpu").predict(scan)
    np.testing.assert_array_equal(np.moveaxis(main.argmax(1), 0, 2), answer.label)
    uncertain = ((con > 0.5) != (rad > 0.5)).any(axis=1)
    np.testing.assert_array_equal(np.moveaxis(uncertain, 0, 2), answer.uncertain)


BODIES = [(body, dims) for body in ("unet", "vnet", "resnet18") for dims in (2, 3)]


def built(finished, body, dims, method=None, **net):
    """A run of other networks than the finished one, and what predicts with their first weights."""
    run, network = Run.read(finished), Net(body=body, width=8 if body == "monai:SegResNet" else 4, levels=2, **net)
    side = 2 * network.multiple
    window = Slices(size=(side, side)) if dims == 2 else Patches(size=(side, side, side))
    run = replace(run, net=network, data=replace(run.data, window=window), method=method or run.method)
    torch.manual_seed(3)
    nets = run.method.nets(MakeNet(network, dims, 1, run.classes))
    return run, run.method.segmenter(nets), side


@pytest.mark.parametrize(("body", "dims"), [*BODIES, ("monai:UNet", 2), ("monai:SegResNet", 3)])
def test_every_network_travels(finished, tmp_path, body, dims):
    norm = "instance" if dims == 3 else "batch"
    run, segmenter, side = built(finished, body, dims, norm=norm)
    assert_same_answers(run, segmenter, side, tmp_path / "net.onnx")


def assert_same_answers(run, segmenter, side, path):
    """On images larger than a window, in windows of another size and number than were exported."""
    export(run, segmenter, path)
    _, travelled = open_network(path)
    size = tuple(side * factor // 2 for factor in (3, 2, 4)[: run.data.window.dims])
    image = torch.randn(2, 1, *size, generator=torch.Generator().manual_seed(1))
    window = replace(run.data.window, size=(side,) * (len(size) - 1) + (side // 2,))
    window = run.data.window if run.net.monai else window
    ours, theirs = (Predictor(one, window, Accel())(image) for one in (segmenter, travelled))
    # A tie of two probabilities may fall either way: of these networks none has one.
    torch.testing.assert_close(theirs.probabilities.argmax(1), ours.probabilities.argmax(1), rtol=0, atol=0)
    torch.testing.assert_close(theirs.regions.certain, ours.regions.certain, rtol=0, atol=0)
    torch.testing.assert_close(theirs.probabilities, ours.probabilities, rtol=0, atol=1e-4)


def test_one_versus_rest_and_ensembles_travel(finished, tmp_path):
    inner = Run.read(finished).method
    for name, method in (
        ("rest", OneVsRest(inner=inner, objects=3)),
        ("ensemble", replace(inner, regions=Ensemble(members=2))),
        ("softmax", replace(inner, regions=Softmax())),
    ):
        (tmp_path / name).mkdir()
        assert_same_answers(*built(finished, "unet", 2, method), tmp_path / name / "net.onnx")


@pytest.mark.parametrize("estimator", [MCDropout(passes=2), Aleatoric()])
def test_what_is_drawn_at_random_stays_at_home(finished, tmp_path, estimator):
    method = replace(Run.read(finished).method, regions=estimator)
    run, segmenter, _ = built(finished, "unet", 2, method)
    with pytest.raises(InputError, match=f"{type(estimator).__name__}.*--no-uncertainty"):
        export(run, segmenter, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())
    export(run, replace(segmenter, estimator=None), tmp_path / "net.onnx")
    assert open_network(tmp_path / "net.onnx")[1].estimator is None


def test_a_folder_has_one_recipe(finished, file, tmp_path):
    run = Run.read(finished)
    segmenter = load_segmenter(finished, run, uncertainty=True, best=False, say=warn)
    shutil.copytree(file.parent, tmp_path / "there")
    with pytest.raises(InputError, match=r"belongs to net.onnx already\. Export into a folder of its own"):
        export(run, segmenter, tmp_path / "there/other.onnx")
    export(run, segmenter, tmp_path / "there/net.onnx")
    with pytest.raises(InputError, match=r"ends in \.onnx"):
        export(run, segmenter, tmp_path / "net.bin")


def changed(**values):
    def change(folder):
        recipe = folder / "recipe.json"
        recipe.write_text(json.dumps(json.loads(recipe.read_text()) | values))

    return change


def short(folder):
    content = (folder / "net.onnx").read_bytes()
    (folder / "net.onnx").write_bytes(content[: len(content) // 2])


def noise(folder):
    import hashlib

    (folder / "net.onnx").write_bytes(b"\x08" * 4000)
    changed(sha256=hashlib.sha256(b"\x08" * 4000).hexdigest())(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "recipe.json").unlink(), r"recipe.json: does not exist\. Copy it"),
        (lambda folder: (folder / "recipe.json").write_text("{"), "not valid JSON"),
        (lambda folder: (folder / "recipe.json").write_text("[1]"), "not a JSON object"),
        (lambda folder: (folder / "net.onnx").unlink(), r"net.onnx: no such file"),
        (short, "not the file that its recipe.json was written for"),
        (noise, "cannot be read as ONNX"),
        (changed(network="/etc/passwd"), "belongs to /etc/passwd"),
        (changed(format="coranet recipe 9"), "recipe.format is one of coranet recipe 1"),
        (changed(channels=10**9), "data.channels is between 1 and 1000"),
        (changed(channels=3), "takes or gives other maps"),
        (changed(outputs={"main": 4}), "estimator needs other maps"),
        (changed(outputs={"main": 4, "con": 3, "rad": 10**12}), "outputs between 1 and 1024"),
        (changed(outputs={"main": 3, "con": 2, "rad": 2}), "4 classes are listed"),
        (changed(outputs={"main": 4, "con": 4, "rad": 4}), "gives con in a shape"),
        (changed(objects=10**9), "objects is between 0 and 255"),
        (changed(objects=-1), "objects is between 0 and 255"),
        (changed(stride=[0, 0]), "does not move on"),
        (changed(stride=[1]), "one for each axis"),
        (changed(window={"kind": "patches", "size": [10**6] * 3}), "data.window.size is between"),
        (changed(window={"kind": "nothing"}), "No window is called 'nothing'"),
        (changed(estimator={"kind": "posix"}), "No estimator is called 'posix'"),
        (changed(classes={"0": "a"}), "2 to 256"),
        (changed(preparation={"spacing": [0, 1, 1]}), "must be positive"),
        (changed(steps="x"), "steps is a list"),
        (changed(fit={"voxels": {"weights": [1.0]}}), "A fit of the score has 4 weights"),
    ],
)
def test_files_of_strangers_are_refused_in_one_sentence(file, scans, tmp_path, damage, message):
    folder = shutil.copytree(file.parent, tmp_path / "there")
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        coranet.load(folder / "net.onnx").predict(scans / "imagesTs/phantom_007_0000.nii.gz")
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_file_has_not_is_said(file, monkeypatch):
    from coranet.engine.prediction.trained import Trained

    with pytest.raises(InputError, match="answers alone, with its own weights"):
        Trained.load(file, torch.device("cpu"), best=True)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"need onnxruntime\. Install it: pip install 'coranet\[onnx\]'"):
        coranet.load(file)
