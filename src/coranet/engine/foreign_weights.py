"""Weights that another program trained (`--weights`): a MONAI bundle's, nnU-Net's, or any state dict that PyTorch saved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from coranet.engine.checkpoint import opened
from coranet.errors import InputError
from coranet.nets import Body
from coranet.nets.nnunet_names import AGAIN, in_dynunet

NESTS = ("network_weights", "state_dict", "model_state_dict", "model", "network", "net", "nets", "student")
"""Under which names programs keep a network's tensors, in the order in which they are looked for."""
WRAPPERS = ("module.", "_orig_mod.", "model.", "network.", "net.")
"""What programs put before the names of all tensors."""
OURS = "network."
"""What we put before those of a network of MONAI."""
SHOWN = 3
"""Tensors that are named, of those that are left."""
ORIGIN = (
    "Give a state dict that PyTorch 1.6 or later saved, such as model.pt of a MONAI bundle or checkpoint_final.pth of "
    "nnU-Net. A TorchScript file (.ts), or one that holds more than tensors and plain values, could run code."
)
PLAIN: list[Any] = [
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i4", "i8", "?")),
    (np.float64(0).__reduce__()[0], "numpy.core.multiarray.scalar"),
    (np.float64(0).__reduce__()[0], "numpy._core.multiarray.scalar"),
]
"""Numbers of NumPy, which nnU-Net keeps beside its weights: they run nothing."""


@dataclass(frozen=True)
class ForeignWeights:
    """The tensors of a file by name, of which those are taken that fit."""

    file: Path
    tensors: Mapping[str, Tensor]
    sha256: str
    """Of the file."""

    @classmethod
    def read(cls, file: Path) -> Self:
        """The tensors of a file, without those that it lists a second time.

        Raises:
            InputError: it cannot be read, could run code, or holds no tensors by name.
        """
        with torch.serialization.safe_globals(PLAIN):
            content = opened(file, torch.device("cpu"), "file of weights", ORIGIN, "Check the path.")
        tensors = {name: value for name, value in _tensors_of(content).items() if not AGAIN.search(name)}
        if not tensors:
            raise InputError(f"{file}: holds no tensors by name. {ORIGIN}")
        with file.open("rb") as stream:
            return cls(file, tensors, hashlib.file_digest(stream, "sha256").hexdigest())

    def start(self, nets: Mapping[str, nn.Module]) -> str:
        """Put what fits into every network that segments; returns what that was, in one line.

        Raises:
            InputError: nothing fits, or a value is not finite.
        """
        taken: set[str] = set()
        for net in nets.values():
            if isinstance(net, Body):
                own = net.state_dict()
                names = max(self._namings(), key=lambda naming: len(self._fitting(naming, own)))
                fitting = self._fitting(names, own)
                net.load_state_dict({names[name]: self.tensors[name] for name in fitting}, strict=False)
                taken |= fitting
        left = [name for name in self.tensors if name not in taken]
        if not taken:
            raise InputError(
                f"{self.file}: none of its {len(left)} tensors has the name and shape of one of this network's. Choose the "
                "--net, net.width, net.levels and net.options (--set) that it was trained with."
            )
        for name in taken:
            if not torch.isfinite(self.tensors[name]).all():
                raise InputError(f"{self.file}: {name} has values that are not finite. Use another copy of the file.")
        return self._in_words(len(taken), left)

    def _namings(self) -> list[dict[str, str]]:
        """Ways to read the file's names as ours: as they are, as those of a network of MONAI, as nnU-Net's."""
        namings = []
        for stems in _unwrapped([*self.tensors]):
            others = in_dynunet(stems.values())
            namings += [
                stems,
                {name: OURS + stem for name, stem in stems.items()},
                {name: OURS + others[stem] for name, stem in stems.items() if stem in others},
            ]
        return namings

    def _fitting(self, names: Mapping[str, str], own: Mapping[str, Tensor]) -> set[str]:
        """The tensors whose place in a network has their shape."""
        return {name for name, ours in names.items() if ours in own and _alike(self.tensors[name], own[ours])}

    def _in_words(self, taken: int, left: list[str]) -> str:
        start = f"Starting from {self.file}: {taken} of its {len(self.tensors)} tensors fit"
        if not left:
            return f"{start}."
        more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        return f"{start}; left out, as the network has none of that name and shape: {', '.join(left[:SHOWN])}{more}."


def _tensors_of(content: Mapping[Any, Any]) -> dict[str, Tensor]:
    """The first tensors by name, wherever they are nested."""
    tensors = {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Tensor)}
    inner = [content[name] for name in NESTS if isinstance(content.get(name), Mapping)]
    return tensors or next((found for one in inner if (found := _tensors_of(one))), {})


def _unwrapped(names: list[str]) -> Iterator[dict[str, str]]:
    """Names by what is left of them without none, one and more of the words that stand before all of them."""
    stems = names
    while True:
        yield dict(zip(names, stems, strict=True))
        prefix = next((word for word in WRAPPERS if all(stem.startswith(word) for stem in stems)), None)
        if prefix is None:
            return
        stems = [stem.removeprefix(prefix) for stem in stems]


def _alike(theirs: Tensor, ours: Tensor) -> bool:
    return theirs.shape == ours.shape and theirs.is_floating_point() == ours.is_floating_point()
