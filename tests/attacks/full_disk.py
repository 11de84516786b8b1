"""A disk that runs full: a small tmpfs that only the attack's own process sees."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import Attack, Refused, Scene, Skipped, Wrong
from tests.attacks.kills import check_equal, out_in
from tests.attacks.verdict import verb

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_PRIVATE_BELOW, _REMOUNT = (1 << 18) | (1 << 14), 32


def full_disk_attack(name: str) -> Callable[[Scene], Attack]:
    """A verb on a disk that is too small for it, or just large enough."""

    def make(scene: Scene) -> Attack:
        whole = sum(file.stat().st_size for file in _below(scene.world.made_by(name)))
        size = max(4096, int(scene.rng.uniform(0.02, 1.6) * whole))
        return Attack(what=f"{name} on a disk of {size} bytes for {whole}", act=lambda: _survive(name, scene, size))

    return make


def _below(place: Path) -> list[Path]:
    return [file for file in place.rglob("*") if file.is_file()] if place.is_dir() else [place]


def _survive(name: str, scene: Scene, size: int) -> None:
    """Refused in one line, and done as ever once there is room."""
    disk = scene.room / "disk"
    disk.mkdir()
    _mount(disk, size)
    out = out_in(disk, name)
    command = scene.world.command(name, out, disk / "cache")
    try:
        verb(*command)
        sentence = ""
    except Refused as refused:
        sentence = str(refused)
        _call("mount", b"none", bytes(disk), b"tmpfs", _REMOUNT, b"size=200m")
        try:
            verb(*command, *(["--resume"] if name == "train" and (out / "run.json").exists() else []))
        except Refused as again:
            raise Wrong(f"refused when there was room again: {again}") from None
    check_equal(name, out, scene.world, None)
    if sentence:
        raise Refused(sentence)


def _mount(disk: Path, size: int) -> None:
    """Over a folder, for this process and those that it starts."""
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_MOUNTS | (_NEW_USERS if user else 0))
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        _call("mount", b"none", b"/", None, _PRIVATE_BELOW, None)
        _call("mount", b"none", bytes(disk), b"tmpfs", 0, f"size={size}".encode())
    except OSError as error:
        raise Skipped(f"this machine allows no mount of a small disk ({error.strerror})") from error


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
