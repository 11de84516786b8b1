"""`coranet prepare`: one command from raw scans to a store that is trained on, and labels that come back."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from coranet.cli import main
from coranet.cli.prepare import in_words
from coranet.cli.terminal.preparation_options import as_settings
from coranet.data.datasets import read_dataset
from coranet.data.datasets.folder import Dataset
from coranet.data.grid import Grid, mismatch, orientation
from coranet.data.prepare.cases import prepare_case, restore_labels
from coranet.data.prepare.preparation import Preparation
from coranet.data.readers import Volume, source
from coranet.data.readers.nifti import write
from coranet.data.store import Store
from coranet.geometry import Geometry
from tests.dicoms import write_series

DATA = os.environ.get("CORANET_DATA")
TURNS = list(product(permutations(range(3)), product((False, True), repeat=3)))


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["prepare", *map(str, arguments)])
    return int(stopped.value.code or 0)


def test_one_command_makes_a_store(scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(scans, "--out", tmp_path / "store", "--jobs", 1) == 0
    store = Store.open(tmp_path / "store")
    assert len(store.cases) == 9
    assert sum(case.part == "Ts" for case in store.cases.values()) == 2
    said = capsys.readouterr()
    assert "cases     9, " in said.out
    assert "32 x 32 x 3 voxels" in said.out
    assert store.fingerprint in said.out
    assert "Grey levels by zscore" in said.err
    assert "labels" not in said.out.replace("labelled", "")
    assert run(scans, "--out", tmp_path / "store") == 1
    assert "is a prepared store already" in capsys.readouterr().err


def test_a_store_is_trained_on(scans: Path, tmp_path: Path, small) -> None:
    from coranet.runs.launch import train

    assert run(scans, "--out", tmp_path / "store", "--jobs", 1) == 0
    folder = train(tmp_path / "store", tmp_path / "run", small(steps=2, val=0))
    assert (folder / "last.pt").exists()


def test_labels_that_do_not_come_back_are_told(scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "store"
    assert run(scans, "--out", out, "--jobs", 1, "--spacing", 7, 7, "None", "--intensity", "percentile") == 0
    assert "labels    do not come back whole from this grid: Dice 0." in capsys.readouterr().out
    assert Store.open(out).preparation["spacing"] == [7.0, 7.0, None]
    assert Store.open(out).preparation["intensity"] == "percentile"


def test_names_with_spaces_and_letters_of_any_kind_and_links_are_read(scans: Path, tmp_path: Path) -> None:
    linked = tmp_path / "Größe und Ångström" / "日本 scans"
    linked.parent.mkdir()
    linked.symlink_to(scans)
    assert run(linked, "--out", linked.parent / "ein Speicher", "--jobs", 1, "--preset", "paper") == 0
    assert len(Store.open(linked.parent / "ein Speicher").cases) == 9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--preset", "nothing"), "--preset nothing: no such preset. There are: auto, quick, paper, pancreas-2d"),
        (("--dataset", "nothing"), "no such dataset"),
        (("--jobs", "0"), "--jobs 0: give 1 or more"),
        (("--crop", "box"), "crop=box and a crop box go together"),
        (("--crop", "label"), "has no label, and crop=label asks for one"),
        (("--spacing", "0", "1", "1"), "must be positive"),
    ],
)
def test_what_cannot_be_is_refused(
    scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...], message: str
) -> None:
    assert run(scans, "--out", tmp_path / "store", *wrong) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_folder_with_something_in_it_is_not_written_to(
    scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert run(scans, "--out", tmp_path) == 1
    assert "is there already, and is no store" in capsys.readouterr().err


def changed(settings: Preparation, **given: object) -> Preparation:
    return replace(settings, **as_settings(**given))


def test_what_is_given_changes_the_preset_and_nothing_else() -> None:
    preset = Preparation(crop="label", crop_margin=(25, 25, None), crop_label_for_all=True, intensity="minmax")
    assert changed(preset) == preset
    assert changed(preset, crop="none").crop == "none"
    boxed = changed(preset, crop_box=(1, 5, 2, 6, 3, 7))
    assert (boxed.crop, boxed.crop_box) == ("box", ((1, 5), (2, 6), (3, 7)))
    assert changed(boxed, crop="foreground").crop == "foreground"
    assert changed(preset, intensity=("window",)).intensities == ()
    both = changed(preset, intensity=("window", "zscore"))
    assert [both.intensity_of(channel) for channel in (0, 1)] == ["window", "zscore"]


def test_what_is_done_is_said_in_words() -> None:
    words = in_words(
        Preparation(
            intensity="minmax",
            clip=(-125, 275),
            spacing=(1, 1, None),
            crop="label",
            size=(256, 256, None),
            fit="resize",
        )
    )
    assert words == (
        "Grey levels by minmax, clipped to -125 to 275; resampled to 1 x 1 x * mm by spline; cropped to the ground truth, "
        "which nobody has of a new scan; stretched to 256 x 256 x * voxels"
    )


def dice(a: np.ndarray, b: np.ndarray) -> float:
    return float(2 * (a & b).sum() / (a.sum() + b.sum()))


def turned(volume: Volume, turn: tuple[tuple[int, ...], tuple[bool, ...]]) -> Volume:
    """The same scan with its axes in another order and direction."""
    axes, flips = turn
    x, y, z = (volume.geometry.shape[axis] for axis in axes)
    array = np.flip(volume.array.transpose(axes), [i for i in range(3) if flips[i]])
    to_old = np.zeros((4, 4))
    to_old[3, 3] = 1
    for i, (axis, flip) in enumerate(zip(axes, flips, strict=True)):
        to_old[axis, i] = -1 if flip else 1
        to_old[axis, 3] = volume.geometry.shape[axis] - 1 if flip else 0
    affine = np.array(volume.geometry.affine) @ to_old
    return Volume(array, Geometry(shape=(x, y, z), affine=tuple(map(tuple, affine.tolist()))))


def test_a_turned_volume_is_the_same_in_the_world() -> None:
    geometry = Geometry(shape=(3, 4, 5), affine=((-1.0, 0, 0, 3), (0, -2.0, 0, 5), (0, 0, 3.0, 7), (0, 0, 0, 1.0)))
    volume = Volume(np.arange(60).reshape(3, 4, 5), geometry)
    one = prepare_case([volume], None, Preparation()).image
    for turn in TURNS:
        other = turned(volume, turn)
        assert np.array_equal(prepare_case([other], None, Preparation()).image, one)
    assert len({orientation(turned(volume, turn).geometry) for turn in TURNS}) == 48


def organ(shape: tuple[int, ...]) -> np.ndarray:
    """A lump off the centre."""
    places = np.indices(shape) - np.array([0.55, 0.45, 0.5])[:, None, None, None] * np.array(shape)[:, None, None, None]
    return ((places / np.array([9, 8, 6])[:, None, None, None]) ** 2).sum(0) < 1


AXES = [(*np.eye(3)[a] * s, *np.eye(3)[b] * t) for a, b in permutations(range(3), 2) for s in (1, -1) for t in (1, -1)]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_labels_of_series_of_any_orientation_come_back(tmp_path: Path, axes: tuple[float, ...]) -> None:
    mask = organ((36, 32, 24))
    voxels = (mask * 100 + np.random.default_rng(0).integers(0, 20, mask.shape)).astype(np.int16)
    affine = write_series(tmp_path, voxels, spacing=(0.7, 0.8, 1.5), orientation=axes)
    geometry = Geometry(shape=mask.shape, affine=tuple(map(tuple, affine.tolist())))
    image, truth = source(tmp_path).read(), Volume(mask.astype(np.uint8), geometry)
    whole, finer = Preparation(), Preparation(spacing=(0.5, 0.6, 0.6), crop="label", crop_margin=(2, 2, 2))
    for settings, least in ((whole, 1.0), (finer, 0.99)):
        prepared = prepare_case([image], _on(truth, image.geometry), settings)
        assert prepared.label is not None
        assert prepared.image[0][prepared.label == 1].min() > prepared.image[0][prepared.label == 0].mean()
        back = restore_labels(prepared.label, prepared.grid)
        assert dice(back == 1, _on(truth, image.geometry).array == 1) >= least


def _on(volume: Volume, geometry: Geometry) -> Volume:
    """A volume in the order of axes that a reader chose for the same voxels."""
    for turn in TURNS:
        if not mismatch((other := turned(volume, turn)).geometry, geometry):
            return other
    raise AssertionError("the reader has the voxels somewhere else")


def test_a_series_with_a_gap_is_prepared_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = organ((36, 32, 24))
    voxels = (mask * 100 + np.random.default_rng(0).integers(0, 20, mask.shape)).astype(np.int16)
    for patient, gap in (("0001", ()), ("0002", (11,))):
        folder = tmp_path / "raw" / f"PANCREAS_{patient}" / "study" / "series"
        affine = write_series(folder, voxels, leave_out=gap, PatientID=f"PANCREAS_{patient}")
        geometry = Geometry(shape=mask.shape, affine=tuple(map(tuple, affine.tolist())))
        write(tmp_path / "raw" / f"label{patient}.nii.gz", mask.astype(np.uint8), geometry)
    order = (tmp_path / "raw", "--dataset", "pancreas_ct", "--preset", "pancreas-a", "--jobs", 1)
    assert run(*order, "--out", tmp_path / "store") == 1
    assert "--allow-gaps" in capsys.readouterr().err
    assert run(*order, "--out", tmp_path / "store", "--allow-gaps") == 0
    said = capsys.readouterr()
    assert "cropped to the ground truth, which nobody has of a new scan" in said.err
    assert "labels    do not come back whole" in said.out
    assert run(*order, "--out", tmp_path / "auto", "--allow-gaps", "--preset", "auto") == 0
    store = Store.open(tmp_path / "store")
    assert len(store.cases) == len(Store.open(tmp_path / "auto").cases) == 2
    assert all(store.image(name)[0][store.label(name) == 1].mean() > 0.5 for name in store.cases)


def come_back(dataset: Dataset, settings: Preparation) -> list[tuple[float, str, int]]:
    """The Dice of every class of every case with itself, there and back, each case lying another way."""
    found = []
    for number, case in enumerate(dataset.cases):
        assert case.label is not None
        turn = TURNS[number % len(TURNS)]
        image, label = turned(case.images[0].read(), turn), turned(case.label.read(), turn)
        prepared = prepare_case([image], label, settings)
        assert prepared.label is not None
        assert max(prepared.grid.scale) <= 1 + 1e-9
        assert Grid.from_json(prepared.grid.to_json()) == prepared.grid
        back = restore_labels(prepared.label, prepared.grid)
        truth = label.array.astype(np.uint8)
        found += [(dice(back == v, truth == v), case.name, int(v)) for v in np.unique(truth) if v]
    return found


@pytest.mark.skipif(DATA is None, reason="CORANET_DATA names no folder of real scans")
@pytest.mark.parametrize(
    ("folder", "name", "finer"),
    [
        ("hippocampus/Task04_Hippocampus", "msd", (0.5, 0.5, 0.5)),
        ("acdc-official-sample", "acdc", (0.6, 0.6, 2.5)),
    ],
)
def test_labels_of_real_scans_come_back(folder: str, name: str, finer: tuple[float, float, float]) -> None:
    root = Path(str(DATA)) / folder
    if not root.exists():
        pytest.skip(f"{root} does not exist")
    dataset = read_dataset(root, name)
    assert min(come_back(dataset, Preparation()))[0] == 1
    assert min(come_back(dataset, Preparation(crop="label", crop_margin=(2, 2, None))))[0] == 1
    assert min(come_back(dataset, Preparation(spacing=finer)))[0] >= 0.99
