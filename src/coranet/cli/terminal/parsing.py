"""How tyro reads options that are stated in rooms below this one, which do not know it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from coranet.flags import Flag, field_helps

REGISTRY = ConstructorRegistry()
"""What the command reads its options by."""

GIVEN: ContextVar[tuple[str, ...]] = ContextVar("GIVEN", default=())
"""The words of the command that runs, without its name."""

FLAT: Any = tyro.conf.arg(name="")
"""A field whose own fields are options beside the others."""

Device = Annotated[str | None, tyro.conf.arg(metavar="D", help_behavior_hint="(default: a GPU if there is one)")]
"""The option `--device`."""
MaxGb = Annotated[float | None, tyro.conf.arg(metavar="GB", help_behavior_hint="(default: half of what is free)")]
"""The option `--max-gb` of a verb that reads scans."""


@REGISTRY.struct_rule
def _options(info: StructTypeInfo) -> StructConstructorSpec | None:
    """A dataclass with a `Flag` at one of its fields or more."""
    return _spec(info.type) if is_dataclass(info.type) else None


@cache
def _spec(cls: type) -> StructConstructorSpec | None:
    if not any(map(_flag, _hints(cls).values())):
        return None
    return StructConstructorSpec(instantiate=cls, fields=option_fields(cls))


def option_fields(
    cls: type, *, default: str = "", types: Mapping[str, Any] | None = None
) -> tuple[StructFieldSpec, ...]:
    """The options that the fields of a dataclass are, its own before those it inherits.

    Args:
        cls: the dataclass.
        default: where each may be left out, what is taken then; None stands for it.
        types: what is read for a field instead of its own type.
    """
    hints, helps = _hints(cls), field_helps(cls)
    specs = []
    for field in sorted(fields(cls), key=lambda field: field.name not in cls.__annotations__):
        flag, kind, value = _flag(hints[field.name]), _bare(hints[field.name]), field.default
        if flag is not None:
            kind = (types or {}).get(field.name, kind)
            if default:
                kind, value = kind | None, None
            kind = _annotated(kind, flag, default or flag.default)
        specs.append(StructFieldSpec(name=field.name, type=kind, default=value, helptext=helps.get(field.name)))
    return tuple(specs)


def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _flag(hint: Any) -> Flag | None:
    return next((word for word in getattr(hint, "__metadata__", ()) if isinstance(word, Flag)), None)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _annotated(kind: Any, flag: Flag, default: str) -> Any:
    """The type with what tyro is to say of it; a default that is empty anyway needs no words."""
    words: Any = tyro.conf.arg(
        name=flag.name,
        metavar=flag.metavar or "{" + ",".join(_choices(kind)) + "}",
        help_behavior_hint=None if flag.repeat else f"(default: {default})" if default else "(optional)",
    )
    marks = (tyro.conf.UseAppendAction,) if flag.repeat else ()
    return operator.getitem(Annotated, (kind, *marks, words))


def _choices(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)]


@REGISTRY.primitive_rule
def _pair(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[tuple[str, ...]] | None:
    """`KEY=VALUE` for two words; whoever takes them refuses one alone."""
    if info.type_origin is not tuple or get_args(info.type) != (str, str):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="KEY=VALUE",
        instance_from_str=lambda words: tuple(words[0].split("=", 1)),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda pair: ["=".join(pair)],
    )
