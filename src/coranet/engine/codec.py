"""Frozen dataclasses to JSON and back, checked against their annotations on the way in.

A value whose annotation is a family, such as an estimator, carries its name in the family's table under the key `kind`.
Nothing but these tables is looked at: what is decoded may come from anyone, and names no code of its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from coranet.errors import InputError, suggest
from coranet.feed.windows import WINDOWS, Window
from coranet.methods import METHODS, WRAPPERS, Method, shipped_method
from coranet.methods.earlier_fields import translate
from coranet.uncertainty import ESTIMATORS, Estimator


def _find_estimator(kind: str) -> type[Estimator]:
    if kind not in ESTIMATORS:
        raise InputError(f"No estimator is called {kind!r}. {suggest(kind, ESTIMATORS)}")
    return ESTIMATORS[kind]


def _find_window(kind: str) -> type[Window]:
    if kind not in WINDOWS:
        raise InputError(f"No window is called {kind!r}. {suggest(kind, WINDOWS)}")
    return WINDOWS[kind]


FAMILIES: dict[type, tuple[Mapping[str, type], Callable[[str], type]]] = {
    Method: ({**METHODS, **WRAPPERS}, shipped_method),
    Estimator: (ESTIMATORS, _find_estimator),
    Window: (WINDOWS, _find_window),
}


def kind_of(value: Any) -> str | None:
    """The name under which a family's table has this value's class; `Class` where a user's own file has it."""
    for family, (table, _) in FAMILIES.items():
        if isinstance(value, family):
            return next((name for name, cls in table.items() if cls is type(value)), type(value).__name__)
    return None


def encode(value: Any) -> Any:
    """To what JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = kind_of(value)
        content = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return content if kind is None else {"kind": kind, **content}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(hint: Any, content: Any, where: str = "run") -> Any:
    """From what JSON held to a value of that annotation; a mismatch is an error that says where."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return content
    if origin in (Mapping, dict):
        return _decode_mapping(options[1], content, where)
    if origin in (typing.Union, types.UnionType):
        if content is None and type(None) in options:
            return None
        return decode(next(option for option in options if option is not type(None)), content, where)
    if origin is typing.Literal:
        if not any(type(option) is type(content) and option == content for option in options):
            raise InputError(f"{where} is one of {', '.join(map(str, options))}, not {_shown(content)}.")
        return content
    if origin is tuple:
        return _decode_tuple(options, content, where)
    if dataclasses.is_dataclass(hint):
        if issubclass(type(content), typing.cast(type, hint)):  # made already, of a file that may be run
            return content
        return _decode_dataclass(hint, content, where)
    return _decode_plain(hint, content, where)


def override(value: Any, path: str, text: str) -> Any:
    """A copy of a dataclass with one field, named by a dotted path, read from text."""
    return _override(value, path, text, f"--set {path}")


def _override(value: Any, path: str, text: str, where: str) -> Any:
    name, _, rest = path.partition(".")
    known = [field.name for field in dataclasses.fields(value)]
    if name not in known:
        raise InputError(f"{where}: {type(value).__name__} has no field {name!r}. {suggest(name, known)}")
    current = getattr(value, name)
    if rest:
        if not dataclasses.is_dataclass(current):
            raise InputError(f"{where}: {name!r} has no fields of its own.")
        return dataclasses.replace(value, **{name: _override(current, rest, text, where)})
    hint = typing.get_type_hints(type(value))[name]
    content = text if text in typing.get_args(hint) else _read(text)  # "none" may be the name of a choice
    return dataclasses.replace(value, **{name: decode(hint, content, where)})


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or brackets without end
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _shown(content: Any) -> str:
    """What was read, no longer than a line."""
    text = repr(content) if isinstance(content, str | int | float) else reprlib.repr(content)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _decode_mapping(option: Any, content: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise InputError(f"{where} is an object of values by name, not {_shown(content)}.")
    return {str(name): decode(option, item, f"{where}.{name}") for name, item in content.items()}


def _decode_tuple(options: tuple[Any, ...], content: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(content, list | tuple):
        raise InputError(f"{where} is a list, not {_shown(content)}.")
    if options[-1] is Ellipsis:
        return tuple(decode(options[0], item, where) for item in content)
    if len(content) != len(options):
        raise InputError(f"{where} has {len(options)} values, not {len(content)}.")
    return tuple(decode(option, item, where) for option, item in zip(options, content, strict=True))


def _decode_dataclass(cls: Any, content: Any, where: str) -> Any:
    if isinstance(content, str):  # a name alone stands for its defaults
        content = {"kind": content}
    if not isinstance(content, Mapping):
        raise InputError(f"{where} is an object, not {_shown(content)}.")
    fields = dict(content)
    if cls in FAMILIES:
        kind = str(fields.pop("kind", "slices" if cls is Window else None))  # of runs before patches
        if cls is Method:
            kind, fields = _translated(kind, fields, where)
        cls = FAMILIES[cls][1](kind)
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls)}
    unknown = set(fields) - known
    if unknown:
        raise InputError(
            f"{where}: {cls.__name__} has no field {', '.join(sorted(unknown)[:5])}. It has: {', '.join(sorted(known))}."
        )
    missing = [
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in fields
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise InputError(f"{where}: {cls.__name__} needs {', '.join(missing)}.")
    return cls(**{name: decode(hints[name], item, f"{where}.{name}") for name, item in fields.items()})


def _translated(kind: str, fields: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    try:
        return translate(kind, fields, where)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: has fields of an earlier {kind} that make no sense. Restore the file.") from error


def _decode_plain(hint: Any, content: Any, where: str) -> Any:
    if hint is float and isinstance(content, int) and not isinstance(content, bool):
        content = float(content) if abs(content) < 1e300 else math.inf
    if not isinstance(content, hint) or (hint in (int, float) and isinstance(content, bool)):
        raise InputError(f"{where} is a {hint.__name__}, not {_shown(content)}.")
    if hint is float and not math.isfinite(content):
        raise InputError(f"{where} is a finite number, not {content}.")
    return content
