"""What can be known of a file before it is opened: its name, in signs that a terminal shows, and its kind."""

from __future__ import annotations

import re
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NO_TEXT = re.compile("[\ud800-\udfff]")
"""What Python makes of bytes in a file's name that are no text."""


def printable(text: object, *, lines: bool = False) -> str:
    r"""A text without anything that a terminal would obey: the sign for Escape becomes the four letters `\x1b`.

    Args:
        text: a name, or a sentence with names in it.
        lines: leave the ends of lines as they are.
    """
    return "".join(sign if sign.isprintable() or (lines and sign == "\n") else _spelled(sign) for sign in str(text))


def is_text(name: str) -> bool:
    """Whether a file's name is text, and not bytes that no letters stand for."""
    return _NO_TEXT.search(name) is None


def special_kind(path: Path) -> str | None:
    """What a path is if it must not be opened, such as "a named pipe", which would make us wait for ever.

    Raises:
        OSError: there is no such path, or it may not be looked at.
    """
    return _KINDS.get(stat.S_IFMT(path.stat().st_mode))


def _spelled(sign: str) -> str:
    byte = ord(sign) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else sign.encode("unicode_escape").decode()
