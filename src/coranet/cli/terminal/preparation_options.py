"""The settings of a preparation as options of the command line."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tyro.constructors import StructConstructorSpec, StructFieldSpec, StructTypeInfo

from coranet.cli.terminal.parsing import REGISTRY, option_fields
from coranet.data.prepare.preparation import Intensity, Preparation


class Changes(dict[str, Any]):
    """Settings of `Preparation` that are given beside a preset, by name."""


_SPELLED = {"intensity": tuple[Intensity, ...], "crop_box": tuple[int, int, int, int, int, int]}
"""Settings that are written more briefly than they are stored."""


@REGISTRY.struct_rule
def _changes(info: StructTypeInfo) -> StructConstructorSpec | None:
    return StructConstructorSpec(instantiate=as_settings, fields=settings_fields()) if info.type is Changes else None


@cache
def settings_fields() -> tuple[StructFieldSpec, ...]:
    """The options that the fields of `Preparation` are."""
    options = {option.name: option for option in option_fields(Preparation, default="the preset's", types=_SPELLED)}
    del options["intensities"]
    grey = options["intensity"]
    options["intensity"] = replace(grey, helptext=f"{grey.helptext} One for all channels, or one for each.")
    return tuple(options.values())


def as_settings(**options: Any) -> Changes:
    """Those that were given, as `Preparation` has them."""
    given = Changes({name: value for name, value in options.items() if value not in (None, False)})
    if "crop_box" in given:
        x0, x1, y0, y1, z0, z1 = given["crop_box"]
        given |= {"crop": "box", "crop_box": ((x0, x1), (y0, y1), (z0, z1))}
    elif given.get("crop", "box") != "box":
        given["crop_box"] = (None, None, None)
    if "intensity" in given:
        kinds = given["intensity"]
        given |= {"intensity": kinds[0], "intensities": kinds[1:] and kinds}
    return given
