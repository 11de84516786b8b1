"""Small pictures of a case: the slice that shows most of its label, the part about it, and the grey levels below it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from PIL import Image

from coranet.data.grid import through_plane_axis
from coranet.data.readers import Volume
from coranet.report.pictures.paint import UNCERTAIN, colour_of, grey_levels, square_around
from coranet.report.pictures.upright import Array, upright, upright_spacing

Label = NDArray[np.uint8]

SIDE = 200
"""Pixels of a picture's longer side."""
_BINS = 48
_SAMPLE = 100_000
"""Voxels that a histogram is made of, each class for itself."""


@dataclass(frozen=True, kw_only=True)
class UprightSlice:
    """One slice of a scan turned to right, front, up: arrays are `(X, Y)`."""

    image: Array
    label: Label | None
    spacing: tuple[float, float]
    index: int
    count: int
    uncertain: Array | None = None
    """Where to look, in red."""


def choose_slice(
    volume: Volume, label: Label | None, *, at: Label | None = None, index: int | None = None
) -> UprightSlice:
    """The slice with most of the label on it, or of another map (`at`); the middle one where there is none; or by number."""
    array, spacing = upright(volume.array, volume.geometry), upright_spacing(volume.geometry)
    axis = through_plane_axis(array.shape, spacing)
    image = np.moveaxis(array, axis, 0)
    count, turned, most = len(image), None, at if at is not None else label
    if label is not None and label.shape == volume.array.shape:
        turned = np.moveaxis(upright(label, volume.geometry), axis, 0)
    if index is None:
        index = count // 2
        if most is not None and most.shape == volume.array.shape and most.any():
            planes = np.moveaxis(upright(most, volume.geometry), axis, 0)
            index = int(np.argmax([np.count_nonzero(plane) for plane in planes]))
    x, y = (step for other, step in enumerate(spacing) if other != axis)
    return UprightSlice(
        image=np.nan_to_num(image[index].astype(np.float32)),
        label=None if turned is None else turned[index],
        spacing=(x, y),
        index=index,
        count=count,
    )


def whole(cut: UprightSlice) -> bytes:
    """The slice with its label's edges, as JPEG."""
    return _jpeg(_painted(cut))


def part(cut: UprightSlice, *, edges: bool) -> bytes | None:
    """The part about the label, with its edges or without; None where the slice shows no label."""
    if cut.label is None or not cut.label.any():
        return None
    limits = square_around(cut.label > 0, cut.spacing)
    low, high = np.ceil(limits[:, 0]).astype(int).clip(0), np.floor(limits[:, 1]).astype(int) + 1
    box = slice(low[0], max(low[0] + 1, high[0])), slice(low[1], max(low[1] + 1, high[1]))
    uncertain = None if cut.uncertain is None else cut.uncertain[box]
    label = cut.label[box] if edges else None
    return _jpeg(_painted(replace(cut, image=cut.image[box], label=label, uncertain=uncertain)))


def histogram(volume: Volume, label: Label | None) -> str:
    """Grey levels of each class and of the rest as an SVG drawing, each as high as the others at its peak."""
    flat = _few(np.ravel(volume.array, order="K"))
    if not len(flat) or flat.min() == flat.max():
        return ""
    low, high = np.quantile(flat, (0.005, 0.995))
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    groups: dict[int, Array] = {0: flat}
    if label is not None and label.shape == volume.array.shape:
        groups |= {int(value): _few(volume.array[label == value]) for value in np.unique(label) if value}
    curves = {value: np.histogram(values.clip(low, high), edges)[0] for value, values in groups.items() if len(values)}
    drawn = "".join(_curve(value, counts / max(1, counts.max())) for value, counts in curves.items())
    ends = f'<text x="0" y="{SIDE // 2 + 14}">{low:.4g}</text>'
    ends += f'<text x="{SIDE}" y="{SIDE // 2 + 14}" text-anchor="end">{high:.4g}</text>'
    return f'<svg viewBox="0 0 {SIDE} {SIDE // 2 + 18}" role="img">{drawn}{ends}</svg>'


def _few(values: Array) -> Array:
    """Some of them, and those finite."""
    some = values[:: 1 + len(values) // _SAMPLE].astype(np.float64)
    finite: Array = some[np.isfinite(some)]
    return finite


def _curve(value: int, heights: Array) -> str:
    """A histogram's outline; the rest is a grey area below the others."""
    x, base = np.repeat(np.linspace(0, SIDE, _BINS + 1), 2), SIDE // 2
    y = base * (1 - 0.95 * np.concatenate([[0], np.repeat(heights, 2), [0]]))
    points = " ".join(f"{across:.1f},{down:.1f}" for across, down in zip(x, y, strict=True))
    paint = f'fill="none" stroke="{colour_of(value)}" stroke-width="2"' if value else 'fill="#8886"'
    return f'<polyline points="{points}" {paint}/>'


def _painted(cut: UprightSlice) -> Array:
    """As `(rows, columns, 3)` bytes: grey levels, red where it is uncertain, and the edges of classes."""
    grey = grey_levels(cut.image) * 255
    size = np.array(cut.image.shape) * cut.spacing
    width, height = (max(1, round(SIDE * float(side / size.max()))) for side in size)
    picture = Image.fromarray(_in_rows(grey.astype(np.uint8)))
    pixels = np.array(picture.resize((width, height), Image.Resampling.BILINEAR).convert("RGB"))

    def enlarged(values: Array) -> Array:
        return np.array(
            Image.fromarray(_in_rows(values.astype(np.uint8))).resize((width, height), Image.Resampling.NEAREST)
        )

    if cut.uncertain is not None:
        doubt = enlarged(cut.uncertain) > 0
        pixels[doubt] = (0.5 * pixels[doubt] + 127.5 * np.array(to_rgb(UNCERTAIN))).astype(np.uint8)
    if cut.label is not None:
        classes = enlarged(cut.label)
        edge = _edge(classes)
        for value in np.unique(classes[edge]):
            pixels[edge & (classes == value)] = np.round(255 * np.array(to_rgb(colour_of(int(value)))))
    return pixels


def _in_rows(image: Array) -> Array:
    """`(X, Y)` as rows from the top, the patient's right or front first."""
    return np.ascontiguousarray(image.T[::-1, ::-1])


def _edge(classes: Array) -> NDArray[np.bool_]:
    """The pixels of a class beside another one, or at the border."""
    around = np.pad(classes, 1)
    middle = around[1:-1, 1:-1]
    beside = (around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:])
    other: NDArray[np.bool_] = np.any([neighbour != middle for neighbour in beside], axis=0)
    return other & (middle > 0)


def _jpeg(pixels: Array) -> bytes:
    content = BytesIO()
    Image.fromarray(pixels).save(
        content, format="JPEG", quality=85, subsampling=0
    )  # noise fills a PNG; edges stay sharp
    return content.getvalue()
