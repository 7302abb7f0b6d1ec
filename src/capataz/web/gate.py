"""The gate every request passes: which host it was sent to, who sends it, and what the answer may do in a browser.

A page of ours may load nothing from anywhere else, be put into no frame, and send no form elsewhere. A request that a
foreign page makes a browser send is refused by its origin, a form also by its mark. Nothing behind the gate checks any
of this again; scopes are asked for where the deed is done.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope as Asgi, Send

from capataz.ports import Clock
from capataz.web.problems import problem
from capataz.web.tokens import LOCAL, Caller, Scope, Sessions, Tokens

COOKIE = "capataz"
MOST_BYTES = 32 << 20
"""Of one request, as it comes over the wire."""
OPEN = ("/static/", "/login", "/healthz")
"""What can be had without a token."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Refused(Exception):
    """A request that may not go on; `status` and words for whoever sent it."""

    def __init__(self, status: int, title: str, detail: str = "") -> None:
        super().__init__(detail or title)
        self.status, self.title, self.detail = status, title, detail


@dataclass(frozen=True, slots=True)
class Gate:
    """What the gate knows. `hosts` are names it answers to, besides plain addresses and loopback."""

    tokens: Tokens
    clock: Clock
    hosts: Collection[str] = ()
    sessions: Sessions = field(default_factory=Sessions)

    def admit(self, connection: HTTPConnection, path: str, method: str) -> Caller:
        """Who asks. Raises `Refused`."""
        self._host(connection.headers)
        if method not in SAFE:
            self._origin(connection.headers)
        if not self.tokens:
            return LOCAL
        caller = self._caller(connection)
        if caller is None and not path.startswith(OPEN):
            raise Refused(401, "A token is needed", "send it as `Authorization: Bearer TOKEN`, or sign in at /login")
        return caller or Caller("nobody", "read", "")

    def _host(self, headers: Headers) -> None:
        """A page of somebody else whose name leads here is not let in under that name."""
        name = _name(headers.get("host", ""))
        if not (name in ("localhost", *self.hosts) or _is_address(name)):
            raise Refused(421, "This server does not answer to that name", "see `capataz serve --allow-host NAME`")

    def _origin(self, headers: Headers) -> None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise Refused(403, "Sent from another page", "requests that change something come from this server's pages")
        if site in ("cross-site", "same-site"):
            raise Refused(403, "Sent from another page", "requests that change something come from this server's pages")

    def _caller(self, connection: HTTPConnection) -> Caller | None:
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        if kind:
            return self.tokens.caller(token.strip()) if kind.lower() == "bearer" else None
        return self.sessions.caller(connection.cookies.get(COOKIE, ""), self.clock.now())

    async def believe(self, request: Request) -> None:
        """A form is believed when it carries the mark of the browser's own cookie. Raises `Refused`."""
        form = await request.form(max_files=20, max_fields=200, max_part_size=4 << 20)
        mark = form.get("mark")
        if not isinstance(mark, str) or not self.sessions.marked(request.cookies.get(COOKIE, ""), mark):
            raise Refused(403, "This form is not from here", "open the page again and send the form from there")


class Gatekeeper:
    """The gate as ASGI middleware. `scope["caller"]` is who asks, for everything behind it."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection, path, method = HTTPConnection(scope), str(scope["path"]), str(scope["method"])
        fresh = None
        try:
            scope["caller"] = self._gate.admit(connection, path, method)
            receive = _bounded(connection.headers, receive)
        except Refused as refused:
            await _answer(refused, path, connection)(scope, receive, _dressed(send, None, path))
            return
        if not connection.cookies.get(COOKIE):
            fresh = secrets.token_urlsafe(32)
        scope["cookie"] = connection.cookies.get(COOKIE) or fresh
        scope["mark"] = self._gate.sessions.mark(str(scope["cookie"]))
        wants = fresh if method == "GET" and not path.startswith(("/api/", "/v1/", "/static/", "/metrics")) else None
        await self._app(scope, receive, _dressed(send, wants, path))


def _answer(refused: Refused, path: str, connection: HTTPConnection) -> Response:
    page = "text/html" in connection.headers.get("accept", "")
    if refused.status == 401 and page and not path.startswith(("/api/", "/v1/")):
        return RedirectResponse("/login", 303)
    answer = problem(refused.status, refused.title, refused.detail)
    if refused.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def _dressed(send: Send, cookie: str | None, path: str) -> Send:
    async def dressed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store" if not path.startswith("/static/") else "max-age=3600")
            if cookie is not None:
                headers.append("set-cookie", f"{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict")
        await send(message)

    return dressed


def _bounded(headers: Headers, receive: Receive) -> Receive:
    """The body, never more of it than may be."""
    told = headers.get("content-length", "0")
    if not told.isdecimal() or int(told[:12]) > MOST_BYTES:
        raise Refused(413, "Too large", f"a request has at most {MOST_BYTES >> 20} MB")
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise Refused(413, "Too large", f"a request has at most {MOST_BYTES >> 20} MB")
        return message

    return bounded


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    bare = host.strip().lower()
    if bare.startswith("["):
        return bare[1:].partition("]")[0]
    return bare.rpartition(":")[0] if bare.rpartition(":")[2].isdecimal() and ":" in bare else bare


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def caller_of(connection: HTTPConnection) -> Caller:
    found = connection.scope.get("caller")
    assert isinstance(found, Caller)
    return found


def require(connection: HTTPConnection, scope: Scope) -> Caller:
    """The caller, who may do this. Raises `Refused`."""
    caller = caller_of(connection)
    if not caller.may(scope):
        raise Refused(403, "This token may not do that", f"it needs the scope {scope!r}; yours is {caller.scope!r}")
    return caller
