"""Outlines become masks: against matplotlib's polygons, and by their area."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.path import Path as Polygon
from numpy.typing import NDArray
from scipy.io import savemat

from coranet.data.readers import Volume
from coranet.data.readers.contours import fill, read_text, york_outlines
from coranet.errors import InputError
from coranet.geometry import Geometry


def circle(x: float, y: float, radius: float, points: int = 32) -> NDArray[np.float64]:
    angle = 2 * np.pi * np.arange(points) / points
    return np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1)


@settings(max_examples=60, deadline=None)
@given(
    points=st.lists(st.tuples(st.floats(-4, 30), st.floats(-4, 20)), min_size=3, max_size=12),
)
def test_a_pixel_is_inside_as_matplotlib_has_it(points: list[tuple[float, float]]) -> None:
    outline = np.array(points) + 0.3137  # no centre of a pixel lies on an edge by chance
    mask = fill(outline, (26, 17))
    x, y = np.mgrid[:26, :17]
    centres = np.stack([x.ravel(), y.ravel()], axis=1)
    edges = np.concatenate([outline, outline[:1]])
    # An even number of turns about a pixel is outside for us, and matplotlib counts crossings too.
    assert (mask.ravel() != Polygon(edges).contains_points(centres)).sum() <= _near_an_edge(edges, centres)


def _near_an_edge(edges: NDArray[np.float64], centres: NDArray[np.float64]) -> int:
    start, step = edges[:-1, None], np.diff(edges, axis=0)[:, None]
    along = ((centres - start) * step).sum(-1) / np.maximum((step**2).sum(-1), 1e-12)
    nearest = start + along.clip(0, 1)[..., None] * step
    return int((np.linalg.norm(centres - nearest, axis=-1).min(axis=0) < 1e-6).sum())


def test_x_comes_first_and_the_area_is_the_circle_s() -> None:
    mask = fill(circle(40, 12, 8), (64, 32))
    assert mask.shape == (64, 32)
    assert np.argwhere(mask).mean(axis=0) == pytest.approx((40, 12), abs=0.1)
    assert mask.sum() == pytest.approx(np.pi * 64, rel=0.05)


def test_a_square_of_whole_numbers_has_its_area() -> None:
    assert fill(np.array([[2.0, 3.0], [6.0, 3.0], [6.0, 8.0], [2.0, 8.0]]), (10, 10)).sum() == 20


def picture(shape: tuple[int, int] = (64, 32)) -> Volume:
    rows = ((-1.4, 0.0, 0.0, 5.0), (0.0, -1.4, 0.0, 6.0), (0.0, 0.0, 8.0, 7.0), (0.0, 0.0, 0.0, 1.0))
    return Volume(np.zeros((*shape, 1)), Geometry(shape=(*shape, 1), affine=rows))


def test_an_outline_in_a_text_file_lies_on_its_image(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "outline.txt", circle(40, 12, 8), fmt="%.2f")
    label = read_text(tmp_path / "outline.txt", picture())
    assert label.geometry == picture().geometry
    assert label.array.dtype == np.uint8
    assert label.array[40, 12, 0] == 1
    assert label.array.sum() == pytest.approx(np.pi * 64, rel=0.05)


@pytest.mark.parametrize("text", ["", "1 2\n3 4\n", "1 2 3\n4 5 6\n7 8 9\n", "a b\n", "1 2\n3\n4 5\n"])
def test_a_text_file_of_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "my outline.txt").write_text(text)
    with pytest.raises(InputError, match=r"my outline\.txt: "):
        read_text(tmp_path / "my outline.txt", picture())


def york(path: Path, cells: dict[tuple[int, int], NDArray[np.float64]], slices: int, frames: int) -> Path:
    """A file of outlines, missing ones as the set has them."""
    array = np.empty((slices, frames), object)
    for place in np.ndindex(slices, frames):
        array[place] = cells.get((place[0], place[1]), np.array([[-99999.0]]))
    savemat(path, {"manual_seg_32points": array})
    return path


def both(inner: NDArray[np.float64], outer: NDArray[np.float64]) -> NDArray[np.float64]:
    """Endocardium, a row of zeros and epicardium, counted from 1."""
    return np.concatenate([inner + 1, np.zeros((1, 2)), outer + 1])


def test_the_york_set_s_first_points_are_the_endocardium_and_count_from_1(tmp_path: Path) -> None:
    inner, outer = circle(40, 12, 5), circle(40, 12, 9)
    file = york(tmp_path / "seg.mat", {(1, 2): both(inner, outer)}, slices=3, frames=4)
    outlines = york_outlines(file)
    assert list(outlines) == [(1, 2)]
    np.testing.assert_allclose(outlines[1, 2], inner)


@pytest.mark.parametrize("cell", [np.zeros((65, 3)), np.full((65, 2), np.nan), np.zeros((5, 2))])
def test_a_york_cell_of_anything_else_is_refused(tmp_path: Path, cell: NDArray[np.float64]) -> None:
    file = york(tmp_path / "seg.mat", {(1, 2): cell}, slices=3, frames=4)
    with pytest.raises(InputError, match=r"seg\.mat: .* slice 1 of frame 2, not 65 x 2"):
        york_outlines(file)


def test_a_york_file_without_outlines_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "seg.mat", {"something": np.zeros((3, 3))})
    with pytest.raises(InputError, match=r"seg\.mat: has no cell array manual_seg_32points"):
        york_outlines(tmp_path / "seg.mat")
