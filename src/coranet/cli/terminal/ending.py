"""How a command ends: with an exit status, and in one sentence where something was wrong.

0 done, 1 a problem with the input or the machine, 2 wrong usage, 70 a fault of ours, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from coranet.errors import InputError, one_line
from coranet.version import __version__

FAULT = 70
"""The exit status where nothing outside the program is to blame; sysexits.h has it for that."""

_WAYS_OUT = {
    errno.EACCES: "Ask for the right to use it, or choose another place",
    errno.EPERM: "Ask for the right to use it, or choose another place",
    errno.EROFS: "Choose a place that can be written to",
    errno.ENOSPC: "Free some space, or choose another place; what was finished before is whole",
    errno.EDQUOT: "Free some space, or choose another place; what was finished before is whole",
    errno.EMFILE: "Raise the number of files that may be open (ulimit -n)",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.ENOMEM: "Close other programs, or give this one less to do at a time",
}


def exit_status(work: Callable[[], int]) -> int:
    """Do the work, and end it as a command ends, whatever happens.

    Args:
        work: returns its own exit status, or raises.
    """
    if not _open_streams():
        return _ended(1, "Standard output is closed. Send it to a file, a program or /dev/null.")
    if not _folder_is_there():  # libraries in C end the process without a word of ours
        return _ended(1, "The folder that you are in was deleted. Change to another one, and give the command again.")
    try:
        with _hushed(), _checked_output():
            return _flushed(work)
    except InputError as error:
        return _ended(1, str(error))
    except KeyboardInterrupt:
        return _ended(130, "stopped.")
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        _discard(sys.stdout)
        _discard(sys.stderr)
        return 0
    except OSError as error:
        return _ended(1, _of_the_system(error))
    except MemoryError:
        return _ended(1, "Not enough memory. Close other programs, or give this one less to do at a time.")
    except Exception as error:
        return _ended(FAULT, _fault(error))


def _flushed(work: Callable[[], int]) -> int:
    """What could not be printed is known before the end, when it can still be said."""
    try:
        status = work()
    except SystemExit as stop:  # help was shown, or the usage was wrong
        status = stop.code if isinstance(stop.code, int) else 0
    sys.stdout.flush()
    return status


def _ended(status: int, sentence: str) -> int:
    """Say why; where nobody can hear it, the status has to do."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"coranet: {one_line(sentence)}\n")
        sys.stderr.flush()
    return status


def _open_streams() -> bool:
    """Whether there is a standard output. Streams that are closed are opened on nothing.

    The next file to be opened would stand in for a closed one, and receive what is printed.
    """
    there = sys.stdout is not None
    for name, descriptor in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            _to_nothing(descriptor)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal's alphabet lacks is shown in another spelling
            stream.reconfigure(errors="backslashreplace")
    return there


def _folder_is_there() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _to_nothing(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != descriptor:
        os.dup2(nothing, descriptor)
        os.close(nothing)


def _discard(stream: TextIO) -> None:
    """What is left in it goes nowhere, so that Python's own end does not fail on it once more."""
    with suppress(OSError, ValueError):
        _to_nothing(stream.fileno())


class _Output:
    """Standard output; what it does not take is an error that says so."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._refusals():
            return self.stream.write(text)

    def flush(self) -> None:
        with self._refusals():
            self.stream.flush()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            _discard(self.stream)
            raise InputError(
                f"Standard output cannot be written ({error.strerror}). Send it elsewhere, or free some space."
            ) from error


@contextmanager
def _checked_output() -> Iterator[None]:
    before = sys.stdout
    sys.stdout = cast("TextIO", _Output(before))
    try:
        yield
    finally:
        sys.stdout = before


@contextmanager
def _hushed() -> Iterator[None]:
    """Libraries say what they must in one line, and log nothing."""
    show, level, environment = warnings.showwarning, logging.root.manager.disable, os.environ.get("PYTHONWARNINGS")
    warnings.showwarning = _show_warning
    logging.disable(logging.ERROR)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of processes that are started meanwhile
    try:
        yield
    finally:
        warnings.showwarning = show
        logging.disable(level)
        if environment is None:
            os.environ.pop("PYTHONWARNINGS", None)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    with suppress(OSError):
        sys.stderr.write(f"Note: {one_line(str(message))[:200]}\n")


def _of_the_system(error: OSError) -> str:
    """What the system refused, of which file, and what to do about it."""
    why = error.strerror or str(error) or type(error).__name__
    files = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    names = [str(_barrier(file) if isinstance(error, PermissionError) else file) for file in files]
    way = _WAYS_OUT.get(error.errno or 0, "Check that it is there, and that you may use it")
    return f"{' and '.join(names) or 'A file'}: {why}. {way}."


def _barrier(file: Path) -> Path:
    """The first folder on the way to a file that may not be entered, or the file itself."""
    effective = os.access in os.supports_effective_ids
    folders = [folder for folder in reversed(file.absolute().parents) if os.access(folder, os.F_OK)]
    return next((folder for folder in folders if not os.access(folder, os.X_OK, effective_ids=effective)), file)


def _fault(error: Exception) -> str:
    """What to say of an error that nobody thought of, once it is written down whole."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    file = _write_down(error)
    where = f"{file} has the details: please report it with them" if file else "Please report it"
    return f"This is a fault of coranet, not of yours ({one_line(what)[:200]}). {where}."


def _write_down(error: Exception) -> Path | None:
    """The traceback and what it depends on, in the temporary folder or in the current one; None where neither can be."""
    torch = sys.modules.get("torch")
    text = (
        f"coranet {__version__}, Python {platform.python_version()}, torch {getattr(torch, '__version__', 'not loaded')}, "
        f"{platform.platform()}\n{shlex.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"
    )
    for folder in (tempfile.gettempdir, os.getcwd):
        with suppress(OSError):
            descriptor, name = tempfile.mkstemp(prefix="coranet-fault-", suffix=".txt", dir=folder())
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return Path(name)
    return None
