"""From a folder of scans to a finished run, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from coranet.data.budget import allowing
from coranet.data.datasets.names import patient_of
from coranet.data.doctor.intake import Intake, take_in
from coranet.data.prepare.extents import Extents
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.store_builder import cache_place, default_cache
from coranet.data.splits.by_patient import Split, split_by_labels
from coranet.data.store import Store
from coranet.engine.allowance import make_networks
from coranet.engine.checkpoint import LAST
from coranet.engine.codec import decode, override
from coranet.engine.film import Film
from coranet.engine.log import Listener
from coranet.engine.map_archive import MapArchive
from coranet.engine.run import Run
from coranet.engine.trainer import Trainer
from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.locks import owned
from coranet.methods import OwnFile, method_name, own_name, shipped_method
from coranet.methods.one_vs_rest import OneVsRest
from coranet.nets import MakeNet
from coranet.runs.admission import check_classes, check_free, check_same, check_volumes, dims_asked, first_labels
from coranet.runs.inheritance import Heritage
from coranet.runs.machine_load import use_threads
from coranet.runs.options import Options
from coranet.runs.presets import Preset, Scans, choose_dims, describe, find_preset, parameter_note, typical

Say = Callable[[str], None]
OnProgress = Callable[[str, int, int], None]


def train(
    data: Path | str,
    out: Path | str,
    options: Options | None = None,
    *,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Path:
    """Prepare, split and train; returns the run folder.

    Args:
        data: a raw folder in nnU-Net's layout, or a prepared store.
        out: the run folder; it must not hold a run yet, unless that one is continued.
        options: everything else.
        resume: continue the run in `out` from its newest state.
        listeners: who hears what happens.
        say: who is told in words what was chosen.
        on_progress: who is told how far reading and preparing have come.
    """
    data, out, options = Path(data), Path(out), options or Options()
    check = _check_begun if resume else check_free
    check(out)
    with owned(out):
        check(out)  # once more: another process may have just ended there
        _train_alone(data, out, options, resume, listeners, say, on_progress)
    return out


def _check_begun(out: Path) -> None:
    if out.is_dir() and not (out / "run.json").exists():
        raise InputError(f"{out}: no run was begun there (no run.json). Start it without --resume.")
    if not out.is_dir():
        Run.read(out)  # says so


def _train_alone(
    data: Path,
    out: Path,
    options: Options,
    resume: bool,
    listeners: Sequence[Listener],
    say: Say,
    on_progress: OnProgress,
) -> None:
    """In a folder that is ours."""
    device = find_device(options.device)
    use_threads(options.threads, device, say)
    if resume:
        run = Run.read(out, trust=options.trust, named=options.method)
        check_same(run, options)
        settings = decode(Preparation, run.data.preparation, "preparation")
        store, _ = open_store(
            data,
            lambda extents, channels: settings,
            run.split,
            options.cache,
            max_gb=options.max_gb,
            on_progress=on_progress,
        )
        if store.fingerprint != run.data.fingerprint:
            raise InputError(
                f"{data}: not the data {out} was started on, or prepared by another version of coranet. "
                "Continue on the same files with the same version, or start anew."
            )
        make_networks(run, out / LAST)  # refused before memory is taken
        trainer = Trainer(run, store, out, device, (*listeners, *_archives(run, out)))
        trainer.resume(say)
        say(f"Continuing after step {trainer.state.done} of {run.train.steps}.")
    else:
        run, store = make_run(data, options, device, say=say, on_progress=on_progress)
        trainer = Trainer(run, store, out, device, (*listeners, *_archives(run, out)))
        if options.init is not None:
            trainer.state.start_from(options.init, say)
            say(f"Starting from the weights of {options.init}.")
        _begin_folder(run, out)
        trainer.begin()
        trainer.run.write(out)  # last: a folder with a run.json always has a state to continue from
    trainer.fit()


def _archives(run: Run, out: Path) -> Sequence[Listener]:
    """Listeners that keep files. They come last: others may change what they keep."""
    return (Film(out), MapArchive(out)) if run.train.keep_maps else (Film(out),)


def make_run(
    data: Path,
    options: Options,
    device: torch.device,
    *,
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> tuple[Run, Store]:
    """The run these options amount to, and the store it trains on."""
    heritage = Heritage.of(options)
    options = heritage.completed() if heritage else options
    preset, seed = find_preset(options.preset or "auto"), options.seed or 0
    inherited = heritage.preparation if heritage else None
    title = method_name(options.method or preset.method)
    own = OwnFile.read(*named) if (named := own_name(title)) else None
    method = (own.load() if own else shipped_method(title))()
    wanted = dims_asked(options, preset)
    split = Split.read(options.split) if options.split else None
    store, patients = open_store(
        data,
        lambda extents, channels: inherited
        or preset.prepare(extents, channels, wanted or choose_dims(extents.shapes.median, extents.spacings.median)),
        split,
        options.cache,
        max_gb=options.max_gb,
        say=say,
        on_progress=on_progress,
    )
    dims = wanted or choose_dims(*typical(store))
    split = _split(store, patients, split, options, preset, dims, say)
    check_classes(store, split)
    if dims == 3:
        check_volumes(store, split)
    if not split.unlabelled:
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
    init = str(options.init.resolve()) if options.init else None
    asked = {"preset": options.preset or "auto", "labelled": options.labelled, "init": init}
    asked["threads"] = torch.get_num_threads() if device.type == "cpu" else None
    given = {name: value for name, value in asked.items() if value}
    run = replace(run, seed=seed, made_with={**run.made_with, **given})
    run = replace(run, train=replace(run.train, save_every=options.save_every))
    if options.steps is not None:
        run = replace(run, train=replace(run.train, steps=options.steps))
    if own:
        # Chance or a choice that is not made on the device would be frozen into a graph: who knows their file may say so.
        run = replace(run, method_source=title, method_sha256=own.checksum)
        run = replace(run, accel=replace(run.accel, graphs=False))
    for path, text in options.overrides:
        run = override(run, path, text)
    run.check()
    if options.classes == "binary" and run.classes > 2:
        run = replace(run, method=OneVsRest(inner=run.method, objects=run.classes - 1))
    if heritage:
        heritage.check(run)
    if run.net.monai:
        MakeNet(run.net, dims, run.data.channels, run.classes)()  # refused before anything is said of it
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


def open_store(
    data: Path,
    prepare: Callable[[Extents, Sequence[str]], Preparation],
    split: Split | None,
    cache: Path | None,
    *,
    max_gb: float | None = None,
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> tuple[Store, dict[str, str]]:
    """A store as it is, or a raw folder checked and prepared into the cache; and the patient of every case there is.

    Cases of imagesTs are prepared only where a split trains or validates on them, with their label only where it says so.
    """
    if Store.is_store(data):
        store = Store.open(data)
        unseen = {case: patient_of(case) for case in split.test} if split else {}
        return store, unseen | {name: case.patient for name, case in store.cases.items()}
    wanted = set(split.stored) if split else set()
    known = {*split.labelled, *split.val} if split else set()
    intake = Intake(
        root=data,
        choose=lambda dataset: [
            case if case.part == "Tr" or case.name in known else replace(case, label=None)
            for case in dataset.cases
            if case.part == "Tr" or case.name in wanted
        ],
        prepare=prepare,
        place=partial(cache_place, cache=cache or default_cache()),
        purpose="trained on",
        keep=False,
        say=say,
        on_progress=on_progress,
    )
    with allowing(max_gb):
        path, dataset, _ = take_in(intake)
    return Store.open(path), {case.name: case.patient for case in dataset.cases}


def find_device(name: str | None) -> torch.device:
    """The one that was asked for, or the fastest there is."""
    if name in (None, "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(str(name))
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: not a device we know. Use cpu, cuda or cuda:1.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"--device {name}: this machine has {torch.cuda.device_count()} usable GPUs. Use --device cpu."
        )
    return device


def _begin_folder(run: Run, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if path := own_name(run.method_source):
            _keep_method(OwnFile.read(*path), run.method_sha256, out)
        run.split.write(out / "split.json")
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}). Choose another --out.") from error


def _keep_method(file: OwnFile, checksum: str | None, out: Path) -> None:
    """A copy of the file whose method is trained, which predictions will run."""
    if file.checksum != checksum:
        raise InputError(f"{file.path}: was changed while the scans were prepared. Start again.")
    write_atomically(out / file.path.name, file.source)
