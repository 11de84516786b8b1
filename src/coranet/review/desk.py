"""One review from start to end: the cases, the thread that prepares them, the server and the browser."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from coranet.engine.prediction.scan_list import list_scans
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.files import make_folder
from coranet.review.corrections_folder import CorrectionsFolder
from coranet.review.entrance import Entrance
from coranet.review.prediction_maker import PredictionMaker
from coranet.review.retraining import Retraining
from coranet.review.server import STATIC, ReviewServer
from coranet.review.viewer import VIEWER
from coranet.review.workshop import Workshop
from coranet.runs.machine.device import find_device
from coranet.runs.machine.machine_load import set_threads

HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class ReviewRequest:
    """What is to be reviewed, and how; `coranet review --help` says what each is."""

    run: Path
    scans: Path
    out: Path
    predictions: Path | None = None
    data: Path | None = None
    port: int = 0
    no_browser: bool = False
    trust: bool = False
    device: str | None = None
    threads: int | None = None


def serve(request: ReviewRequest, say: Callable[[str], None]) -> None:
    """Print the address, open it, and answer until the process is asked to stop.

    Raises:
        InputError: the run, the scans or the port cannot be used, or the viewer is not installed.
    """
    if not (STATIC / VIEWER.name).exists():
        raise InputError(
            f"The viewer is not there: {STATIC / VIEWER.name}. Get it with `python -m coranet.review.viewer`."
        )
    if request.threads is not None:
        set_threads(request.threads)
    run = Run.read(request.run, trust=request.trust)
    server = ReviewServer(
        _workshop(request, run), _retraining(request, run), title=f"{request.run.name} · {request.scans.resolve().name}"
    )
    with _listening(request.port) as (listener, port), _working(server.workshop):
        token = secrets.token_urlsafe(24)
        address = f"http://{HOST}:{port}/?token={token}"
        app = Entrance(server.app(), port=port, token=token)
        say(f"Review {len(server.workshop.cases)} scans at {address}\nCtrl-C ends it.")
        if not request.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        settings = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=2)
        uvicorn.Server(settings).run(sockets=[listener])


def _check_folders(request: ReviewRequest, predictions: Path) -> None:
    if request.predictions and not predictions.is_dir():
        raise InputError(f"{predictions}: does not exist. Leave out --predictions to have them made.")
    if (request.out / "imagesTr").exists():
        raise InputError(f"{request.out}: is a dataset, whose labels are not to be touched. Choose another --out.")


def _workshop(request: ReviewRequest, run: Run) -> Workshop:
    predictions = request.predictions or request.out / "predictions"
    _check_folders(request, predictions)
    cases = list_scans(request.scans, request.out, run.data.channels)
    corrections = CorrectionsFolder(
        root=request.out,
        run=request.run,
        channels=[str(number) for number in range(run.data.channels)],
        classes={int(value): name for value, name in run.data.classes.items()},
    )
    named = {case.name: case for case in cases}
    corrections.begin(named)
    make_folder(predictions)
    return Workshop(
        cases=named,
        predictions=predictions,
        corrections=corrections,
        maker=None if request.predictions else lambda: _maker(request, predictions),
    )


def _maker(request: ReviewRequest, predictions: Path) -> PredictionMaker:
    def load() -> Trained:
        return Trained.load(request.run, find_device(request.device), trust=request.trust)

    return PredictionMaker(request.run, predictions, load)


def _retraining(request: ReviewRequest, run: Run) -> Retraining:
    extra = [*(("--trust",) if request.trust else ()), *(("--device", request.device) if request.device else ())]
    data = request.data or Path(run.data.source)
    return Retraining(data=data, run=request.run, corrections=request.out, extra=tuple(extra))


@contextmanager
def _listening(port: int) -> Iterator[tuple[socket.socket, int]]:
    """A socket of this machine alone."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()  # who is quicker than the server waits for it
        except (OSError, OverflowError) as error:
            raise InputError(f"--port {port}: cannot be used ({error}). Give another, or none.") from error
        yield listener, listener.getsockname()[1]


@contextmanager
def _working(workshop: Workshop) -> Iterator[None]:
    """The thread that predicts and prepares, until the end."""
    stop, context = threading.Event(), copy_context()
    thread = threading.Thread(target=context.run, args=(workshop.work, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
