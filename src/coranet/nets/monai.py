"""Any network of MONAI (Cardoso et al., 2022) by name, as a body: its output is the feature that our heads sit on.

MONAI is imported when such a network is made, and only then.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from coranet.errors import InputError, suggest
from coranet.nets.body import Body
from coranet.nets.layers import Norm, Upsampling, make_heads

Arguments = dict[str, Any]


def _doubling(width: int, levels: int) -> list[int]:
    return [width * 2**level for level in range(levels + 1)]


def _unet(width: int, levels: int) -> Arguments:
    return {"channels": _doubling(width, levels), "strides": [2] * levels}


def _dynunet(width: int, levels: int) -> Arguments:
    return {
        "filters": _doubling(width, levels),
        "kernel_size": [3] * (levels + 1),
        "strides": [1] + [2] * levels,
        "upsample_kernel_size": [2] * levels,
    }


def _segresnet_ds(width: int, levels: int) -> Arguments:
    # MONAI's own 1, 2, 2, 4 blocks where there are three levels.
    return {"init_filters": width, "blocks_down": ([1, 2, 2] + [4] * levels)[: levels + 1]}


def _segresnet(width: int, levels: int) -> Arguments:
    return {**_segresnet_ds(width, levels), "blocks_up": [1] * levels}


BY_LEVELS: dict[str, Callable[[int, int], Arguments]] = {
    "AttentionUnet": _unet,
    "DynUNet": _dynunet,
    "SegResNet": _segresnet,
    "SegResNetDS": _segresnet_ds,
    "SegResNetDS2": _segresnet_ds,
    "UNet": _unet,
}
"""What width and levels mean to a constructor. Every level halves every axis once."""

BY_WIDTH: dict[str, Callable[[int], Arguments]] = {
    "BasicUNet": lambda width: {"features": [*_doubling(width, 4), width]},
    "BasicUNetPlusPlus": lambda width: {"features": [*_doubling(width, 4), width]},
    "MedNeXt": lambda width: {"init_filters": width},
    "SwinUNETR": lambda width: {"feature_size": max(width // 12, 1) * 12},
}
"""What width means to networks that have their own levels. Swin UNETR takes multiples of 12."""

OWN_LEVELS = 4
"""The only `levels` that networks outside BY_LEVELS take, so that none which was chosen is passed over."""
OWN_MULTIPLE = 32
"""Five halvings: as many as the networks of MONAI have by themselves."""


def multiple_of(name: str, levels: int, options: Mapping[str, Any]) -> int:
    """What every axis of an image must be a multiple of; OWN_MULTIPLE where levels do not decide it alone."""
    decided = name in BY_LEVELS and not set(options) & set(BY_LEVELS[name](1, levels))
    return 2**levels if decided else OWN_MULTIPLE


class MonaiBody(Body):
    """A network of `monai.networks.nets` that maps an image to `width` channels of its size, and our heads on them.

    It is the network as MONAI makes it, with its own norm, but for what BY_LEVELS and BY_WIDTH say; `options` win over
    all. Of several outputs (deep supervision) the first is the feature.
    """

    def __init__(
        self,
        name: str,
        *,
        dims: int,
        channels: int,
        heads: Mapping[str, int],
        width: int = 64,
        levels: int = 4,
        norm: Norm = "batch",
        head_convolutions: int = 2,
        decoders: Mapping[str, Upsampling] | None = None,
        dropout_rate: float = 0.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if decoders or dropout_rate:
            what = "more than one decoder" if decoders else "dropout by rate"
            raise InputError(
                f"monai:{name} has not {what}, which this method or estimator needs. Use one of our own bodies."
            )
        options = options or {}
        self.name, self.widths, self.decoders = name, (width,), nn.ModuleDict()
        self.multiple = multiple_of(name, levels, options)
        constructor = _find(name)
        given = {**_fill(constructor, dims, channels, width), **_known(name, width, levels), **options}
        try:
            self.network = _build(name, constructor, given)
            self._check(dims, channels, options)
        except ImportError as error:
            raise InputError(
                f"monai:{name} needs a package that is not installed ({_one_line(error)}). Install it with pip."
            ) from error
        self.heads = make_heads(dims, width, heads, norm, head_convolutions)

    def encode(self, image: Tensor) -> list[Tensor]:
        """The network's (first) output, its only level."""
        out = self.network(image)
        feature: Tensor = out[0] if isinstance(out, list | tuple) else out
        expected = (len(image), *self.widths, *image.shape[2:])
        if feature.shape != expected:
            raise InputError(
                f"monai:{self.name} makes {tuple(feature.shape)} of an image of {tuple(image.shape)}; a body gives "
                f"{expected}. Choose another network, or change net.options."
            )
        return [feature]

    def decode(self, levels: list[Tensor], decoder: str = "main") -> list[Tensor]:
        """The level as it is."""
        return levels

    def _check(self, dims: int, channels: int, options: Mapping[str, Any]) -> None:
        """A pass of shapes alone, which costs no time, so that a network that is no body is refused before training."""
        size = options.get("img_size", options.get("input_image_size", max(128, 2 * self.multiple)))
        sizes = [size] * dims if isinstance(size, int) else size
        try:
            copy.deepcopy(self).to("meta").encode(torch.empty(2, channels, *sizes, device="meta"))
        except (InputError, ImportError):
            raise
        except NotImplementedError:  # an operation that has no shapes-only form; the first real pass is checked too
            return
        except Exception as error:
            raise InputError(
                f"monai:{self.name} takes no {dims}D image of {channels} channels and size {list(sizes)} "
                f"({_one_line(error)}). Choose another network, or change net.options."
            ) from error


def _find(name: str) -> Callable[..., nn.Module]:
    try:
        nets = vars(importlib.import_module("monai.networks.nets"))
    except ImportError as error:
        raise InputError(f"Network monai:{name} needs MONAI: pip install 'coranet[monai]'.") from error
    # Under its own name alone: MONAI has each class under several spellings.
    constructors = {
        key: value
        for key, value in nets.items()
        if inspect.isclass(value) and issubclass(value, nn.Module) and value.__name__ == key
        if {"in_channels", "out_channels"} <= _parameters(value)
    }
    if name not in constructors:
        ready = sorted(key for key, value in constructors.items() if not _missing(value, _known(key, 1, OWN_LEVELS)))
        raise InputError(
            f"MONAI has no network called {name!r} that takes in_channels and out_channels. {suggest(name, ready)}"
        )
    return constructors[name]


def _known(name: str, width: int, levels: int) -> Arguments:
    if name in BY_LEVELS:
        return BY_LEVELS[name](width, levels)
    if levels != OWN_LEVELS:
        raise InputError(f"monai:{name} has its own levels: leave net.levels at {OWN_LEVELS}, and use net.options.")
    return BY_WIDTH[name](width) if name in BY_WIDTH else {}


def _fill(constructor: Callable[..., nn.Module], dims: int, channels: int, width: int) -> Arguments:
    every = {"spatial_dims": dims, "dimensions": dims, "in_channels": channels, "out_channels": width}
    return {name: value for name, value in every.items() if name in _parameters(constructor)}


def _build(name: str, constructor: Callable[..., nn.Module], given: Arguments) -> nn.Module:
    missing = _missing(constructor, given)
    if missing:
        raise InputError(f"monai:{name} needs {', '.join(missing)}: give them in net.options.")
    try:
        with torch.device("cpu"):  # some constructors read values back, which those on the meta device cannot give
            network = constructor(**given)
    except (ImportError, InputError):
        raise
    except Exception as error:  # whatever another package raises, the choice that led there was the user's
        raise InputError(
            f"monai:{name} refuses {given} ({_one_line(error)}). Change net.width, net.levels or net.options."
        ) from error
    return network.to(torch.get_default_device())


def _parameters(constructor: Callable[..., nn.Module]) -> set[str]:
    return set(inspect.signature(constructor).parameters)


def _missing(constructor: Callable[..., nn.Module], given: Arguments) -> list[str]:
    """Arguments that have neither a default nor a value."""
    filled = {"spatial_dims", "dimensions", "in_channels", "out_channels"} | set(given)
    return [
        name
        for name, parameter in inspect.signature(constructor).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name not in filled
    ]


def _one_line(error: Exception) -> str:
    """Its first line: some bring a traceback along."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first.rstrip('.')}"
