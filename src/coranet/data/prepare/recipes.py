"""Recipes: preparations that published numbers rest on, by name.

Where a recipe crops to the ground truth it does so for every case, test cases too, as those who report with it do. Nobody
can do that to a new scan: use these to compare, and nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from coranet.data.prepare.preparation import Preparation
from coranet.errors import InputError, suggest

_PANCREAS_2D = Preparation(intensity="window", window=(-100.0, 240.0), size=(240, 192, None), fit="crop")
_PANCREAS_3D = replace(
    _PANCREAS_2D, size=(None, None, None), spacing=(1.0, 1.0, 1.0), crop="foreground", crop_least=(96, 96, 96)
)
_SLICES = Preparation(intensity="minmax", size=(256, 256, None), fit="resize")

RECIPES: dict[str, Preparation] = {
    "pancreas-2d": _PANCREAS_2D,
    "pancreas-2d-organ": replace(_PANCREAS_2D, crop="label", crop_margin=(None, None, 0), crop_label_for_all=True),
    "pancreas-3d": _PANCREAS_3D,
    "pancreas-a": Preparation(
        clip=(-125.0, 275.0),
        intensity="minmax",
        spacing=(1.0, 1.0, 1.0),
        slice_spacing="in_plane",
        crop="label",
        crop_margin=(25, 25, 25),
        crop_least=(96, 96, 96),
        crop_label_for_all=True,
    ),
    "pancreas-b": Preparation(
        clip=(-125.0, 275.0),
        intensity="zscore",
        statistics="crop",
        spacing=(1.0, 1.0, 1.0),
        crop="label",
        crop_margin=(25, 25, None),
        crop_least=(146, 146, 1),
        crop_label_for_all=True,
    ),
    "acdc": _SLICES,
    "endocardium": _SLICES,
}
"""What each is, and what is not as its authors have it:

- `pancreas-2d`: the CoraNet paper on slices: -100 to 240 HU, slices of 192 x 240 pixels. Not stated: where they are cut out;
  here about the centre. `pancreas-2d-organ` keeps the slices from the first to the last with pancreas in it.
- `pancreas-3d`: the CoraNet paper on volumes, without the truth: -100 to 240 HU, 1 mm (the released code's; the text has
  none), the body.
- `pancreas-a`: the released code of CoraNet, and BCP: 1 mm, the distance of slices taken for that of pixels, the organ's
  box and 25 voxels around it. `slice_spacing="stated"` takes the true distance.
- `pancreas-b`: MC-Net and DTC: 1 mm, the organ's box and 25 voxels in a slice, all slices; mean and deviation of what is
  kept.
- `acdc`, `endocardium`: the CoraNet paper: slices of 256 x 256 pixels, lowest to highest grey level to 0..1.
"""


def find_recipe(name: str) -> Preparation:
    """The recipe of that name.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    if name not in RECIPES:
        raise InputError(f"{name}: no such recipe. {suggest(name, RECIPES)}")
    return RECIPES[name]
