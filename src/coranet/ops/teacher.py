"""A teacher is a frozen copy of a network that follows it by an exponential moving average."""

from __future__ import annotations

import copy
from typing import TypeVar

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
def follow(teacher: nn.Module, student: nn.Module, beta: float, *, buffers: bool = True) -> None:
    """θ' ← β θ' + (1 - β) θ for everything the teacher has.

    With `buffers`, running statistics are averaged alike and counters copied: a teacher in evaluation mode that lacks
    them normalises by statistics of weights it no longer has.
    """
    pairs = _pairs(teacher, student, buffers)
    moving = [(mine, theirs) for mine, theirs in pairs if mine.is_floating_point()]
    torch._foreach_lerp_([mine for mine, _ in moving], [theirs for _, theirs in moving], 1 - beta)
    for mine, theirs in pairs:
        if not mine.is_floating_point():
            mine.copy_(theirs)


def _pairs(teacher: nn.Module, student: nn.Module, buffers: bool) -> list[tuple[Tensor, Tensor]]:
    theirs: dict[str, Tensor] = {**dict(student.named_parameters()), **dict(student.named_buffers())}
    names = [name for name, _ in teacher.named_parameters()]
    if buffers:
        names += [name for name, _ in teacher.named_buffers()]
    mine: dict[str, Tensor] = {**dict(teacher.named_parameters()), **dict(teacher.named_buffers())}
    return [(mine[name], theirs[name].detach()) for name in names]
