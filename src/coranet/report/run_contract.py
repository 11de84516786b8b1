"""What a page counts on in run.json and in the lines of log.jsonl, checked once: strangers may have written them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from coranet.data.problem import FileError

MOST = 10**12
"""Steps, images and seconds that no run reaches."""


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not abs(value) > 1e30


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < MOST


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_path(value: Any) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    return False


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_classes(value: Any) -> bool:
    return isinstance(value, dict) and all(
        number.isdecimal() and len(number) < 10 and isinstance(name, str) for number, name in value.items()
    )


def _is_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


Contract = Mapping[str, tuple[Callable[[Any], bool], str]]
"""By the path to a value: whether it is what it must be, and that in words."""

SETTINGS: Contract = {
    "method.kind": (_is_text, "a name"),
    "data.source": (_is_path, "a path"),
    "data.classes": (_is_classes, "names by number"),
    "split.labelled": (_is_names, "a list of cases"),
    "split.unlabelled": (_is_names, "a list of cases"),
    "split.val": (_is_names, "a list of cases"),
    "net.width": (_is_whole, "a whole number"),
    "train.steps": (_is_whole, "a whole number"),
    "train.batch": (lambda value: isinstance(value, list) and all(map(_is_whole, value)), "a list of whole numbers"),
    "seed": (lambda value: type(value) is int, "a whole number"),
    "made_with": (lambda value: isinstance(value, dict), "names and versions"),
}
RECORD: Contract = {
    "step": (_is_whole, "a whole number"),
    "phase": (_is_text, "a name"),
    "updates": (_is_whole, "a whole number"),
    "images": (_is_whole, "a whole number"),
    "seconds": (_is_seconds, "a number of seconds"),
    "terms": (_is_numbers, "numbers by name"),
    "measures": (_is_numbers, "numbers by name"),
    "val": (lambda value: value is None or _is_numbers(value), "numbers by name, or null"),
}


def check_contract(file: Path, content: Any, contract: Contract, remedy: str) -> None:
    """Refuse what does not say all that a page needs.

    Raises:
        FileError: a value is missing or of another kind.
    """
    for path, (fits, words) in contract.items():
        value = content
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if not fits(value):
            raise FileError(file, f"{path} is missing, or is not {words}", remedy)
