"""A run laid out on a device: its scans, its networks, its batches and its phases."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from coranet.data.store import Store
from coranet.engine.group import ALONE, Group
from coranet.engine.out_of_memory import memory_for
from coranet.engine.prediction.predictor import Predictor, settle
from coranet.engine.run import Accel, Run
from coranet.engine.step import laid_out, progress
from coranet.engine.timeline import Stretch, lay_out
from coranet.errors import InputError
from coranet.feed.batches import Batches, mix
from coranet.feed.pools import CaseMemory, OtherMaps, Pool
from coranet.feed.residency import Room
from coranet.methods.other_voice import SILENT, Voices
from coranet.nets import MakeNet
from coranet.nets.synchronised import synchronise
from coranet.types import Batch, Progress


@dataclass(frozen=True)
class Setup:
    """What a run trains with. Only the networks change while it trains."""

    run: Run
    device: torch.device
    room: Room
    """What is left of the memory that scans and maps may take."""
    labelled: Pool
    unlabelled: Pool | None
    val: Pool | None
    nets: dict[str, nn.Module]
    group: Group = ALONE
    partial: frozenset[str] = frozenset()
    """Labelled cases of which some voxel was not drawn."""

    @classmethod
    def of(
        cls,
        run: Run,
        store: Store,
        device: torch.device,
        group: Group = ALONE,
        voices: Voices | None = None,
    ) -> Setup:
        """Load the scans, with what another model said of some unlabelled ones, and make the networks."""
        _set_arithmetic(run.accel, device)
        window, split = run.data.window, run.split
        room = Room.of(device, run.accel.device_bytes, run.accel.host_bytes)
        whole = window.whole()  # an object invented in an empty slice must cost something
        with memory_for(f"the scans on {device}", "Lower accel.device_bytes or accel.host_bytes (--set)."):
            labelled = Pool.load(store, split.labelled, window, room, labelled=True)
            partial = store.partial & {*split.labelled}
            unlabelled = None
            if split.unlabelled or partial:
                maps = {name: OtherMaps(words, SILENT) for name, words in (voices or {}).items()}
                unlabelled = Pool.load(
                    store, split.unlabelled, window, room, labelled=False, partial=sorted(partial), maps=maps
                )
            val = Pool.load(store, split.val, whole, room, labelled=True) if split.val else None
        if unlabelled is not None and len(unlabelled) < group.size:
            raise InputError(f"{len(unlabelled)} unlabelled images are too few for {group.size} processes. Take fewer.")
        return cls(run, device, room, labelled, unlabelled, val, _make_nets(run, device, group), group, partial)

    @cached_property
    def batches(self) -> Batches:
        """What each step trains on."""
        labelled, unlabelled = self.run.train.batch
        return Batches(
            self.labelled,
            self.unlabelled,
            window=self.run.data.window,
            augment=self.run.data.augment,
            sizes=self.run.train.batch,
            seed=self.run.seed,
            shuffle_labelled=self.run.data.shuffle_labelled,
            unit=self.run.data.unit,
            shares=(self.group.share(labelled), self.group.share(unlabelled)),
        )

    @cached_property
    def epoch(self) -> int:
        """Steps in one."""
        return self.run.train.epoch or max(self.batches.epoch)

    @cached_property
    def timeline(self) -> tuple[Stretch, ...]:
        """The method's phases, laid over the run's steps."""
        train = self.run.train
        return lay_out(self.run.method.phases, train.steps, self.epoch, train.relabellings)

    @property
    def shown(self) -> Pool:
        """Images to look at: the unlabelled ones, or the labelled ones where there are no others."""
        return self.unlabelled or self.labelled

    def batch(self, step: int, memory: CaseMemory | None) -> Batch:
        """What a step trains on, in the memory layout the networks are in."""
        return laid_out(self.batches.at(step, memory), self.run.accel)

    def progress(self, step: int, stretch: Stretch) -> Progress:
        """Where a step stands."""
        return progress(step, self.run.train.steps, self.epoch, self.batches.epoch[0], stretch, self.device)

    def memory(self) -> AbstractContextManager[None]:
        """For steps: where it does not suffice, a person is told what to lower."""
        train, window = self.run.train, self.run.data.window
        return memory_for(
            f"steps of {sum(train.batch)} windows of {' x '.join(map(str, window.size))}",
            "Lower --patch, train.batch or net.width (--set train.batch=[2,2]); what was saved is whole.",
        )

    def predictor(self) -> Predictor:
        """What the method would predict with right now."""
        run = self.run
        return Predictor(run.method.segmenter(self.nets), run.data.window, run.accel, values=4 * run.classes)


def _set_arithmetic(accel: Accel, device: torch.device) -> None:
    """Have PyTorch compute as the run says."""
    if accel.precision == "bf16" and device.type == "cpu":
        raise InputError("accel.precision=bf16 is for GPUs: on a CPU it is slower, and some gradients come out wrong.")
    if accel.graphs and device.type != "cuda":
        raise InputError("accel.graphs=true is for NVIDIA GPUs. Leave it off here.")
    if accel.flush:
        torch.ones(2**20).sum()  # the other threads are there before the first step, and none of them flushes
    torch.backends.cudnn.allow_tf32 = False  # else fp32 is fp32 in name only
    torch.backends.cudnn.deterministic = accel.deterministic
    torch.backends.cudnn.benchmark = not accel.deterministic


def _make_nets(run: Run, device: torch.device, group: Group) -> dict[str, nn.Module]:
    torch.manual_seed(mix(run.seed, "weights"))
    nets = run.learning.nets(MakeNet(run.net, run.data.window.dims, run.data.channels, run.classes))
    for net in nets.values():
        if group.size > 1 and run.accel.statistics == "synchronised":
            synchronise(net)
        settle(net, run.accel, device)
    return nets
