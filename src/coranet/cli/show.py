"""What a person sees while something runs: a live line on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from coranet.file_names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class QuietConsole(Console):
    """A console on which names of files and cases cannot give orders to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text that is printed comes this way, also from the cells of a table."""
        return super().render_str(printable(text, lines=True), **options)


console = QuietConsole(stderr=True, highlight=False)
output = QuietConsole(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


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
