"""Verbs of the command in processes of their own, which a test can start together, signal and kill.

They are forked from one process that has imported everything, so that each is at work after milliseconds.
"""

import multiprocessing
import os
import resource
import sys
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
PICTURES = "coranet.report.pictures.page_pictures"
FORKS.set_forkserver_preload(
    ["coranet.cli.terminal.display", "coranet.runs.jobs", PICTURES, "coranet.data.doctor.intake", __name__]
)


def start(arguments, said, gate=None, largest=None):
    """A process that runs a verb; what it says goes to a file.

    Where a gate is given, it is waited for; where a size is, no file may have more bytes, as on a disk that is full.
    """
    words = list(map(str, arguments))
    process = FORKS.Process(target=_run, args=(words, str(said), gate, largest))
    process.start()
    return process


def finish(arguments, said, **limits):
    """Run a verb to its end; its exit status."""
    process = start(arguments, said, **limits)
    process.join()
    return process.exitcode


def _run(words, said, gate, largest):
    import torch

    from coranet.cli import main

    torch.set_num_threads(1)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["coranet", *words]
    if gate is not None:
        gate.wait()
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    main(words)


def files_in(folder):
    """Names of all files, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())
