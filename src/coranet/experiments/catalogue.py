"""What methods there are, in words taken from their own files."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
from itertools import pairwise
from typing import Any

from coranet.engine.codec import encode
from coranet.methods import METHODS, Method, find_method, method_name


def list_methods() -> list[dict[str, Any]]:
    """Every method of the table."""
    return [describe_method(name) for name in METHODS]


def describe_method(name: str) -> dict[str, Any]:
    """Name, one line, the file's own page with its equations, and every field with its help."""
    cls = find_method(method_name(name))
    helps = _field_helps(cls)
    return {
        "name": name,
        "summary": (cls.__doc__ or "").strip().splitlines()[0],
        "paper": (sys.modules[cls.__module__].__doc__ or "").strip() if cls.__module__ in sys.modules else "",
        "fields": [
            {"name": field.name, "default": json.dumps(encode(field.default)), "help": helps.get(field.name, "")}
            for field in dataclasses.fields(cls)
        ],
    }


def _field_helps(cls: type[Method]) -> dict[str, str]:
    """The text under each field, of the class and those it inherits from."""
    helps: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if not (isinstance(owner, type) and issubclass(owner, Method)):
            continue
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    helps[name] = " ".join(words.split())
    return helps
