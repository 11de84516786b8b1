"""Attack, and print what came of it: `python -m tests.attacks --help`."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from PIL import Image

import coranet
from tests.attacks import table
from tests.attacks.arena import Arena
from tests.attacks.attack import Outcome, Trial
from tests.attacks.kinds import KINDS
from tests.attacks.world import make_world


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What a person says."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of every attack (default: 0)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="attacks at a time")
    parser.add_argument("--only", nargs="+", choices=sorted(KINDS), help="these kinds alone")
    parser.add_argument("--short", action="store_true", help="a few of each kind")
    parser.add_argument("--repeat", metavar="KIND:SEED:NUMBER", help="one attack, with all that it says")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table there, as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there, a line each")
    return parser.parse_args(arguments)


def trials(asked: argparse.Namespace) -> list[Trial]:
    """Which attacks are made, mixed, so that the slow ones do not all come last."""
    if asked.repeat:
        return [Trial.parse(asked.repeat)]
    kinds = asked.only or KINDS
    chance = random.Random(asked.seed)
    made = []
    for name in kinds:
        numbers = range(KINDS[name].count)
        chosen = chance.sample(numbers, KINDS[name].few) if asked.short else numbers
        made += [Trial(name, asked.seed, number) for number in chosen]
    return sorted(made, key=lambda trial: (-KINDS[trial.kind].seconds, trial.number))


LAZY = (
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "pydicom.pixels",
    "rich.progress",
    "rich.table",
    "scipy.io",
)
LAZY += ("scipy.ndimage", "scipy.stats", "h5py", "nibabel")
"""What the product imports when it is needed."""


def load_everything() -> None:
    """All of the product, once, so that each attack finds it loaded."""
    torch.set_num_threads(1)
    inner = (module.name for module in pkgutil.walk_packages(coranet.__path__, "coranet."))
    for name in (*inner, *LAZY):
        if "kernels" not in name and not name.endswith("__main__"):
            importlib.import_module(name)
    Image.init()
    gc.collect()
    gc.freeze()  # pages that nobody writes to are shared with the processes that are forked


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where nothing was bad."""
    asked = options(arguments)
    began = time.monotonic()
    os.environ.update(OMP_NUM_THREADS="1", MPLBACKEND="agg")
    os.environ.pop("CORANET_DATA", None)
    warnings.simplefilter("default")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # and clear away on the way
    load_everything()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        wanted = trials(asked)
        world = make_world(Path(folder), {need for trial in wanted for need in KINDS[trial.kind].needs})
        with (asked.json or Path(os.devnull)).open("w") as lines:
            for outcome in Arena(world, KINDS, asked.jobs).run(wanted):
                outcomes.append(outcome)
                lines.write(json.dumps({"id": str(outcome.trial), **asdict(outcome)}) + "\n")
                lines.flush()
                _show_progress(outcomes, len(wanted))
    if asked.repeat:
        sys.stdout.write("".join(f"{name}: {value}\n" for name, value in asdict(outcomes[0]).items()))
    else:
        sys.stdout.write(f"{table.bad_ones(outcomes)}\n{table.as_text(outcomes)}")
        sys.stdout.write(f"Seed {asked.seed}, {time.monotonic() - began:.0f} s.\n")
    if asked.table:
        asked.table.write_text(table.as_markdown(outcomes, "make attack"), encoding="utf-8")
    return int(any(outcome.fate == "bad" for outcome in outcomes))


def _show_progress(outcomes: Sequence[Outcome], total: int) -> None:
    if sys.stderr.isatty():
        bad = sum(outcome.fate == "bad" for outcome in outcomes)
        sys.stderr.write(f"\r{len(outcomes)} of {total}, {bad} bad" + ("\n" if len(outcomes) == total else ""))


if __name__ == "__main__":
    sys.exit(main())
