"""Scans with predictions as `coranet predict --masks` leaves them, made up: two objects, a shell of doubt about each."""

from itertools import permutations, product

import numpy as np

from coranet.data.datasets.folder import scan_cases
from coranet.data.readers import nifti
from coranet.geometry import Geometry
from coranet.review.corrections_folder import CorrectionsFolder
from coranet.review.workshop import Workshop

CLASSES = {0: "background", 1: "left", 2: "right"}
SHAPE = (14, 12, 5)


def directions():
    """Affines in all 48 orientations, and an oblique one."""
    for order, signs in product(permutations(range(3)), product((1, -1), repeat=3)):
        turn = np.zeros((3, 3))
        turn[list(order), range(3)] = signs
        yield turn
    around = np.deg2rad(20)
    yield np.array([[np.cos(around), -np.sin(around), 0], [np.sin(around), np.cos(around), 0], [0, 0, 1]])


def geometry_of(turn=None, shape=SHAPE, spacing=(1.5, 1.0, 4.0)):
    affine = np.eye(4)
    affine[:3, :3] = (np.eye(3) if turn is None else turn) @ np.diag(spacing)
    affine[:3, 3] = (-12.5, 40.25, 7.0)
    return Geometry(shape=shape, affine=tuple(map(tuple, affine.tolist())))


def maps(seed=0, shape=SHAPE):
    """A scan, what is predicted, conservative and radical, and where the last two differ."""
    rng = np.random.default_rng(seed)
    x, y, z = np.indices(shape)
    middle = (z - shape[2] / 2) ** 2 / 8
    left = np.hypot(x - shape[0] * 0.3, y - shape[1] / 2) + middle
    right = np.hypot(x - shape[0] * 0.72, y - shape[1] / 2) + middle
    noise = rng.normal(0, 0.25, shape)

    def labels(radius):
        near = np.minimum(left, right) + noise < radius
        return np.where(near, np.where(left < right, 1, 2), 0).astype(np.uint8)

    prediction, conservative, radical = (labels(radius) for radius in (2.4, 1.6, 3.2))
    scan = (100 * (prediction > 0) + rng.normal(0, 20, shape) + 200).astype(np.int16)
    return scan, prediction, conservative, radical, (conservative != radical).astype(np.uint8)


def write_cases(root, names, geometry=None, shape=SHAPE):
    """Scans in `root/scans`, their predictions in `root/predictions`."""
    geometry = geometry or geometry_of(shape=shape)
    for folder in ("scans", "predictions"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        scan, prediction, conservative, radical, uncertain = maps(seed, shape)
        nifti.write(root / "scans" / f"{name}.nii.gz", scan, geometry)
        said = {"": prediction, "_conservative": conservative, "_radical": radical, "_uncertain": uncertain}
        for ending, values in said.items():
            nifti.write(root / "predictions" / f"{name}{ending}.nii.gz", values, geometry)


def workshop_of(root, run="run", classes=None):
    corrections = CorrectionsFolder(root=root / "out", run=root / run, channels=["MR"], classes=classes or CLASSES)
    cases = {case.name: case for case in scan_cases(root / "scans", 1)}
    corrections.begin(cases)
    return Workshop(cases=cases, predictions=root / "predictions", corrections=corrections)
