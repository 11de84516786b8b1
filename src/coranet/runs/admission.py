"""Whether what a person says about a run can be done, and whether it is what the run was begun with."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.codec import kind_of, override
from coranet.engine.group import Group
from coranet.engine.own_method import is_same_file
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.methods import METHODS, Method, method_name
from coranet.methods.one_vs_rest import OneVsRest
from coranet.runs.options import WHERE, Options
from coranet.runs.presets import Preset


def dims_asked(options: Options, preset: Preset) -> int | None:
    """The axes of space that were asked for; None leaves them to the data."""
    asked = options.dims or (len(options.patch) if options.patch else None)
    if options.dims and options.patch and len(options.patch) != options.dims:
        numbers = " ".join(map(str, options.patch))
        raise InputError(
            f"--patch {numbers}: has {len(options.patch)} numbers, and --dims {options.dims} needs as many."
        )
    if preset.dims and asked and asked != preset.dims:
        raise InputError(
            f"--preset {options.preset}: is for {preset.dims}D only. Leave out --dims {asked}, or a --patch of {asked} "
            "numbers, or use another preset."
        )
    return asked or preset.dims


def minutes_asked(options: Options, preset: Preset, *, inherited: bool) -> float | None:
    """How long training may take; None where a number of steps is given, or taken over from another run."""
    counted = options.steps is not None or "train.steps" in dict(options.overrides)
    if options.minutes is not None and counted:
        raise InputError(f"--minutes {options.minutes:g} chooses the number of steps: give it or --steps, not both.")
    return options.minutes or (None if counted or inherited else preset.minutes)


def check_classes(store: Store, split: Split) -> None:
    """What no labelled case shows cannot be learnt, and a case in which nothing is drawn has no label."""
    if undrawn := [
        name for name in store.partial.intersection(split.labelled) if (store.label(name) == store.ignore).all()
    ]:
        raise InputError(
            f"{min(undrawn)}: no voxel of its label is drawn. Remove the label: the case is then unlabelled."
        )
    seen = {int(value) for name in split.labelled for value in np.flatnonzero(np.bincount(store.label(name).ravel()))}
    absent = [f"{name} ({value})" for value, name in store.classes.items() if value not in seen and value != 0]
    if absent:
        raise InputError(
            f"None of the {len(split.labelled)} labelled cases shows {', '.join(absent)}. Label a case that does, use more "
            "of the labels (--labelled), or take the class out of dataset.json."
        )


def check_hears(method: Method, name: str) -> None:
    """Whether a method has a use for labels by another model."""
    if not method.hears:
        others = ", ".join(title for title, kind in METHODS.items() if kind.hears)
        raise InputError(f"--teacher: {name} learns nothing from labels by others. Use one of {others}.")


def check_volumes(store: Store, split: Split) -> None:
    """A volume has three axes of more than one voxel."""
    thin = [name for name in split.stored if min(store.cases[name].shape[1:]) == 1]
    if thin:
        others = f" (and {len(thin) - 1} more)" if len(thin) > 1 else ""
        raise InputError(
            f"{thin[0]}{others}: is one voxel thin. Train on slices (--dims 2), or leave the case out (--split)."
        )


def check_free(out: Path) -> None:
    """A run is never overwritten, and a folder that cannot be written to is found out before any work."""
    if (out / "run.json").exists():
        raise InputError(f"{out}: holds a run already. Continue it with --resume, or choose another --out.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file. Choose another --out.")
    parent = next(folder for folder in (out, *out.resolve().parents) if folder.exists())
    if not os.access(parent, os.W_OK):
        raise InputError(f"{out}: {parent} cannot be written to. Choose another --out.")


def first_labels(split: Split, count: int | None) -> Split:
    """The split with its first labelled cases, so many of them, and the others among the unlabelled; None takes all."""
    if count is None:
        return split
    taken, others = split.labelled[:count], split.labelled[count:]
    return replace(split, labelled=taken, unlabelled=(*others, *split.unlabelled))


def check_same(run: Run, options: Options) -> None:
    """A run is continued as it was begun, by the same command; only where it runs may change.

    An option that `_begun_with` does not know is refused wherever it is given.
    """
    begun = _begun_with(run, options)
    for field in fields(options):
        asked, was = getattr(options, field.name), getattr(begun, field.name)
        if asked is not None and asked != was and field.name not in WHERE:
            flag, how = field.name.replace("_", "-"), "without it" if was is None else f"with {was}"
            raise InputError(f"--{flag} {asked}: the run was begun {how}. Drop the option, or start a new run.")
    count = run.made_with.get("labelled")
    if options.split is not None and first_labels(Split.read(options.split), count) != run.split:
        raise InputError(f"--split {options.split}: not the split the run was begun with. Drop the option.")
    plain = replace(run, method=_inner(run))
    for path, text in options.overrides:
        if override(plain, path, text) != plain:
            raise InputError(f"--set {path}={text}: the run was begun with another value. Drop it, or start a new run.")


def check_processes(run: Run, group: Group, out: Path) -> None:
    """A run goes on with as many processes as it was begun with: with others its batches would be shared out otherwise."""
    begun = run.accel.processes
    if begun != group.size:
        how = f"torchrun --nproc-per-node {begun} -m coranet train" if begun > 1 else "coranet train"
        raise InputError(
            f"{out}: was begun with {begun} processes, not {group.size}. Continue it with {how} ... --resume."
        )


def _begun_with(run: Run, asked: Options) -> Options:
    """The options that amount to a run, in the words of those that are asked for now where these mean the same."""
    source = run.method_source or kind_of(_inner(run))
    classes: Literal["native", "binary"] = "binary" if isinstance(run.method, OneVsRest) else "native"
    return Options(
        preset=run.made_with.get("preset", "auto"),
        dims=2 if run.data.window.dims == 2 else 3,
        net=run.net.body,
        classes=classes if run.classes > 2 else asked.classes,
        patch=run.data.window.size,
        steps=run.train.steps,
        labelled=run.made_with.get("labelled", len(run.split.labelled)),
        val=len(run.split.val),
        split=asked.split,  # compared by what it says
        save_every=run.train.save_every,
        overrides=asked.overrides,  # compared by what they change
        method=asked.method if _is_method(run, asked.method, source) else source,
        minutes=run.made_with.get("minutes"),
        seed=run.seed,
        teacher=_same_place(asked.teacher, run.made_with.get("teacher")),
        init=_same_place(asked.init, run.made_with.get("init")),
        weights=_same_place(asked.weights, run.made_with.get("weights")),
        labels=_same_place(asked.labels, run.made_with.get("labels")),
    )


def _same_place(asked: Path | None, begun: str | None) -> Path | None:
    """The path that a run was begun with, as it is written now where it is the same."""
    return asked if asked and str(asked.resolve()) == begun else Path(begun) if begun else None


def _is_method(run: Run, asked: str | None, source: str | None) -> bool:
    """Whether a method is the run's, by name or as the same file, wherever that lies now."""
    if asked is None:
        return False
    return is_same_file(asked, run.method_source, run.method_sha256) or method_name(asked) == source


def _inner(run: Run) -> Method:
    """The method that was asked for."""
    return run.method.inner if isinstance(run.method, OneVsRest) else run.method
