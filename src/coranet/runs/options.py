"""What a person may say about a run, and whether it can be done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.codec import kind_of, override
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.presets import Preset
from coranet.methods import method_name
from coranet.methods.one_vs_rest import OneVsRest


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a person may say about a run. None leaves the choice to the preset."""

    preset: str | None = None
    method: str | None = None
    steps: int | None = None
    seed: int | None = None
    labelled: int | None = None
    val: int | None = None
    split: Path | None = None
    save_every: int | None = None
    init: Path | None = None
    device: str | None = None
    cache: Path | None = None
    dims: int | None = None
    net: str | None = None
    classes: Literal["native", "binary"] | None = None
    patch: tuple[int, ...] | None = None
    overrides: Sequence[tuple[str, str]] = ()


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


def check_classes(store: Store, split: Split) -> None:
    """What no labelled case shows cannot be learnt."""
    seen = {int(value) for name in split.labelled for value in np.flatnonzero(np.bincount(store.label(name).ravel()))}
    absent = [f"{name} ({value})" for value, name in store.classes.items() if value not in seen and value != 0]
    if absent:
        raise InputError(
            f"None of the {len(split.labelled)} labelled cases shows {', '.join(absent)}. Label a case that does, use more "
            "of the labels (--labelled), or take the class out of dataset.json."
        )


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


def check_same(run: Run, options: Options) -> None:
    """A run is continued as it was begun, by the same command; only where it runs may change."""
    binary = isinstance(run.method, OneVsRest)
    method = run.method.inner if isinstance(run.method, OneVsRest) else run.method
    for name, asked, begun in (
        ("--preset", options.preset, run.made_with.get("preset", "auto")),
        ("--steps", options.steps, run.train.steps),
        ("--seed", options.seed, run.seed),
        ("--method", options.method and method_name(options.method), run.method_source or kind_of(method)),
        ("--dims", options.dims, run.data.window.dims),
        ("--net", options.net, run.net.body),
        ("--patch", options.patch, run.data.window.size),
        ("--classes", options.classes if run.classes > 2 else None, "binary" if binary else "native"),
        ("--labelled", options.labelled, run.made_with.get("labelled", len(run.split.labelled))),
        ("--val", options.val, len(run.split.val)),
    ):
        if asked is not None and asked != begun:
            raise InputError(f"{name} {asked}: the run was begun with {begun}. Drop the option, or start a new run.")
    if options.split is not None and Split.read(options.split).test != run.split.test:
        raise InputError(f"--split {options.split}: not the split the run was begun with. Drop the option.")
    unwrapped = replace(run, method=method)
    for path, text in options.overrides:
        if override(unwrapped, path, text) != unwrapped:
            raise InputError(f"--set {path}={text}: the run was begun with another value. Drop it, or start a new run.")
