"""Shards of 100,000 cases on one machine: names and outcomes, no voxels. Listing, skipping and merging must stay linear.

    python benchmarks/shards.py [--cases 100000] [--shards 100]

Every case is an empty file, and its result is one too. What is measured is what `coranet predict` does besides predicting:
list the scans, write a line for each finished case, find out that nothing is left to do, put the rows in order. Seconds are
those of the processor, which other work on the machine changes less than seconds of the clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coranet.data.case_journal import CaseJournal
from coranet.data.datasets.folder import Case, scan_cases
from coranet.data.shards import Shard
from coranet.evaluation.oddities import Usual
from coranet.evaluation.quality import CASES, judge, write_qualities
from coranet.metrics.case_facts import CaseFacts, ClassFacts


@contextmanager
def timed(name: str, found: dict[str, float]) -> Iterator[None]:
    """Add the seconds of the block."""
    processor, clock = time.process_time(), time.monotonic()
    yield
    found[name] = round(time.process_time() - processor, 2)
    found[f"{name}, clock"] = round(time.monotonic() - clock, 2)


def outcome(case: Case) -> CaseFacts:
    """Some facts that a name decides."""
    sizes = {"liver": 1000 + Shard.of(case.name, 997).number / 3, "spleen": 100 + Shard.of(case.name, 89).number / 7}
    return CaseFacts(
        classes={name: ClassFacts(millilitres=size) for name, size in sizes.items()},
        uncertain=Shard.of(case.name, 53).number / 11,
        look={},
    )


def simulate(home: Path, count: int, shards: int) -> dict[str, float]:
    """Do it; seconds by name."""
    scans, out, seconds = home / "scans", home / "out", dict[str, float]()
    scans.mkdir()
    out.mkdir()
    for number in range(count):
        (scans / f"ct_{number:06d}_0000.nii.gz").touch()
    with timed("list", seconds):
        cases = scan_cases(scans, 1)
    by_shard: dict[Shard, list[Case]] = {Shard(number, shards): [] for number in range(1, shards + 1)}
    with timed("share out", seconds):
        for case in cases:
            by_shard[Shard.of(case.name, shards)].append(case)
    for case in cases:
        (out / f"{case.name}.nii.gz").touch()
    journal = CaseJournal(out, "run")
    with timed("write lines", seconds):
        for shard, share in by_shard.items():
            with journal.opened(shard.name):
                for case in share:
                    journal.add(case, outcome(case).to_row(), [out / f"{case.name}.nii.gz"])
    with timed("skip", seconds):
        rows = CaseJournal(out, "run").rows(cases)
    assert rows is not None
    with timed("merge", seconds):
        read = {name: facts for name, row in rows.items() if (facts := CaseFacts.from_row(row))}
        write_qualities(out, judge(read, Usual(), None))
    merged = (out / CASES).read_bytes()
    write_qualities(out, judge({case.name: outcome(case) for case in cases}, Usual(), None))
    assert merged == (out / CASES).read_bytes()
    return seconds


def main() -> None:
    """Print seconds for a tenth, half and all of the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=100)
    asked = parser.parse_args()
    for count in (asked.cases // 10, asked.cases // 2, asked.cases):
        with tempfile.TemporaryDirectory() as home:
            seconds = simulate(Path(home), count, asked.shards)
        print(f"{count:>7} cases  " + "  ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))


if __name__ == "__main__":
    main()
