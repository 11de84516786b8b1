"""How many small faults the tests find: a seeded sample of mutants of `ops`, `uncertainty`, `metrics` and CoraNet.

python benchmarks/mutation.py --count 60 --against ../before

A first pass over the tests of these rooms notes which of them call which function. A mutant is then judged by the tests that
call its function, quick ones first, up to the first that fails. With `--against` the same mutants are put into another
checkout, and judged by its own tests: functions that are the same in both are drawn from.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mutants import MARK, Mutant, marked, mutated, units

ROOT = Path(__file__).parents[1]
ROOMS = ("coranet.ops", "coranet.uncertainty", "coranet.metrics", "coranet.methods")
LIBRARIES = (
    "torch",
    "scipy.ndimage",
    "scipy.stats",
    "nibabel",
    "pydicom",
    "h5py",
    "PIL",
    "matplotlib.pyplot",
    "rich",
    "tyro",
    "monai.metrics",
)
"""Loaded once, before a process is forked for each mutant."""
QUIET = "-Wignore::pytest.PytestAssertRewriteWarning"
"""Plugins may be loaded with the libraries already."""
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", QUIET, "--hypothesis-seed=0", "--basetemp=temporary")


@dataclass(eq=False)
class Reach:
    """What each test calls, what its fixtures do counted in; a plugin of pytest."""

    called: set[str] = field(default_factory=set)
    by_fixture: dict[str, set[str]] = field(default_factory=dict)
    rows: dict[str, tuple[float, list[str]]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """Notes what a fixture calls, for every test that uses it."""
        before, self.called = self.called, set()
        try:
            return (yield)
        finally:
            self.by_fixture.setdefault(fixturedef.argname, set()).update(self.called)
            self.called |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        """Notes what a test calls, and how long it takes."""
        self.called, started = set(), time.process_time()
        answer = yield
        shared = (self.by_fixture.get(name, set()) for name in item.fixturenames)
        self.rows[item.nodeid] = (time.process_time() - started, sorted(self.called.union(*shared)))
        return answer

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that fails without any fault says nothing of one."""
        if report.failed:
            self.failed.add(report.nodeid)


@dataclass(eq=False)
class Chosen:
    """Only these tests, in this order; a plugin of pytest."""

    names: list[str]

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leaves out all others."""
        place = {name: number for number, name in enumerate(self.names)}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


class Checkout:
    """A copy of a checkout whose files may be changed."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.root = folder
        command = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"):
            if (source / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, folder / name)
        self.package = folder / "src/coranet"
        self.units = units(self.package)
        self.original = {unit.file: (self.package / unit.file).read_text(encoding="utf-8") for unit in self.units}
        self.tests: dict[str, tuple[float, list[str]]] = {}

    def find(self, mutant: Mutant) -> Mutant:
        """The same fault in this checkout."""
        same = (unit for unit in self.units if (unit.name, unit.text) == (mutant.unit.name, mutant.unit.text))
        return Mutant(next(same), mutant.site)

    def trace(self) -> None:
        """Runs the tests of the mutated rooms once, and notes what each calls."""
        with self.changed({file: marked(text, file) for file, text in self.original.items()}):
            notes = self.root / "reach.json"

            def run() -> int:
                reach = Reach()
                setattr(builtins, MARK, lambda name: reach.called.add(name))
                pytest.main([*OPTIONS, *self.test_files()], plugins=[reach])
                rows = {name: row for name, row in reach.rows.items() if name not in reach.failed}
                print(f"{len(rows)} tests, and {len(reach.failed)} that fail without a mutant and are left out")
                notes.write_text(json.dumps(rows), encoding="utf-8")
                return 0

            assert self.in_child(run, cpu=3600, quiet=False) == 0
        self.tests = json.loads(notes.read_text(encoding="utf-8"))

    def test_files(self) -> list[str]:
        """Files with tests that import a mutated room, some through another file of tests."""
        texts = {path: path.read_text(encoding="utf-8") for path in (self.root / "tests").rglob("*.py")}
        names = {".".join(path.relative_to(self.root).with_suffix("").parts): path for path in texts}
        found = {path for path, text in texts.items() if any(f"from {room}" in text for room in ROOMS)}
        size = -1
        while size != len(found):
            size = len(found)
            found |= {
                path
                for path, text in texts.items()
                if any(f"from {name} import" in text for name, other in names.items() if other in found)
            }
        return sorted(str(path.relative_to(self.root)) for path in found if path.name.startswith("test_"))

    def kills(self, mutant: Mutant) -> tuple[bool, str]:
        """Whether some test fails because of it, and what the fault is."""
        source, what = mutated(self.original[mutant.unit.file], mutant)
        mark = f"{mutant.unit.file}:{mutant.unit.name}"
        times = {name: seconds for name, (seconds, called) in self.tests.items() if mark in called}
        files: dict[str, float] = {}
        for name, seconds in times.items():
            file = name.split("::")[0]
            files[file] = files.get(file, 0.0) + seconds
        order = sorted(times, key=lambda name: (files[name.split("::")[0]], name.split("::")[0], times[name]))
        paths = sorted(files, key=lambda file: files[file])
        if not paths:
            return False, what
        with self.changed({mutant.unit.file: source}):
            run = lambda: pytest.main([*OPTIONS, "-x", *paths], plugins=[Chosen(order)])  # noqa: E731
            return self.in_child(run, cpu=30 + 5 * sum(times.values())) != 0, what

    @contextlib.contextmanager
    def changed(self, sources: dict[Path, str]) -> Iterator[None]:
        """Other sources for a while."""
        for file, text in sources.items():
            (self.package / file).write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            for file in sources:
                (self.package / file).write_text(self.original[file], encoding="utf-8")

    def in_child(self, run: Callable[[], int], cpu: float, *, quiet: bool = True) -> int:
        """The exit code of a forked process in this checkout, not 0 when it takes more than `cpu` seconds of a core."""
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 5))
            signal.alarm(3600)
            os.chdir(self.root)
            sys.dont_write_bytecode = True
            sys.path[:0] = [str(self.root / "src"), str(self.root)]
            os.environ["PYTHONPATH"] = str(self.root / "src")  # for processes that tests start
            if quiet:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
            code = int(run())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)


def sample(checkouts: list[Checkout], count: int, seed: int) -> list[Mutant]:
    """Mutants of functions that all checkouts share."""
    shared = set.intersection(*({(unit.name, unit.text) for unit in checkout.units} for checkout in checkouts))
    drawn_from = [
        Mutant(unit, site)
        for unit in checkouts[0].units
        if (unit.name, unit.text) in shared
        for site in range(unit.sites)
    ]
    functions = len({mutant.unit for mutant in drawn_from})
    print(f"{functions} of {len(checkouts[0].units)} functions are drawn from, with {len(drawn_from)} mutants.")
    return random.Random(seed).sample(sorted(drawn_from, key=str), min(count, len(drawn_from)))


def main() -> None:
    """Prints each mutant with what became of it, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--against", type=Path, help="another checkout, judged by its own tests")
    given = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    os.environ.pop("CORANET_DATA", None)
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        places = [ROOT, *([given.against] if given.against else [])]
        checkouts = [Checkout(place, Path(folder) / str(number)) for number, place in enumerate(places)]
        mutants = sample(checkouts, given.count, given.seed)
        for checkout in checkouts:
            checkout.trace()
        killed = [0 for _ in checkouts]
        for mutant in mutants:
            answers = [checkout.kills(checkout.find(mutant)) for checkout in checkouts]
            killed = [total + answer for total, (answer, _) in zip(killed, answers, strict=True)]
            fates = " | ".join("killed" if answer else "ALIVE" for answer, _ in answers)
            print(f"{fates}  {mutant}  {answers[0][1]}", flush=True)
        for place, total in zip(("here", "there"), killed, strict=False):
            print(f"{place}: {total} of {len(mutants)} killed")


if __name__ == "__main__":
    main()
