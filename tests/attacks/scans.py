"""Attacks on readers: damaged files and headers that lie, read as a scan, or predicted."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.readers import source
from tests.attacks.attack import Attack, Scene, Wrong
from tests.attacks.bytewise import damaged
from tests.attacks.honest_scans import Honest
from tests.attacks.verdict import verb
from tests.attacks.world import predicted


@dataclass(frozen=True, kw_only=True)
class Lie:
    """A file that says of itself what is not so."""

    what: str
    make: Callable[[Path], Path]
    """Writes it to a folder, and returns what is to be read."""
    must_refuse: bool = False
    """Whether no voxels can be right."""
    secret: bytes = b""
    """What must never be among the voxels: the content of a file that is not part of the scan."""


def lying_file(what: str, name: str, content: Callable[[], bytes], **more: Any) -> Lie:
    """One that lies in a single file."""

    def make(room: Path) -> Path:
        (room / name).write_bytes(content())
        return room / name

    return Lie(what=what, make=make, **more)


def reader_attack(kind: str, lies: Mapping[str, list[Lie]]) -> Callable[[Scene], Attack]:
    """First every lie of a format, then damage to its honest files."""

    def make(scene: Scene) -> Attack:
        known = lies.get(kind, [])
        if scene.number < len(known):
            lie = known[scene.number]
            path = lie.make(scene.room)
            return Attack(what=lie.what, act=lambda: read_sanely(path, lie.secret), must_refuse=lie.must_refuse)
        honest = scene.rng.choice(scene.world.scans[kind])
        what, path, known_voxels = _damage(honest, scene)
        return Attack(what=what, act=lambda: read_sanely(path, b"", known_voxels))

    return make


def prediction_attack(lies: Mapping[str, list[Lie]]) -> Callable[[Scene], Attack]:
    """A damaged or lying scan of any format, given to a run."""
    every = [lie for known in lies.values() for lie in known]

    def make(scene: Scene) -> Attack:
        if scene.number < len(every):
            lie = every[scene.number]
            what, path = lie.what, lie.make(scene.room)
        else:
            kind = scene.rng.choice(list(scene.world.scans))
            what, path, _ = _damage(scene.rng.choice(scene.world.scans[kind]), scene)
        run, out = scene.world.run, scene.room / "out"
        if scene.number % 2:
            return Attack(what=f"predict {what}", act=lambda: _predict(run, path))
        return Attack(what=f"coranet predict {what}", act=lambda: _verb(run, path, out))

    return make


def _predict(run: Path, path: Path) -> None:
    answer = predicted(run, path)
    if not np.isfinite(answer["probabilities"]).all():
        raise Wrong("probabilities that are no numbers")


def _verb(run: Path, path: Path, out: Path) -> None:
    verb("predict", run, path, "--out", out, "--device", "cpu")
    if not list(out.glob("*.nii.gz")):
        raise Wrong("ended well, and wrote no prediction")


def _damage(honest: Honest, scene: Scene) -> tuple[str, Path, NDArray[Any] | None]:
    """What was done to it, where it lies, and the voxels that it must still give where they can be known."""
    name = scene.rng.choice(list(honest.files))
    inside = honest.packed and scene.rng.random() < 0.4
    content = gzip.decompress(honest.files[name]) if inside else honest.files[name]
    what, result = damaged(content, scene.rng)
    shortened = what == "cut"
    result = gzip.compress(result, mtime=0) if inside else result
    path = honest.write(scene.room, {**honest.files, name: result})
    known = (honest.sealed and not inside) or (shortened and len(honest.files) == 1)
    return (
        f"{name} of {len(content)} bytes{' inside gzip' if inside else ''}: {what}",
        path,
        honest.voxels if known else None,
    )


def read_sanely(path: Path, secret: bytes = b"", voxels: NDArray[Any] | None = None) -> None:
    """Read a scan, and hold what is given against what can be known.

    Raises:
        Wrong: the voxels are not where the geometry says, or others than the file is known to hold.
    """
    scan = source(path)
    geometry = scan.look() if scan.has_header and scan.reader == "nifti" else None
    volume = scan.read()
    array = volume.array
    if array.ndim != 3 or array.shape != volume.geometry.shape or not array.size:
        raise Wrong(f"voxels {array.shape} on a grid of {volume.geometry.shape}")
    if array.dtype.kind not in "iuf" or not array.dtype.isnative:
        raise Wrong(f"voxels of type {array.dtype.str}")
    affine = np.array(volume.geometry.affine)
    if affine.shape != (4, 4) or not np.isfinite(affine).all() or not np.linalg.norm(affine[:3, :3], axis=0).all():
        raise Wrong(f"a geometry that is none: {affine.tolist()}")
    if geometry is not None and geometry != volume.geometry:
        raise Wrong(f"the header alone says {geometry.shape}, the whole file {volume.geometry.shape}")
    if voxels is not None and not (array.shape == voxels.shape and np.array_equal(array, voxels, equal_nan=True)):
        raise Wrong("silently other voxels than the file is known to hold")
    if secret and (secret in array.tobytes() or secret in array.tobytes(order="F")):
        raise Wrong("a file that is not part of the scan was read as voxels")
