"""The one error a person can cause, and so the one the command line shows without a traceback; and how it is worded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from coranet.file_names import printable

_FEW = 24
"""Names that are all listed where one of them was nearly meant."""


class InputError(ValueError):
    """Something outside the program is wrong: a file, a folder, an option, a disk.

    The message names the thing and the way out. Anything else that is raised is a fault of ours.
    """

    def __str__(self) -> str:
        """One line that can be read, whatever a stranger's file put into it."""
        return brief(printable(super().__str__()), 800)


class WriteError(InputError):
    """A file cannot be written; what was there before is untouched. With more space or rights it can be."""


class DivergenceError(InputError):
    """A term of the loss is no longer finite; the message names the step and the term."""


def some(names: Sequence[str], most: int = 8) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def suggest(name: str, known: Iterable[str], more: str = "") -> str:
    """What to say after a name that is not known: those nearest to it, and all where there are few or none is near.

    Args:
        name: what was asked for.
        known: what there is.
        more: said after the list, where there is more than it has, such as ", and monai:NAME".
    """
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.7)
    nearest = f"Did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?" if near else ""
    listed = f"There are: {', '.join(names)}{more}." if not near or len(names) <= _FEW else ""
    return f"{nearest} {listed}".strip()


def brief(text: str, most: int = 600) -> str:
    """The text, or its beginning and its end where it is too long to be read."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} ... {text[-most // 3 :]}"


def one_line(text: str) -> str:
    """The text in one line that a terminal can show."""
    return printable(" ".join(text.split()))
