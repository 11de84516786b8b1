"""Grids: every combination of the values that fields of a run may take, each a row of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import product
from typing import Any

from coranet.engine.codec import override
from coranet.errors import InputError
from coranet.methods import find_method
from coranet.runs.row_text import SECTIONS, field_path, parse_row, split_outside_brackets

_METHOD = "method."


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A field, and the values it takes."""

    path: str
    values: tuple[str, ...]

    @classmethod
    def from_text(cls, path: str, text: str) -> Axis:
        """`--grid PATH=A,B`; commas in brackets belong to a value.

        Raises:
            InputError: no field that rows may differ in, or values that cannot be told apart.
        """
        values, given = split_outside_brackets(text), f"--grid {path}={text}"
        if not path.startswith(tuple(f"{section}." for section in SECTIONS)):
            listed = ", ".join(f"{section}.FIELD" for section in SECTIONS)
            raise InputError(f"{given}: rows may differ in {listed}, such as net.width=16,32.")
        if path.startswith("data.") and not path.startswith("data.augment."):
            raise InputError(f"{given}: all rows see the same data. Only data.augment.FIELD may differ.")
        if not values or len(set(values)) < len(values):
            raise InputError(f"{given}: name at least one value, and each once.")
        if ";" in text or any(text.count(left) != text.count(right) for left, right in ("[]", "{}")):
            raise InputError(f"{given}: a value has no semicolon, and closes every bracket that it opens.")
        return cls(path=path, values=values)


def read_axes(grid: Iterable[tuple[str, str]], overrides: Iterable[tuple[str, str]] = ()) -> tuple[Axis, ...]:
    """The axes of all grids; `overrides` are what every row has.

    Raises:
        InputError: an axis is no good, is named twice, or is set for every row.
    """
    axes, taken = tuple(Axis.from_text(path, text) for path, text in grid), {path for path, _ in overrides}
    for number, axis in enumerate(axes):
        if axis.path in {other.path for other in axes[:number]}:
            raise InputError(f"--grid {axis.path}: is given twice. Write all its values into one.")
        if axis.path in taken:
            raise InputError(f"--grid {axis.path}: is also given with --set. Drop one of the two.")
    return axes


def crossed(rows: Sequence[str], axes: Sequence[Axis]) -> tuple[str, ...]:
    """Each row with each combination of values: `coranet[net.width=16;regions.alpha=2]`.

    Raises:
        InputError: an axis is of a field that no method has.
    """
    if not axes or len(set(rows)) < len(rows):  # rows that are named twice are refused as such
        return tuple(rows)
    combined = (
        with_settings(row, {axis.path: value for axis, value in zip(some, values, strict=True)})
        for row, some in shared_out(rows, axes).items()
        for values in product(*(axis.values for axis in some))
    )
    return tuple(dict.fromkeys(combined))


def shared_out(rows: Sequence[str], axes: Sequence[Axis]) -> dict[str, tuple[Axis, ...]]:
    """The axes that each row has.

    Raises:
        InputError: an axis is of a field that no method has.
    """
    own = {row: axes_of(row, axes) for row in rows}
    if lost := [axis.path for axis in axes if not any(axis in some for some in own.values())]:
        raise InputError(f"--grid {lost[0]}: none of {', '.join(rows)} has that field.")
    return own


def in_words(axes: Sequence[Axis]) -> str:
    """What was varied, for a reader of the result: `net.width = 16, 32; train.batch = [4,4], [8,8]`."""
    return "; ".join(f"{axis.path} = {', '.join(axis.values)}" for axis in axes)


def axes_of(row: str, axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Those that a row has: fields of runs, and of its own method."""
    if not any(axis.path.startswith(_METHOD) for axis in axes):
        return tuple(axes)
    name, own = parse_row(row)
    method: Any = find_method(name)()
    for setting, text in own.items():
        if setting != "classes" and (path := field_path(setting)).startswith(_METHOD):
            method = override(method, path.removeprefix(_METHOD), text)
    return tuple(
        axis
        for axis in axes
        if not axis.path.startswith(_METHOD) or _has(method, axis.path.removeprefix(_METHOD).split("."))
    )


def with_settings(row: str, settings: dict[str, str]) -> str:
    """The row with further settings, in words as short as a person would write."""
    name, own = parse_row(row)
    own |= {path.removeprefix(_METHOD): value for path, value in settings.items()}
    return f"{name}[{';'.join(f'{key}={value}' for key, value in own.items())}]" if own else name


def _has(value: Any, path: Sequence[str]) -> bool:
    """Whether a dataclass has a field at the end of a path of names."""
    first, *rest = path
    if not is_dataclass(value) or first not in {field.name for field in fields(value)}:
        return False
    return not rest or _has(getattr(value, first), rest)
