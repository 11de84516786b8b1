"""Whatever a library raises over a file becomes one sentence about that file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN
from coranet.errors import InputError


@contextmanager
def guarded(path: Path, reader: str) -> Iterator[None]:
    """Say of the file what goes wrong within, whoever raised it.

    Raises:
        InputError: always that, with the library's error as its cause.
    """
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        remedy = "Close other programs, or check that its header states the true size"
        raise FileError(path, "does not fit into memory", remedy) from error
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise FileError(path, f"cannot be read ({reason})", "Make it a file that you may read") from error
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        message = f"cannot be read as {reader}: damaged or cut short ({type(error).__name__}: {reason})"
        raise FileError(path, message, COPY_AGAIN) from error
