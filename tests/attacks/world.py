"""What is honest: a small phantom and all that the product makes of it, made once and never changed."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import coranet
from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.engine.log import Listener, Record
from coranet.runs.launch import train
from coranet.runs.options import Options
from tests.attacks.honest_scans import Honest, honest_scans
from tests.attacks.verdict import verb

CASE = "phantom_007"
"""The test scan that is predicted."""
TINY = ("--set", "net.width=4", "--set", "net.levels=2", "--set", "train.batch=[2,2]")
STEPS = 12
LENGTH = ("--dims", "2", "--steps", str(STEPS), "--save-every", "3", "--device", "cpu")


@dataclass(frozen=True, kw_only=True)
class World:
    """Folders that attacks copy and spoil, and the answers that they must not change."""

    root: Path
    scans: dict[str, list[Honest]]
    """Files of each format."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By verb, how long it takes."""
    answer: dict[str, NDArray[Any]] = field(default_factory=dict)
    """What the run says of the test scan."""

    @property
    def data(self) -> Path:
        """A raw folder: 3 labelled, 4 unlabelled and 2 test patients."""
        return self.root / "raw"

    @property
    def cache(self) -> Path:
        """Where it is prepared."""
        return self.root / "cache"

    @property
    def run(self) -> Path:
        """A run on it, with a validation case."""
        return self.root / "train"

    @property
    def other(self) -> Path:
        """The same with another seed."""
        return self.root / "other"

    @property
    def half(self) -> Path:
        """The same as the run, killed half-way."""
        return self.root / "half"

    @property
    def scan(self) -> Path:
        """A scan that no run has seen."""
        return self.data / f"imagesTs/{CASE}_0000.nii.gz"

    def made_by(self, name: str) -> Path:
        """What a verb made."""
        return self.root / ("scores.csv" if name == "evaluate" else name)

    def command(self, name: str, out: Path, cache: Path | None = None) -> list[str]:
        """A verb on honest input, into `out`."""
        shared = [*LENGTH, *TINY, "--cache", str(cache or self.cache)]
        said: dict[str, list[str]] = {
            "train": ["train", str(self.data), "--out", str(out), "--val", "1", *shared],
            "prepare": ["prepare", str(self.data), "--out", str(out), "--jobs", "1"],
            "compare": [
                "compare", str(self.data), "--methods", "supervised,coranet", "--seeds", "1", "--out", str(out), *shared
            ],
            "predict": ["predict", str(self.run), str(self.data / "imagesTs"), "--out", str(out), "--device", "cpu"],
            "evaluate": ["evaluate", str(self.made_by("predict")), str(self.data / "labelsTs"), "--out", str(out)],
        }  # fmt: skip
        return said[name]


VERBS = ("train", "prepare", "compare", "predict", "evaluate")
"""Those that write, each after what it needs."""


def make_world(root: Path, needs: Collection[str] = ()) -> World:
    """In processes of their own, so that this one can be forked at any time; `needs` as of `Kind`."""
    world = World(root=root, scans=honest_scans())
    in_child = partial(_in_child, root)
    write_folder(world.data, Phantom(shape=(32, 32, 3)), seed=5, labelled=3, unlabelled=4, test=2)
    in_child(lambda: _train_other(world))
    if "half" in needs:
        in_child(lambda: _train_half(world))
    for name in [name for name in VERBS if name != "compare" or name in needs]:
        began = time.monotonic()
        in_child(lambda name=name: _do(world.command(name, world.made_by(name))))
        world.seconds[name] = time.monotonic() - began
    answers = root / "answer.npz"
    in_child(lambda: _ask(world, answers))
    with np.load(answers) as answer:
        world.answer.update(answer)
    return world


def _do(command: list[str]) -> None:
    verb(*command)


def _train_other(world: World) -> None:
    _do([*world.command("train", world.other), "--seed", "1"])


class _Stop(Listener):
    """Ends the process after half of the steps, as a kill would."""

    def on_record(self, record: Record) -> None:
        if record.step >= STEPS // 2:
            os._exit(0)


def _train_half(world: World) -> None:
    options = Options(dims=2, steps=STEPS, val=1, save_every=3, device="cpu", cache=world.cache, overrides=tiny())
    train(world.data, world.half, options, listeners=[_Stop()])
    raise AssertionError("It was to stop on the way.")


def tiny() -> tuple[tuple[str, str], ...]:
    """What `TINY` says, for functions."""
    pairs = (word.partition("=") for word in TINY if "=" in word)
    return tuple((path, value) for path, _, value in pairs)


def _ask(world: World, answers: Path) -> None:
    np.savez(answers, **predicted(world.run, world.scan))


def predicted(run: Path, scan: Path, **options: Any) -> dict[str, NDArray[Any]]:
    """What a run says of a scan."""
    answer = coranet.load(run, "cpu", **options).predict(scan)
    assert answer.probabilities is not None
    assert answer.uncertain is not None
    return {"label": answer.label, "uncertain": answer.uncertain, "probabilities": answer.probabilities}


def _in_child(folder: Path, act: Callable[[], None]) -> None:
    """Done by a forked process; this one learns nothing but whether it went well."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(folder)
            torch.set_num_threads(1)
            act()
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
        finally:
            os._exit(code)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError(f"The honest way failed with {code}.")


def copy_run(world: World, room: Path, name: str = "run") -> Path:
    """A run folder to be spoilt."""
    return Path(shutil.copytree(world.run, room / name))
