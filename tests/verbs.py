"""Verbs of the command in processes of their own, which a test can start together, signal and kill.

They are forked from one process that has imported everything, so that each is at work after milliseconds.
"""

import multiprocessing
import os
import sys
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["coranet.cli", "coranet.runs.jobs", "coranet.report", "coranet.data.doctor.intake", __name__]
)


def start(arguments, said, gate=None):
    """A process that runs a verb; what it says goes to a file. Where a gate is given, it is waited for."""
    words = list(map(str, arguments))
    process = FORKS.Process(target=_run, args=(words, str(said), gate))
    process.start()
    return process


def finish(arguments, said):
    """Run a verb to its end; its exit status."""
    process = start(arguments, said)
    process.join()
    return process.exitcode


def _run(words, said, gate):
    import torch

    from coranet.cli import main

    torch.set_num_threads(1)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["coranet", *words]
    if gate is not None:
        gate.wait()
    main(words)


def files_in(folder):
    """Names of all files, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())
