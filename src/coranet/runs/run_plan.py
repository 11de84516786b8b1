"""From scans and options to the run that they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from coranet.data.datasets.corrections import Correction, read_corrections
from coranet.data.splits.by_patient import Split, split_by_labels
from coranet.data.store import Store
from coranet.engine.codec import override
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.methods import OwnFile, method_name, own_name, shipped_method
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
from coranet.runs.inheritance import Heritage
from coranet.runs.opened_store import OnProgress, Say, open_store
from coranet.runs.options import Options
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
    options = heritage.completed() if heritage else options
    chosen = options.preset or ("quick" if device.type == "cpu" else "auto")
    preset, seed = find_preset(chosen), options.seed or 0
    minutes = minutes_asked(options, preset, inherited=bool(heritage and not heritage.fresh))
    inherited = heritage.preparation if heritage else None
    title = method_name(options.method or preset.method)
    own = OwnFile.read(*named) if (named := own_name(title)) else None
    method = (own.load() if own else shipped_method(title))()
    if options.teacher is not None:
        check_hears(method, title)
    wanted = dims_asked(options, preset)
    split = Split.read(options.split) if options.split else None
    corrections = read_corrections(options.labels) if options.labels else {}
    if split is None and heritage and corrections:
        split = heritage.run.split
    store, patients = open_store(
        data,
        lambda extents, channels: inherited
        or preset.prepare(extents, channels, wanted or choose_dims(extents.shapes.median, extents.spacings.median)),
        split,
        options.cache,
        corrections=corrections,
        max_gb=options.max_gb,
        say=say,
        on_progress=on_progress,
    )
    if split and corrections:
        split = _with_corrected(split, corrections, patients, say)
    dims = wanted or choose_dims(*typical(store))
    split = _split(store, patients, split, options, preset, dims, say)
    check_classes(store, split)
    if dims == 3:
        check_volumes(store, split)
    if partial := store.partial.intersection(split.labelled):
        say(f"{len(partial)} labelled cases are drawn in part: where nobody drew, they are unlabelled.")
    elif not split.unlabelled:
        say("There are no unlabelled cases: training on labels alone.")
        method = method.on_labels_alone()
    scans = Scans(
        data=describe(str(data.resolve()), store, split),
        split=split,
        store=store,
        device=device,
        dims=dims,
        patch=options.patch,
        body=options.net,
    )
    run = preset.run(scans, method)
    if heritage:
        run = heritage.passed_on(run)
        say(heritage.in_words(store))
    places = {
        "init": options.init,
        "weights": options.weights,
        "labels": options.labels,
        "teacher": options.teacher,
    }
    asked: dict[str, object] = {"preset": chosen, "labelled": options.labelled, "minutes": minutes}
    asked |= {name: str(place.resolve()) for name, place in places.items() if place}
    asked["threads"] = torch.get_num_threads() if device.type == "cpu" else None
    given = {name: value for name, value in asked.items() if value}
    run = replace(run, seed=seed, made_with={**run.made_with, **given})
    run = replace(run, train=replace(run.train, save_every=options.save_every))
    if options.steps is not None:
        run = replace(run, train=replace(run.train, steps=options.steps))
    if processes > 1:
        run = replace(run, accel=replace(run.accel, processes=processes))
    if own:
        run = replace(run, method_source=title, method_sha256=own.checksum)
    for path, text in options.overrides:
        run = override(run, path, text)
    run.check()
    if options.classes == "binary" and run.classes > 2:
        run = replace(run, method=OneVsRest(inner=run.method, objects=run.classes - 1))
    if heritage:
        heritage.check(run)
    if run.net.monai:
        MakeNet(run.net, dims, run.data.channels, run.classes)()  # refused before anything is said of it
    if options.preset is None and chosen == "quick":
        long = f", for about {minutes:g} min (--minutes)" if minutes else ""
        say(f"No GPU: taking --preset quick{long}, which brings large scans to a coarser grid; --preset auto does not.")
    say(_in_words(run, device))
    if options.preset == "paper":
        say(parameter_note(run))
    return run, store


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
    say(f"{len(corrections)} corrected cases count as labelled: {len(found.labelled)} labelled cases in all.")
    if lost := [case for case in split.test if case not in found.test]:
        say(f"They were test cases, or are of their patients, and cannot be tested on any more: {', '.join(lost)}.")
    return found


def _in_words(run: Run, device: torch.device) -> str:
    """What was chosen, for a person to see."""
    size = f"{' x '.join(map(str, run.data.window.size))} {run.data.window.points}"
    labelled, unlabelled = run.train.batch
    networks = f"{run.method.objects} binary networks: " if isinstance(run.method, OneVsRest) else ""
    return (
        f"{networks}{run.net.body} of {run.net.width} channels and {run.net.levels} levels, windows of {size}, "
        f"{labelled} labelled + {unlabelled} unlabelled a step, {run.accel.precision} on {device.type}; cases: "
        f"{len(run.split.labelled)} labelled, {len(run.split.unlabelled)} unlabelled, {len(run.split.val)} for validation."
    )
