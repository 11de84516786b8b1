"""The only training loop. It knows no method by name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from coranet.data.store import Store
from coranet.engine.captured import Captured
from coranet.engine.checkpoint import Say, warn
from coranet.engine.group import ALONE, Group
from coranet.engine.log import Check, Clock, FallBack, Journal, Listener, Outcome, Plan, Record, Refresh
from coranet.engine.optimizers import rate
from coranet.engine.run import Run
from coranet.engine.setup import Setup
from coranet.engine.state import State
from coranet.engine.step import Updates
from coranet.engine.timeline import Stretch
from coranet.engine.timing.estimate import estimate_prices
from coranet.engine.timing.forecast import Forecast, Prices
from coranet.engine.watch import Watch
from coranet.feed.batches import mix
from coranet.methods.other_voice import Voices
from coranet.nets import count_parameters
from coranet.signals import Interrupted, stop_requests
from coranet.types import Batch, Progress, Terms


class Trainer:
    """One run: what it trains with, what it has learnt so far, and the loop over both.

    All randomness of a step comes from the run's seed and the step's number, so that what is saved is only what was learnt.
    """

    def __init__(
        self,
        run: Run,
        store: Store,
        folder: Path,
        device: torch.device,
        listeners: Sequence[Listener] = (),
        group: Group = ALONE,
        voices: Voices | None = None,
    ) -> None:
        for listener in listeners:
            listener.on_open(run, store)
            run = replace(run, made_with={**run.made_with, **listener.marks})
        self.run, self.listeners, self.group = run, listeners, group
        self.setup = Setup.of(run, store, device, group, voices)
        self.state = State(self.setup, folder)
        self.watch = Watch.of(self.setup, folder)
        self.learn = self._learner()
        self.journal, self.clock = Journal(folder / "log.jsonl"), Clock()
        self.forecast = Forecast(self.setup.timeline, Prices(steps={}), run.train.checks)
        self.val: dict[str, float] | None = None
        """The Dice of validation cases when they were last scored."""
        self.saved, self.until = time.monotonic(), run.train.steps
        self.stop_signal: int | None = None

    def begin(self) -> None:
        """Save a new run for the first time, with an identity of its own."""
        self.run = self.run.identified()
        self.state.identity = self.run.identity
        self.save()

    def resume(self, say: Say = warn) -> None:
        """Continue from the newest state; `say` hears of files without checksums."""
        self.state.load(say)
        if self.group.leads:
            self.journal.keep_until(self.state.done)

    @property
    def timeline(self) -> tuple[Stretch, ...]:
        """Which phase each step is in."""
        return self.watch.timeline if self.watch and self.state.fell_back else self.setup.timeline

    # The loop

    def fit(self, until: int | None = None) -> None:
        """Train to the end, or until someone asks to stop.

        Args:
            until: pause after so many steps instead. Validation cases are scored there, and training that is resumed goes on
                as if it had never paused.
        """
        self.until = min(until or self.run.train.steps, self.run.train.steps)
        with self.setup.memory():
            self._announce()
            self._loop()
            if self.state.done == self.run.train.steps:
                self._conclude()

    def _announce(self) -> None:
        prices = estimate_prices(self.setup, self.state.done)
        self.forecast = Forecast(self.timeline, prices, self.run.train.checks)
        plan = Plan(
            steps=self.run.train.steps,
            first=self.state.done,
            forecast=self.forecast,
            device=str(self.setup.device),
            parameters=count_parameters(self.run.method.segmenter(self.setup.nets).net),
            stretches=tuple((s.phase.name, s.start, s.stop - s.start) for s in self.timeline),
        )
        for listener in self.listeners:
            listener.on_begin(plan)

    def _loop(self) -> None:
        state, self.clock, self.saved = self.state, Clock(), time.monotonic()
        self.forecast.begin()
        with stop_requests(lambda signum: setattr(self, "stop_signal", signum)):
            while state.done < self.until:
                stretch = next(s for s in self.timeline if s.start <= state.done < s.stop)
                if self.watch and state.done == self.watch.last.stop and not state.fell_back:
                    self.watch.begin(state)
                try:
                    self.journal.add(state.done, *self.step(state.done, stretch))
                except Interrupted:
                    self._save_logged(stretch)
                    raise
                state.done += 1
                self._look_up(stretch)
                if self._all_agree(self.stop_signal is not None):
                    self._save_logged(stretch)
                    raise Interrupted(state.done, self.stop_signal or signal.SIGTERM)
        self.save()

    def _conclude(self) -> None:
        """Say how the run does on validation cases or, where there are none, on those it was trained on."""
        if not self.group.leads:
            return
        if self.watch:
            self.watch.end()
        pool = self.setup.val or self.setup.labelled
        dice = self.val or self.setup.predictor().dice(pool, self.run.data.classes)
        outcome = Outcome(dice=dice, cases=len(set(pool.cases)), seen=self.setup.val is None)
        for listener in self.listeners:
            listener.on_end(outcome)

    def step(self, step: int, stretch: Stretch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """One labelled and one unlabelled batch, through all the method's updates: terms and measures, unread."""
        run, setup, state = self.run, self.setup, self.state
        torch.manual_seed(mix(run.seed, "step", step, *([self.group.rank] if self.group.rank else [])))
        if step == stretch.start:
            run.method.begin_phase(setup.nets, stretch.phase.name)
        if stretch.refreshes_at(step):
            with self.forecast.timing("relabel"):
                self.refresh(step)
        at, batch = setup.progress(step, stretch), setup.batch(step, state.memory)
        torch.set_flush_denormal(run.accel.flush)  # here alone: NumPy is put out by it
        try:
            found = self.learn(batch, at, rate(run.optim, step, run.train.steps))
        finally:
            torch.set_flush_denormal(False)
        state.updates += len(run.method.objectives(stretch.phase.name))
        if found.traces and state.memory is not None:
            traces = {
                name: replace(trace, values=self.group.together(trace.values)) for name, trace in found.traces.items()
            }
            setup.batches.trace(step, state.memory, traces)
            state.traced = True
        return dict(found.values), dict(found.measures)

    def refresh(self, step: int) -> None:
        """Ask the method what to keep of every unlabelled image, and put it on disk for checkpoints to name."""
        pool, memory = self.setup.unlabelled, self.state.memory
        if pool is None or memory is None:
            return
        refresh = Refresh(step=step, run=self.run, pool=pool, memory=memory, clock=self.clock)
        for index, planes, prediction in self.setup.predictor().over(pool, (self.group.rank, self.group.size)):
            # What was kept before is still on disk, and is made anew on resuming. Several processes stop where all do.
            if self.stop_signal is not None and self.group.size == 1:
                raise Interrupted(self.state.done, self.stop_signal)
            memory.write(index, self.run.method.remember(prediction), planes)
            for listener in self.listeners:
                listener.on_prediction(refresh, index, planes, prediction)
        self.group.exchange(memory)
        for listener in self.listeners:
            listener.on_refresh(refresh)
        self.state.save_memory(step)

    # What happens now and then

    def _look_up(self, stretch: Stretch) -> None:
        """Log, score, let others look and save, each when it is due."""
        train, done = self.run.train, self.state.done
        last = done == train.steps
        check = last or done % max(train.steps // max(train.checks, 1), 1) == 0
        score = check or done == self.until
        if score or done % train.log_every == 0:
            self._log(stretch, check=score, may_be_best=check)
        if check:
            looked = Check(step=done, pool=self.setup.shown, predictor=self.setup.predictor())
            with self.forecast.timing("look"):
                for listener in self.listeners:
                    listener.on_check(looked)
                self._keep_watch()
        last = self.state.done == train.steps
        due = done % train.save_every == 0 if train.save_every else time.monotonic() - self.saved > 60
        if self._all_agree(due and not last):
            self._save_logged(stretch)

    def _all_agree(self, wanted: bool) -> bool:
        """Whether a process wants something that all must do at the same step; several ask each other when they log."""
        if self.group.size == 1:
            return wanted
        return self.state.done % self.run.train.log_every == 0 and self.group.any(wanted)

    def _keep_watch(self) -> None:
        """Go back to labels alone where an object is lost."""
        watch, state, done = self.watch, self.state, self.state.done
        if watch is None or state.fell_back or done <= watch.last.stop:
            return
        lost = watch.look(done) if self.group.leads else ()
        if self.group.any(bool(lost)):
            watch.go_back(state, done, lost)
            if self.group.leads:
                self.journal.keep_until(state.done)
            self.learn = self._learner()  # a captured step holds what the optimizers had
            self.forecast.timeline = self.timeline
            for listener in self.listeners:
                listener.on_fall_back(FallBack(step=done, back_to=state.done, lost=lost))

    def _log(self, stretch: Stretch, *, check: bool = False, may_be_best: bool = False) -> None:
        run, state = self.run, self.state
        count = len(self.journal.steps)
        terms, measures = map(self.group.mean, self.journal.read())  # waits for the device
        self.forecast.count_steps(stretch.phase.name, count)
        if not self.group.leads:
            return
        val = self._score() if check else None
        record = Record(
            step=state.done,
            phase=stretch.phase.name,
            updates=state.updates,
            images=self._images(),
            seconds=self.clock.seconds,
            lr=rate(run.optim, state.done - 1, run.train.steps),
            terms=terms,
            measures=measures,
            val=val,
            fell_back=state.fell_back,
        )
        self.journal.write(record)
        for listener in self.listeners:
            listener.on_record(record)
        if val and may_be_best:  # a pause chooses no weights: a run that never paused would not have looked at them
            state.save_best(val["mean"])

    def _images(self) -> int:
        """How many were learnt from."""
        done, (labelled, unlabelled) = self.state.done, self.run.train.batch
        joint = sum(stretch.before(done) for stretch in self.timeline if not stretch.phase.alone)
        return done * labelled + joint * unlabelled * (self.setup.unlabelled is not None)

    def _score(self) -> dict[str, float] | None:
        """The Dice of validation cases, where there are some."""
        if self.setup.val is not None:
            with self.forecast.timing("score"):
                self.val = self.setup.predictor().dice(self.setup.val, self.run.data.classes)
        return self.val

    def _save_logged(self, stretch: Stretch) -> None:
        if self.journal.steps:
            self._log(stretch)  # a term that is not finite stops here, before it is saved
        self.save()

    def _learner(self) -> Callable[[Batch, Progress, float], Terms]:
        updates = Updates(self.run.learning, self.setup.nets, self.state.optimizers, self.run.accel, self.group)
        if not self.run.accel.graphs:
            return updates
        return Captured(updates, wary=self.run.method_source is not None, say=self._remark)

    def _remark(self, text: str) -> None:
        for listener in self.listeners:
            listener.on_remark(text)

    def save(self) -> None:
        """The newest state."""
        self.state.save()
        self.saved = time.monotonic()
