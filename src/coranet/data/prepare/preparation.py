"""How scans are brought to one form: settings, checked when made and written down with the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coranet.errors import InputError

Intensity = Literal["zscore", "window", "minmax", "percentile", "none"]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How scans are brought to one form. Axes are right, front and up; None leaves an axis as it is."""

    intensity: Intensity = "zscore"
    """Grey levels of a scan: mean 0 and deviation 1, a fixed window to -1..1, lowest to highest or the 0.5th to the
    99.5th percentile to 0..1, or as they are."""
    intensities: tuple[Intensity, ...] = ()
    """One for each channel, where they are of different kinds, such as CT and PET; empty takes `intensity` for all."""
    window: tuple[float, float] = (-125.0, 275.0)
    """The grey levels that `intensity=window` keeps, in the scan's units."""
    clip: tuple[float, float] | None = None
    """Grey levels are cut off at these, in the scan's units, before anything else is done to them."""
    statistics: Literal["scan", "nonzero", "foreground", "crop"] = "scan"
    """Which voxels mean, deviation, percentiles and extremes are taken of: all, those that are not zero, those that are
    brighter than a threshold found for the scan (Otsu's), or those that are kept of it."""
    spacing: tuple[float | None, float | None, float | None] = (None, None, None)
    """Millimetres between voxels to resample to; the field of view is kept, so a scan may come out slightly off."""
    slice_spacing: Literal["stated", "in_plane"] = "stated"
    """What is taken for the millimetres between slices (up): what the file says, or, as the released code of CoraNet does,
    the spacing within a slice (right)."""
    interpolation: Literal["spline", "linear"] = "spline"
    """How images are resampled; labels are always put to the vote of their classes."""
    crop: Literal["none", "foreground", "box", "label"] = "none"
    """What is kept of a resampled scan: all; the box of what is brighter than a threshold found for the scan; a given
    box; the box of the ground truth, which nobody has of a new scan."""
    crop_box: tuple[tuple[int, int] | None, tuple[int, int] | None, tuple[int, int] | None] = (None, None, None)
    """The voxels of `crop=box` after resampling, from the first to before the last; what lies outside the scan is padded."""
    crop_margin: tuple[int | None, int | None, int | None] = (0, 0, 0)
    """Voxels kept around what is found, after resampling; None keeps the whole axis."""
    crop_least: tuple[int, int, int] = (1, 1, 1)
    """Voxels that are kept at least, where the scan has them."""
    crop_label_for_all: bool = False
    """Whether `crop=label` may also look at labels of test cases."""
    size: tuple[int | None, int | None, int | None] = (None, None, None)
    """Voxels along each axis, after resampling and cropping."""
    fit: Literal["resize", "crop"] = "crop"
    """How a scan gets that size: stretched, or cropped and padded about its centre."""

    def __post_init__(self) -> None:
        if any(value is not None and not value > 0 for value in (*self.spacing, *self.size, *self.crop_least)):
            raise InputError(
                f"spacing {self.spacing}, size {self.size} and least {self.crop_least} must be positive, or None to "
                "leave an axis"
            )
        for name, pair in (("window", self.window), ("clip", self.clip)):
            if pair is not None and not pair[0] < pair[1]:
                raise InputError(f"{name} {pair} is empty: give the lower grey level first")
        if any(margin is not None and margin < 0 for margin in self.crop_margin):
            raise InputError(f"crop margin {self.crop_margin} must not be negative; give None to keep a whole axis")
        if any(pair is not None and not pair[0] < pair[1] for pair in self.crop_box):
            raise InputError(f"crop box {self.crop_box} is empty: give the first voxel, then the one after the last")
        if (self.crop == "box") != any(self.crop_box):
            raise InputError("crop=box and a crop box go together: give both or neither")

    def intensity_of(self, channel: int) -> Intensity:
        """How the grey levels of one channel are treated."""
        if not self.intensities:
            return self.intensity
        if channel >= len(self.intensities):
            raise InputError(f"intensities {self.intensities} are fewer than the channels: give one for each")
        return self.intensities[channel]
