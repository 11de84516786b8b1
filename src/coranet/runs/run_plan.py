"""From scans and options to the run that they amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from coranet.data.datasets.corrections import Correction
from coranet.data.prepare.extents import Extents
from coranet.data.prepare.preparation import Preparation
from coranet.data.splits.by_patient import Split, split_by_labels
from coranet.data.store import Store
from coranet.engine.codec import override
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.methods import OwnFile, method_name, own_name, shipped_method
from coranet.methods.base import Method
from coranet.methods.one_vs_rest import OneVsRest
from coranet.nets import MakeNet
from coranet.runs.admission import (
    check_classes,
    check_hears,
    check_volumes,
    dims_asked,
    first_labels,
    minutes_asked,
)
from coranet.runs.corrected import asked_corrections, marks_of
from coranet.runs.inheritance import Heritage
from coranet.runs.opened_store import OnProgress, Say, open_store
from coranet.runs.options import Options, PresetName
from coranet.runs.presets import Preset, Scans, choose_dims, describe, find_preset, parameter_note, typical


def make_run(
    data: Path,
    options: Options,
    device: torch.device,
    processes: int = 1,
    *,
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> tuple[Run, Store]:
    """The run these options amount to, and the store it trains on.

    Where `made_with` has minutes, its steps are still to be measured (`engine.timing.pace`).
    """
    heritage = Heritage.of(options)
    plan = RunPlan(data, heritage.completed() if heritage else options, heritage, device, say)
    store, split, dims = plan.opened(on_progress)
    run = plan.checked(plan.as_asked(plan.by_preset(store, split, dims), processes))
    plan.announce(run)
    return run, store


@dataclass(frozen=True)
class RunPlan:
    """What is asked for, and what is taken where nothing is said."""

    data: Path
    options: Options
    heritage: Heritage | None
    device: torch.device
    say: Say

    @cached_property
    def chosen(self) -> PresetName:
        """The preset's name."""
        return self.options.preset or ("quick" if self.device.type == "cpu" else "auto")

    @cached_property
    def preset(self) -> Preset:
        """What it stands for."""
        return find_preset(self.chosen)

    @cached_property
    def minutes(self) -> float | None:
        """How long it may train, where steps are not counted."""
        return minutes_asked(self.options, self.preset, inherited=bool(self.heritage and not self.heritage.fresh))

    @cached_property
    def title(self) -> str:
        """The method's name, or its file and name."""
        return method_name(self.options.method or self.preset.method)

    @cached_property
    def own(self) -> OwnFile | None:
        """The file of a method of one's own."""
        return OwnFile.read(*named) if (named := own_name(self.title)) else None

    @cached_property
    def method(self) -> Method:
        """With its own defaults."""
        method = (self.own.load() if self.own else shipped_method(self.title))()
        if self.options.teacher is not None:
            check_hears(method, self.title)
        return method

    def opened(self, on_progress: OnProgress) -> tuple[Store, Split, int]:
        """The scans, which of them are used how, and whether as slices or as volumes."""
        options, heritage, _ = self.options, self.heritage, self.method  # a wrong method is refused first
        wanted = dims_asked(options, self.preset)
        split = Split.read(options.split) if options.split else None
        corrections = self.corrections
        if split is None and heritage and corrections:
            split = heritage.run.split
        store, patients = open_store(
            self.data,
            self._preparation(wanted),
            split,
            options.cache,
            corrections=corrections,
            max_gb=options.max_gb,
            say=self.say,
            on_progress=on_progress,
        )
        if split and corrections:
            split = _with_corrected(split, corrections, patients, self.say)
        dims = wanted or choose_dims(*typical(store))
        split = _split(store, patients, split, options, self.preset, dims, self.say)
        check_classes(store, split)
        if dims == 3:
            check_volumes(store, split)
        return store, split, dims

    @cached_property
    def corrections(self) -> dict[str, Correction]:
        """Labels by persons that it trains on."""
        return asked_corrections(self.options.labels, self.heritage.run if self.heritage else None)

    def _preparation(self, dims: int | None) -> Callable[[Extents, Sequence[str]], Preparation]:
        inherited = self.heritage.preparation if self.heritage else None

        def prepare(extents: Extents, channels: Sequence[str]) -> Preparation:
            usual = dims or choose_dims(extents.shapes.median, extents.spacings.median)
            return inherited or self.preset.prepare(extents, channels, usual)

        return prepare

    def by_preset(self, store: Store, split: Split, dims: int) -> Run:
        """As the preset has it, or the run whose weights this one starts from."""
        method, options = self.method, self.options
        if partial := store.partial.intersection(split.labelled):
            self.say(f"{len(partial)} labelled cases are drawn in part: where nobody drew, they are unlabelled.")
        elif not split.unlabelled:
            self.say("There are no unlabelled cases: training on labels alone.")
            method = method.on_labels_alone()
        scans = Scans(
            data=describe(str(self.data.resolve()), store, split),
            split=split,
            store=store,
            device=self.device,
            dims=dims,
            patch=options.patch,
            body=options.net,
        )
        run = self.preset.run(scans, method)
        if self.heritage:
            run = self.heritage.passed_on(run)
            self.say(self.heritage.in_words(store, scans.data.looks))
        return run

    def as_asked(self, run: Run, processes: int) -> Run:
        """With what the options say, single fields last."""
        options = self.options
        steps = run.train.steps if options.steps is None else options.steps
        run = replace(
            run,
            seed=options.seed or 0,
            made_with={**run.made_with, **self._made_with(), **marks_of(self.corrections)},
            train=replace(run.train, save_every=options.save_every, steps=steps),
        )
        if processes > 1:
            run = replace(run, accel=replace(run.accel, processes=processes))
        if self.own:
            run = replace(run, method_source=self.title, method_sha256=self.own.checksum)
        for path, text in options.overrides:
            run = override(run, path, text)
        return run

    def _made_with(self) -> dict[str, object]:
        """The words that a resumed run is held to."""
        options = self.options
        places = {name: getattr(options, name) for name in ("init", "weights", "labels", "teacher")}
        asked: dict[str, object] = {"preset": self.chosen, "labelled": options.labelled, "minutes": self.minutes}
        asked |= {name: str(place.resolve()) for name, place in places.items() if place}
        asked["threads"] = torch.get_num_threads() if self.device.type == "cpu" else None
        return {name: value for name, value in asked.items() if value}

    def checked(self, run: Run) -> Run:
        """Refused here if it cannot be trained; with one network an object where that is asked for."""
        run.check()
        if self.options.classes == "binary" and run.classes > 2:
            run = replace(run, method=OneVsRest(inner=run.method, objects=run.classes - 1))
        if self.heritage:
            self.heritage.check(run)
        if run.net.monai:
            MakeNet(run.net, run.data.window.dims, run.data.channels, run.classes)()
        return run

    def announce(self, run: Run) -> None:
        """Say what was chosen."""
        if self.options.preset is None and self.chosen == "quick":
            long = f", for about {self.minutes:g} min (--minutes)" if self.minutes else ""
            self.say(
                f"No GPU: taking --preset quick{long}, which brings large scans to a coarser grid; --preset auto does not."
            )
        self.say(_in_words(run, self.device))
        if self.options.preset == "paper":
            self.say(parameter_note(run))


def _split(
    store: Store,
    patients: dict[str, str],
    split: Split | None,
    options: Options,
    preset: Preset,
    dims: int,
    say: Say,
) -> Split:
    """Which cases are used how: as a file says, or by the labels there are."""
    labelled = [name for name, case in store.cases.items() if case.labelled]
    if split is None:
        trained = {name: case.patient for name, case in store.cases.items() if case.part == "Tr"}
        use, usual = options.labelled, preset.labelled
        if use is None and dims == 3 and usual is not None and len(labelled) == len(trained) > usual:
            use = usual
            say(f"All cases are labelled: the preset uses {use} labels and takes the rest as unlabelled (--labelled).")
        val = preset.val if options.val is None else options.val
        split = split_by_labels(trained, labelled, use=use, val=val, seed=options.seed or 0)
    elif options.labelled is not None:
        if not 1 <= options.labelled <= len(split.labelled):
            raise InputError(
                f"--labelled {options.labelled}: the split has between 1 and {len(split.labelled)} labelled cases."
            )
        split = first_labels(split, options.labelled)
    split.check(patients, labelled)
    return split


def _with_corrected(
    split: Split, corrections: Mapping[str, Correction], patients: Mapping[str, str], say: Say
) -> Split:
    """The split with corrected cases among the labelled ones; what that costs is said."""
    found = split.with_labels(corrections, patients)
    taken = [case for case in corrections if case in found.labelled]
    say(f"{len(taken)} corrected cases count as labelled: {len(found.labelled)} labelled cases in all.")
    if passed := [case for case in corrections if case not in taken]:
        say(f"Not trained on, as they are validation cases or of their patients: {', '.join(passed)}.")
    if lost := [case for case in split.test if case not in found.test]:
        say(f"They were test cases, or are of their patients, and cannot be tested on any more: {', '.join(lost)}.")
    return found


def _in_words(run: Run, device: torch.device) -> str:
    """What was chosen, for a person to see."""
    size = f"{' x '.join(map(str, run.data.window.size))} {run.data.window.points}"
    labelled, unlabelled = run.train.batch
    shown = f"{labelled} labelled + {unlabelled} unlabelled" if run.split.unlabelled else f"{labelled} labelled"
    networks = f"{run.method.objects} binary networks: " if isinstance(run.method, OneVsRest) else ""
    return (
        f"{networks}{run.net.body} of {run.net.width} channels and {run.net.levels} levels, windows of {size}, "
        f"{shown} a step, {run.accel.precision} on {device.type}; cases: "
        f"{len(run.split.labelled)} labelled, {len(run.split.unlabelled)} unlabelled, {len(run.split.val)} for validation."
    )
