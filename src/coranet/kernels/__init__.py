"""What a GPU does in fewer passes than PyTorch's own operations: Triton kernels, each the twin of a plain module.

Everything here has a plain twin that is used on other devices, in other precisions and wherever a kernel does not fit.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch

__all__ = ["available"]


@cache
def available() -> bool:
    """Whether there is a GPU that Triton compiles for, with half-precision arithmetic of its own (Ampere and later)."""
    found = torch.cuda.is_available() and find_spec("triton") is not None
    return found and torch.cuda.get_device_capability() >= (8, 0)
