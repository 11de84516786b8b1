"""What the page may ask: the queue, a case and its files, and what a person decided to be saved. Names, never paths."""

from __future__ import annotations

import base64
import binascii
import time
import zlib
from collections import defaultdict
from collections.abc import Mapping
from math import prod
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, get_args

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from coranet.data.datasets.corrections import LABELLED, Status
from coranet.data.grid import mismatch
from coranet.data.readers import label_source, nifti
from coranet.errors import InputError
from coranet.evaluation.classes import class_map
from coranet.json_files import parse_json
from coranet.review.corrections_folder import account
from coranet.review.miniature import PAINT
from coranet.review.pieces import CHOICES, Choice, Map
from coranet.review.prepared_case import CaseOverview, PreparedCase, voxels_of
from coranet.review.retraining import Retraining
from coranet.review.workshop import Workshop

STATIC = Path(__file__).with_name("static")
ALIVE = 12.0
"""Seconds after which a window that says nothing is taken for closed."""
_KEPT = {
    "prediction.bin": "prediction.bin.gz",
    "region.bin": "region.bin",
    "thumbnail.jpg": "thumbnail.jpg",
}


class ReviewServer:
    """Answers the page. It holds nothing that is not on disk, but for which windows are open."""

    def __init__(self, workshop: Workshop, retraining: Retraining, *, title: str) -> None:
        self.workshop, self.retraining, self.title = workshop, retraining, title
        self.windows: dict[str, dict[str, float]] = defaultdict(dict)
        self.saving = Lock()

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/api/queue", self.queue),
                Route("/api/train", self.training, methods=["GET", "POST"]),
                Route("/api/case/{name}", self.case),
                Route("/api/case/{name}/alive", self.alive, methods=["POST"]),
                Route("/api/case/{name}/save", self.save, methods=["POST"]),
                Route("/api/case/{name}/{file}", self.file),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers={HTTPException: _said, InputError: _said},
        )

    def page(self, request: Request) -> Response:
        """The one page there is."""
        return FileResponse(STATIC / "index.html")

    def queue(self, request: Request) -> Response:
        """All cases, worst first, and how far predictions are."""
        classes = self.workshop.corrections.classes
        return JSONResponse(
            {
                "title": self.title,
                "classes": [
                    {"value": value, "name": name, "colour": list(PAINT[(value - 1) % len(PAINT)])}
                    for value, name in classes.items()
                    if value
                ],
                "cases": self.workshop.queue(),
                "busy": self.workshop.busy,
            }
        )

    def case(self, request: Request) -> Response:
        """All about a case but its voxels; the window that asks gets a ticket."""
        name = self._name(request)
        facts = self._facts(name)
        note, ticket = self.workshop.corrections.note(name), token_hex(8)
        self.windows[name][ticket] = time.monotonic()
        return JSONResponse(
            {
                "name": name,
                "shape": facts.geometry.shape,
                "spacing": facts.geometry.spacing,
                "axis": facts.axis,
                "window": facts.window,
                "channels": facts.channels,
                "pieces": [[piece.key, piece.start, piece.voxels, piece.middle] for piece in facts.pieces],
                "choices": {chosen["piece"]: chosen["answer"] for chosen in note.get("chosen", ())}
                if note.get("pieces") == facts.stamp  # numbers of other pieces mean nothing here
                else {},
                "status": note["status"],
                "seconds": note.get("seconds", 0),
                "saved": self.workshop.corrections.label(name).exists(),
                "revision": self.workshop.corrections.revision(name),
                "ticket": ticket,
                "others": self._others(name, ticket),
            }
        )

    def file(self, request: Request) -> Response:
        """A case's files as they were made; packed ones are unpacked by the browser."""
        name, asked = self._name(request), request.path_params["file"]
        folder, channels = self.workshop.prepared(name).cache, self.workshop.ready[name].channels
        images = {f"image{number}.nii": f"image{number}.nii.gz" for number in range(channels)}
        kept = {**_KEPT, **images}
        if asked == "label.bin":
            return Response(self._label(name), media_type="application/octet-stream")
        if asked not in kept:
            raise HTTPException(404, f"There is no file {asked!r}.")
        path = folder / kept[asked]
        packed = {"Content-Encoding": "gzip"} if path.suffix == ".gz" else {}
        kind = "image/jpeg" if path.suffix == ".jpg" else "application/octet-stream"
        return FileResponse(path, headers=packed, media_type=kind)

    async def alive(self, request: Request) -> Response:
        """A window says that it is still open, or that it is closed, and hears of others and of saves."""
        name = self._name(request)
        said = await _content(request)
        ticket = str(said.get("ticket", ""))
        if ticket in self.windows[name]:
            self.windows[name][ticket] = time.monotonic()
            if said.get("closed"):
                del self.windows[name][ticket]
        others = self._others(name, ticket)
        return JSONResponse({"others": others, "revision": self.workshop.corrections.revision(name)})

    async def save(self, request: Request) -> Response:
        """What was decided of a case: a label on its own grid, or that there is none."""
        name = self._name(request)
        said = await _content(request)
        return await run_in_threadpool(self._save, name, said)

    async def training(self, request: Request) -> Response:
        """How training on goes; a POST starts it."""
        if request.method == "POST":
            await _content(request)
            await run_in_threadpool(self.retraining.start)
        return JSONResponse(await run_in_threadpool(self.retraining.state))

    def _save(self, name: str, said: Mapping[str, Any]) -> Response:
        facts = self._facts(name)
        status, seconds, choices = _status(said), _seconds(said), _choices(said, facts)
        folder, files = self.workshop.corrections, self.workshop.prepared(name)
        label = _unpacked(said["label"], facts, files) if status in LABELLED else None
        note = folder.note_on(files.case.images, status, seconds)
        with self.saving:
            if said.get("revision") != folder.revision(name) and not said.get("anyway"):
                raise HTTPException(409, "This case was saved in another window meanwhile. Reload it, or save anyway.")
            if label is None:
                folder.write_note(name, {**folder.note(name), **note})
            else:
                region = files.region(facts)
                note |= account(region, choices, label, files.prediction(), folder.classes) | {"pieces": facts.stamp}
                folder.save(name, label, facts.geometry, note, flat=facts.flat)
            return JSONResponse({"status": status, "revision": folder.revision(name), "note": note})

    def _name(self, request: Request) -> str:
        """The name of a case that is ready, one of those that are listed."""
        name: str = request.path_params["name"]
        if name not in self.workshop.ready:
            known = name in self.workshop.cases
            raise HTTPException(404, f"{name!r} is not ready yet." if known else f"There is no case {name!r}.")
        return name

    def _facts(self, name: str) -> CaseOverview:
        facts = self.workshop.facts(name)
        if facts is None:
            raise HTTPException(410, f"The files of {name!r} have changed since. Start coranet review again.")
        return facts

    def _label(self, name: str) -> bytes:
        """The voxels of the label as it was last saved, or as it was predicted."""
        files, saved = self.workshop.prepared(name), self.workshop.corrections.label(name)
        with self.saving:
            volume = label_source(saved).read() if saved.exists() else None
        if volume is None:
            return voxels_of(files.prediction())
        if difference := mismatch(volume.geometry, self.workshop.ready[name].geometry):
            raise HTTPException(422, f"{saved} does not lie on the grid of its scan any more: {difference}.")
        if (ignore := self.workshop.corrections.ignore) is not None and (volume.array == ignore).any():
            what = "is drawn in part, and a label is saved whole here"
            raise HTTPException(422, f"{saved} {what}. Draw on in the program it was made with, or set it aside.")
        return voxels_of(class_map(volume, files.classes))

    def _others(self, name: str, ticket: str) -> int:
        """How many other windows show a case."""
        now, open_ = time.monotonic(), self.windows[name]
        for closed in [other for other, seen in open_.items() if now - seen > ALIVE]:
            del open_[closed]
        return sum(other != ticket for other in open_)


async def _content(request: Request) -> dict[str, Any]:
    """The object that was sent."""
    try:
        content = parse_json((await request.body()).decode(), "The request")
    except UnicodeDecodeError as error:
        raise HTTPException(400, "The request is not text.") from error
    if not isinstance(content, dict):
        raise HTTPException(400, "The request is not a JSON object.")
    return content


def _status(said: Mapping[str, Any]) -> Status:
    status: Any = said.get("status")
    if status not in get_args(Status) or (status in LABELLED and not isinstance(said.get("label"), str)):
        raise HTTPException(400, "A case is accepted or corrected with its label, set aside, or to do.")
    found: Status = status
    return found


def _seconds(said: Mapping[str, Any]) -> float:
    seconds = said.get("seconds", 0)
    return float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e7 else 0.0


def _choices(said: Mapping[str, Any], facts: CaseOverview) -> dict[int, Choice]:
    """By the number of a piece; anything else is refused."""
    choices = said.get("choices", {})
    fits = isinstance(choices, dict) and all(
        number.isdecimal() and int(number) < len(facts.pieces) and choice in CHOICES
        for number, choice in choices.items()
    )
    if not fits:
        raise HTTPException(400, "Choices are one of three answers for pieces that there are.")
    return {int(number): choice for number, choice in choices.items()}


def _unpacked(text: str, facts: CaseOverview, files: PreparedCase) -> Map:
    """The label that was sent, once it is known to lie on the scan's grid and to hold its classes alone."""
    most = prod(facts.geometry.shape) * 4 + 4096
    place = files.cache / f"sent-{token_hex(4)}.nii"
    try:
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(base64.b64decode(text, validate=True), most)
        if not unpacker.eof:
            raise HTTPException(413, "The label is larger than its scan, or cut short.")
        place.write_bytes(content)
        sent = nifti.read(place)
    except (binascii.Error, zlib.error) as error:
        raise HTTPException(422, "The label is not a packed NIfTI file.") from error
    finally:
        place.unlink(missing_ok=True)
    if difference := mismatch(sent.geometry, facts.geometry):
        raise HTTPException(422, f"The label does not lie on the grid of its scan: {difference}.")
    return class_map(sent, files.classes)


def _said(request: Request, error: Exception) -> Response:
    """Why not, in one sentence."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": str(error)}, 422)
