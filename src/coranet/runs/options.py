"""What a person may say about a run: on the command line, and in Python as `coranet.train(DATA, RUN, **options)`.

Nothing heavy is imported here, so that help is shown at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from coranet.errors import InputError
from coranet.flags import Flag

TrackerName = Literal["tensorboard", "mlflow", "wandb"]
"""What `cli.tracking` has."""
PresetName = Literal["auto", "quick", "paper", "acdc", "pancreas", "la", "released"]
"""What `runs.presets` has."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all runs of a comparison are told alike. None leaves the choice to the preset."""

    preset: Annotated[PresetName | None, Flag(default="auto; quick where `coranet train` finds no GPU")] = None
    """auto picks body, width, window and batch from data and device; quick does so on a coarser grid, for ten minutes; paper
    is the paper's setting, acdc the same with the paper's views for ACDC, pancreas the same with the paper's window and
    crops of CT, la the field's for the left atrium, released that of the paper's released code."""
    dims: Annotated[Literal[2, 3] | None, Flag(default="chosen from the data")] = None
    """Train on slices or on volumes."""
    net: Annotated[str | None, Flag("NAME", default="unet for slices, vnet for volumes")] = None
    """unet, vnet, resnet18, or a network of MONAI as monai:NAME (needs the extra coranet[monai])."""
    classes: Annotated[Literal["native", "binary"] | None, Flag(default="native")] = None
    """Several classes in one network, or one binary network for each as in the paper, merged by confidence."""
    patch: Annotated[tuple[int, ...] | None, Flag("X Y [Z]", default="the preset's")] = None
    """Size of the window: three numbers for volumes (right, front, up), two for slices."""
    steps: Annotated[int | None, Flag("N", default="the preset's")] = None
    """How long to train; the method's phases keep their proportion."""
    labelled: Annotated[int | None, Flag("K", default="all")] = None
    """Use the first K labelled cases, and treat the other labels as absent."""
    val: Annotated[int | None, Flag("N", default="1 in 10, from 8 on")] = None
    """Labelled cases kept out of training to watch the Dice on; nothing is chosen by them."""
    split: Annotated[Path | None, Flag("FILE")] = None
    """A JSON of case lists: labelled, unlabelled, val, test."""
    save_every: Annotated[int | None, Flag("N", default="once a minute")] = None
    """Steps between two saves of RUN/last.pt."""
    device: Annotated[str | None, Flag("D", default="a GPU if there is one")] = None
    """cpu, cuda or cuda:1."""
    threads: Annotated[int | None, Flag("N", default="one for each free core")] = None
    """Threads of sums on the CPU. Another number changes results in their last bits."""
    cache: Annotated[Path | None, Flag("DIR", default="the user's cache")] = None
    """Where prepared scans are kept."""
    max_gb: Annotated[float | None, Flag("GB", default="half of what is free")] = None
    """Memory that one scan may take while it is read."""
    overrides: Annotated[tuple[tuple[str, str], ...], Flag("KEY=VALUE", name="set", repeat=True)] = ()
    """Any field of the run, such as method.alpha=2 or net.width=32."""

    def __post_init__(self) -> None:
        if self.patch is not None and (len(self.patch) not in (2, 3) or min(self.patch) < 1):
            numbers = " ".join(map(str, self.patch))
            raise InputError(f"--patch {numbers}: give two or three positive numbers, such as 96 96 96.")
        if broken := [pair for pair in self.overrides if len(pair) != 2]:
            text = " ".join(broken[0])
            raise InputError(f"--set {text}: write it as KEY=VALUE, such as method.alpha=2.")


@dataclass(frozen=True, kw_only=True)
class Options(Shared):
    """What a person may say about one run."""

    method: Annotated[
        str | None, Flag("NAME", default="coranet:plus; coranet with a preset of the paper's or the field's")
    ] = None
    """One that `coranet methods` lists, or your own as ./mine.py:Mine. coranet:plus is CoraNet as it is today, coranet the
    paper's text; supervised trains on labels alone."""
    minutes: Annotated[float | None, Flag("N", default="10 with the preset quick, else by steps")] = None
    """Choose the steps so that training takes about so long on this machine, as measured before it begins."""
    seed: Annotated[int | None, Flag("S", default="0")] = None
    """One seed, one result."""
    init: Annotated[Path | None, Flag("RUN")] = None
    """Start from another run's weights, for example after labels were corrected. Its settings are taken over, but for those
    that are given here."""
    weights: Annotated[Path | None, Flag("FILE")] = None
    """Start from weights that another program trained: model.pt of a MONAI bundle, checkpoint_final.pth of nnU-Net. Tensors
    whose name and shape fit are taken. The network is chosen as ever, by --net and --set net.options."""
    teacher: Annotated[Path | None, Flag("FOLDER")] = None
    """Label maps <case>.nii.gz of some unlabelled scans by another model, a voice that coranet, coranet:repaired and
    coranet:plus may doubt. Maps of labelled scans beside them show how far it can be believed. Classes are matched by name
    through FOLDER/dataset.json."""
    labels: Annotated[Path | None, Flag("CORRECTIONS")] = None
    """Labels that were made or corrected since, as `coranet review` leaves them. They take the place of those in DATA, or
    are added to them. With --init the old run's split is kept, and the new run is held against the old one at the end."""
    trust: bool = False
    """Let the own method of a run that is continued run: a Python file in RUN. Not needed where --method names the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise InputError(f"--minutes {self.minutes:g}: give a positive number, such as 10.")
        if self.init is not None and self.weights is not None:
            raise InputError("--init and --weights both say which weights to start from. Give one of them.")


WHERE = frozenset({"device", "cache", "max_gb", "threads", "trust"})
"""Options that say where and whether a run runs, and not what it is."""
