"""Maps of every unlabelled image as a training kept them at one refresh, in a file to be looked at afterwards."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.pools import CaseMemory, Pool
from coranet.files import write_atomically

Kept = dict[str, dict[str, list[NDArray[Any]]]]
"""By map and case, the images of the case in order, `(*S)` each."""


def keep_maps(path: Path, pool: Pool, memory: CaseMemory) -> None:
    """Every map in one row, and `cases` and `sizes` to part it by."""
    path.parent.mkdir(exist_ok=True)
    flat: dict[str, Any] = {name: row.cpu().numpy() for name, row in memory.flat.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, cases=np.array(pool.cases), sizes=pool.sizes.numpy(), **flat)
    write_atomically(path, buffer.getvalue())


def read_maps(path: Path) -> Kept:
    """What `keep_maps` wrote."""
    found: Kept = {}
    with np.load(path) as kept:
        cases, sizes = kept["cases"].tolist(), kept["sizes"]
        ends = np.cumsum(sizes.prod(axis=1))[:-1]
        for name in (name for name in kept.files if name not in ("cases", "sizes")):
            by_case = found.setdefault(name, {})
            for case, size, row in zip(cases, sizes, np.split(kept[name], ends, axis=-1), strict=True):
                by_case.setdefault(case, []).append(row.reshape(*row.shape[:-1], *size))
    return found
