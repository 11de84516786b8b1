"""Training on cases that are drawn in part, from raw scans to scores, in two and in three dimensions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.readers import nifti
from coranet.data.store import Store
from coranet.engine.prediction.trained import Trained
from coranet.engine.setup import Setup
from coranet.engine.timeline import Stretch
from coranet.engine.watch import Watch
from coranet.errors import InputError
from coranet.runs.exam import find_store_exam, write_store_exam
from coranet.runs.held_out import look_at
from coranet.runs.launch import train
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run
from coranet.types import Phase

CPU = torch.device("cpu")
SMALL = (("net.width", "2"), ("net.levels", "2"), ("train.batch", "[2, 2]"))
PATCHES = {2: (16, 16), 3: (16, 16, 12)}


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two labelled cases, one of them drawn in three slices, and no unlabelled one."""
    root = write_folder(
        tmp_path_factory.mktemp("partial") / "scans",
        Phantom(shape=(28, 28, 24), slice_gap=(1.4, 1.6)),
        seed=5,
        labelled=2,
        unlabelled=0,
        test=1,
    )
    about = json.loads((root / "dataset.json").read_text())
    ignore = len(about["labels"])
    about["labels"]["ignore"] = ignore
    (root / "dataset.json").write_text(json.dumps(about))
    file = sorted((root / "labelsTr").iterdir())[0]
    volume = nifti.read(file)
    label = np.full(volume.array.shape, ignore, np.uint8)
    label[:, [8, 12, 15]] = volume.array[:, [8, 12, 15]]
    nifti.write(file, label, volume.geometry)
    return root


def options(cache: Path, dims: int, **changes: object) -> Options:
    settings = {"steps": 2, "cache": cache, "device": "cpu", "val": 0, "overrides": SMALL, "dims": dims}
    return Options(**{**settings, "patch": PATCHES[dims], **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("dims", [2, 3])
def test_where_nobody_drew_a_case_is_unlabelled(scans: Path, cache: Path, dims: int) -> None:
    said: list[str] = []
    run, store = make_run(scans, options(cache, dims), CPU, say=said.append)
    assert any("1 labelled cases are drawn in part" in line for line in said)
    setup = Setup.of(run, store, CPU)
    (partial,) = store.partial
    assert setup.unlabelled is not None
    assert set(setup.unlabelled.cases) == {partial}
    assert len(setup.unlabelled) == {2: 25, 3: 1}[dims]
    whole = [name for name in run.split.labelled if name != partial]
    assert all(
        len(sizes) == len(whole) for sizes in run.data.volumes.values()
    )  # how much there is, only a whole case says
    batch = setup.batch(0, None)
    assert batch.unlabelled is not None
    assert batch.labelled.extent is not None


@pytest.mark.parametrize("dims", [2, 3])
def test_a_run_trains_validates_and_predicts(scans: Path, cache: Path, tmp_path: Path, dims: int) -> None:
    folder = train(scans, tmp_path / "run", options(cache, dims, val=1, method="mean_teacher"))
    record = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])
    assert 0 <= record["val"]["mean"] <= 1
    trained = Trained.load(folder, device="cpu")
    assert list(trained.classes.values()) == [name for name in trained.run.data.classes.values() if name != "ignore"]


def test_dice_while_training_counts_drawn_voxels_alone(scans: Path, cache: Path) -> None:
    run, store = make_run(scans, options(cache, 3), CPU)
    setup = Setup.of(run, store, CPU)
    pool, predictor = setup.labelled, setup.predictor()
    assert pool.labels is not None
    assert pool.ignore is not None
    found = predictor.dice(pool, run.data.classes)
    counts = {}
    for index, planes, prediction in predictor.over(pool):
        for row, number in enumerate(index.tolist()):
            label = pool.labels[number][planes]
            mine = prediction.probabilities.argmax(dim=1)[row][tuple(map(slice, label.shape))]
            drawn = label != pool.ignore
            both = ((mine == 1) & (label == 1) & drawn).sum()
            counts[number] = 2 * both / ((mine[drawn] == 1).sum() + (label[drawn] == 1).sum())
    assert found[run.data.classes["1"]] == pytest.approx(float(torch.stack(list(counts.values())).mean()))


def test_a_label_that_is_not_drawn_at_all_is_refused(scans: Path, cache: Path, tmp_path: Path) -> None:
    _, store = make_run(scans, options(cache, 3), CPU)
    (partial,) = store.partial
    copy = tmp_path / "store"
    copy.mkdir()
    for file in store.path.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    case = store.cases[partial]
    with (copy / "labels.bin").open("r+b") as written:
        written.seek(case.label_at or 0)
        written.write(bytes([store.ignore or 0]) * int(np.prod(case.shape[1:])))
    with pytest.raises(InputError, match=f"{partial}: no voxel of its label is drawn"):
        make_run(copy, options(cache, 3), CPU)


def test_an_exam_of_a_store_says_what_is_ignored(scans: Path, cache: Path, tmp_path: Path) -> None:
    run, store = make_run(scans, options(cache, 3, val=1), CPU)
    exam = find_store_exam(store.path, run.split, tmp_path / "exam")
    write_store_exam(exam)
    about = json.loads((exam.labels / "dataset.json").read_text())
    assert about["labels"]["ignore"] == Store.open(store.path).ignore


@pytest.mark.parametrize("dims", [2, 3])
def test_cases_that_are_drawn_in_part_are_no_measure_of_sizes(
    scans: Path, cache: Path, tmp_path: Path, dims: int
) -> None:
    run, store = make_run(scans, options(cache, dims), CPU)
    (partial,) = store.partial
    watch = Watch(Setup.of(run, store, CPU), tmp_path, Stretch(Phase(name="labels", epochs=1), 0, 1, None))
    (whole,) = set(run.split.labelled) - {partial}
    counts = np.bincount(store.label(whole).ravel(), minlength=run.classes)
    assert all(value <= counts[number] for number, value in enumerate(watch.labelled.values(), start=1))
    assert sum(watch.labelled.values()) > 0
    assert [one.case for one in look_at(Setup.of(run, store, CPU).predictor(), store, run.split.labelled, CPU)] == [
        whole
    ]
