"""Blocks of a network in fewer passes than their layers one by one: by kernels on a GPU, by plain operations elsewhere.

The bias of a convolution before a norm is left out: statistics of the batch take it away again, so that it has no gradient,
and only the running mean has to know of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from coranet import kernels
from coranet.nets.synchronised import SynchronisedNorm


class Fusable(nn.Sequential):
    """Layers that a GPU may compute as a whole."""

    fused: bool = False

    def one_by_one(self, x: Tensor) -> Tensor:
        """As they are."""
        for layer in self.children():
            x = layer(x)
        return x


def fuse(net: nn.Module) -> None:
    """Let a network's blocks be computed as wholes from now on."""
    for module in net.modules():
        if isinstance(module, Fusable):
            module.fused = True


def norm_relu(norm: _NormBase, x: Tensor, offset: Tensor | None = None) -> Tensor:
    """Norm and ReLU of `x + offset`."""
    if not (kernels.available() and _norm_fits(x)) or isinstance(norm, SynchronisedNorm):
        return F.relu_(norm(x if offset is None else x + offset.view(1, -1, *[1] * (x.ndim - 2)).to(x.dtype)))
    from coranet.kernels import norm as kernel

    moves = norm.training and norm.track_running_stats
    learning = norm.training or norm.running_mean is None
    if moves and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    known = norm.running_mean is not None and norm.running_var is not None and (moves or not learning)
    assert norm.momentum is not None
    return kernel.norm_relu(
        x,
        norm.weight,
        norm.bias,
        (norm.running_mean, norm.running_var) if known else None,  # type: ignore[arg-type]
        offset,
        each=isinstance(norm, _InstanceNorm),
        learning=learning,
        momentum=norm.momentum,
        eps=norm.eps,
    )


def conv_norm_relu(conv: _ConvNd, norm: _NormBase, x: Tensor) -> Tensor:
    """A convolution with its norm and ReLU."""
    if not (norm.training or torch.is_grad_enabled() or norm.running_mean is None or kernels.available()):
        return F.relu_(_folded(conv, norm, x))
    return norm_relu(norm, _without_bias(conv, x), conv.bias)


def readout(layer: _ConvNd, x: Tensor) -> Tensor:
    """A convolution of width 1 to a few outputs."""
    if kernels.available():
        from coranet.kernels import readout as kernel

        if layer.bias is not None and kernel.fits(x, layer.weight):
            return kernel.readout(x, layer.weight, layer.bias)
    logits: Tensor = layer(x)
    return logits


def max_pool(layer: nn.Module, x: Tensor) -> Tensor:
    """Max pooling of width 2."""
    if kernels.available():
        from coranet.kernels import pool as kernel

        if kernel.fits(x):
            return kernel.max_pool(x)
    pooled: Tensor = layer(x)
    return pooled


def join(skip: Tensor, conv: _ConvNd, x: Tensor) -> Tensor:
    """The channels of `skip`, then those of a transposed convolution of x."""
    if kernels.available() and conv.bias is not None and skip.dtype == _in_precision(x).dtype:
        from coranet.kernels import join as kernel

        if kernel.fits(skip, conv.out_channels):
            return kernel.join(skip, _without_bias(conv, x), conv.bias)
    return torch.cat([skip, conv(x)], dim=1)


def conv_together(convolutions: Sequence[_ConvNd], x: Tensor) -> Sequence[Tensor] | None:
    """Several convolutions of one feature at once, without their biases; None where no kernel can."""
    if not kernels.available():
        return None
    from coranet.kernels import conv as kernel

    seen, weights = _in_precision(x), [one.weight for one in convolutions]
    if all(kernel.fits(seen, weight, len(weights)) and weight.shape[1] > 1 for weight in weights):
        return kernel.conv(seen, *weights)
    return None


def _folded(conv: _ConvNd, norm: _NormBase, x: Tensor) -> Tensor:
    """A convolution that does its norm's work too, by the running statistics."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    mean = norm.running_mean if conv.bias is None else norm.running_mean - conv.bias
    outputs = [1] * conv.weight.ndim
    outputs[1 if conv.transposed else 0] = -1
    return _convolve(conv, x, conv.weight * scale.view(outputs), norm.bias - mean * scale)


def _convolve(conv: _ConvNd, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A layer with other numbers."""
    assert not isinstance(conv.padding, str)
    if conv.transposed:
        up = F.conv_transpose2d if x.ndim == 4 else F.conv_transpose3d
        return up(x, weight, bias, conv.stride)
    plain = F.conv2d if x.ndim == 4 else F.conv3d
    return plain(x, weight, bias, conv.stride, conv.padding)


def _without_bias(conv: _ConvNd, x: Tensor) -> Tensor:
    if kernels.available() and not conv.transposed and conv.stride == (1, 1, 1):
        from coranet.kernels import conv as kernel

        seen = _in_precision(x)
        if kernel.fits(seen, conv.weight):
            return kernel.conv(seen, conv.weight)[0]
    if x.is_cuda and x.shape[1] == 1 and x.is_contiguous():
        # A single channel lies both ways; only its strides tell a library to answer with channels together.
        x = x.as_strided(x.shape, (x.stride(0), 1, *x.stride()[2:]))
    return _convolve(conv, x, conv.weight, None)


def _norm_fits(x: Tensor) -> bool:
    from coranet.kernels import norm as kernel

    return kernel.fits(x)


def _in_precision(x: Tensor) -> Tensor:
    """As a library's convolution would see it."""
    return x.to(torch.get_autocast_dtype("cuda")) if x.is_cuda and torch.is_autocast_enabled("cuda") else x
