"""A method of one's own: a class in a Python file, named as `./mine.py:Mine`.

The file is read once. What runs are the very bytes that were read, never what Python may have kept of an earlier form, so
that their checksum says what ran.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import inspect
import sys
import types
from dataclasses import dataclass
from pathlib import Path

from coranet.errors import InputError
from coranet.methods.base import Method


@dataclass(frozen=True)
class OwnFile:
    """A file with a method, as it was when it was read."""

    path: Path
    title: str
    """The class."""
    source: bytes

    @classmethod
    def read(cls, path: Path, title: str) -> OwnFile:
        """The file as it is now.

        Raises:
            InputError: it is not there, or cannot be read.
        """
        if not path.is_file():
            raise InputError(f"{path}: no such file. A method of your own is named as ./file.py:Class.")
        try:
            return cls(path, title, path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}). Check who may read it.") from error

    @property
    def checksum(self) -> str:
        """SHA-256 of what was read."""
        return hashlib.sha256(self.source).hexdigest()

    def load(self) -> type[Method]:
        """Run the file, and give its method.

        Raises:
            InputError: it fails, or has no method of that name.
        """
        own = f"coranet_user_{hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:8]}_{self.path.stem}"
        spec = importlib.util.spec_from_file_location(own, self.path, loader=_Loader(own, self))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[own] = module  # where dataclasses look up annotations
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise InputError(
                f"{self.path}: cannot be imported ({type(error).__name__}: {error}). Correct the file."
            ) from error
        found = {
            name: thing
            for name, thing in vars(module).items()
            if inspect.isclass(thing) and issubclass(thing, Method) and thing.__module__ == module.__name__
        }
        if self.title not in found:
            raise InputError(f"{self.path} defines no method {self.title!r}. It defines: {', '.join(found) or 'none'}.")
        return found[self.title]


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles what was read: Python would take a compiled file that lies beside it, whatever that holds."""

    def __init__(self, name: str, file: OwnFile) -> None:
        super().__init__(name, str(file.path))
        self.source = file.source

    def get_code(self, fullname: str) -> types.CodeType:
        code: types.CodeType = compile(self.source, self.path, "exec", dont_inherit=True)
        return code


def own_name(name: str | None) -> tuple[Path, str] | None:
    """The file and the class of `./mine.py:Mine`; None where a name is not of that form."""
    path, colon, title = (name or "").rpartition(":")
    return (Path(path), title) if colon and path.endswith(".py") else None
