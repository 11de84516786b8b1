"""A run that starts from another one's weights (`--init`): it goes on with that run's settings unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self

import torch

from coranet.data.prepare.preparation import Preparation
from coranet.data.store import Store
from coranet.engine.codec import decode, kind_of, override
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.evaluation.oddities import Usual
from coranet.methods import method_name
from coranet.methods.one_vs_rest import OneVsRest
from coranet.nets import MakeNet
from coranet.runs.options import Options, PresetName
from coranet.runs.presets import find_preset

Shapes = dict[str, dict[str, torch.Size]]
"""Of every weight, by network and name."""


@dataclass(frozen=True)
class Heritage:
    """What a new run takes over from the one whose weights it starts from."""

    folder: Path
    run: Run
    asked: Options
    """What was said about the new run."""

    @classmethod
    def of(cls, options: Options) -> Self | None:
        """That of the run of `--init`, a run folder or a checkpoint in one; None where there is none to read."""
        if options.init is None:
            return None
        folder = options.init if options.init.is_dir() else options.init.parent
        if not (folder / "run.json").exists():
            return None
        return cls(folder, Run.read(folder, trust=options.trust, named=options.method), options)

    @property
    def fresh(self) -> bool:
        """Whether another preset is asked for, whose way of training comes before the old one."""
        return self.asked.preset not in (None, self._preset)

    @property
    def preparation(self) -> Preparation | None:
        """How scans are prepared, unless another preset says so."""
        if self.fresh:
            return None
        settings: Preparation = decode(Preparation, self.run.data.preparation, "preparation")
        return settings

    def completed(self) -> Options:
        """What is asked for, with the old run's words where nothing is said.

        Raises:
            InputError: what is asked for cannot be done with the old weights.
        """
        asked, net, window = self.asked, self.run.net, self.run.data.window
        binary = isinstance(self.run.method, OneVsRest)
        if asked.dims not in (None, window.dims):
            self._refuse(f"--dims {asked.dims}", f"for {window.images}")
        if asked.patch is not None and len(asked.patch) != window.dims:
            self._refuse(f"--patch {' '.join(map(str, asked.patch))}", f"for {window.images}")
        if asked.preset and find_preset(asked.preset).dims not in (None, window.dims):
            self._refuse(f"--preset {asked.preset}", f"for {window.images}")
        if asked.net not in (None, net.body):
            self._refuse(f"--net {asked.net}", f"of {net.body}")
        if asked.classes and self.run.classes > 2 and (asked.classes == "binary") != binary:
            self._refuse(f"--classes {asked.classes}", "of one network an object" if binary else "of one network")
        return replace(
            asked,
            preset=asked.preset or self._preset,
            dims=2 if window.dims == 2 else 3,
            net=net.body,
            classes="binary" if binary else asked.classes,
            method=asked.method or self._method_name,
            seed=self.run.seed if asked.seed is None else asked.seed,
        )

    def passed_on(self, run: Run) -> Run:
        """A run as its preset makes it, with the old one's network, method and way of training."""
        old, run = self.run, replace(run, net=self.run.net)
        if not self.fresh:
            window = run.data.window if self.asked.patch else old.data.window
            data = replace(
                run.data, window=window, augment=old.data.augment, shuffle_labelled=old.data.shuffle_labelled
            )
            run = replace(run, data=data, optim=old.optim, train=old.train)
        if self._own_method and bool(run.split.unlabelled) == bool(old.split.unlabelled):
            run = replace(run, method=old.method.inner if isinstance(old.method, OneVsRest) else old.method)
        return run

    def in_words(self, store: Store, looks: Mapping[str, Sequence[float]]) -> str:
        """What is taken over, for a person to see; and whether scans that look so are of another kind."""
        old = self.run
        size = " x ".join(map(str, old.data.window.size))
        training = "" if self.fresh else f", windows of {size}, {old.train.steps} steps"
        differs = not self.fresh and store.preparation != old.data.preparation
        caution = " Its scans were prepared otherwise than these, which may cost it much of what it knows." * differs
        odd = _unlike(looks, old.data.looks)
        if 2 * sum(odd) > len(odd):
            caution += (
                f" WARNING: {sum(odd)} of {len(odd)} of these scans look unlike those it was trained on, and are prepared "
                "as those were. If they are of another kind, train without --init."
            )
        return (
            f"Going on as {self.folder} was trained unless an option says otherwise: {kind_of(old.method)}, {old.net.body} "
            f"of {old.net.width} channels{training}.{caution}"
        )

    def check(self, run: Run) -> None:
        """Refuse what the old weights do not fit, by the name of the option that is to blame."""
        if _fits(_shapes(run), _shapes(self.run)):
            return
        old, new = self.run.data, run.data
        if (new.channels, len(new.classes)) != (old.channels, len(old.classes)):
            raise InputError(
                f"{self.folder}: was trained on {old.channels} channels and the classes {', '.join(old.classes.values())}, "
                f"and these scans have {new.channels} and {', '.join(new.classes.values())}. Train without --init."
            )
        if not self._own_method:
            self._refuse(f"--method {self.asked.method}", f"of {kind_of(self.run.method)}")
        plain = replace(self.run, method=getattr(self.run.method, "inner", self.run.method))
        for path, text in self.asked.overrides:
            if not _fits(_shapes(override(plain, path, text)), _shapes(plain)):
                self._refuse(f"--set {path}={text}", "of another value")
        self._refuse(f"--init {self.asked.init}", "of networks that these settings do not make")

    @property
    def _preset(self) -> PresetName:
        preset: PresetName = self.run.made_with.get("preset", "auto")
        return preset

    @property
    def _method_name(self) -> str:
        if self.run.method_source:  # the folder keeps a copy of the file
            name, _, title = self.run.method_source.rpartition(":")
            return f"{self.folder / Path(name).name}:{title}"
        inner = self.run.method.inner if isinstance(self.run.method, OneVsRest) else self.run.method
        return str(kind_of(inner))

    @property
    def _own_method(self) -> bool:
        """Whether the new run's method is the old one's."""
        return self.asked.method is None or method_name(self.asked.method) == self._method_name

    def _refuse(self, option: str, what: str) -> NoReturn:
        raise InputError(
            f"{option}: the weights of {self.folder} are {what}. Leave the option out, or train without --init."
        )


def _unlike(new: Mapping[str, Sequence[float]], old: Mapping[str, Sequence[float]]) -> list[bool]:
    """Of each new scan, whether it looks otherwise than the old ones do."""
    usual = Usual(looks=old).looking
    held = [[usual[name].holds(value) for value in values] for name, values in new.items() if name in usual]
    return [not all(scan) for scan in zip(*held, strict=True)]


def _shapes(run: Run) -> Shapes:
    nets = run.method.nets(MakeNet(run.net, run.data.window.dims, run.data.channels, run.classes))
    return {name: {key: value.shape for key, value in net.state_dict().items()} for name, net in nets.items()}


def _fits(new: Shapes, old: Shapes) -> bool:
    """Whether each of the new networks is one of the old."""
    return all(old.get(name) == shapes for name, shapes in new.items())
