"""The command `coranet`: one file a verb.

Nothing heavy is imported before it is known which one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from typing import Protocol, get_args

import tyro

from coranet.cli.calibrate import CalibrateVerb
from coranet.cli.compare import CompareVerb
from coranet.cli.demo import DemoVerb
from coranet.cli.doctor import DoctorVerb
from coranet.cli.evaluate import EvaluateVerb
from coranet.cli.export import ExportVerb
from coranet.cli.methods import MethodsVerb
from coranet.cli.next_scans import NextVerb
from coranet.cli.predict import PredictVerb
from coranet.cli.prepare import PrepareVerb
from coranet.cli.report import ReportVerb
from coranet.cli.reproduce import ReproduceVerb
from coranet.cli.review import ReviewVerb
from coranet.cli.split import SplitVerb
from coranet.cli.status import StatusVerb
from coranet.cli.terminal.ending import exit_status
from coranet.cli.terminal.parsing import GIVEN, REGISTRY
from coranet.cli.terminal.usage import complaint
from coranet.cli.train import TrainVerb
from coranet.data.prepare.preparation import Intensity
from coranet.version import __version__

__all__ = ["VERBS", "main"]


class Verb(Protocol):
    """What each file of this room offers."""

    def __call__(self) -> int:
        """Do it; the exit status."""


VERBS: dict[str, Callable[..., Verb]] = {
    "demo": DemoVerb,
    "doctor": DoctorVerb,
    "prepare": PrepareVerb,
    "split": SplitVerb,
    "train": TrainVerb,
    "calibrate": CalibrateVerb,
    "predict": PredictVerb,
    "next": NextVerb,
    "review": ReviewVerb,
    "evaluate": EvaluateVerb,
    "report": ReportVerb,
    "export": ExportVerb,
    "compare": CompareVerb,
    "status": StatusVerb,
    "methods": MethodsVerb,
    "reproduce": ReproduceVerb,
}
"""In the order in which one needs them: look, train, use, pass on; then what researchers ask."""

ABOUT = """Train segmentation from a few labelled and many unlabelled scans, and see what is uncertain.

    coranet demo                                  two minutes, nothing needed
    coranet doctor SCANS                          is my folder in order?
    coranet prepare SCANS --out STORE             one compact store, of any format
    coranet split SCANS --ratio 1:4 --out FILE    which cases are labelled, for validation and for test
    coranet train SCANS --out RUN                 prepare, split and train
    coranet calibrate RUN                         how far to believe it: cross-validation over its labels
    coranet predict RUN NEW_SCANS --out FOLDER    labels and uncertain regions, worst first
    coranet next RUN SCANS                        which scans to label next, and why
    coranet review RUN NEW_SCANS --out LABELS     look, correct and train on, in the browser
    coranet evaluate FOLDER LABELS                honest scores
    coranet report RUN                            a page of any run, of several, or of a comparison
    coranet export RUN --onnx FILE                the network for those without PyTorch
    coranet compare SCANS --methods A,B --out DIR several methods and seeds, one table
    coranet status DIR                            what runs, waits and failed on a cluster
    coranet methods                               which methods there are, with their equations
    coranet reproduce table9 --data SETS          a table or figure of the paper, made again

All that a verb can do: coranet VERB --help. The version: coranet --version.
"""


OPEN: dict[str, Callable[[str], bool]] = {
    "--patch": str.isdecimal,
    "--stride": str.isdecimal,
    "--intensity": get_args(Intensity).__contains__,
}
"""Options that take as many values as there are, and what a value looks like."""


def _folders_first(arguments: Sequence[str]) -> list[str]:
    """The words in an order in which such an option does not take a folder named after it for one more value."""
    kept: list[str] = []
    taken: list[str] = []
    fits: Callable[[str], bool] | None = None
    for word in arguments:
        option, _, _ = word.partition("=")
        if option in OPEN:
            fits = OPEN[option]
        elif not (fits and (fits(word) or (taken[-1] in OPEN and not word.startswith("--")))):
            fits = None
        (taken if fits else kept).append(word)
    first = next((place for place, word in enumerate(kept) if word.startswith("-")), len(kept))
    return kept[:first] + taken + kept[first:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb and exit, with a status that `ending` explains."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(exit_status(lambda: _run(words)))


def _run(words: list[str]) -> int:
    if words == ["--version"]:
        sys.stdout.write(f"coranet {__version__}\n")
        return 0
    if words in (["--help"], ["-h"]):
        sys.stdout.write(ABOUT)
        return 0
    said = StringIO()
    try:
        with redirect_stderr(said):
            verb = _read(words)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        sys.stderr.write(f"coranet: {complaint(said.getvalue(), words, list(VERBS), _help)}\n")
        return 2
    GIVEN.set(tuple(words))
    return verb()


def _read(words: Sequence[str]) -> Verb:
    """What the words ask for; exits where they ask for help or cannot be read."""
    verb: Verb = tyro.extras.subcommand_cli_from_dict(
        VERBS,
        prog="coranet",
        args=_folders_first(words),
        config=(tyro.conf.FlagCreatePairsOff,),
        registry=REGISTRY,
    )
    return verb


def _help(verb: str) -> str:
    """What `coranet VERB --help` shows."""
    shown = StringIO()
    with redirect_stdout(shown), suppress(SystemExit):
        _read([verb, "--help"])
    return shown.getvalue()
