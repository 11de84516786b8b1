"""Batch normalisation by the statistics of all processes that train together."""

from __future__ import annotations

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from coranet.ops.losses import over_processes


class SynchronisedNorm(_BatchNorm):
    """A batch norm whose mean and variance are those of every process's images, as if one process had seen them all."""

    def forward(self, x: Tensor) -> Tensor:
        """`(B, C, *S)` to the same."""
        if not self.training:
            return super().forward(x)
        size = distributed.get_world_size()
        axes, ones = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
        values = x.float()
        mean = over_processes(values.mean(dim=axes)) / size
        away = values - mean.view(ones)
        variance = over_processes(away.square().mean(dim=axes)) / size
        self._remember(mean.detach(), variance.detach(), size * x.numel() // x.shape[1])
        scaled = away * torch.rsqrt(variance + self.eps).view(ones)
        return (scaled * self.weight.view(ones) + self.bias.view(ones)).to(x.dtype)

    def _remember(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics, the variance as one of a sample."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance * (count / max(count - 1, 1)), self.momentum)
        self.num_batches_tracked.add_(1)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of axes will do."""


def synchronise(net: nn.Module) -> None:
    """Put synchronised norms in the place of a network's batch norms, with their very parameters and statistics."""
    for parent in list(net.modules()):
        for name, norm in list(parent.named_children()):
            if isinstance(norm, _BatchNorm) and not isinstance(norm, SynchronisedNorm):
                setattr(parent, name, _synchronised(norm))


def _synchronised(norm: _BatchNorm) -> SynchronisedNorm:
    made = SynchronisedNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    made.weight, made.bias = norm.weight, norm.bias
    made.running_mean, made.running_var = norm.running_mean, norm.running_var
    made.num_batches_tracked = norm.num_batches_tracked
    return made.train(norm.training)
