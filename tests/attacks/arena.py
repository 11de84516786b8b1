"""Each attack in a process of its own, forked from this one, which has everything loaded; with limits and a watch."""

from __future__ import annotations

import json
import math
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attacks.attack import Kind, Outcome, Scene, Trial
from tests.attacks.verdict import judge, trace_of
from tests.attacks.world import World

ADDRESSES = 6 << 30
"""Bytes that an attack may ask for beyond what is there; it may use far less. Larger than any field of 32 bits says."""
PATIENCE = 6
"""How much longer than it should an attack may take that is at work, as other processes may hold the cores."""
TICK = 0.05
"""Seconds between two looks at how much memory processes use."""


@dataclass(frozen=True, kw_only=True)
class Fight:
    """An attack that is under way."""

    trial: Trial
    kind: Kind
    pid: int
    pipe: int
    room: Path
    began: float
    answer: bytearray
    ready: list[float]
    """When everything was prepared, once it was."""


class Arena:
    """Runs attacks, some at a time."""

    def __init__(self, world: World, kinds: dict[str, Kind], jobs: int) -> None:
        self.world, self.kinds, self.jobs = world, kinds, jobs
        self.stopped: dict[int, str] = {}
        """By process, why it was ended."""

    def run(self, trials: Iterable[Trial]) -> Iterator[Outcome]:
        """What becomes of each, in the order in which they end."""
        waiting, fights = iter(trials), dict[int, Fight]()
        try:
            while True:
                while len(fights) < self.jobs and (trial := next(waiting, None)) is not None:
                    fight = self._begin(trial)
                    fights[fight.pipe] = fight
                if not fights:
                    return
                ready, _, _ = select.select(list(fights), [], [], TICK)
                for pipe in ready:
                    if part := os.read(pipe, 1 << 16):
                        fights[pipe].answer.extend(part)
                        fights[pipe].ready.append(time.monotonic())
                    else:
                        yield self._end(fights.pop(pipe))
                for fight in fights.values():
                    self._watch(fight)
        finally:
            for fight in fights.values():
                _kill_group(fight.pid)
                self._end(fight)

    def _begin(self, trial: Trial) -> Fight:
        kind, room = self.kinds[trial.kind], Path(tempfile.mkdtemp(prefix="room-", dir=self.world.root))
        mine, theirs = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(mine)
            _act(self.world, kind, trial, room, theirs)
        os.close(theirs)
        began = time.monotonic()
        return Fight(trial=trial, kind=kind, pid=pid, pipe=mine, room=room, began=began, answer=bytearray(), ready=[])

    def _watch(self, fight: Fight) -> None:
        """End what waits for nothing or takes too much memory; too much work ends by the limit of the process itself."""
        past = time.monotonic() - (fight.ready or [fight.began])[0]
        if past > fight.kind.seconds and (past > PATIENCE * fight.kind.seconds or _worked(fight.pid) < past / 10):
            self._stop(fight, f"hangs: nothing came of it in {past:.0f} s")
        elif (used := _resident(fight.pid)) > fight.kind.megabytes:
            self._stop(fight, f"too much memory: {used:.0f} MB")

    def _stop(self, fight: Fight, why: str) -> None:
        if fight.pid not in self.stopped:
            self.stopped[fight.pid] = why
            _kill_group(fight.pid)

    def _end(self, fight: Fight) -> Outcome:
        os.close(fight.pipe)
        os.waitid(os.P_PID, fight.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(fight.pid)  # what it left behind
        _, status, usage = os.wait4(fight.pid, 0)
        shutil.rmtree(fight.room, ignore_errors=True)
        found: dict[str, Any] = {"fate": "bad", "seconds": time.monotonic() - fight.began}
        for line in fight.answer.splitlines():
            found |= json.loads(line)
        code, used = os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024
        if why := self.stopped.pop(fight.pid, ""):
            found |= {"fate": "bad", "reason": why}
        elif code == -signal.SIGXCPU:
            found |= {"fate": "bad", "reason": f"hangs: still at work after {fight.kind.seconds:.0f} s of a core"}
        elif code or "reason" not in found:
            ended = signal.Signals(-code).name if code < 0 else f"status {code}"
            found |= {"fate": "bad", "reason": f"crash: the process ended by {ended}"}
        elif used > fight.kind.megabytes:
            found |= {"fate": "bad", "reason": f"too much memory: {used:.0f} MB"}
        return Outcome(trial=fight.trial, megabytes=used, **found)


def _act(world: World, kind: Kind, trial: Trial, room: Path, pipe: int) -> None:
    """In the child: make the attack, do it, and tell what came of it, a line each. Never returns."""

    def tell(**facts: object) -> None:
        os.write(pipe, json.dumps(facts).encode() + b"\n")

    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(room)
        _say_nothing(room)
        attack = kind.make(Scene(world=world, room=room, rng=trial.rng, number=trial.number))
        tell(what=attack.what)
        _limit(kind.seconds)
        began = _spent()
        fate, reason, trace = judge(attack)
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
            resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        tell(fate=fate, reason=reason, trace=trace, seconds=_spent() - began)
    except BaseException as error:  # of ours, not of the product
        tell(fate="bad", reason=f"the attack itself is broken: {error!r}", trace=trace_of(error))
    finally:
        os._exit(0)


def _say_nothing(room: Path) -> None:
    """Output goes to a file that nobody reads, and there is no input."""
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, room / ".out", os.O_WRONLY), (2, room / ".err", 1)):
        opened = os.open(name, flags | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)


def _spent() -> float:
    """Seconds of a core, by this process and those that it waited for."""
    return sum(os.times()[:4])


def _limit(seconds: float) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident(pid: int) -> float:
    """Megabytes of memory that a process uses."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / 2**20


def _worked(pid: int) -> float:
    """Seconds of a core that a process has had."""
    try:
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
