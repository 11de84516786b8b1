"""What a person sees while a network trains: a live line on a terminal, a line for every tenth of the run elsewhere."""

from __future__ import annotations

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from coranet.cli.show import console, duration, say
from coranet.engine.log import Listener, Plan, Record


class TrainingDisplay(Listener):
    """Shows a run's records: loss terms, Dice on validation cases, the uncertain share and the time left."""

    def __init__(self, title: str = "") -> None:
        self.title = title
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.dice: float | None = None
        self.told = 0.0

    def __enter__(self) -> TrainingDisplay:
        self.progress.start()
        return self

    def __exit__(self, *details: object) -> None:
        self.progress.stop()

    def on_begin(self, plan: Plan) -> None:
        """Say what is coming, and how long it may take."""
        phases = ", ".join(f"{name} {steps}" for name, _, steps in plan.stretches)
        say(
            f"{self.title}{plan.steps - plan.first} steps ({phases}) of a network of {plan.parameters / 1e6:.2f} M "
            f"parameters on {plan.device}: about {duration(plan.seconds)}."
        )
        self.first, self.steps, self.began = plan.first, plan.steps, time.monotonic()
        self.task = self.progress.add_task("training", total=plan.steps, completed=plan.first, words="")

    def on_record(self, record: Record) -> None:
        """Show the newest state; off a terminal, one line for every tenth of the run."""
        self.dice = record.val["mean"] if record.val else self.dice
        left = (time.monotonic() - self.began) / max(record.step - self.first, 1) * (self.steps - record.step)
        words = " ".join(f"{name} {value:.3f}" for name, value in record.terms.items())
        if "uncertain_share" in record.measures:
            words += f" | uncertain {100 * record.measures['uncertain_share']:.1f} %"
        if self.dice is not None:
            words += f" | val Dice {100 * self.dice:.1f}"
        words += f" | {duration(left)} left" if record.step < self.steps else " | done"
        self.progress.update(self.task, completed=record.step, description=record.phase, words=words)
        if not console.is_terminal and (record.step - self.told >= self.steps / 10 or record.step == self.steps):
            self.told = record.step
            say(f"step {record.step}/{self.steps} {record.phase} {words}")
