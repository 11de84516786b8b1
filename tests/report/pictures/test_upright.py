"""Scans are looked at the same way, however their files store them; and dark ones can be seen."""

from __future__ import annotations

from io import BytesIO
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from coranet.data.grid import orientation_code
from coranet.data.readers import Volume, source
from coranet.data.readers.nifti import write
from coranet.evaluation import Scores
from coranet.geometry import Geometry
from coranet.report.pictures.case_slices import cut_case
from coranet.report.pictures.paint import Panel, draw_panel, grey_levels
from coranet.report.pictures.thumbnails import choose_slice, whole
from coranet.report.pictures.upright import upright, upright_spacing
from coranet.report.run_files import FinishedRun

SHAPE = (9, 8, 5)
SPACING = (1.0, 1.5, 4.0)
CODES = ["RAS", "LPS", "LAS", "RPI", "PIR", "ASL", "SRA", "ILP"]


def stored(array: NDArray[np.generic], code: str) -> tuple[NDArray[np.generic], Geometry]:
    """An array of axes right, front, up as a file whose axes point where `code` says, and its geometry."""
    order = ["RL", "AP", "SI"]
    axes = [next(i for i, pair in enumerate(order) if letter in pair) for letter in code]
    flips = [letter in "LPI" for letter in code]
    affine = np.zeros((4, 4))
    affine[3, 3] = 1
    for place, (axis, flip) in enumerate(zip(axes, flips, strict=True)):
        affine[axis, place] = -SPACING[axis] if flip else SPACING[axis]
        affine[axis, 3] = (array.shape[axis] - 1) * SPACING[axis] if flip else 0
    turned = np.flip(array.transpose(axes), [place for place, flip in enumerate(flips) if flip])
    rows = tuple((a, b, c, d) for a, b, c, d in affine.tolist())
    x, y, z = turned.shape
    return np.ascontiguousarray(turned), Geometry(shape=(x, y, z), affine=rows)


def test_every_orientation_is_turned_upright() -> None:
    array = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    codes = {"".join(code) for axes in permutations(("RL", "AP", "SI")) for code in product(*axes)}
    assert len(codes) == 48
    for code in codes:
        turned, geometry = stored(array, code)
        assert orientation_code(geometry) == code
        np.testing.assert_array_equal(upright(turned, geometry), array)
        assert upright_spacing(geometry) == pytest.approx(SPACING)


@pytest.mark.parametrize("code", CODES)
def test_a_case_is_shown_upright_whatever_its_file_s_orientation(tmp_path: Path, code: str) -> None:
    rng = np.random.default_rng(0)
    image, label = rng.random(SHAPE).astype(np.float32), np.zeros(SHAPE, np.uint8)
    label[5:8, 1:4, 1:4] = 1  # to the right and at the back
    shifted = np.roll(label, 1, axis=1)
    files = {
        "images/a_0000": image,
        "labels/a": label,
        "run/predictions/a": shifted,
        "run/predictions/a_uncertain": label,
    }
    for name, array in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / f"{name}.nii.gz", *stored(array, code))
    run = FinishedRun(name="run", folder=tmp_path / "run", settings={}, log=(), scores=Scores(rows=()))
    regions = {"uncertain": run.region("a", "uncertain")}
    seen = cut_case("a", [run], tmp_path / "images", tmp_path / "labels", regions)
    assert (seen.index, seen.spacing) == (2, pytest.approx(SPACING[:2]))
    np.testing.assert_allclose(seen.image, image[..., 2])
    np.testing.assert_array_equal(seen.truth, label[..., 2])
    np.testing.assert_array_equal(seen.predictions["run"], shifted[..., 2])
    np.testing.assert_array_equal(seen.regions["uncertain"], label[..., 2])

    unlabelled = cut_case("a", [run], tmp_path / "images", None, {})
    assert not unlabelled.truth.any()
    np.testing.assert_array_equal(unlabelled.predictions["run"], shifted[..., 2])

    array, geometry = stored(image, code)
    shown = choose_slice(Volume(array, geometry), stored(label, code)[0].astype(np.uint8))
    assert shown.label is not None
    np.testing.assert_allclose(shown.image, image[..., shown.index])
    np.testing.assert_array_equal(shown.label, label[..., shown.index])


def test_a_picture_file_is_shown_as_it_is(tmp_path: Path) -> None:
    there = np.zeros((20, 20), np.uint8)
    there[2:6, 12:17] = 200  # above, and more to the right than to the left
    Image.fromarray(there).save(tmp_path / "a.png")
    volume = source(tmp_path / "a.png").read()
    shown = np.asarray(Image.open(BytesIO(whole(choose_slice(volume, None)))).convert("L").resize((20, 20)))
    np.testing.assert_array_equal(shown > 100, there > 100)

    canvas = FigureCanvasAgg(Figure(figsize=(2, 2), dpi=100))
    whole_of = np.array([(-0.5, 19.5), (-0.5, 19.5)])
    draw_panel(
        canvas.figure.add_axes((0, 0, 1, 1)), Panel(image=upright(volume.array, volume.geometry)[..., 0]), whole_of
    )
    canvas.draw()
    np.testing.assert_array_equal(np.asarray(canvas.buffer_rgba())[5::10, 5::10, 0] > 100, there > 100)


def test_a_bright_coil_does_not_hide_the_rest() -> None:
    x, y = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 50), indexing="ij")
    body = np.random.default_rng(0).uniform(0.5, 1, x.shape)
    near_coil = body * np.exp(-8 * np.hypot(x - 0.5, y))
    assert np.mean(near_coil / near_coil.max() > 0.1) < 0.3
    shown = grey_levels(near_coil)
    assert np.mean(shown > 0.1) > 0.5
    assert (shown.min(), shown.max()) == (0, 1)
    order = np.argsort(near_coil, axis=None)
    assert (np.diff(shown.ravel()[order]) >= 0).all()  # brighter stays brighter


def test_other_images_are_shown_from_their_first_to_their_99th_percentile() -> None:
    image = np.random.default_rng(0).uniform(-5, 5, (40, 40))
    low, high = np.percentile(image, (1, 99))
    np.testing.assert_allclose(grey_levels(image), ((image - low) / (high - low)).clip(0, 1))
    empty = np.zeros((10, 10))
    empty[0, :2] = 1
    np.testing.assert_allclose(grey_levels(empty), (empty / np.percentile(empty, 99)).clip(0, 1))
    assert (grey_levels(np.full((4, 4), np.nan)) == 0).all()
