"""What a person may say about a sweep over settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from coranet.errors import InputError
from coranet.flags import Flag


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Which settings are tried."""

    grid: Annotated[tuple[tuple[str, str], ...], Flag("KEY=A,B", repeat=True)] = ()
    """Values that a field of the run takes, such as net.width=16,32 or train.batch=[4,4],[8,8]. Each combination of all
    grids is a row of its own. A field of a method is set where the method has it."""
    halving: Annotated[str | None, Flag("STEPS")] = None
    """Stop rows early: after so many steps, such as 500,1000, the half that does better on validation cases goes on. Only
    the row that is best at the end is scored on test cases, and that of --against. Needs --steps."""
    search: Annotated[int | None, Flag("N")] = None
    """Let Optuna try N combinations of the grids, each in full, and choose by validation cases as --halving does (needs the
    extra coranet[search]). A higher N goes on with the same search. Needs --steps."""

    def __post_init__(self) -> None:
        if self.halving is not None and self.search is not None:
            raise InputError("--halving and --search: are two ways to choose. Give one of them.")
        if broken := [pair for pair in self.grid if len(pair) != 2]:
            raise InputError(f"--grid {' '.join(broken[0])}: write it as KEY=A,B, such as net.width=16,32.")
