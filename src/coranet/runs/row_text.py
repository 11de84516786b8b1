"""Rows of a comparison as a person writes them: a method, and what it sets (`coranet[regions=tta;net.width=32]`)."""

from __future__ import annotations

import re
from dataclasses import replace

from coranet.engine.codec import override
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.methods import METHODS, find_method

SECTIONS = ("method", "net", "optim", "train", "data")
"""Parts of a run whose fields a row may set."""

WORK = "work"
"""A row's setting that names the method as many of whose updates it is trained for (`equal_work`)."""
NO_FIELDS = ("classes", WORK)
"""Settings of a row that are for the run as a whole."""


def run_name(row: str, seed: int) -> str:
    """The folder of a row's run."""
    return f"{re.sub(r'[^A-Za-z0-9._=]+', '-', row).strip('-.')}-seed{seed}"


def split_rows(text: str) -> tuple[str, ...]:
    """`a,b[x=1;y=[2,3]]` at commas outside brackets; `all` is every method there is."""
    return tuple(METHODS) if text.strip() == "all" else split_outside_brackets(text)


def split_outside_brackets(text: str) -> tuple[str, ...]:
    """At commas, but for those in brackets; nothing between two of them is left out."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(part.strip() for part in parts if part.strip())


def parse_row(row: str) -> tuple[str, dict[str, str]]:
    """A method's name and its settings: `coranet[regions=tta;beta=0.9]`; NO_FIELDS are for the run."""
    method, bracket, rest = row.partition("[")
    if bracket and not rest.endswith("]"):
        raise InputError(f"{row}: write settings of a method as NAME[FIELD=VALUE;FIELD=VALUE].")
    settings = {}
    for pair in filter(None, rest[:-1].split(";")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{row}: write {pair!r} as FIELD=VALUE.")
        settings[name.strip()] = value.strip()
    return method, settings


def field_path(name: str) -> str:
    """The field of a run that a row's setting names: its method's, unless it says whose."""
    return name if name.partition(".")[0] in SECTIONS and "." in name else f"method.{name}"


def check_row(row: str, run: Run) -> None:
    """Refuse settings of a row that its method has not, or that this run could not have.

    Raises:
        InputError: says which row.
    """
    name, own = parse_row(row)
    made = replace(run, method=find_method(name)())
    try:
        for setting, text in own.items():
            if setting == WORK:
                find_method(text)
            elif setting not in NO_FIELDS:
                made = override(made, field_path(setting), text)
        replace(made, method=run.method).check()  # whether a network fits the method is said by its own run
    except InputError as error:
        raise InputError(f"{row}: {error}") from error
