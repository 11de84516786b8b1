"""`coranet train`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from coranet.errors import InputError

_BY_PRESET = "(default: the preset's)"


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train from a few labelled and many unlabelled scans.

    DATA is a folder in nnU-Net's raw layout (imagesTr, labelsTr, dataset.json); a case of imagesTr without a file in
    labelsTr is unlabelled. RUN receives run.json, log.jsonl and last.pt, the newest state. Ctrl-C saves and stops.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A raw folder, or a prepared store."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The run folder to make."""
    preset: Annotated[
        Literal["auto", "paper", "la", "released"] | None,
        tyro.conf.arg(metavar="{auto,paper,la,released}", help_behavior_hint="(default: auto)"),
    ] = None
    """auto picks body, width, window and batch from data and device; paper is the paper's setting, la the field's for the
    left atrium, released that of the paper's released code."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: coranet)")] = None
    """One that `coranet methods` lists, or your own as ./mine.py:Mine. coranet is the paper's text;
    coranet:repaired has one change, and was ahead of it or level in all our runs."""
    dims: Annotated[
        Literal[2, 3] | None, tyro.conf.arg(metavar="{2,3}", help_behavior_hint="(default: chosen from the data)")
    ] = None
    """Train on slices or on volumes."""
    net: Annotated[
        str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: unet for slices, vnet for volumes)")
    ] = None
    """unet, vnet, resnet18, or a network of MONAI as monai:NAME (needs the extra coranet[monai])."""
    classes: Annotated[
        Literal["native", "binary"] | None,
        tyro.conf.arg(metavar="{native,binary}", help_behavior_hint="(default: native)"),
    ] = None
    """Several classes in one network, or one binary network for each as in the paper, merged by confidence."""
    patch: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="X Y [Z]", help_behavior_hint=_BY_PRESET)] = None
    """Size of the window: three numbers for volumes (right, front, up), two for slices."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint=_BY_PRESET)] = None
    """How long to train; the method's phases keep their proportion."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="S", help_behavior_hint="(default: 0)")] = None
    """One seed, one result."""
    labelled: Annotated[int | None, tyro.conf.arg(metavar="K", help_behavior_hint="(default: all)")] = None
    """Use the first K labelled cases, and treat the other labels as absent."""
    val: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 1 in 10, from 8 on)")] = None
    """Labelled cases kept out of training to watch the Dice on; nothing is chosen by them."""
    split: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(optional)")] = None
    """A JSON of case lists: labelled, unlabelled, val, test."""
    save_every: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: once a minute)")] = None
    """Steps between two saves of RUN/last.pt."""
    init: Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="(optional)")] = None
    """Start from another run's weights, for example after labels were corrected."""
    resume: bool = False
    """Continue the run in --out where it stopped."""
    device: Annotated[str | None, tyro.conf.arg(metavar="D", help_behavior_hint="(default: a GPU if there is one)")] = (
        None
    )
    """cpu, cuda or cuda:1."""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the user's cache)")] = None
    """Where prepared scans are kept."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")] = ()
    """Any field of the run, such as method.regions.alpha=2 or net.width=32."""
    tensorboard: bool = False
    """Also write TensorBoard files into RUN (needs the extra coranet[tensorboard])."""

    def __call__(self) -> int:
        """Train."""
        from coranet.cli.display import TrainingDisplay
        from coranet.cli.show import counting, say
        from coranet.engine.log import Listener
        from coranet.engine.signals import Interrupted
        from coranet.runs.launch import train
        from coranet.runs.options import Options

        options = Options(
            preset=self.preset,
            method=self.method,
            steps=self.steps,
            seed=self.seed,
            labelled=self.labelled,
            val=self.val,
            split=self.split,
            save_every=self.save_every,
            init=self.init,
            device=self.device,
            cache=self.cache,
            dims=self.dims,
            net=self.net,
            classes=self.classes,
            patch=_window(self.patch),
            overrides=tuple(_pair(text) for text in self.set),
        )
        with counting() as on_progress, TrainingDisplay() as display:
            listeners: list[Listener] = [display]
            if self.tensorboard:
                from coranet.cli.tensorboard import TensorBoard

                listeners.append(TensorBoard(self.out))
            try:
                train(
                    self.data,
                    self.out,
                    options,
                    resume=self.resume,
                    listeners=listeners,
                    say=say,
                    on_progress=on_progress,
                )
            except Interrupted as stop:
                name = signal.Signals(stop.signum).name
                say(f"Stopped by {name} after step {stop.step}; the state is saved in {self.out / 'last.pt'}.")
                say("Continue with the same command and --resume.")
                return 128 + stop.signum
        say(f"Trained: {self.out}. Next: coranet predict {self.out} SCANS --out PREDICTIONS")
        return 0


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: write it as KEY=VALUE, such as method.regions.alpha=2.")
    return key, value


def _window(patch: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if patch is not None and (len(patch) not in (2, 3) or min(patch) < 1):
        raise InputError(f"--patch {' '.join(map(str, patch))}: give two or three positive numbers, such as 96 96 96.")
    return patch
