"""`coranet prepare`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coranet.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coranet.data.datasets.folder import Dataset
    from coranet.data.prepare.preparation import Preparation
    from coranet.data.prepare.store_builder import Told
    from coranet.data.store import Store

_BY_PRESET = "(default: the preset's)"
_BY_FACTS = ("auto", "paper")
"""Presets that look at the scans before they say how these are prepared."""

_SHOWN = 3
"""Warnings that are shown; the others are counted."""

Kind = Literal["zscore", "window", "minmax", "percentile", "none"]


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Bring scans of any format to one form, once: a store of three files that is copied and trained on anywhere.

    Axes are right, front and up; `None` leaves one as it is. STORE records how each scan lies in it, so that predictions go
    back to the scan's own grid. A command that was stopped goes on where it was when it is given again.
    """

    raw: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RAW")]
    """The folder with the scans."""
    out: Annotated[Path, tyro.conf.arg(metavar="STORE")]
    """The folder to make."""
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "folder"
    """What RAW holds: folder (nnU-Net's layout), acdc, left_atrium, pancreas_ct, endocardium, sunnybrook, msd or h5."""
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "auto"
    """auto and paper prepare as `coranet train` does; pancreas-a, pancreas-b, pancreas-2d, pancreas-2d-organ, acdc and
    endocardium are recipes of published numbers. What is given beside it is changed."""
    dims: Annotated[
        Literal[2, 3] | None, tyro.conf.arg(metavar="{2,3}", help_behavior_hint="(default: chosen from the data)")
    ] = None
    """For training on slices or on volumes, where the preset asks."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each core)")] = None
    """Cases that are prepared at a time. The store is the same for any N."""
    allow_gaps: bool = False
    """Fill slices that are missing from a DICOM series from their neighbours."""
    intensity: Annotated[
        tuple[Kind, ...] | None,
        tyro.conf.arg(metavar="{zscore,window,minmax,percentile,none}", help_behavior_hint=_BY_PRESET),
    ] = None
    """Grey levels: mean 0 and deviation 1 (zscore), a fixed window to -1..1, lowest to highest (minmax) or 0.5th to 99.5th
    percentile to 0..1, or none. One for all channels, or one for each."""
    window: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LOW HIGH", help_behavior_hint=_BY_PRESET)] = (
        None
    )
    """The grey levels of --intensity window, in Hounsfield units for CT."""
    clip: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LOW HIGH", help_behavior_hint=_BY_PRESET)] = None
    """Cut grey levels off at these before anything else."""
    statistics: Annotated[
        Literal["scan", "nonzero", "foreground", "crop"] | None,
        tyro.conf.arg(metavar="{scan,nonzero,foreground,crop}", help_behavior_hint=_BY_PRESET),
    ] = None
    """The voxels that mean, deviation, extremes and percentiles are taken of."""
    spacing: Annotated[
        tuple[float | None, float | None, float | None] | None,
        tyro.conf.arg(metavar="X Y Z", help_behavior_hint=_BY_PRESET),
    ] = None
    """Millimetres between voxels to resample to, such as 1 1 None."""
    slice_spacing: Annotated[
        Literal["stated", "in_plane"] | None, tyro.conf.arg(metavar="{stated,in_plane}", help_behavior_hint=_BY_PRESET)
    ] = None
    """in_plane takes the spacing between slices for that within one, as the released code of CoraNet does."""
    interpolation: Annotated[
        Literal["spline", "linear"] | None, tyro.conf.arg(metavar="{spline,linear}", help_behavior_hint=_BY_PRESET)
    ] = None
    """How images are resampled."""
    crop: Annotated[
        Literal["none", "foreground", "box", "label"] | None,
        tyro.conf.arg(metavar="{none,foreground,box,label}", help_behavior_hint=_BY_PRESET),
    ] = None
    """What is kept: all, the body, --crop-box, or the box of the ground truth, which nobody has of a new scan."""
    crop_box: Annotated[
        tuple[int, int, int, int, int, int] | None,
        tyro.conf.arg(metavar="X0 X1 Y0 Y1 Z0 Z1", help_behavior_hint="(with --crop box)"),
    ] = None
    """Voxels after resampling, from the first to before the last."""
    crop_margin: Annotated[
        tuple[int | None, int | None, int | None] | None,
        tyro.conf.arg(metavar="X Y Z", help_behavior_hint=_BY_PRESET),
    ] = None
    """Voxels kept around the body or the ground truth; None keeps the whole axis."""
    crop_least: Annotated[
        tuple[int, int, int] | None, tyro.conf.arg(metavar="X Y Z", help_behavior_hint=_BY_PRESET)
    ] = None
    """Voxels that a crop keeps at least."""
    crop_label_for_all: bool = False
    """Let --crop label look at the labels of test cases too."""
    size: Annotated[
        tuple[int | None, int | None, int | None] | None,
        tyro.conf.arg(metavar="X Y Z", help_behavior_hint=_BY_PRESET),
    ] = None
    """Voxels along each axis, after resampling and cropping."""
    fit: Annotated[
        Literal["resize", "crop"] | None, tyro.conf.arg(metavar="{resize,crop}", help_behavior_hint=_BY_PRESET)
    ] = None
    """How a scan gets that size: stretched, or cropped and padded about its centre."""

    def __call__(self) -> int:
        """Prepare."""
        import time

        from coranet.cli.show import counting, output, say
        from coranet.data.prepare.store_builder import build_store, cores
        from coranet.data.store import Store

        _check_free(self.out)
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"--jobs {self.jobs}: give 1 or more.")
        began = time.monotonic()
        with counting() as on_progress:
            dataset, settings = self._plan(lambda done, total: on_progress("checking", done, total))
            say(f"{len(dataset.cases)} cases of {dataset.name}. {in_words(settings)}.")
            jobs = min(self.jobs or cores(), len(dataset.cases))
            try:
                told = build_store(
                    dataset,
                    dataset.cases,
                    settings,
                    self.out,
                    lambda done, total: on_progress("preparing", done, total),
                    jobs,
                )
            except KeyboardInterrupt:
                say("What is prepared is kept: the same command goes on from there.")
                raise
        for line in summary(Store.open(self.out), told, time.monotonic() - began):
            output.print(line, markup=False)
        say(f"Prepared: {self.out}. Next: coranet train {self.out} --out RUN")
        return 0

    def _plan(self, on_progress: Callable[[int, int], None]) -> tuple[Dataset, Preparation]:
        """What is prepared, and how."""
        from coranet.data.prepare.recipes import PREPARATIONS
        from coranet.data.prepare.store_builder import allow_gaps
        from coranet.data.store import Store

        if Store.is_store(self.raw):
            raise InputError(f"{self.raw}: is a prepared store already. Give the folder with the scans.")
        if self.preset not in (*_BY_FACTS, *PREPARATIONS):
            known = ", ".join((*_BY_FACTS, *PREPARATIONS))
            raise InputError(f"--preset {self.preset}: no such preset. There are {known}.")
        if self.preset in _BY_FACTS:
            dataset, settings = self._by_facts(on_progress)
        else:
            dataset, settings = self._surveyed(), PREPARATIONS[self.preset]
        return allow_gaps(dataset) if self.allow_gaps else dataset, self._changed(settings)

    def _surveyed(self) -> Dataset:
        """As the names of files have it; what is odd about them is said."""
        from coranet.cli.show import say
        from coranet.data.datasets import survey_dataset
        from coranet.data.datasets.folder import refuse

        dataset, problems = survey_dataset(self.raw, self.dataset)
        refuse(problems, f"; `coranet doctor {self.raw} --dataset {self.dataset}` lists them")
        for problem in problems[:_SHOWN]:
            say(str(problem))
        assert dataset is not None
        return dataset

    def _by_facts(self, on_progress: Callable[[int, int], None]) -> tuple[Dataset, Preparation]:
        """As `coranet train` would, once every scan was looked at."""
        from coranet.cli.show import say
        from coranet.data.doctor.inspection import inspect_folder
        from coranet.runs.presets import choose_dims, find_preset

        report = inspect_folder(self.raw, on_progress, dataset=self.dataset)
        stops = [problem for problem in report.problems if problem.level == "fatal"]
        if self.allow_gaps:
            stops = [problem for problem in stops if "--allow-gaps" not in problem.remedy]
        if stops or report.dataset is None or report.facts is None:
            lines = "\n".join(f"  {problem}" for problem in stops)
            raise InputError(f"{self.raw}: cannot be prepared as it is:\n{lines}")
        if report.problems:
            also = "" if self.dataset == "folder" else f" --dataset {self.dataset}"
            say(f"Warnings about these scans: {len(report.problems)}. `coranet doctor {self.raw}{also}` lists them.")
        facts = report.facts
        dims = self.dims or choose_dims(facts.shapes.median, facts.spacings.median)
        return report.dataset, find_preset(self.preset).prepare(facts, report.dataset.channels, dims)

    def _changed(self, settings: Preparation) -> Preparation:
        """The settings with what was given on the command line."""
        given = {
            field.name: value
            for field in fields(settings)
            if field.name not in ("intensity", "crop_box")
            and (value := getattr(self, field.name, None)) not in (None, False)
        }
        if self.crop not in (None, "box"):
            given["crop_box"] = (None, None, None)
        if self.crop_box is not None:
            x0, x1, y0, y1, z0, z1 = self.crop_box
            given |= {"crop": "box", "crop_box": ((x0, x1), (y0, y1), (z0, z1))}
        if self.intensity:
            given |= {"intensity": self.intensity[0], "intensities": self.intensity[1:] and self.intensity}
        return replace(settings, **given)


def _check_free(out: Path) -> None:
    from coranet.data.store import Store

    if Store.is_store(out):
        raise InputError(f"{out}: is a prepared store already. Delete it, or choose another --out.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: is there already, and is no store. Choose another --out.")


def in_words(settings: Preparation) -> str:
    """What is done to a scan, in one sentence."""
    kinds = " and ".join(settings.intensities or (settings.intensity,))
    words = [f"Grey levels by {kinds}"]
    if "window" in kinds:
        words[0] += f" ({settings.window[0]:g} to {settings.window[1]:g})"
    if settings.clip:
        words[0] += f", clipped to {settings.clip[0]:g} to {settings.clip[1]:g}"
    if any(settings.spacing):
        words.append(f"resampled to {_axes(settings.spacing)} mm by {settings.interpolation}")
    if settings.slice_spacing == "in_plane":
        words.append("the spacing of slices taken for that within one")
    if settings.crop == "label":
        words.append("cropped to the ground truth, which nobody has of a new scan")
    elif settings.crop != "none":
        words.append(f"cropped to {'the body' if settings.crop == 'foreground' else 'the given box'}")
    if any(settings.size):
        how = "stretched" if settings.fit == "resize" else "cropped and padded"
        words.append(f"{how} to {_axes(settings.size)} voxels")
    return "; ".join(words)


def _axes(values: tuple[float | None, ...]) -> str:
    """With a star for an axis that is left as it is."""
    return " x ".join("*" if value is None else f"{value:g}" for value in values)


def summary(store: Store, told: list[Told], seconds: float) -> list[str]:
    """What was made, what it took, and what was lost on the way."""
    from statistics import mean, median

    from coranet.cli.show import duration

    cases = list(store.cases.values())
    labelled, test = sum(case.labelled for case in cases), sum(case.part == "Ts" for case in cases)
    sizes = [[case.shape[axis] for case in cases] for axis in (1, 2, 3)]
    size, least, most = (" x ".join(f"{of(axis):g}" for axis in sizes) for of in (median, min, max))
    stored = sum(file.stat().st_size for file in store.path.iterdir())
    again = sum(case.resumed for case in told)
    lines = [
        f"cases     {len(cases)}, {labelled} of them labelled, {test} for test"
        + (f"; {again} were prepared before" if again else ""),
        f"size      {size} voxels ({least} to {most}){f', {store.channels} channels' if store.channels > 1 else ''}",
        f"store     {stored / 1e6:,.0f} MB, fingerprint {store.fingerprint}",
        f"took      {duration(seconds)}, {len(cases) / seconds:.2g} cases a second",
    ]
    lost = [(share, case.case, name) for case in told for name, share in case.kept.items()]
    if lost:
        share, case, name = min(lost)
        lines.append(
            f"labels    do not come back whole from this grid: Dice {mean(share for share, *_ in lost):.4f} on average of "
            f"{len({case for _, case, _ in lost})} cases, {share:.4f} at worst ({case}, {name})"
        )
    warnings = [warning for case in told for warning in case.warnings]
    lines += [f"WARNING   {warning}" for warning in warnings[:_SHOWN]]
    if len(warnings) > _SHOWN:
        lines.append(f"          and {len(warnings) - _SHOWN} more; `coranet doctor` lists them")
    return lines
