"""What a person may say about a cluster, and about shards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from coranet.data.shards import Shard
from coranet.errors import InputError
from coranet.flags import Flag

_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_USUAL = 240
"""Minutes of a task where nothing is said: most clusters grant them at once, and a task that needs more goes on after."""

_OURS = (
    "array",
    "error",
    "no_requeue",
    "nodes",
    "ntasks",
    "ntasks_per_node",
    "open_mode",
    "output",
    "requeue",
    "signal",
)
"""Options of sbatch that make a task what it is: one process, which is told before its time ends, and goes on."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Where tasks run."""

    cluster: Annotated[Literal["slurm", "local"] | None, Flag(default="in this process")] = None
    """Hand the work to a cluster as tasks, and wait for them: to SLURM, or to processes of this machine (needs the extra
    coranet[cluster]). Ctrl-C leaves them running; the same command comes back to them, and `coranet status` shows them."""
    slurm: Annotated[tuple[tuple[str, str], ...], Flag("KEY=VALUE", repeat=True)] = ()
    """With --cluster: an option of sbatch, such as partition=gpu, gres=gpu:1, cpus-per-task=8, mem=32G or time=12:00:00;
    exclusive=true where it takes no value. A task that reaches its time is saved before, and goes on in the queue by
    itself."""
    at_once: Annotated[int | None, Flag("N", default="as many as SLURM starts; locally 1")] = None
    """With --cluster: tasks at a time."""

    def __post_init__(self) -> None:
        if broken := [pair for pair in self.slurm if len(pair) != 2 or not pair[0]]:
            raise InputError(f"--slurm {'='.join(broken[0])}: write it as KEY=VALUE, such as partition=gpu.")
        if taken := [key for key in self.settings if key in _OURS]:
            raise InputError(f"--slurm {taken[0].replace('_', '-')}: is set for every task already. Leave it away.")
        if self.at_once is not None and self.at_once < 1:
            raise InputError(f"--at-once {self.at_once}: at least one.")
        if self.cluster is None and (self.slurm or self.at_once):
            raise InputError(
                f"--{'slurm' if self.slurm else 'at-once'}: is for tasks of a cluster. Add --cluster slurm."
            )
        self.minutes  # noqa: B018  refused now where it is no time

    @property
    def settings(self) -> dict[str, str]:
        """What sbatch is told, but for the time."""
        return {key.lstrip("-").replace("-", "_"): value for key, value in self.slurm if key.lstrip("-") != "time"}

    @property
    def minutes(self) -> int:
        """How long a task may run at a time."""
        given = next((value for key, value in self.slurm if key.lstrip("-") == "time"), str(_USUAL))
        return _minutes(given)


@dataclass(frozen=True, kw_only=True)
class ShardOptions(ClusterOptions):
    """Where they run, and how many there are."""

    shard: Annotated[str | None, Flag("I/N", default="all scans")] = None
    """Do one of N shares of the scans, such as 3/8, and no more. Several may run at once, anywhere. When all are done, the
    same command without --shard puts their results together."""
    shards: Annotated[int, Flag("N", default="8")] = 8
    """With --cluster: how many shares there are, each a task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shards < 1:
            raise InputError(f"--shards {self.shards}: at least one.")
        if self.cluster and self.shard:
            raise InputError(f"--shard {self.shard}: is what a task does. Leave out --cluster, or --shard.")
        self.share  # noqa: B018  refused now where it is none

    @property
    def share(self) -> Shard | None:
        """The one that was asked for."""
        return Shard.from_text(self.shard) if self.shard is not None else None


def _minutes(text: str) -> int:
    """SLURM's ways to write a time: 90, 90:00, 1:30:00, 2-12, 2-12:30:00."""
    found = _TIME.fullmatch(text)
    if not found:
        raise InputError(f"--slurm time={text}: is no time. Write minutes, hours as 12:00:00, or days as 2-00:00:00.")
    days, first, second, third = (int(part) if part else 0 for part in found.groups())
    unit = 3600 if found[1] or found[4] else 60  # of the first number; the next two are smaller ones
    seconds = 86400 * days + unit * first + unit // 60 * second + third
    if seconds < 60:
        raise InputError(f"--slurm time={text}: is less than a minute. Give a task more time.")
    return seconds // 60
