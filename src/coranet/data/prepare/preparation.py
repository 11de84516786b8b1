"""How scans are brought to one form: settings, checked when made and written down with the store.

Nothing heavy is imported here, so that help is shown at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from coranet.errors import InputError
from coranet.flags import Flag

Intensity = Literal["zscore", "window", "minmax", "percentile", "none"]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How scans are brought to one form. Axes are right, front and up; None leaves an axis as it is."""

    intensity: Annotated[Intensity, Flag()] = "zscore"
    """Grey levels: mean 0 and deviation 1 (zscore), a fixed window to -1..1, lowest to highest (minmax) or 0.5th to 99.5th
    percentile to 0..1, or as they are (none)."""
    intensities: tuple[Intensity, ...] = ()
    """One for each channel, where these are of different kinds, such as CT and PET; empty takes `intensity` for all."""
    window: Annotated[tuple[float, float], Flag("LOW HIGH")] = (-125.0, 275.0)
    """The grey levels of `intensity=window`, in the scan's units: Hounsfield units for CT."""
    clip: Annotated[tuple[float, float] | None, Flag("LOW HIGH")] = None
    """Cut grey levels off at these, in the scan's units, before anything else is done to them."""
    statistics: Annotated[Literal["scan", "nonzero", "foreground", "crop"], Flag()] = "scan"
    """The voxels that mean, deviation, percentiles and extremes are taken of: all, those that are not zero, those brighter
    than a threshold found for the scan (Otsu's), or those that a crop keeps."""
    spacing: Annotated[tuple[float | None, float | None, float | None], Flag("X Y Z")] = (None, None, None)
    """Millimetres between voxels to resample to, such as 1 1 None. The field of view is kept, so that a spacing may come
    out slightly off."""
    slice_spacing: Annotated[Literal["stated", "in_plane"], Flag()] = "stated"
    """What is taken for the millimetres between slices (up): what the file says or, as the released code of CoraNet does,
    the spacing within a slice (right)."""
    interpolation: Annotated[Literal["spline", "linear"], Flag()] = "spline"
    """How images are resampled. Labels are always put to the vote of their classes."""
    crop: Annotated[Literal["none", "foreground", "box", "label"], Flag()] = "none"
    """What is kept of a resampled scan: all; the box of what is brighter than a threshold found for the scan; a given
    box; the box of the ground truth, which nobody has of a new scan."""
    crop_box: Annotated[
        tuple[tuple[int, int] | None, tuple[int, int] | None, tuple[int, int] | None], Flag("X0 X1 Y0 Y1 Z0 Z1")
    ] = (None, None, None)
    """The box of `crop=box`, in voxels after resampling, from the first to before the last. What lies outside the
    scan is padded."""
    crop_margin: Annotated[tuple[int | None, int | None, int | None], Flag("X Y Z")] = (0, 0, 0)
    """Voxels kept around the foreground or the ground truth, after resampling; None keeps the whole axis."""
    crop_least: Annotated[tuple[int, int, int], Flag("X Y Z")] = (1, 1, 1)
    """Voxels that a crop keeps at least, where the scan has them."""
    crop_label_for_all: bool = False
    """Let a crop to the ground truth look at the labels of test cases too."""
    size: Annotated[tuple[int | None, int | None, int | None], Flag("X Y Z")] = (None, None, None)
    """Voxels along each axis, after resampling and cropping."""
    fit: Annotated[Literal["resize", "crop"], Flag()] = "crop"
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
