"""When memory does not suffice: one clear message that says what to lower, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from coranet.errors import InputError


@contextmanager
def memory_for(what: str, remedy: str) -> Iterator[None]:
    """Turn a failed allocation into an InputError."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise InputError(f"Not enough memory for {what}. {remedy}") from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # how PyTorch's CPU allocator fails
            raise
        raise InputError(f"Not enough memory for {what}. {remedy}") from error
