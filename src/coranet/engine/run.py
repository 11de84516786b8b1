"""What a run is: one frozen value, written whole to run.json, from which the run can start again anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from coranet.data.prepare.preparation import Preparation
from coranet.data.splits.by_patient import Split
from coranet.engine.bounds import check_bounds
from coranet.engine.codec import decode, encode, kind_of
from coranet.engine.own_method import place_own_method
from coranet.errors import InputError
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Slices, Window
from coranet.files import write_atomically
from coranet.json_files import read_json
from coranet.methods import Method
from coranet.methods.coranet import CoraNet
from coranet.methods.deep_supervision import supervised_deeply
from coranet.nets import NETS, Net
from coranet.ops.tiling import check_stride
from coranet.version import __version__


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which scans, and what is cut from them."""

    source: str
    """The folder the scans came from."""
    fingerprint: str
    """Of the prepared store: a run continues only on the very same voxels."""
    channels: int
    classes: Mapping[str, str]
    """Names by value."""
    preparation: Mapping[str, Any]
    """How scans are brought to the store's grid; predictions do the same."""
    unit: float = 1.0
    """How far the scans' intensities spread, in which noise, contrast and brightness of methods' views are measured."""
    volumes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Millilitres of each class but the background in the labelled cases, which predictions are compared with."""
    places: Mapping[str, tuple[tuple[float, float, float], ...]] = field(default_factory=dict)
    """Where each class lies in the labelled cases that have it, as shares of the scan's extent."""
    looks: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What training scans look like in a few numbers, labelled ones and some unlabelled ones."""
    window: Window = Slices()
    """Slices of volumes or patches of them, and how large."""
    augment: Augment = Augment()
    shuffle_labelled: bool = True
    """Show labelled images in a new order in each epoch; the paper's released code shows them as they are listed."""


@dataclass(frozen=True, kw_only=True)
class Optim:
    """How weights move. The defaults are the paper's."""

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    """AdamW takes weight decay out of the gradient's moments."""
    lr: float = 1e-3
    betas: tuple[float, float] = (0.5, 0.999)
    """Of Adam and AdamW."""
    momentum: float = 0.9
    """Of SGD."""
    nesterov: bool = False
    """Of SGD: look ahead along the momentum."""
    weight_decay: float = 0.0
    decay: Literal["none", "poly"] = "none"
    """Keep the rate, or let it fall to zero as (1 - t/T)^0.9."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """How long, in which portions, and how often to look up."""

    steps: int
    """One step is one labelled and one unlabelled batch."""
    batch: tuple[int, int] = (4, 4)
    """Labelled and unlabelled images in a step."""
    epoch: int | None = None
    """Steps in an epoch; by default as many as show every image, of both kinds, at least once."""
    save_every: int | None = None
    """Steps between two checkpoints; by default one a minute."""
    checks: int = 10
    """How often over the run validation cases are scored and a picture is kept."""
    relabellings: int | None = None
    """How often at most stored maps are made anew in a phase; by default as often as the method says."""
    log_every: int = 10
    """Steps between two lines of the log."""
    watch: bool = False
    """Look at every check whether an object is lost in self-training, and go back to labels alone if one is."""
    keep_maps: bool = False
    """Keep what is stored of unlabelled images at every refresh, and the probabilities behind it, in `maps/<step>.npz`;
    the log's clock stands still meanwhile."""

    def __post_init__(self) -> None:
        intervals = (self.log_every, *(n for n in (self.save_every, self.epoch, self.relabellings) if n is not None))
        if min(self.steps, *self.batch, *intervals) < 1:
            raise InputError(f"Steps, batch sizes and intervals are at least 1: {self}.")


@dataclass(frozen=True, kw_only=True)
class Accel:
    """How the arithmetic is done. All off is exact fp32."""

    precision: Literal["fp32", "bf16"] = "fp32"
    channels_last: bool = False
    deterministic: bool = True
    """One seed, one result, on the same kind of machine."""
    graphs: bool = False
    """Capture a whole step as one CUDA graph, which leaves a GPU no gap between kernels."""
    fused: bool = False
    """Compute blocks of a network in fewer passes, by kernels of our own where a GPU has Triton."""
    flush: bool = False
    """Take numbers below 1e-38 for zero, in the main thread: CPUs are slow at them."""
    device_bytes: int | None = None
    """What scans may take on a GPU; the others wait in host memory. By default half of what is free."""
    host_bytes: int | None = None
    """What scans may take in host memory; the others are read from disk. By default half of what is free."""
    processes: int = 1
    """That train together, each on its share of every batch; `torchrun` or `--gpus` says how many."""
    statistics: Literal["process", "synchronised"] = "process"
    """Of batch norms, where several processes train together: of each one's own images, their running means averaged; or of
    all images, as if one process had seen them."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that decides what is trained."""

    data: Data
    split: Split
    net: Net = Net()
    method: Method = CoraNet()
    method_source: str | None = None
    """`file.py:Class` where the method is not one of ours; the run folder keeps a copy of the file."""
    method_sha256: str | None = None
    """Of that file: no other runs in its place."""
    optim: Optim = Optim()
    train: Train
    accel: Accel = Accel()
    seed: int = 0
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """Versions, commit and command, for the record."""
    identity: str = ""
    """Of this run alone: its checkpoints carry it too, so that none is taken for another's. Empty in earlier runs."""

    def identified(self) -> Run:
        """The run with an identity, made of all that it is: the same run begun again has the same."""
        content = json.dumps(encode(replace(self, identity="")), sort_keys=True)
        return replace(self, identity=hashlib.sha256(content.encode()).hexdigest()[:32])

    def check(self) -> None:
        """Refuse parts that do not fit together. Not when made: several fields may be on their way to new values."""
        check_bounds(encode(self))
        decode(Preparation, self.data.preparation, "data.preparation")
        if missing := self.method.needs - self.net.offers:
            raise InputError(
                f"{kind_of(self.method)} needs a network with {', '.join(sorted(missing))}, which {self.net.body} has not. "
                f"There are: {', '.join(NETS)} (--net)."
            )
        if self.accel.processes > 1:
            self._check_processes()
        multiple, size = self.net.multiple, self.data.window.size
        if any(n < 1 or n % multiple for n in size):
            raise InputError(
                f"{self.net.body} of {self.net.levels} levels takes windows whose sides are multiples of {multiple}, "
                f"not {' x '.join(map(str, size))}. Change --patch, or --set net.levels=N."
            )
        if all(n == multiple for n in size):
            raise InputError(
                f"Windows of {' x '.join(map(str, size))} shrink to one voxel in {self.net.body} of {self.net.levels} "
                f"levels, which leaves nothing to normalise. Widen --patch, or lower --set net.levels={self.net.levels}."
            )
        if self.data.window.stride is not None:
            check_stride(self.data.window.stride, size)

    def _check_processes(self) -> None:
        if odd := [count for count in self.train.batch if count % self.accel.processes]:
            raise InputError(
                f"A batch of {odd[0]} images cannot be shared out evenly to {self.accel.processes} processes. "
                "Make train.batch (--set) multiples of their number."
            )
        if self.train.keep_maps:
            raise InputError(
                "train.keep_maps is for runs of one process: several have a part of the maps each. Leave it off, or use one."
            )

    @property
    def learning(self) -> Method:
        """The method with what the network adds to its training."""
        return supervised_deeply(self.method, self.net.deep)

    @property
    def classes(self) -> int:
        """K, background included."""
        return len(self.data.classes)

    def write(self, folder: Path) -> None:
        """To run.json."""
        write_atomically(folder / "run.json", (json.dumps(encode(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, folder: Path, *, trust: bool = False, named: str | None = None) -> Run:
        """From run.json.

        Args:
            folder: the run's.
            trust: let the run's own method run, where it has one: a Python file in its folder.
            named: the method that a person asks for; a file of theirs is trusted if the run's is the same.
        """
        file = folder / "run.json"
        try:
            file.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            what = "holds no run (no run.json). Give" if folder.exists() else "no such folder. A run is"
            raise InputError(f"{folder}: {what} the folder that `coranet train --out` made.") from error
        except OSError:
            pass  # there is one that may not be read, as is said now
        content = read_json(file)
        if not isinstance(content, dict) or not isinstance(content.get("method", {}), dict):
            raise InputError(f"{file}: not a run. Give the folder that `coranet train --out` made.")
        place_own_method(content, folder, trust=trust, named=named)
        run: Run = decode(cls, content, str(file))
        try:
            run.check()
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
        return run


def versions() -> dict[str, str]:
    """Of what a result depends on."""
    return {
        "coranet": __version__,
        "commit": commit_of(Path(__file__)),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def commit_of(file: Path) -> str:
    """Of the repository that has this very file; `none` where none has it, or there is no git."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    found = ""
    for command in (["ls-files", "--error-unmatch", file.name], ["rev-parse", "--short", "HEAD"]):
        try:
            done = subprocess.run(
                ["git", *command], cwd=file.parent, env=own, capture_output=True, text=True, check=True, timeout=20
            )
        except (OSError, subprocess.SubprocessError):  # no git, no repository, or one that has not this file
            return "none"
        found = done.stdout.strip()
    return found or "none"
