"""NumPy's own files, `.npy`: one array, which states no spacing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, content_of, in_order, unplaced

ENDINGS = (".npy",)
MARKS = ((0, b"\x93NUMPY"),)


def read(path: Path, inside: Inside) -> Volume:
    """The array, its axes as in `in_order`."""
    content_of(path, 1)  # says it better where the file is missing, empty or forbidden
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, SyntaxError, TypeError, ValueError, OverflowError, MemoryError, EOFError) as error:
        raise FileError(path, f"is not NumPy's, damaged or cut short ({error})", COPY_AGAIN) from error
    return unplaced(path, in_order(path, array, inside), inside)
