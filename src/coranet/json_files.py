"""JSON that others wrote, read with limits: on its size, its depth and the length of its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coranet.errors import InputError, brief
from coranet.file_names import printable, special_kind

MOST_BYTES = 256 * 2**20
"""Of a file: the index of a store with a million cases has fewer."""
MOST_LEVELS = 100
"""Lists and objects in each other."""
MOST_DIGITS = 40
"""Of a whole number."""


class JsonError(InputError):
    """A JSON file that cannot be used: what is wrong with it and the way out, apart."""

    def __init__(self, file: Path | str, message: str, remedy: str) -> None:
        super().__init__(file, message, remedy)
        self.file, self.message, self.remedy = file, message, remedy

    def __str__(self) -> str:
        return printable(f"{self.file}: {brief(self.message)}. {self.remedy}.")


def read_json(path: Path, remedy: str = "Restore the file") -> Any:
    """What a file says.

    Args:
        path: the file.
        remedy: what helps where it is not there.

    Raises:
        JsonError: it is missing, no file, too large, not text, not JSON, or nested too deeply.
    """
    try:
        if kind := special_kind(path):
            raise JsonError(path, f"is {kind}, not a file", "Put a file in its place")
        if path.stat().st_size > MOST_BYTES:
            raise JsonError(path, f"is larger than {MOST_BYTES >> 20} MiB", "Give the JSON file that is meant")
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise JsonError(path, "does not exist", remedy) from error
    except OSError as error:
        raise JsonError(path, f"cannot be read ({error.strerror})", "Make it a file that you may read") from error
    except UnicodeDecodeError as error:
        raise JsonError(path, "is not text", "Save it as JSON in UTF-8") from error
    return parse_json(text, path)


def read_object(path: Path, remedy: str = "Restore the file") -> dict[str, Any]:
    """The same of a file that must be one object.

    Raises:
        JsonError: as `read_json`, or it is something else.
    """
    content = read_json(path, remedy)
    if not isinstance(content, dict):
        raise JsonError(path, "is not a JSON object", remedy)
    return content


def parse_json(text: str, file: Path | str) -> Any:
    """What a text says that was read from `file`.

    Raises:
        JsonError: it is not JSON, nested too deeply, or has a number that is too long.
    """
    try:
        content = json.loads(text, parse_int=_whole_number)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonError(file, f"is not valid JSON at {where} ({error.msg})", "Correct it there") from error
    except RecursionError as error:
        raise _too_deep(file) from error
    except ValueError as error:
        raise JsonError(file, str(error), "Shorten it") from error
    if any(level > MOST_LEVELS for level in _levels(content)):
        raise _too_deep(file)
    return content


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"has a number of {len(digits)} digits, {digits[:10]}...")
    return int(digits)


def _too_deep(file: Path | str) -> JsonError:
    return JsonError(file, f"nests lists or objects more than {MOST_LEVELS} deep", "Write it flatter")


def _levels(content: Any) -> Iterator[int]:
    """How deep each list and object lies."""
    waiting = [(content, 1)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, dict | list):
            yield level
            inner = item.values() if isinstance(item, dict) else item
            waiting += [(one, level + 1) for one in inner if isinstance(one, dict | list)]
