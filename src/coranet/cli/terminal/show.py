"""What a person sees while something runs: a live line on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from io import TextIOBase
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from coranet.file_names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Beside(TextIOBase):
    """Standard error as it is now. What is said there is lost where it cannot be written, and stops nothing."""

    @property
    def stream(self) -> TextIO:
        """Where it goes, past rich's own way of standing in for it."""
        stream: TextIO = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        return stream

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    def write(self, text: str) -> int:
        if os.environ.get("RANK", "0") == "0":  # of several processes that train together, the first speaks
            with _losing():
                self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _losing():
            self.stream.flush()

    def __del__(self) -> None:
        """Not ours to flush when Python ends: from 3.13 on it says so where this file has been taken apart by then."""


@contextmanager
def _losing() -> Iterator[None]:
    """Let go of what a full disk or a closed terminal does not take; a reader who has left is another matter."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        pass


class Screen(Console):
    """A terminal to which names of files and cases cannot give orders."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text that is printed comes this way, also from the cells of a table."""
        return super().render_str(printable(text, lines=True), **options)

    def on_broken_pipe(self) -> None:
        """Whoever ends the command says what then."""
        raise BrokenPipeError


console = Screen(file=cast("TextIO", _Beside()), highlight=False, emoji=False)
output = Screen(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


def duration(seconds: float) -> str:
    """In words a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def say(message: str) -> None:
    """A line for a person, beside the output proper."""
    console.print(message, markup=False, soft_wrap=True)


@contextmanager
def counting() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work that is counted: `(what, done, total)`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def on_progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what)
            progress.update(tasks[what], completed=done, total=total)

        yield on_progress


def write_json(content: object) -> None:
    """To standard output, and nothing else there."""
    import json

    sys.stdout.write(json.dumps(content, indent=1) + "\n")
