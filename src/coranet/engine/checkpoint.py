"""The state of a run on disk: written atomically, read without executing anything."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.files import write_atomically

FORMAT = "coranet-checkpoint-1"
LAST = "last.pt"
BEST = "best.pt"
"""The weights that did best on validation cases, where there are some."""


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Tensors and plain values."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **content}, buffer)
    write_atomically(path, buffer.getvalue())


def load(path: Path, device: torch.device) -> dict[str, Any]:
    """What `save` wrote; a file that is anything else is refused, and never unpickled."""
    if not path.is_file():
        raise InputError(
            f"{path}: no such checkpoint. The run has saved nothing, or the folder is another one: start anew."
        )
    refusal = f"{path}: not a checkpoint of coranet, and so not opened further. Use one that `coranet train` wrote."
    if not zipfile.is_zipfile(path):
        raise InputError(refusal)
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, KeyError) as error:
        raise InputError(refusal) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(refusal)
    return content


def load_weights(nets: Mapping[str, nn.Module], states: Mapping[str, Mapping[str, Tensor]], source: Path) -> None:
    """Put stored weights into networks that must be the same."""
    for name, net in nets.items():
        if name not in states:
            raise InputError(
                f"{source}: has no network {name!r}; it holds {', '.join(states)}. "
                "It is another method's, or of other --classes."
            )
        mine, theirs = net.state_dict(), states[name]
        different = [key for key in mine if key not in theirs or mine[key].shape != theirs[key].shape]
        different += [key for key in theirs if key not in mine]
        if different:
            raise InputError(
                f"{source}: a checkpoint from another network; {len(different)} of its tensors differ, the first is "
                f"{different[0]}. Train with the same --dims, --net, width, classes and heads as that run."
            )
        net.load_state_dict(theirs)
