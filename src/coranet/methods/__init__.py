"""Methods, chosen from one table; a method of one's own is a file and a class name."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.coranet_repaired import RepairedCoraNet
from coranet.methods.mean_teacher import MeanTeacher
from coranet.methods.supervised import Supervised

__all__ = ["METHODS", "Method", "find_method"]

METHODS: dict[str, type[Method]] = {
    "coranet": CoraNet,
    "coranet:released": ReleasedCoraNet,
    "coranet:repaired": RepairedCoraNet,
    "mean_teacher": MeanTeacher,
    "supervised": Supervised,
}


def find_method(name: str) -> type[Method]:
    """The class behind a name of METHODS, or behind `path/to/file.py:Class`. `coranet:paper` is `coranet`, the text."""
    if name.removesuffix(":paper") in METHODS:
        return METHODS[name.removesuffix(":paper")]
    path, colon, title = name.rpartition(":")
    if not (colon and path.endswith(".py")):
        known = ", ".join(METHODS)
        raise InputError(f"No method is called {name!r}. There are: {known}; or your own as ./file.py:Class.")
    return _from_file(Path(path), title)


def _from_file(path: Path, title: str) -> type[Method]:
    if not path.is_file():
        raise InputError(f"{path}: no such file. A method of your own is named as ./file.py:Class.")
    spec = importlib.util.spec_from_file_location(f"coranet_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {
        name: thing
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and issubclass(thing, Method) and thing.__module__ == module.__name__
    }
    if title not in found:
        raise InputError(f"{path} defines no method {title!r}. It defines: {', '.join(found) or 'none'}.")
    return found[title]
