"""Maps of every unlabelled image as a training kept them at one refresh, in a file to be looked at afterwards."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coranet.feed.pools import CaseMemory, Pool
from coranet.files import write_atomically
from coranet.types import Prediction

CaseMaps = dict[str, dict[str, list[NDArray[Any]]]]
"""By map and case, the images of the case in order, `(*S)` each."""


def soft_maps(prediction: Prediction) -> dict[str, Tensor]:
    """What is behind labels and regions, in 255ths: `(B, *S)` uint8 by name.

    `confidence` is the largest probability. `con.1`, `rad.1` and so on are what heads say of each object, where regions come
    from such; `main.1` and so on only where there are several objects, since of one the confidence and the label tell it.
    """
    main = prediction.probabilities
    heads = {"main": main[:, 1:]} if main.shape[1] > 2 else {}
    heads |= prediction.regions.soft if prediction.regions is not None else {}
    named = {f"{head}.{k}": p for head, each in heads.items() for k, p in enumerate(each.unbind(dim=1), start=1)}
    found = {"confidence": main.amax(dim=1)} | named
    return {name: (255 * p).round().to(torch.uint8) for name, p in found.items()}


def write_maps(path: Path, pool: Pool, *memories: CaseMemory) -> None:
    """Every map in one row, and `cases` and `sizes` to part it by."""
    path.parent.mkdir(exist_ok=True)
    flat: dict[str, Any] = {name: row.cpu().numpy() for memory in memories for name, row in memory.flat.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, cases=np.array(pool.cases), sizes=pool.sizes.numpy(), **flat)
    write_atomically(path, buffer.getvalue())


def read_maps(path: Path) -> CaseMaps:
    """What `write_maps` wrote."""
    found: CaseMaps = {}
    with np.load(path) as kept:
        cases, sizes = kept["cases"].tolist(), kept["sizes"]
        ends = np.cumsum(sizes.prod(axis=1))[:-1]
        for name in (name for name in kept.files if name not in ("cases", "sizes")):
            by_case = found.setdefault(name, {})
            for case, size, row in zip(cases, sizes, np.split(kept[name], ends, axis=-1), strict=True):
                by_case.setdefault(case, []).append(row.reshape(*row.shape[:-1], *size))
    return found
