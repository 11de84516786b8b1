"""A run that starts from another's weights goes on as that one was trained, unless told otherwise."""

from dataclasses import replace

import pytest
import torch

from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.readers import nifti
from coranet.engine import checkpoint
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.launch import train
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def first(scans, small, tmp_path_factory):
    """A run with settings that no preset has."""
    unusual = (
        ("optim.lr", "0.003"),
        ("data.augment.rotate", "7"),
        ("method.regions.alpha", "3"),
        ("train.checks", "2"),
    )
    options = small(dims=2, patch=(16, 16), method="coranet:repaired", seed=4, overrides=unusual)
    return train(scans, tmp_path_factory.mktemp("first") / "run", replace(options, steps=3))


@pytest.fixture
def bare(cache):
    """Nothing but where to start from."""
    return lambda init, **changes: Options(init=init, cache=cache, device="cpu", **changes)


def test_the_settings_of_the_first_run_are_taken_over(scans, bare, first, tmp_path):
    said = []
    out = train(scans, tmp_path / "run", bare(first), say=said.append)
    old, new = Run.read(first), Run.read(out)
    assert new == replace(old, made_with=new.made_with, identity=new.identity)
    assert new.made_with["preset"] == "auto"
    assert (new.method.regions.alpha, new.data.augment.rotate, new.optim.lr, new.seed) == (3, 7, 0.003, 4)
    assert checkpoint.load(out / "last.pt", CPU)["step"] == 3
    assert any("Going on as" in line and "coranet:repaired" in line for line in said)


def test_what_is_given_comes_before_what_is_inherited(scans, bare, first):
    run, _ = make_run(scans, bare(first, steps=5, patch=(32, 32), seed=1, overrides=(("optim.lr", "0.1"),)), CPU)
    assert (run.train.steps, run.data.window.size, run.seed, run.optim.lr) == (5, (32, 32), 1, 0.1)
    assert (run.train.checks, run.method.regions.alpha, run.data.augment.rotate) == (2, 3, 7)
    run, _ = make_run(scans, bare(first / "last.pt", method="coranet"), CPU)
    assert type(run.method) is not type(Run.read(first).method)
    assert run.net == Run.read(first).net


def test_another_preset_trains_its_own_way_on_the_old_network(scans, bare, first):
    run, _ = make_run(scans, bare(first, preset="paper"), CPU)
    assert run.net == Run.read(first).net
    assert (Run.read(first).optim.decay, run.optim.decay) == ("poly", "none")
    assert run.method.regions.alpha == 3


@pytest.mark.parametrize(
    ("given", "option", "why"),
    [
        ({"dims": 3}, "--dims 3", "for slices"),
        ({"patch": (8, 8, 8)}, "--patch 8 8 8", "for slices"),
        ({"preset": "la"}, "--preset la", "for slices"),
        ({"net": "resnet18"}, "--net resnet18", "of unet"),
        ({"classes": "binary"}, "--classes binary", "of one network"),
        ({"method": "supervised"}, "--method supervised", "of coranet:repaired"),
        ({"overrides": (("optim.lr", "0.1"), ("net.width", "6"))}, "--set net.width=6", "of another value"),
    ],
)
def test_an_option_that_the_weights_do_not_fit_is_named(scans, bare, first, tmp_path, given, option, why):
    with pytest.raises(InputError) as caught:
        train(scans, tmp_path / "run", bare(first, **given))
    assert str(caught.value) == (
        f"{option}: the weights of {first} are {why}. Leave the option out, or train without --init."
    )
    assert not (tmp_path / "run").exists()


def test_one_network_an_object_is_taken_over(scans, small, bare, tmp_path):
    first = train(scans, tmp_path / "first", small(classes="binary", steps=1))
    second = train(scans, tmp_path / "second", bare(first))
    assert Run.read(second).method == Run.read(first).method
    with pytest.raises(InputError, match=r"^--classes native: the weights of .* are of one network an object"):
        make_run(scans, bare(first, classes="native"), CPU)


def test_a_method_of_one_s_own_is_taken_from_the_run_folder(scans, small, bare, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom coranet.methods.supervised import Supervised\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Mine(Supervised):\n    pass\n"
    )
    first = train(scans, tmp_path / "first", small(method=f"{file}:Mine", steps=1))
    file.unlink()
    with pytest.raises(InputError, match="has a method of its own"):
        train(scans, tmp_path / "second", bare(first))
    second = train(scans, tmp_path / "second", bare(first, trust=True))
    assert (second / "mine.py").exists()
    assert type(Run.read(second, trust=True).method).__name__ == "Mine"


def test_scans_with_other_classes_are_refused_by_name(bare, first, tmp_path):
    scans = write_folder(tmp_path / "scans", Phantom(shape=(32, 32, 3)), seed=6, labelled=2, unlabelled=1, test=0)
    file = scans / "dataset.json"
    file.write_text(file.read_text().replace('"LV": 3', '"LV": 3, "LA": 4'))
    for label in (scans / "labelsTr").iterdir():
        volume = nifti.read(label)
        volume.array[0, 0, 0] = 4
        nifti.write(label, volume.array, volume.geometry)
    with pytest.raises(
        InputError, match=r"was trained on 1 channels and the classes background, RV, Myo, LV, and these"
    ):
        make_run(scans, bare(first), CPU)


def test_scans_of_another_kind_are_not_taken_in_silently(bare, first, tmp_path):
    said = []
    scans = write_folder(tmp_path / "scans", Phantom(shape=(32, 32, 3)), seed=6, labelled=2, unlabelled=2, test=0)
    make_run(scans, bare(first), CPU, say=said.append)
    assert not any("WARNING" in line for line in said)
    for image in (scans / "imagesTr").iterdir():
        volume = nifti.read(image)
        volume.array[:2] = 10_000  # beside this all else is one grey
        nifti.write(image, volume.array, volume.geometry)
    make_run(scans, bare(first), CPU, say=said.append)
    assert any("WARNING: 4 of 4 of these scans look unlike those it was trained on" in line for line in said)
