"""Hostile JSON: an honest document with one thing changed, and texts that are no such document at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from tests.attacks.attack import Scene
from tests.attacks.bytewise import damaged

Place = tuple[str | int, ...]

DEEP = "[" * 200_000 + "]" * 200_000
VALUES: dict[str, str] = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "minus one": "-1",
    "a half": "0.5",
    "a billion": "1000000000",
    "10^30": "1" + "0" * 30,
    "5,000 digits": "9" * 5000,
    "1e308": "1e308",
    "1e-300": "1e-300",
    "1e-6": "1e-6",
    "NaN": "NaN",
    "infinity": "Infinity",
    "no text": '""',
    "a word": '"word"',
    "an escape": '"\\u001b[2J\\u0007"',
    "lines": '"one\\ntwo\\u0000"',
    "half a sign": '"\\ud800"',
    "a way up": '"../../../../etc/passwd"',
    "a device": '"/dev/zero"',
    "100,000 letters": '"' + "x" * 100_000 + '"',
    "a number in text": '"12"',
    "an empty list": "[]",
    "a list": "[1, -2, null]",
    "a list of lists": "[[[]]]",
    "100,000 numbers": "[" + "7," * 99_999 + "7]",
    "an empty object": "{}",
    "an object": '{"kind": "word", "0": 1}',
    "200,000 lists in each other": DEEP,
}
"""By what they are: as they stand in the text."""

CHANGES = (*VALUES, "left out", "renamed", "twice", "beside a stranger", "with an odd name")
"""What can happen to one place of a document."""

TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "white space": b" \n\t ",
    "a list": b"[]",
    "a number": b"12",
    "null": b"null",
    "text": b'"word"',
    "an empty object": b"{}",
    "no UTF-8": b"\xff\xfe\x00{}",
    "UTF-16": "{}".encode("utf-16"),
    "a mark of order": b"\xef\xbb\xbf{}",
    "zeros": bytes(1000),
    "a comment": b"// {}\n{}",
    "lists in each other": DEEP.encode(),
    "objects in each other": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "lists that never end": b"[" * 3_000_000,
    "a number of a million digits": b"1" * 1_000_000,
    "40 MB of white space": b" " * 40_000_000,
}
"""What is no such document."""


def places(document: Any, at: Place = ()) -> Iterator[Place]:
    """Every value in a document, by the keys that lead to it."""
    if at:
        yield at
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from places(value, (*at, key))


def changed(document: Any, place: Place, change: str) -> str:
    """The text of a document with one place changed."""
    copy = json.loads(json.dumps(document))
    *path, last = place
    parent = copy
    for key in path:
        parent = parent[key]
    value, mark = parent[last], "@here@"
    raw = VALUES.get(change)
    if raw is not None:
        parent[last] = mark
    elif change == "left out":
        del parent[last]
    elif isinstance(parent, dict):
        name = {"renamed": f"{last}x", "with an odd name": "\x1b[2J\n\u202e\ud800"}.get(change, "stranger")
        if change != "beside a stranger":
            del parent[last]
        parent[name if change != "twice" else mark] = value
    else:
        parent[last] = [value, value]
    text = json.dumps(copy, indent=1)
    if change == "twice":
        again = json.dumps(str(last))
        return text.replace(f'"{mark}"', f"{again}: null, {again}", 1)
    return text.replace(f'"{mark}"', raw, 1) if raw is not None else text


def hostile(document: Any, scene: Scene) -> tuple[str, bytes]:
    """The next change of a document, or some damage to its text: what it is, and the bytes."""
    texts = list(TEXTS)
    if scene.number < len(texts):
        return texts[scene.number], TEXTS[texts[scene.number]]
    if scene.number % 8 == 0:
        what, content = damaged(json.dumps(document, indent=1).encode(), scene.rng)
        return f"bytes: {what}", content
    every = list(product(places(document), CHANGES))
    Random(0).shuffle(every)
    place, change = every[(scene.number - len(texts)) % len(every)]
    content = changed(document, place, change).encode("utf-8", "surrogatepass")
    return f"{'.'.join(map(str, place))}: {change}", content


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": lambda file: os.mkfifo(file),
    "a folder": lambda file: file.mkdir(),
    "a link to nothing": lambda file: file.symlink_to("nothing"),
    "a link to itself": lambda file: file.symlink_to(file.name),
    "a device that never ends": lambda file: file.symlink_to("/dev/zero"),
    "a device of nothing": lambda file: file.symlink_to("/dev/null"),
}
"""What can lie in place of a file."""
