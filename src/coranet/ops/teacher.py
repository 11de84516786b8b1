"""A teacher is a frozen copy of a network that follows it by an exponential moving average."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping
from typing import TypeVar
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def frozen_copy(net: M) -> M:
    """A copy in evaluation mode that no gradient reaches."""
    return copy.deepcopy(net).requires_grad_(False).eval()


@torch.no_grad()
def copy_weights(teacher: nn.Module, student: nn.Module) -> None:
    """θ' ← θ for everything the teacher has, buffers included."""
    for mine, theirs in _pairs(teacher, student, buffers=True):
        mine.copy_(theirs)


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, beta: float | Tensor, *, buffers: bool = True) -> None:
    """θ' ← β θ' + (1 - β) θ for everything the teacher has; a β that changes is a tensor on the device.

    With `buffers`, running statistics are averaged alike and counters copied: a teacher in evaluation mode that lacks
    them normalises by statistics of weights it no longer has.
    """
    pairs = _pairs(teacher, student, buffers)
    moving = [(mine, theirs) for mine, theirs in pairs if mine.is_floating_point()]
    teachers, students = [mine for mine, _ in moving], [theirs for _, theirs in moving]
    if isinstance(beta, Tensor):  # a share that lies on a GPU would be waited for by lerp
        gaps = torch._foreach_sub(students, teachers)
        torch._foreach_mul_(gaps, 1 - beta)
        torch._foreach_add_(teachers, gaps)
    else:
        torch._foreach_lerp_(teachers, students, 1 - beta)
    for mine, theirs in pairs:
        if not mine.is_floating_point():
            mine.copy_(theirs)


def _pairs(teacher: nn.Module, student: nn.Module, buffers: bool) -> list[tuple[Tensor, Tensor]]:
    """Tensors of the same name, the teacher's first."""
    known = _SHELVES.get(teacher)
    if known is None or known[0]() is not student:
        known = _SHELVES[teacher] = ref(student), _shelves(teacher, student)
    kinds = known[1] if buffers else known[1][:1]
    found = ((mine[name], theirs[name]) for shelves in kinds for mine, theirs, name in shelves)
    return [(mine, theirs.detach()) for mine, theirs in found if mine is not None and theirs is not None]


Shelf = MutableMapping[str, Tensor | None]
"""Where a module keeps its parameters, or its buffers, by name. Tensors may be exchanged, shelves stay."""
_SHELVES: WeakKeyDictionary[nn.Module, tuple[ref[nn.Module], list[list[tuple[Shelf, Shelf, str]]]]] = (
    WeakKeyDictionary()
)
"""Walking through two networks in every step takes longer than averaging them."""


def _shelves(teacher: nn.Module, student: nn.Module) -> list[list[tuple[Shelf, Shelf, str]]]:
    """Of parameters and of buffers, every name the teacher has."""
    theirs = dict(student.named_modules())
    parameters = [
        (mine._parameters, theirs[path]._parameters, name)
        for path, mine in teacher.named_modules()
        for name in mine._parameters
    ]
    buffers = [
        (mine._buffers, theirs[path]._buffers, name) for path, mine in teacher.named_modules() for name in mine._buffers
    ]
    return [parameters, buffers]
