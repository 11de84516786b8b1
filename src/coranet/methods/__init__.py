"""Methods, chosen from one table; a method of one's own is a file and a class name."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.coranet_repaired import RepairedCoraNet
from coranet.methods.mean_teacher import MeanTeacher
from coranet.methods.one_vs_rest import OneVsRest
from coranet.methods.supervised import Supervised

__all__ = ["METHODS", "WRAPPERS", "Method", "find_method", "method_name"]

METHODS: dict[str, type[Method]] = {
    "coranet": CoraNet,
    "coranet:released": ReleasedCoraNet,
    "coranet:repaired": RepairedCoraNet,
    "mean_teacher": MeanTeacher,
    "supervised": Supervised,
}

WRAPPERS: dict[str, type[Method]] = {"one_vs_rest": OneVsRest}
"""Methods around another one: a run may name them, a user asks for them in other words."""


def method_name(name: str | None) -> str:
    """The name in METHODS of what a user asks for: `coranet` where it is nothing, and for `coranet:paper`, the text."""
    if name in WRAPPERS:
        raise InputError(f"{name} wraps another method: use --classes binary.")
    return "coranet" if name in (None, "coranet:paper") else str(name)


def find_method(name: str) -> type[Method]:
    """The class behind a name of METHODS or WRAPPERS, or behind `path/to/file.py:Class`."""
    if name in WRAPPERS:
        return WRAPPERS[name]
    name = method_name(name)
    if name in METHODS:
        return METHODS[name]
    path, colon, title = name.rpartition(":")
    if not (colon and path.endswith(".py")):
        known = ", ".join(METHODS)
        raise InputError(f"No method is called {name!r}. There are: {known}; or your own as ./file.py:Class.")
    return _from_file(Path(path), title)


def _from_file(path: Path, title: str) -> type[Method]:
    if not path.is_file():
        raise InputError(f"{path}: no such file. A method of your own is named as ./file.py:Class.")
    own = f"coranet_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(own, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module  # where dataclasses look up annotations
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path}: cannot be imported ({type(error).__name__}: {error}).") from error
    found = {
        name: thing
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and issubclass(thing, Method) and thing.__module__ == module.__name__
    }
    if title not in found:
        raise InputError(f"{path} defines no method {title!r}. It defines: {', '.join(found) or 'none'}.")
    return found[title]
