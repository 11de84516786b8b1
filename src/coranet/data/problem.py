"""What can be wrong with a file, always said with its way out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coranet.errors import InputError, brief
from coranet.file_names import printable


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something wrong with a file or folder. `fatal` stops training, `warning` does not."""

    level: Literal["fatal", "warning"]
    file: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return printable(f"{self.file}: {brief(self.message)}. {self.remedy}.")


def fatal(file: Path | str, message: str, remedy: str) -> Problem:
    """A problem that stops training."""
    return Problem(level="fatal", file=str(file), message=message, remedy=remedy)


def warning(file: Path | str, message: str, remedy: str) -> Problem:
    """A problem that training survives."""
    return Problem(level="warning", file=str(file), message=message, remedy=remedy)


class FileError(InputError):
    """An input error that keeps the file, what is wrong with it and the remedy apart."""

    def __init__(self, file: Path | str, message: str, remedy: str) -> None:
        super().__init__(file, message, remedy)
        self.problem = fatal(file, message, remedy)

    def __str__(self) -> str:
        return str(self.problem)
