"""`coranet status`."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coranet.errors import InputError


@dataclass(frozen=True, kw_only=True)
class StatusVerb:
    """Show what runs, waits and failed of the tasks that a command with --cluster handed over.

    Each line has the task, how it stands, the time it may still run, the machine, and why it waits or failed. Below is the
    command that shows what a task says. Exits with 1 where a task failed.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """What the command was given as --out."""
    all: bool = False
    """List finished tasks too."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> int:
        """Show."""
        from coranet.cli.terminal.show import output, write_json
        from coranet.runs.cluster.ledger import place_of
        from coranet.runs.cluster.standing import ALIVE, standings

        found = standings(place_of(self.folder))
        if not found:
            raise InputError(
                f"{self.folder}: no tasks were handed over for it. Give what a command with --cluster has as --out."
            )
        failed = [one for one in found if one.state not in ALIVE and one.state != "finished"]
        if self.json:
            write_json([{**vars(one), "output": str(one.output)} for one in found])
            return 1 if failed else 0
        counts = Counter(one.state for one in found)
        output.print(", ".join(f"{count} {state}" for state, count in counts.items()), markup=False)
        shown = [one for one in found if self.all or one.state != "finished"]
        lines = [(one.name, one.state, one.left, one.where, one.note) for one in shown]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
            output.print("  ".join(cells).rstrip(), markup=False)
        spoken = [one for one in (failed or shown or found) if one.output.exists()]
        if spoken:
            output.print(f"See what {spoken[0].name} says: tail -f {shlex.quote(str(spoken[0].output))}", markup=False)
        if failed:
            output.print("Give the same command again to try these once more, from where they were.", markup=False)
        return 1 if failed else 0
