"""`coranet prepare`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coranet.cli.compare import advice
from coranet.cli.terminal.parsing import FLAT, GIVEN, MaxGb
from coranet.cli.terminal.preparation_options import Changes
from coranet.cli.terminal.stopping import until_stopped
from coranet.data.budget import within_budget
from coranet.data.prepare.preparation import Preparation
from coranet.errors import InputError, suggest
from coranet.runs.cluster.cluster_options import ShardOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coranet.data.datasets.folder import Case, Dataset
    from coranet.data.prepare.choices import Choose
    from coranet.data.prepare.extents import Extents
    from coranet.data.prepare.store_builder import Remarks
    from coranet.data.problem import Problem
    from coranet.data.store import Store

_SHOWN = 3
"""Warnings that are shown; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class PrepareVerb:
    """Bring scans of any format to one form, once: a store of three files that is copied and trained on anywhere.

    Axes are right, front and up; `None` leaves one as it is. STORE records how each scan lies in it, so that predictions go
    back to the scan's own grid. A command that was stopped goes on where it was when it is given again.
    """

    raw: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RAW")]
    """The folder with the scans, or a text file (.txt) with the path of a scan of such a folder in each line."""
    out: Annotated[Path, tyro.conf.arg(metavar="STORE")]
    """The folder to make."""
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "folder"
    """What RAW holds: folder (nnU-Net's layout), acdc, left_atrium, pancreas_ct, endocardium, sunnybrook, msd or h5."""
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "auto"
    """auto, quick and paper prepare as `coranet train` does with these presets. The others are recipes of published numbers:
    pancreas-2d, pancreas-2d-organ, pancreas-3d, pancreas-a, pancreas-b, acdc, endocardium. What is given beside it is
    changed."""
    dims: Annotated[
        Literal[2, 3] | None, tyro.conf.arg(metavar="{2,3}", help_behavior_hint="(default: chosen from the data)")
    ] = None
    """For training on slices or on volumes, where the preset asks."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each core)")] = None
    """Cases that are prepared at a time. The store is the same for any N."""
    allow_gaps: bool = False
    """Fill slices that are missing from a DICOM series from their neighbours."""
    max_gb: MaxGb = None
    """Memory that one scan may take while it is read."""
    on: Annotated[ShardOptions, FLAT] = ShardOptions()
    changes: Annotated[Changes, FLAT]

    @within_budget
    def __call__(self) -> int:
        """Prepare."""
        again = ". What is prepared is kept: the same command goes on from there."
        return until_stopped(self._share if self.on.share else self._alone, advice(self.out, self.on, again))

    def _share(self) -> int:
        """Prepare one of several shares of the cases."""
        from coranet.cli.terminal.show import counting, say

        self._check()
        with counting() as on_progress:
            self._build(on_progress)
        say(f"Prepared shard {self.on.shard}. When all are done: the same command without --shard makes {self.out}")
        return 0

    def _alone(self) -> int:
        from coranet.cli.terminal.show import say
        from coranet.data.prepare.partial_store import unfinished
        from coranet.data.shards import Shard, refuse_others
        from coranet.locks import holding
        from coranet.runs.cluster.fleet import fleet

        if self.on.cluster is not None:
            self._check()
            shards = [Shard(number, self.on.shards) for number in range(1, self.on.shards + 1)]
            with fleet(self.out, self.on, GIVEN.get(), say) as tasks:
                if failed := tasks.attempt_shards(shards):
                    say(f"{failed} of {len(shards)} shards failed: coranet status {self.out} shows them.")
                    return 1
        refuse_others(unfinished(self.out), None, self.out)
        with holding(self.out.with_name(f".{self.out.name}.lock"), self.out):
            return self._prepare()

    def _prepare(self) -> int:
        import time

        from coranet.cli.terminal.show import counting, output, say
        from coranet.data.store import Store

        self._check()
        began = time.monotonic()
        with counting() as on_progress:
            told = self._build(on_progress)
        for line in summary(Store.open(self.out), told, time.monotonic() - began):
            output.print(line, markup=False)
        say(f"Prepared: {self.out}. Next: coranet train {self.out} --out RUN")
        return 0

    def _check(self) -> None:
        from coranet.data.store import Store

        _check_free(self.out)
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"--jobs {self.jobs}: give 1 or more.")
        if Store.is_store(self.raw):
            raise InputError(f"{self.raw}: is a prepared store already. Give the folder with the scans.")

    def _build(self, on_progress: Callable[[str, int, int], None]) -> list[Remarks]:
        """Prepare by what the scans are, or by a recipe."""
        from coranet.cli.terminal.show import say
        from coranet.data.prepare.choices import CHOICES
        from coranet.data.prepare.recipes import RECIPES
        from coranet.data.prepare.share import prepare_share
        from coranet.data.prepare.store_builder import allow_gaps, build_store, cores
        from coranet.data.prepare.workers import carry_out

        known = (*CHOICES, *RECIPES)
        if self.preset not in known:
            raise InputError(f"--preset {self.preset}: no such preset. {suggest(self.preset, known)}")
        jobs = self.jobs or cores()
        if self.preset in CHOICES:
            return self._by_scans(CHOICES[self.preset], jobs, say, on_progress)
        dataset, settings = self._surveyed(), replace(RECIPES[self.preset], **self.changes)
        dataset = allow_gaps(dataset) if self.allow_gaps else dataset
        self._begin(dataset, dataset.cases, settings)
        count = partial(on_progress, "preparing")
        if shard := self.on.share:
            prepare_share(dataset.cases, settings, self.out, shard, carry_out, count, jobs)
            return []
        return build_store(dataset, dataset.cases, settings, self.out, count, min(jobs, len(dataset.cases)))

    def _begin(self, dataset: Dataset, cases: Sequence[Case], settings: Preparation) -> Path:
        """Say what is done; the store's place."""
        from coranet.cli.terminal.show import say

        say(f"{len(cases)} cases of {dataset.name}. {in_words(settings)}.")
        return self.out

    def _by_scans(
        self, choose: Choose, jobs: int, say: Callable[[str], None], on_progress: Callable[[str, int, int], None]
    ) -> list[Remarks]:
        """As `coranet train` would, every scan looked at."""
        from coranet.data.doctor.intake import Intake, take_in
        from coranet.data.grid import choose_dims
        from coranet.data.prepare.store_builder import allow_gaps

        def prepare(extents: Extents, channels: Sequence[str]) -> Preparation:
            dims = self.dims or choose_dims(extents.shapes.median, extents.spacings.median)
            return replace(choose(extents, channels, dims), **self.changes)

        intake = Intake(
            root=self.raw,
            dataset=self.dataset,
            choose=lambda dataset: (allow_gaps(dataset) if self.allow_gaps else dataset).cases,
            prepare=prepare,
            place=self._begin,
            passes=partial(_passes, self.allow_gaps),
            shard=self.on.share,
            jobs=jobs,
            say=say,
            on_progress=on_progress,
        )
        return take_in(intake)[2]

    def _surveyed(self) -> Dataset:
        """As the names of files have it; what is odd about them is said."""
        from coranet.cli.terminal.show import say
        from coranet.data.datasets import survey_dataset
        from coranet.data.datasets.folder import refuse

        dataset, problems = survey_dataset(self.raw, self.dataset)
        refuse(problems, f"; `coranet doctor {self.raw} --dataset {self.dataset}` lists them")
        for problem in problems[:_SHOWN]:
            say(str(problem))
        assert dataset is not None
        return dataset


def _passes(gaps: bool, problem: Problem) -> bool:
    """What is wrong with scans and is passed over; a plain function, so that other processes can be told of it."""
    return problem.level == "warning" or (gaps and "--allow-gaps" in problem.remedy)


def _check_free(out: Path) -> None:
    from coranet.data.prepare.partial_store import is_made

    if is_made(out):
        raise InputError(f"{out}: is a prepared store already. Delete it, or choose another --out.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: is there already, and is no store. Choose another --out.")


def in_words(settings: Preparation) -> str:
    """What is done to a scan, in one sentence."""
    words = [_grey_levels(settings)]
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


def _grey_levels(settings: Preparation) -> str:
    kinds = " and ".join(settings.intensities or (settings.intensity,))
    window = f" ({settings.window[0]:g} to {settings.window[1]:g})" if "window" in kinds else ""
    clip = f", clipped to {settings.clip[0]:g} to {settings.clip[1]:g}" if settings.clip else ""
    return f"Grey levels by {kinds}{window}{clip}"


def _axes(values: tuple[float | None, ...]) -> str:
    """With a star for an axis that is left as it is."""
    return " x ".join("*" if value is None else f"{value:g}" for value in values)


def summary(store: Store, told: list[Remarks], seconds: float) -> list[str]:
    """What was made, what it took, and what was lost on the way."""
    from statistics import mean, median

    from coranet.cli.terminal.show import duration

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
