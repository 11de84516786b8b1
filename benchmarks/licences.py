"""Whether the licences of what coranet needs at run time go with its own, Apache-2.0.

    make sbom

Reads a software bill of materials in CycloneDX's JSON. What is installed beside it, for work on the code or for an extra,
is listed where its licence would not do, and allowed.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REFUSED = re.compile(
    r"(?<!L)GPL|(?<!Lesser )General Public Licen[sc]e|SSPL|Commons.Clause|CC-BY-NC|Non.?Commercial", re.I
)
"""Licences that ask more of who passes the program on than Apache-2.0 does, or forbid some of its uses."""

EXCEPTED = re.compile(r"GCC.exception", re.I)
"""Of the libraries that compilers add: what is compiled with them may have any licence."""


class Package(NamedTuple):
    """Something that is installed."""

    name: str
    version: str
    licences: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether each licence, or one of those that it leaves to choose from, is known and may be used."""
        return bool(self.licences) and all(any(map(_fits, licence.split(" OR "))) for licence in self.licences)

    def __str__(self) -> str:
        return f"{self.name} {self.version}: {', '.join(self.licences) or 'states no licence'}"


def _fits(licence: str) -> bool:
    known = licence.strip(" ()") not in ("", "UNKNOWN")
    return known and not (REFUSED.search(licence) and not EXCEPTED.search(licence))


def read_packages(bill: dict[str, Any]) -> list[Package]:
    """What a bill of materials lists."""
    return [_package(part) for part in bill["components"]]


def closure(needed: Iterable[str], requires: Callable[[str], Iterable[str]]) -> set[str]:
    """Names of those packages and of all that they need here; a bill also follows what their extras would need.

    Args:
        needed: requirements as pyproject.toml has them.
        requires: the requirements of a package that is installed.
    """
    reached: dict[tuple[str, frozenset[str]], None] = {}
    waiting = [(requirement, frozenset[str]()) for requirement in needed]
    while waiting:
        text, extras = waiting.pop()
        requirement = Requirement(text)
        name, marker = canonicalize_name(requirement.name), requirement.marker
        key = name, frozenset(requirement.extras)
        if key not in reached and (marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})):
            reached[key] = None
            waiting += [(further, key[1]) for further in requires(name)]
    return {name for name, _ in reached}


def _package(part: dict[str, Any]) -> Package:
    found = [entry.get("expression") or entry["license"] for entry in part.get("licenses", [])]
    names = [licence if isinstance(licence, str) else licence.get("id") or licence["name"] for licence in found]
    return Package(part["name"], part.get("version", ""), tuple(dict.fromkeys(map(_brief, names))))


def _brief(licence: str) -> str:
    return licence.rpartition(":: ")[2]


def main(bill: Path, project: Path = Path("pyproject.toml")) -> int:
    """Print what is needed and by which licence; 1 where one does not fit."""
    needed = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    names = closure(needed, lambda name: importlib.metadata.requires(name) or [])
    packages = read_packages(json.loads(bill.read_text(encoding="utf-8")))
    bad = []
    for package in sorted(packages, key=lambda package: package.name.lower()):
        if canonicalize_name(package.name) in names:
            print(package)
            bad += [] if package.fits else [package]
        elif not package.fits:
            print(f"{package} (not needed at run time)")
    for package in bad:
        print(f"{package}. This does not go with Apache-2.0 at run time: do without it.", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
