"""How busy the machine is with other work, and how many threads a run takes there.

Threads of one sum wait for each other, and they wait by spinning. Where another process holds a core, that core's thread
comes late to every sum, and the others burn time until it comes. So a run takes no more threads than there are free cores.
Sums in another number of threads differ in their last bits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from coranet.errors import InputError

_PAUSES = (0.25, 1.0)
"""Seconds to look for; longer once more where the machine seems busy, as a short errand of another process will pass."""

_chosen: dict[str, int] = {}
"""The threads there were before we last took fewer, and how many we took."""


@dataclass(frozen=True)
class Load:
    """Cores, over a moment."""

    granted: float
    """Those that this process may use, limits of a container counted."""
    spare: float
    """Those of them that no other process is using."""


def use_threads(asked: int | None, device: torch.device, say: Callable[[str], None]) -> None:
    """Have PyTorch compute in as many threads as a person asks for, or in as many as there are free cores.

    `OMP_NUM_THREADS` is a person's word too. On a GPU threads hardly matter.

    Raises:
        InputError: fewer than one is asked for.
    """
    if asked is not None:
        set_threads(asked)
        return
    now = torch.get_num_threads()
    most = _chosen["before"] if _chosen.get("taken") == now else now
    if os.environ.get("OMP_NUM_THREADS") or device.type != "cpu" or now == most == 1:
        return
    load = measure_load()
    threads = max(1, min(most, round(load.spare)))
    if threads < most:
        held = max(0.0, load.granted - load.spare)
        why = f"Other processes hold {held:.1f} of {load.granted:g} cores" if held >= 0.5 else f"{load.granted:g} cores"
        say(f"{why}: computing in {threads} of {most} threads, as more would wait for each other (--threads).")
    if threads != now:
        torch.set_num_threads(threads)
    _chosen.update(before=most, taken=threads)


def set_threads(asked: int) -> None:
    """Have PyTorch compute in so many.

    Raises:
        InputError: fewer than one is asked for.
    """
    if asked < 1:
        raise InputError(f"--threads {asked}: at least one.")
    torch.set_num_threads(asked)


def measure_load(root: Path = Path("/")) -> Load:
    """Of this machine, now; where the system does not say, the load of the last minute stands for it."""
    load = Load(granted=len(_own_cores()), spare=0.0)
    for pause in _PAUSES:
        before = _look(root)
        time.sleep(pause)
        seen = _between(before, _look(root))
        load = Load(granted=seen.granted, spare=max(load.spare, seen.spare))
        if round(load.spare) >= int(load.granted):
            break
    return load


@dataclass(frozen=True)
class _Moment:
    """Seconds of work until now."""

    time: float
    own: float
    """Of this process."""
    all: float | None
    """Of everybody, on the cores that this process may use."""
    groups: tuple[tuple[float, float], ...]
    """Of each group of processes that we belong to and that is limited; with its limit in cores."""


def _look(root: Path) -> _Moment:
    times = os.times()
    return _Moment(time.monotonic(), times.user + times.system, _work_of_all(root), tuple(_groups(root)))


def _between(before: _Moment, after: _Moment) -> Load:
    cores, seconds = len(_own_cores()), after.time - before.time
    own = (after.own - before.own) / seconds
    if before.all is not None and after.all is not None:
        others = (after.all - before.all) / seconds - own
    else:
        others = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    granted, spare = float(cores), cores - max(0.0, others)
    for (limit, earlier), (_, later) in zip(before.groups, after.groups, strict=True):
        granted, spare = min(granted, limit), min(spare, limit - max(0.0, (later - earlier) / seconds - own))
    return Load(granted=granted, spare=max(0.0, spare))


def _own_cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _work_of_all(root: Path) -> float | None:
    """From Linux's counters. Work of a low priority counts like any other: it gives way to its own session alone."""
    own, total = _own_cores(), 0.0
    for line in _lines(root / "proc/stat"):
        name, *counts = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in own:
            user, nice, system, _, _, *rest = map(float, counts[:8])
            total += user + nice + system + sum(rest)
    return total / os.sysconf("SC_CLK_TCK") if total else None


def _groups(root: Path) -> Iterator[tuple[float, float]]:
    """Limit and work of control groups, of both versions of them, from our own up to the first."""
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if kinds else "")
        place = Path(path.lstrip("/"))
        for folder in (top / place, *(top / above for above in place.parents)):
            if (limit := _limit(folder)) is not None:
                yield limit, _work_of_group(folder)


def _limit(folder: Path) -> float | None:
    words = " ".join(_lines(folder / "cpu.max")).split()
    words = words or [*_lines(folder / "cpu.cfs_quota_us"), *_lines(folder / "cpu.cfs_period_us")]
    quota, period = words if len(words) == 2 else ("max", "1")
    return float(quota) / float(period) if quota.isdecimal() else None


def _work_of_group(folder: Path) -> float:
    for line in _lines(folder / "cpu.stat"):
        if line.startswith("usage_usec "):
            return float(line.split()[1]) / 1e6
    return sum(float(line) / 1e9 for line in _lines(folder / "cpuacct.usage"))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
