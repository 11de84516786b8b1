"""One command in several processes of this machine, by PyTorch's own `torchrun`."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence

import torch

from coranet.errors import InputError


def is_spread() -> bool:
    """Whether this process is one of those that were started together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def check_gpus(count: int) -> None:
    """There must be as many as are asked for."""
    usable = torch.cuda.device_count()
    if not 1 <= count <= usable:
        raise InputError(
            f"--gpus {count}: this machine has {usable} usable GPUs. Ask for no more, or leave --gpus out."
        )


def spread(words: Sequence[str], count: int) -> int:
    """Run `coranet WORDS` in so many processes; the exit status is that of the first that failed, or 0.

    When one ends badly the others are ended too.

    Raises:
        InputError: one was killed, and could not say so itself.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # else it is set, and warned about
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # each process says itself what is wrong
    try:
        run(parse_args(["--standalone", "--nproc-per-node", str(count), "-m", "coranet", *words]))
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            by = signal.Signals(-failure.exitcode).name
            raise InputError(
                f"Process {rank + 1} of {count} was ended by {by} (out of memory?), and the others with it. "
                "Give the same command again with --resume."
            ) from error
        return failure.exitcode
    except SignalException as stop:
        return 128 + int(stop.sigval)
    return 0
