"""What a person sees while a network trains: a live line on a terminal, a line for every tenth of the run elsewhere."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from coranet.cli.terminal.show import console, duration, say
from coranet.engine.log import FallBack, Listener, Outcome, Plan, Record

_LONG = 3600
"""Seconds from which a training on a CPU comes with advice."""


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
        self.outcome: Outcome | None = None

    def __enter__(self) -> TrainingDisplay:
        self.progress.start()
        return self

    def __exit__(self, *details: object) -> None:
        self.progress.stop()

    def on_begin(self, plan: Plan) -> None:
        """Say what is coming, and how long it may take."""
        phases = ", ".join(f"{name} {steps}" for name, _, steps in plan.stretches)
        seconds = plan.forecast.left(plan.first)
        say(
            f"{self.title}{plan.steps - plan.first} steps ({phases}) of a network of {plan.parameters / 1e6:.2f} M "
            f"parameters on {plan.device}: about {duration(seconds)}."
        )
        if plan.device == "cpu" and seconds >= _LONG:
            say(advice(plan.forecast.seconds_of("relabel", plan.first)))
        self.steps, self.forecast = plan.steps, plan.forecast
        self.task = self.progress.add_task("training", total=plan.steps, completed=plan.first, words="")

    def on_record(self, record: Record) -> None:
        """Show the newest state; off a terminal, one line for every tenth of the run."""
        self.dice = record.val["mean"] if record.val else self.dice
        left = self.forecast.left(record.step)
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

    def on_fall_back(self, event: FallBack) -> None:
        """Say what was lost, and what is done about it."""
        self.told = 0.0
        say(
            f"{self.title}WARNING: after step {event.step} unlabelled scans hardly show {', '.join(event.lost)} any more. "
            f"Training goes on from step {event.back_to} by labels alone."
        )

    def on_remark(self, text: str) -> None:
        """Say it."""
        say(f"{self.title}{text}")

    def on_end(self, outcome: Outcome) -> None:
        """Say how it does on the cases it was trained on, where no others were watched, and what it does not find.

        Of several runs, which have a title each, others will be scored.
        """
        self.outcome = outcome
        if outcome.seen and not self.title:
            say(dice_in_words(outcome))
        if outcome.missed:
            say(f"{self.title}{warning_in_words(outcome)}")


class FoldDisplay(TrainingDisplay):
    """The same of a fold, whose Dice on its own training cases nobody needs."""

    def on_end(self, outcome: Outcome) -> None:
        """Keep still."""
        self.progress.remove_task(self.task)


def advice(relabelling: float) -> str:
    """How a training that takes hours is made shorter."""
    fixed = f"; relabelling is {duration(relabelling)} of it, whatever --steps says" if relabelling else ""
    return (
        "To shorten it, say how long it may take (--minutes 10; --preset quick has a grid to match), or take a coarser grid "
        "(coranet prepare DATA --spacing X Y Z --out STORE, then train on STORE), a "
        f"smaller --patch, fewer --steps, or fewer unlabelled cases (--split){fixed}."
    )


def dice_in_words(outcome: Outcome) -> str:
    """What was reached on cases that were trained on, as what it is."""
    each = [f"{name} {100 * dice:.1f}" for name, dice in outcome.dice.items() if name != "mean"]
    named = f" ({', '.join(each)})" if len(each) > 1 else ""
    return (
        f"Dice {100 * outcome.dice['mean']:.1f}{named} on the {_cases(outcome)}. New scans are harder: label some more and "
        "score them with coranet evaluate, or keep some apart with --val."
    )


def warning_in_words(outcome: Outcome) -> str:
    """What was not found, and what to try."""
    return (
        f"WARNING: next to nothing was found of {', '.join(outcome.missed)} in the {_cases(outcome)} (Dice below 0.01). "
        "Try more --steps, or --method supervised to see what the labels alone are worth; coranet doctor DATA --overlay DIR "
        "shows whether they lie right."
    )


def _cases(outcome: Outcome) -> str:
    many = "" if outcome.cases == 1 else "s"
    return f"{outcome.cases} case{many} it was trained on" if outcome.seen else f"{outcome.cases} validation case{many}"
