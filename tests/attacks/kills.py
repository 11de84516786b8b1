"""Kill -9 at random moments of each verb: the same command given again ends as if nothing had happened."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import Attack, Refused, Scene, Wrong
from tests.attacks.checkpoints import compare_weights
from tests.attacks.verdict import verb
from tests.attacks.world import World


def kill_attack(name: str) -> Callable[[Scene], Attack]:
    """A verb that is killed once or more often before it may end."""

    def make(scene: Scene) -> Attack:
        times, cold = scene.rng.choice((1, 1, 1, 2, 3)), scene.rng.random() < 0.5
        moments = [scene.rng.uniform(0, 1.1 * scene.world.seconds[name]) for _ in range(times)]
        said = ", ".join(f"{moment:.2f}" for moment in moments)
        return Attack(what=f"{name}, killed after {said} s", act=lambda: _survive(name, scene, moments, cold=cold))

    return make


def _survive(name: str, scene: Scene, moments: list[float], *, cold: bool) -> None:
    place = scene.room / "work"
    place.mkdir()
    out, cache = out_in(place, name), place / "cache" if cold else scene.world.cache
    for moment in moments:
        _killed(lambda: verb(*_again(name, scene.world, out, cache)), moment)
    try:
        verb(*_again(name, scene.world, out, cache))
    except Refused as refused:
        if name != "prepare" or "is a prepared store already" not in str(refused):  # it was done before it was killed
            raise Wrong(f"refused after a kill: {refused}") from None
    check_equal(name, out, scene.world, cache if cold and name in ("train", "compare") else None)


def out_in(place: Path, name: str) -> Path:
    """Where a verb writes to, in a folder."""
    return place / ("scores.csv" if name == "evaluate" else "out")


def _again(name: str, world: World, out: Path, cache: Path) -> list[str]:
    """The same command, for a training as it asks to be continued."""
    resume = ["--resume"] if name == "train" and (out / "run.json").exists() else []
    return [*world.command(name, out, cache), *resume]


def _killed(act: Callable[[], object], seconds: float) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def check_equal(name: str, out: Path, world: World, cache: Path | None) -> None:
    """What was made against what is made without a kill.

    Raises:
        Wrong: something differs, is missing or was left behind.
    """
    honest = world.made_by(name)
    wanted = {f"{out.name}/{file}" for file in _files(honest)} if out.is_dir() else {out.name}
    found = {file for file in _files(out.parent) if not file.startswith("cache/")}
    if left := sorted(found - wanted):
        raise Wrong(f"left behind: {', '.join(left[:5])}")
    if lost := sorted(wanted - found):
        raise Wrong(f"lost: {', '.join(lost[:5])}")
    if cache and (
        left := sorted(
            _files(cache) - {file for file in _files(cache) if file.count("/") == 1 and "/." not in f"/{file}"}
        )
    ):
        raise Wrong(f"left in the cache: {', '.join(left[:5])}")
    _EQUAL[name](out, honest)


def _files(place: Path) -> set[str]:
    """All below a folder, hidden ones too."""
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


def _same_bytes(out: Path, honest: Path) -> None:
    for file in sorted(honest.rglob("*")) if honest.is_dir() else [honest]:
        mine = out / file.relative_to(honest) if honest.is_dir() else out
        if file.parent.name == ".cases":  # which holds times of files
            continue
        if file.is_file() and mine.read_bytes() != file.read_bytes():
            raise Wrong(f"{file.name} is another one")


def _same_run(out: Path, honest: Path) -> None:
    compare_weights(out / "last.pt", honest / "last.pt")
    mine, theirs = (_steps(folder) for folder in (out, honest))
    if sorted(set(mine)) != mine or not set(theirs) <= set(mine):
        raise Wrong(f"the log has steps {mine}, without a kill {theirs}")


def _steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()]


def _same_table(out: Path, honest: Path) -> None:
    for run in honest.glob("*-seed0"):
        _same_run(out / run.name, run)
        _same_bytes(out / run.name / "scores.csv", run / "scores.csv")
    mine, theirs = (list(csv.DictReader((folder / "table.csv").open())) for folder in (out, honest))
    for row in (*mine, *theirs):
        for column in [column for column in row if "seconds" in column or "clock" in column]:
            del row[column]
    if mine != theirs:
        raise Wrong("table.csv is another one")


_EQUAL: dict[str, Callable[[Path, Path], None]] = {
    "train": _same_run,
    "prepare": _same_bytes,
    "compare": _same_table,
    "predict": _same_bytes,
    "evaluate": _same_bytes,
}
"""What of each verb's output must be as it would have been."""
