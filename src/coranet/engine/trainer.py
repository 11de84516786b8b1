"""The only training loop. It knows no method by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from coranet.data.store import Store
from coranet.engine import checkpoint
from coranet.engine.estimate import estimate_seconds
from coranet.engine.film import keep_picture
from coranet.engine.log import Journal, Listener, Plan, Record
from coranet.engine.optimizers import make_optimizers, rate
from coranet.engine.out_of_memory import memory_for
from coranet.engine.predictor import Predictor, settle
from coranet.engine.run import Run
from coranet.engine.signals import Interrupted, stop_requests
from coranet.engine.step import Captured, Updates, laid_out, progress
from coranet.engine.timeline import Stretch, lay_out
from coranet.errors import InputError
from coranet.feed.batches import Batches, mix
from coranet.feed.case_maps import keep_maps, soft_maps
from coranet.feed.pools import CaseMemory, Pool
from coranet.feed.residency import Room
from coranet.feed.windows import Slices
from coranet.nets import MakeNet, count_parameters
from coranet.types import Batch, Progress, Terms


class Trainer:
    """One run: its networks, its data on the device, and the loop over both.

    All randomness of a step comes from the run's seed and the step's number, so that what is saved is only what was learnt.
    """

    def __init__(
        self, run: Run, store: Store, folder: Path, device: torch.device, listeners: Sequence[Listener] = ()
    ) -> None:
        self.run, self.folder, self.device, self.listeners = run, folder, device, listeners
        if run.accel.precision == "bf16" and device.type == "cpu":
            raise InputError(
                "accel.precision=bf16 is for GPUs: on a CPU it is slower, and some gradients come out wrong."
            )
        if run.accel.graphs and device.type != "cuda":
            raise InputError("accel.graphs=true is for NVIDIA GPUs. Leave it off here.")
        if run.accel.flush:
            torch.ones(2**20).sum()  # the other threads are there before the first step, and none of them flushes
        torch.backends.cudnn.allow_tf32 = False  # else fp32 is fp32 in name only
        torch.backends.cudnn.deterministic = run.accel.deterministic
        torch.backends.cudnn.benchmark = not run.accel.deterministic
        window, split = run.data.window, run.split
        # An object invented in an empty slice must cost something.
        whole = replace(window, keep="all") if isinstance(window, Slices) else window
        room = Room.of(device, run.accel.device_bytes, run.accel.host_bytes)
        with memory_for(f"the scans on {device}", "Lower accel.device_bytes or accel.host_bytes (--set)."):
            self.labelled = Pool.load(store, split.labelled, window, room, labelled=True)
            self.unlabelled = (
                Pool.load(store, split.unlabelled, window, room, labelled=False) if split.unlabelled else None
            )
            self.val = Pool.load(store, split.val, whole, room, labelled=True) if split.val else None
        self.batches = Batches(
            self.labelled,
            self.unlabelled,
            window=window,
            augment=run.data.augment,
            sizes=run.train.batch,
            seed=run.seed,
            shuffle_labelled=run.data.shuffle_labelled,
            unit=run.data.unit,
        )
        self.epoch = run.train.epoch or max(self.batches.epoch)
        self.timeline = lay_out(run.method.phases, run.train.steps, self.epoch)
        self.nets = self._make_nets()
        self.optimizers = make_optimizers(run.method, self.nets, run.optim, captured=run.accel.graphs)
        updates = Updates(run.method, self.nets, self.optimizers, run.accel)
        self.learn: Callable[[Batch, Progress, float], Terms] = Captured(updates) if run.accel.graphs else updates
        self.room = room
        self.memory = CaseMemory(self.unlabelled, room) if self.unlabelled else None
        self.memory_file: str | None = None
        self.traced = False
        """Whether anything was written to memory since it was saved."""
        self.journal = Journal(folder / "log.jsonl", listeners)
        self.done = self.updates = 0
        self.began = self.saved = time.monotonic()
        self.best = float("-inf")
        """The highest mean Dice of validation cases so far."""
        self.stop_signal: int | None = None

    def _make_nets(self) -> dict[str, nn.Module]:
        torch.manual_seed(mix(self.run.seed, "weights"))
        dims = self.run.data.window.dims
        made = self.run.method.nets(MakeNet(self.run.net, dims, self.run.data.channels, self.run.classes))
        for net in made.values():
            settle(net, self.run.accel, self.device)
        return made

    # The loop

    def fit(self) -> None:
        """Train to the end, or until someone asks to stop."""
        what = f"steps of {sum(self.run.train.batch)} windows of {' x '.join(map(str, self.run.data.window.size))}"
        with memory_for(
            what, "Lower --patch, train.batch or net.width (--set train.batch=[2,2]); what was saved is whole."
        ):
            self._announce()
            self._loop()

    def _loop(self) -> None:
        self.began = self.saved = time.monotonic()
        with stop_requests(lambda signum: setattr(self, "stop_signal", signum)):
            while self.done < self.run.train.steps:
                stretch = next(s for s in self.timeline if s.start <= self.done < s.stop)
                try:
                    self.journal.add(self.done, *self.step(self.done, stretch))
                except Interrupted:
                    self._save_logged(stretch)
                    raise
                self.done += 1
                self._look_up(stretch)
                if self.stop_signal is not None:
                    self._save_logged(stretch)
                    raise Interrupted(self.done, self.stop_signal)
        self.save()

    def step(self, step: int, stretch: Stretch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """One labelled and one unlabelled batch, through all the method's updates: terms and measures, unread."""
        run, phase = self.run, stretch.phase.name
        torch.manual_seed(mix(run.seed, "step", step))
        if step == stretch.start:
            run.method.begin_phase(self.nets, phase)
        if stretch.refreshes_at(step):
            self._refresh(step)
        at = progress(step, run.train.steps, self.epoch, stretch, self.device)
        batch = laid_out(self.batches.at(step, self.memory), run.accel)
        torch.set_flush_denormal(run.accel.flush)  # here alone: NumPy is put out by it
        try:
            found = self.learn(batch, at, rate(run.optim, step, run.train.steps))
        finally:
            torch.set_flush_denormal(False)
        self.updates += len(run.method.objectives(phase))
        if found.traces and self.memory is not None:
            self.batches.trace(step, self.memory, found.traces)
            self.traced = True
        return dict(found.values), dict(found.measures)

    # What happens now and then

    def _announce(self) -> None:
        plan = Plan(
            steps=self.run.train.steps,
            first=self.done,
            seconds=estimate_seconds(self),
            device=str(self.device),
            parameters=count_parameters(self.run.method.segmenter(self.nets).net),
            stretches=tuple((s.phase.name, s.start, s.stop - s.start) for s in self.timeline),
        )
        for listener in self.listeners:
            listener.begin(plan)

    def _look_up(self, stretch: Stretch) -> None:
        """Log, score, keep a picture and save, each when it is due."""
        train = self.run.train
        last = self.done == train.steps
        check = last or self.done % max(train.steps // max(train.checks, 1), 1) == 0
        if check or self.done % train.log_every == 0:
            self._log(stretch, check=check)
        if check:
            keep_picture(
                self.folder / "film" / f"{self.done:07d}.npz", self.unlabelled or self.labelled, self.predictor()
            )
        due = self.done % train.save_every == 0 if train.save_every else time.monotonic() - self.saved > 60
        if due and not last:
            self._save_logged(stretch)

    def _log(self, stretch: Stretch, *, check: bool = False) -> None:
        terms, measures = self.journal.read()  # waits for the device
        val = self.predictor().dice(self.val, self.run.data.classes) if check and self.val else None
        self.journal.write(
            Record(
                step=self.done,
                phase=stretch.phase.name,
                updates=self.updates,
                images=self.done * sum(self.run.train.batch[: 2 if self.unlabelled else 1]),
                seconds=round(time.monotonic() - self.began, 3),
                lr=rate(self.run.optim, self.done - 1, self.run.train.steps),
                terms=terms,
                measures=measures,
                val=val,
            )
        )
        if val and val["mean"] > self.best:
            self.best = val["mean"]
            checkpoint.save(self.folder / checkpoint.BEST, {"step": self.done, "nets": self._weights()})

    def _refresh(self, step: int) -> None:
        """Ask the method what to keep of every unlabelled image, and put it on disk for checkpoints to name."""
        if self.memory is None or self.unlabelled is None:
            return
        soft = None
        if self.run.train.keep_maps:
            soft = CaseMemory(self.unlabelled, Room.of(torch.device("cpu"), None, self.run.accel.host_bytes))
        for index, planes, prediction in self.predictor().over(self.unlabelled):
            if self.stop_signal is not None:  # what was kept before is still on disk, and is made anew on resuming
                raise Interrupted(self.done, self.stop_signal)
            self.memory.write(index, self.run.method.remember(prediction), planes)
            if soft is not None:
                soft.write(index, soft_maps(prediction), planes)
        self._amend(step, soft)
        self._save_memory(step)
        if soft is not None:
            began = time.monotonic()
            keep_maps(self.folder / "maps" / f"{step:07d}.npz", self.unlabelled, self.memory, soft)
            self.began += time.monotonic() - began  # for those who look later: no part of what training takes

    def _amend(self, step: int, soft: CaseMemory | None) -> None:
        """Where a study changes what is remembered before it is learnt from; `soft` are the maps that are kept with it."""

    def _save_memory(self, step: int) -> None:
        assert self.memory is not None
        self.memory_file, self.traced = f"memory-{step:07d}.pt", False
        checkpoint.save(self.folder / self.memory_file, {"maps": self.memory.flat})

    def predictor(self) -> Predictor:
        """What the method would predict with right now."""
        segmenter = self.run.method.segmenter(self.nets)
        return Predictor(segmenter, self.run.data.window, self.run.accel, values=4 * self.run.classes)

    # What is kept

    def _save_logged(self, stretch: Stretch) -> None:
        if self.journal.steps:
            self._log(stretch)  # a term that is not finite stops here, before it is saved
        self.save()

    def save(self) -> None:
        """The newest state, whole or not at all."""
        if self.traced:
            self._save_memory(self.done)
        content = {
            "step": self.done,
            "updates": self.updates,
            "nets": self._weights(),
            "best": self.best,
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "memory": self.memory_file,
        }
        checkpoint.save(self.folder / checkpoint.LAST, content)
        for old in self.folder.glob("memory-*.pt"):
            if old.name != self.memory_file:
                old.unlink()
        self.saved = time.monotonic()

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        return {name: net.state_dict() for name, net in self.nets.items()}

    def resume(self) -> None:
        """Continue from the newest state."""
        source = self.folder / checkpoint.LAST
        content = checkpoint.load(source, self.device)
        checkpoint.load_weights(self.nets, content["nets"], source)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(content["optimizers"][name])
        self.done, self.updates, self.memory_file = content["step"], content["updates"], content["memory"]
        self.best = content.get("best", self.best)
        if self.memory_file and self.memory:
            self.memory.load(checkpoint.load(self.folder / self.memory_file, torch.device("cpu"))["maps"])
        self.journal.keep_until(self.done)

    def start_from(self, run: Path) -> None:
        """Begin with another run's weights."""
        source = run / checkpoint.LAST if run.is_dir() else run
        checkpoint.load_weights(self.nets, checkpoint.load(source, self.device)["nets"], source)
