"""A checksum of every tensor of a checkpoint, and one of all else: a flipped bit is found, and the tensor named.

They find damage, not malice: who changes a tensor on purpose can change its checksum too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

REST = "all else"
"""What the checksum of plain values is called."""


def checksums(content: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of each tensor by its name, such as `nets.student.heads.main.weight`, and of what is no tensor.

    Raises:
        TypeError: it holds something that is neither a plain tensor nor a plain value.
        ValueError: a tensor says to be larger than what is stored of it.
    """
    found, rest = dict[str, str](), hashlib.sha256()
    for name, value in _leaves(content, ""):
        if isinstance(value, Tensor):
            found[name] = _digest(value)
        else:
            rest.update(f"{name!a}\0{value!a}\0".encode())
    return {**found, REST: rest.hexdigest()}


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Tensors and plain values, and how each list and object is built."""
    if isinstance(value, Mapping):
        yield name, ("object", list(value))
        yield from _leaves(getattr(value, "_metadata", None), f"{name}._metadata")  # PyTorch's, beside weights
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif type(value) in (list, tuple):
        yield name, (type(value).__name__, len(value))
        for number, item in enumerate(value):
            yield from _leaves(item, f"{name}.{number}")
    elif isinstance(value, Tensor) or value is None or type(value) in (str, int, float, bool):
        yield name, value
    else:
        raise TypeError(f"{name} is a {type(value).__name__}")


def _digest(tensor: Tensor) -> str:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError("not a plain tensor")
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise ValueError("larger than what is stored of it")
    values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    digest.update(values.numpy().data)
    return digest.hexdigest()
