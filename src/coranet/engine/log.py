"""What a run tells while it trains: events, which listeners hear, and lines of log.jsonl."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from coranet.data.store import Store
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.run import Run
from coranet.engine.timing.forecast import Forecast
from coranet.errors import DivergenceError, InputError
from coranet.feed.pools import CaseMemory, Pool
from coranet.files import write_atomically
from coranet.types import Prediction


class Clock:
    """The time that training takes."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began, pauses left out."""
        return round(time.monotonic() - self.began, 3)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Work in the block is no part of what training takes."""
        paused = time.monotonic()
        yield
        self.began += time.monotonic() - paused


@dataclass(frozen=True, kw_only=True)
class Record:
    """The state of a run after some steps. Values are means since the record before."""

    step: int
    phase: str
    updates: int
    """Optimizer steps so far."""
    images: int
    """Images learnt from so far; in phases on labels alone, the labelled ones."""
    seconds: float
    """Since the run, or its continuation, began."""
    lr: float
    terms: dict[str, float]
    """Loss terms before their weights."""
    measures: dict[str, float] = field(default_factory=dict)
    val: dict[str, float] | None = None
    """Dice by class on validation cases, and their mean, where they were scored just now."""
    fell_back: bool = False
    """Whether the run went back to labels alone before."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is about to happen."""

    steps: int
    first: int
    """Steps done already."""
    forecast: Forecast
    """The time that is left, whenever it is asked."""
    device: str
    parameters: int
    stretches: tuple[tuple[str, int, int], ...]
    """Phase, first step, steps in it."""


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """Maps of unlabelled images are made anew, to be learnt from in this step and those after it."""

    step: int
    run: Run
    pool: Pool
    """The unlabelled images."""
    memory: CaseMemory
    """What is kept of them."""
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class Check:
    """Validation cases were just scored, where there are some."""

    step: int
    """Steps done."""
    pool: Pool
    """Images to look at: the unlabelled ones, or the labelled ones where there are no others."""
    predictor: Predictor
    """What the method would predict with right now."""


@dataclass(frozen=True, kw_only=True)
class FallBack:
    """Self-training lost objects, and the run goes back to labels alone."""

    step: int
    """Steps done when that was seen."""
    back_to: int
    """The step that training goes on from."""
    lost: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a finished run does on cases whose labels it has."""

    dice: Mapping[str, float]
    """By class, and their mean."""
    cases: int
    seen: bool
    """Whether it was trained on these very cases, for want of others."""

    @property
    def missed(self) -> tuple[str, ...]:
        """The classes of which next to nothing was found."""
        return tuple(name for name, dice in self.dice.items() if name != "mean" and dice < 0.01)


class Listener:
    """Who wants to know. An event that a listener says nothing about passes it by; all are told in the order given."""

    marks: Mapping[str, str] = {}
    """What run.json says of a training that this listener changes."""

    def on_open(self, run: Run, store: Store) -> None:
        """Before scans are loaded."""

    def on_begin(self, plan: Plan) -> None:
        """Before the first step."""

    def on_record(self, record: Record) -> None:
        """After some steps."""

    def on_prediction(self, refresh: Refresh, index: Tensor, planes: slice, prediction: Prediction) -> None:
        """During a refresh: some images, or some planes of their first axis, were predicted."""

    def on_refresh(self, refresh: Refresh) -> None:
        """At the end of a refresh, before its maps are saved and learnt from: the memory may be changed here."""

    def on_check(self, check: Check) -> None:
        """A few times over the run."""

    def on_fall_back(self, event: FallBack) -> None:
        """Before training goes on by labels alone."""

    def on_remark(self, text: str) -> None:
        """A sentence that a person should read."""

    def on_end(self, outcome: Outcome) -> None:
        """After the last step."""


class Journal:
    """Gathers terms on the device and reads them all at once: the only place where a step's values are waited for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steps: list[int] = []
        self.rows: list[dict[str, Tensor]] = []
        self.measured: list[dict[str, Tensor]] = []

    def add(self, step: int, terms: dict[str, Tensor], measures: dict[str, Tensor]) -> None:
        """Keep a step's values, unread."""
        self.steps.append(step)
        self.rows.append(terms)
        self.measured.append(measures)

    def read(self) -> tuple[dict[str, float], dict[str, float]]:
        """Means of terms and measures since the last reading; raises where a term is not finite."""
        means = _means(self.rows, self.steps, must_be_finite=True), _means(self.measured, self.steps)
        self.steps, self.rows, self.measured = [], [], []
        return means

    def write(self, record: Record) -> None:
        """One line, at once on disk."""
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(record)) + "\n")
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror}). Make room and resume.") from error

    def keep_until(self, step: int) -> None:
        """Drop lines after a step that is trained again."""
        if self.path.exists():
            lines = [line for line in self.path.read_text().splitlines() if _step_of(line) <= step]
            write_atomically(self.path, "".join(line + "\n" for line in lines).encode())


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (json.JSONDecodeError, KeyError):  # the last line of a run that was killed while writing it
        return math.inf


def _means(rows: list[dict[str, Tensor]], steps: list[int], *, must_be_finite: bool = False) -> dict[str, float]:
    means = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        having = [(step, row[name]) for step, row in zip(steps, rows, strict=True) if name in row]
        values = torch.stack([value.detach().float() for _, value in having]).cpu()
        broken = (~torch.isfinite(values)).nonzero()
        if must_be_finite and len(broken):
            at = having[int(broken[0])][0]
            raise DivergenceError(
                f"Step {at}: the term {name!r} is no longer finite ({float(values[broken[0]])}). Nothing was saved since; "
                "lower the rate (--set optim.lr=...), or look for odd intensities with `coranet doctor`."
            )
        means[name] = float(values.mean())
    return means
