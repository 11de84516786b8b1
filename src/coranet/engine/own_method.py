"""The method of a run that is none of ours: a Python file in the run's folder, which runs only where a person allows it.

A run folder is something people send each other, and so run.json is data. It may name a file, and that file is looked for
in the run's folder and nowhere else. run.json has its SHA-256, and a file that differs from it never runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coranet.engine.codec import decode
from coranet.errors import InputError
from coranet.methods import WRAPPERS, OwnFile, own_name

RECORDED, CHECKSUM = "method_source", "method_sha256"
"""What run.json calls them."""


def place_own_method(content: dict[str, Any], folder: Path, *, trust: bool = False, named: str | None = None) -> None:
    """Replace a method of its own, in what run.json says, by the method itself.

    Args:
        content: of run.json.
        folder: the run's.
        trust: whether the file may run.
        named: the method that a person asks for now; a file of their own may run here too, if it is the same.

    Raises:
        InputError: the run has one and may not run it, or it is not the one that the run was begun with.
    """
    *outer, method = _chain(content, folder)
    if content.get(RECORDED) is None:
        if path := own_name(str(method.get("kind"))):
            raise InputError(
                f"{folder / 'run.json'}: names the Python file {path[0]} as its method, which is not run. "
                "A run's own method is a copy in its folder (method_source): train it again with --method."
            )
        return
    file = _copy(content, folder)
    if not (trust or _is_named(content, file, named)):
        raise InputError(
            f"{folder}: has a method of its own, and this would run the Python file {file.path}. Read the file, and allow "
            "it with --trust (in Python trust=True)."
        )
    fields = {name: value for name, value in method.items() if name != "kind"}
    made = decode(file.load(), fields, f"{folder / 'run.json'}.method")
    if outer:
        outer[-1]["inner"] = made
    else:
        content["method"] = made


def is_same_file(named: str | None, recorded: str | None, checksum: str | None) -> bool:
    """Whether what a person names is the file, to the byte, and the class that a run was begun with."""
    asked, begun = own_name(named), own_name(recorded)
    if asked is None or begun is None or asked[1] != begun[1] or not asked[0].is_file():
        return False
    return OwnFile.read(*asked).checksum == checksum


def _chain(content: dict[str, Any], folder: Path) -> list[Any]:
    """What run.json says of the method, and of those that it is wrapped around."""
    chain = [content.setdefault("method", {})]
    while isinstance(chain[-1], dict) and str(chain[-1].get("kind")) in WRAPPERS:
        chain.append(chain[-1].get("inner", {}))
    if not all(isinstance(method, dict) for method in chain):
        raise InputError(f"{folder / 'run.json'}: not a run, as its method is no object. Restore the file.")
    return chain


def _copy(content: dict[str, Any], folder: Path) -> OwnFile:
    """The copy in the folder, if it is the file that the run was begun with."""
    recorded, checksum = content[RECORDED], content.get(CHECKSUM)
    own = own_name(recorded) if isinstance(recorded, str) else None
    if own is None:
        raise InputError(f"{folder / 'run.json'}: {RECORDED} is not of the form file.py:Class. Restore the file.")
    path = folder / own[0].name
    if not path.is_file() or (path.is_symlink() and checksum is None):
        raise InputError(
            f"{path}: the run's own method is not in its folder. Copy the file there that it was begun with."
        )
    file = OwnFile.read(path, own[1])
    if checksum is not None and file.checksum != checksum:
        raise InputError(
            f"{path}: is not the file that the run was begun with (its SHA-256 is not that of run.json), and is not run. "
            "Restore the file, or train anew."
        )
    return file


def _is_named(content: dict[str, Any], file: OwnFile, named: str | None) -> bool:
    """Whether a person asks for the same file now.

    Raises:
        InputError: they ask for another one.
    """
    if own_name(named) is None:
        return False
    if not is_same_file(named, content[RECORDED], file.checksum):
        raise InputError(
            f"--method {named}: is not {file.path}, with which the run was begun. Restore it, or leave --method away and "
            "allow the copy with --trust."
        )
    return True
