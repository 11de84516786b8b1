"""A seeded generator of short-axis cardiac look-alikes: scans for anyone, with a truth that is known exactly.

Anatomy is a map of tissues on a grid finer than the voxels; appearance gives every tissue an intensity; a voxel
averages what lies in it: `image = gain * Rician((coil * blur(mean of tissues + texture)) ** gamma)`, `label = the class
that fills most of the voxel`. Anatomy, appearance and acquisition draw from random streams of their own.

Lengths are in pixels of an image whose shorter side has 96; `level` is 0 at the base of the heart and 1 at its apex.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from coranet.errors import InputError
from coranet.geometry import Geometry

Floats = NDArray[np.floating[Any]]
Tissues = NDArray[np.uint8]
Range = tuple[float, float]
Draw = Callable[[Range], float]

LABELS = {"background": 0, "RV": 1, "Myo": 2, "LV": 3}
Tissue = IntEnum("Tissue", "AIR SOFT FAT LUNG LIVER MUSCLE VESSEL RV MYO LV PAPILLARY", start=0)
CLASS_OF = np.array([0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 3], np.uint8)
ROUGHNESS = np.array([0.0, 1.2, 0.9, 0.6, 0.7, 0.7, 0.8, 0.8, 0.6, 0.6, 0.6], np.float32)


@dataclass(frozen=True, kw_only=True)
class Phantom:
    """How patients look and how far they differ; every range is what patients are drawn from when `variation` is 1."""

    shape: tuple[int, int, int] = (96, 96, 8)
    """Voxels along X, Y and Z; Z = 1 gives single images through the middle of the heart."""
    variation: float = 1.0
    """Widens (> 1) or narrows (< 1) every range about its middle; at 0 patients differ in local detail and noise only.

    Up to 1 every patient shows all classes, however few the slices.
    """
    noise: Range = (0.03, 0.09)
    """Sigma of the Rician noise; intensities range from 0 to about 1."""
    supersampling: int = 3
    """Points of the finer grid in a voxel, along X and along Y."""

    pixel: Range = (1.4, 1.6)
    """Millimetres between voxels along X and Y."""
    slice_gap: Range = (7.5, 8.5)
    """Millimetres between slices."""
    top: Range = (-0.35, -0.05)
    """Level of the volume's upper face: how much is seen above the base."""
    bottom: Range = (1.05, 1.35)
    """Level of the volume's lower face: how much is seen below the apex."""
    shift: Range = (-12.0, 12.0)
    """Of the heart from the middle of the image, along X and along Y."""
    motion: Range = (0.0, 1.2)
    """How far breathing moves slices apart."""
    warp: Range = (1.0, 2.0)
    """By how much everything is bent out of its ideal shape."""

    scale: Range = (0.75, 1.3)
    """Of the whole heart."""
    radius: Range = (11.0, 14.0)
    """Of the cavity at the base, before `scale`."""
    aspect: Range = (0.84, 1.19)
    """Of the ring: its axis towards the right ventricle over the other."""
    wall: Range = (5.0, 7.5)
    """Mean thickness of the ring at the base, before `scale`."""
    lopsided: Range = (0.1, 0.3)
    """How much thicker than its mean the ring is on its thick side."""
    papillary: Range = (0.1, 0.24)
    """Radius of the dark spots in the cavity, as a part of the cavity's."""
    turn: Range = (-40.0, 40.0)
    """Degrees the right ventricle is turned about the ring."""
    rv_width: Range = (10.0, 18.0)
    """Of the crescent at the base, before `scale`."""
    rv_end: Range = (0.8, 0.95)
    """Level towards which the crescent tapers; it is gone a little above."""

    myocardium: Range = (0.24, 0.42)
    """Intensity."""
    contrast: Range = (0.22, 0.5)
    """Intensity of blood over that of myocardium."""
    likeness: Range = (-0.35, 0.35)
    """Intensity of other tissues over that of the blood or myocardium they resemble, as a part of `contrast`."""
    lung: Range = (0.06, 0.25)
    """Intensity."""
    texture: Range = (0.03, 0.07)
    """Standard deviation within tissues."""
    blur: Range = (0.3, 0.8)
    """Sigma of the point spread, in voxels."""
    coil: Range = (0.05, 0.25)
    """Standard deviation of the logarithm of the bias field."""
    gamma: Range = (0.7, 1.4)
    gain: Range = (0.75, 1.3)

    def patient(self, seed: int, index: int) -> tuple[NDArray[np.float32], NDArray[np.uint8], Geometry]:
        """Image and label, `(X, Y, Z)`, and geometry: a function of the settings, `seed` and `index` alone."""
        streams = np.random.SeedSequence(seed, spawn_key=(index,)).spawn(3)
        anatomy, appearance, acquisition = map(np.random.default_rng, streams)
        tissue = _anatomy(self, anatomy)
        image, geometry = _acquisition(self, _appearance(self, tissue, appearance), acquisition)
        classes = CLASS_OF[tissue]
        shares = [_voxels(classes == value, self.supersampling) for value in LABELS.values()]
        label = np.argmax(shares, axis=0).astype(np.uint8)
        return np.moveaxis(image, 0, 2).astype(np.float32, order="C"), np.moveaxis(label, 0, 2).copy(), geometry

    def draw(self, rng: np.random.Generator) -> Draw:
        """Uniform draws from ranges, in the logarithm where both ends are positive."""

        def one(bounds: Range) -> float:
            (low, high), spread = bounds, self.variation * (rng.random() - 0.5)
            if low > 0:
                return math.sqrt(low * high) * math.pow(high / low, spread)
            return (low + high) / 2 + (high - low) * spread

        return one


def _anatomy(phantom: Phantom, rng: np.random.Generator) -> Tissues:
    """Tissues on the fine grid, `(Z, X * supersampling, Y * supersampling)`: the body, and the heart over it."""
    draw, (size_x, size_y, size_z), fine = phantom.draw(rng), phantom.shape, phantom.supersampling
    shape = (size_z, size_x * fine, size_y * fine)
    top, bottom = draw(phantom.top), draw(phantom.bottom)
    level = top + (bottom - top) * (np.arange(size_z, dtype=np.float32)[:, None, None] + 0.5) / size_z
    warp, motion = draw(phantom.warp), draw(phantom.motion)

    def coordinate(size: int) -> Floats:
        pixels = (np.arange(size * fine, dtype=np.float32) + 0.5) / fine - size / 2
        return np.float32(96 / min(size_x, size_y)) * pixels - np.float32(draw(phantom.shift))

    x, y = (
        axis + warp * _field(rng, shape, (4, 7, 7)) + motion * rng.uniform(-1, 1, (size_z, 1, 1)).astype(np.float32)
        for axis in np.ix_(coordinate(size_x), coordinate(size_y))
    )
    mottle = _field(rng, shape, (4, 14, 14))
    tissue = np.where(mottle > 1.2, Tissue.FAT, Tissue.SOFT).astype(np.uint8)
    _paint_body(tissue, x, y, level, draw)
    _paint_heart(tissue, x, y, level, mottle, phantom, draw)
    return tissue


def _paint_body(tissue: Tissues, x: Floats, y: Floats, level: Floats, draw: Draw) -> None:
    """Lungs, liver, chest wall, and vessels and chambers that can be mistaken for a ventricle."""

    def ellipse(across: Floats | float, down: Floats | float, width: float, height: float) -> Floats:
        return _length((x - across) / width, (y - down) / height)

    tissue[ellipse(draw((42, 52)), draw((-14, 6)), draw((23, 31)), draw((32, 44))) < 1] = Tissue.LUNG
    tissue[ellipse(draw((-54, -42)), draw((-36, -24)), draw((18, 28)), draw((15, 25))) < 1] = Tissue.LUNG
    tissue[ellipse(draw((-28, -4)), draw((42, 54)) - 8 * level, draw((36, 48)), draw((18, 26))) < 1] = Tissue.LIVER
    for turn in (20, 70, 130, 220, 300):
        angle, distance, drift = math.radians(turn + draw((-30, 30))), draw((32, 50)), draw((-6, 6))
        across, down = distance * math.cos(angle) + drift * level, distance * math.sin(angle) - drift * level
        radius = ellipse(across, down, draw((3.5, 9)), draw((3.5, 9)))
        tissue[radius < draw((1, 1.8))] = Tissue.MUSCLE
        tissue[radius < 1] = Tissue.VESSEL
        bite = ellipse(across + draw((4, 14)), down + draw((-12, 12)), draw((4, 9)), draw((4, 9)))
        tissue[bite < 1] = Tissue.MUSCLE
    chest = _length(x - draw((-15, 15)), y - draw((40, 50))) - draw((85, 95))
    for depth, layer in ((0.0, Tissue.MUSCLE), (draw((2, 6)), Tissue.FAT), (draw((8, 16)), Tissue.AIR)):
        tissue[chest > depth] = layer


def _paint_heart(
    tissue: Tissues, x: Floats, y: Floats, level: Floats, mottle: Floats, phantom: Phantom, draw: Draw
) -> None:
    """A ring about the cavity, a crescent that hugs it, fat about both; an atrium above the base, nothing below."""
    scale, turn, stretch = draw(phantom.scale), math.radians(190 + draw(phantom.turn)), math.sqrt(draw(phantom.aspect))
    x, y = (x - draw((-4, 4)) * level) / scale, (y - draw((-4, 4)) * level) / scale
    along = (math.cos(turn) * x + math.sin(turn) * y + 5) / stretch  # the ring makes room for the crescent
    aside = (math.cos(turn) * y - math.sin(turn) * x) * stretch
    beats, depth = (level >= 0) & (level <= 1), level.clip(0, 1)

    ring, thick_side = _length(along, aside), math.radians(draw((-180, 180)))
    towards_thick = (math.cos(thick_side) * along + math.sin(thick_side) * aside) / ring.clip(1)
    inner = draw(phantom.radius) * (1 - depth**2.5) ** 0.5
    wall = draw(phantom.wall) * (1 - 0.3 * depth)
    outer, middle = inner + wall * (1 + draw(phantom.lopsided) * towards_thick), inner + wall

    taper = (1 - depth / draw(phantom.rv_end)).clip(0) ** 0.5
    front, back, span = middle + draw(phantom.rv_width) * taper, -0.2 * middle, (0.75 + 0.3 * taper) * middle
    reach = (front - back) / 2
    crescent = (_length((along - (front + back) / 2) / reach, aside / span) - 1) * reach

    tissue[(level < 0) & (_length(along / 1.4, aside) < 0.7 * middle)] = Tissue.VESSEL
    tissue[beats & (np.minimum(crescent, ring - outer) < 3 * mottle)] = Tissue.FAT
    tissue[beats & (taper > 0.3) & (crescent < 1.3)] = Tissue.MUSCLE
    tissue[beats & (taper > 0.3) & (crescent < 0)] = Tissue.RV
    tissue[beats & (ring < outer)] = Tissue.MYO
    tissue[beats & (ring < inner)] = Tissue.LV
    for side in (-1, 1):
        spot = _length(along - draw((-0.4, 0.4)) * inner, aside - side * draw((0.4, 0.7)) * inner)
        tissue[beats & (spot < draw(phantom.papillary) * inner) & (ring < 0.9 * inner)] = Tissue.PAPILLARY


def _appearance(phantom: Phantom, tissue: Tissues, rng: np.random.Generator) -> Floats:
    """Voxels, `(Z, X, Y)`, as a scanner without noise sees them: partial volumes, texture, point spread and coil."""
    draw, means = phantom.draw(rng), np.zeros(len(Tissue), np.float32)
    myocardium, contrast = draw(phantom.myocardium), draw(phantom.contrast)
    for grey in (Tissue.SOFT, Tissue.LIVER, Tissue.MUSCLE):
        means[grey] = myocardium + contrast * draw(phantom.likeness)
    for bright in (Tissue.FAT, Tissue.VESSEL, Tissue.RV):
        means[bright] = myocardium + contrast * (1 + draw(phantom.likeness))
    means[[Tissue.MYO, Tissue.PAPILLARY, Tissue.LV]] = myocardium + contrast * np.array([0, 0.2, 1])
    means[Tissue.LUNG] = draw(phantom.lung)
    image, rough = (_voxels(table[tissue], phantom.supersampling) for table in (means, ROUGHNESS))
    for knots in (10, 24, 48):
        image += draw(phantom.texture) / 3**0.5 * rough * _field(rng, image.shape, (len(image), knots, knots))
    blur = draw(phantom.blur)
    image = np.maximum(ndimage.gaussian_filter(image, (0, blur, blur)), 0)
    return np.asarray(image * np.exp(draw(phantom.coil) * _field(rng, image.shape, (2, 3, 3))))


def _acquisition(phantom: Phantom, image: Floats, rng: np.random.Generator) -> tuple[Floats, Geometry]:
    """The scanner's intensity curve, noise and brightness, and how its voxels lie."""
    draw = phantom.draw(rng)
    noise = draw(phantom.noise) * rng.standard_normal((2, *image.shape), np.float32)
    image = draw(phantom.gain) * _length(image ** draw(phantom.gamma) + noise[0], noise[1])
    pixel, gap = draw(phantom.pixel), draw(phantom.slice_gap)
    affine = ((pixel, 0.0, 0.0, 0.0), (0.0, pixel, 0.0, 0.0), (0.0, 0.0, gap, 0.0), (0.0, 0.0, 0.0, 1.0))
    return image, Geometry(shape=phantom.shape, affine=affine)


def _field(rng: np.random.Generator, shape: tuple[int, ...], knots: tuple[int, ...]) -> Floats:
    """Smooth noise of unit variance everywhere: independent `knots` along each axis, blended by Gaussian weights."""
    field = rng.standard_normal(knots, np.float32)
    for size, count in zip(shape, knots, strict=True):
        distance = np.linspace(0, count - 1, size)[:, None] - np.arange(count)
        weights = np.exp(-(distance**2)).astype(np.float32)
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        field = np.tensordot(field, weights, axes=(0, 1))  # the new axis goes last: three turns restore the order
    return field


def _voxels(fine: NDArray[np.generic], factor: int) -> Floats:
    """Means over `factor` x `factor` points of the last two axes."""
    z, x, y = fine.shape
    rows = fine.reshape(z, x // factor, factor, y).sum(axis=2, dtype=np.float32)
    return np.asarray(sum(rows[:, :, start::factor] for start in range(factor)) / factor**2)


def _length(x: Floats, y: Floats) -> Floats:
    """`|(x, y)|`; ten times faster than `np.hypot`, which guards against overflow."""
    squares = x * x + y * y
    return np.sqrt(squares, out=squares)


def write_folder(root: Path, phantom: Phantom, *, seed: int, labelled: int, unlabelled: int, test: int) -> Path:
    """A dataset in nnU-Net's raw layout: patients 0.. are labelled, the next unlabelled, the last for testing.

    The truth of unlabelled patients goes to `labelsHidden/`, where training never looks.
    """
    from coranet.data.readers import nifti

    if (root / "dataset.json").exists():
        raise InputError(f"{root} already holds a dataset: name another folder, or remove this one first")
    parts = (
        ("imagesTr", "labelsTr", labelled),
        ("imagesTr", "labelsHidden", unlabelled),
        ("imagesTs", "labelsTs", test),
    )
    homes = [(images, labels) for images, labels, count in parts for _ in range(count)]
    for index, (images, labels) in enumerate(homes):
        image, label, geometry = phantom.patient(seed, index)
        for path, array in ((f"{images}/phantom_{index:03d}_0000", image), (f"{labels}/phantom_{index:03d}", label)):
            target = root / f"{path}.nii.gz"
            target.parent.mkdir(parents=True, exist_ok=True)
            nifti.write(target, array, geometry)
    about = {"channel_names": {"0": "MRI"}, "labels": LABELS, "numTraining": labelled + unlabelled}
    (root / "dataset.json").write_text(json.dumps({**about, "file_ending": ".nii.gz"}, indent=2))
    return root
