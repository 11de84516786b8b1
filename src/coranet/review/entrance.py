"""Who may ask the server: the person who was given its address, from this machine, in a page that came from it.

The address that is printed has a token. It is exchanged for a cookie that no script can read and no other site can send.
A request for another host's name is refused, so that no name on the internet can be pointed at this machine. What changes
something must come from our own page.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 64 * 2**20
"""Of a request. A packed label map of 512 x 512 x 300 voxels has far fewer."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        # The viewer's letters are a picture that it carries in itself.
        "default-src 'self'; img-src 'self' data:; connect-src 'self' data:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class TooLargeError(Exception):
    """More was sent than any label has."""


class Entrance:
    """Lets in who knows the token, and nobody else."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self.app, self.token, self.cookie = app, token, f"coranet-review-{port}"
        self.key = secrets.token_urlsafe(32)
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        if answer := self._answer(scope, headers):
            await answer(scope, receive, safely)
            return
        try:
            await self.app(scope, _limited(receive), safely)
        except TooLargeError:
            await _refusal(413, "The request is too large.")(scope, receive, safely)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """What is said at the door; None lets in."""
        if headers.get("host") not in self.hosts:
            return _refusal(403, "This server is asked under another name than its own.")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and scope["path"] == "/" and _same(given, self.token):
            welcome = RedirectResponse("/", status_code=303)
            welcome.set_cookie(self.cookie, self.key, httponly=True, samesite="strict", path="/")
            return welcome
        if not _same(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""), self.key):
            return PlainTextResponse("Open the address that coranet review printed, with its token.", 403)
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get("origin") not in {f"http://{host}" for host in self.hosts}:
            return _refusal(403, "What changes something must come from the page itself.")
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return _refusal(413, f"A request may have {MOST_BYTES >> 20} MiB, and must say how long it is.")
        return None


def _limited(receive: Receive) -> Receive:
    """The request as it comes, up to what it may have, whatever it said."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise TooLargeError
        return message

    return limited


def _same(given: str, known: str) -> bool:
    return secrets.compare_digest(given.encode(), known.encode())


def _refusal(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
