"""Signing a browser in with a token, and out again."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from capataz.web.gate import COOKIE
from capataz.web.render import page
from capataz.web.site import site_of
from capataz.web.tokens import SESSION_SECONDS


async def show(request: Request) -> Response:
    return page(request, "login.html", wrong=False)


async def begin(request: Request) -> Response:
    """A session for the token, under a fresh cookie."""
    site = site_of(request)
    await site.gate.believe(request)
    async with request.form() as form:
        token = str(form.get("token") or "").strip()
    caller = site.gate.tokens.caller(token)
    if caller is None:
        return page(request, "login.html", 403, wrong=True)
    answer = RedirectResponse("/", 303)
    key = site.gate.sessions.begin(caller, site.clock.now())
    answer.set_cookie(
        COOKIE,
        key,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def end(request: Request) -> Response:
    site = site_of(request)
    await site.gate.believe(request)
    site.gate.sessions.end(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


def routes() -> list[Route]:
    return [
        Route("/login", show, methods=["GET"]),
        Route("/login", begin, methods=["POST"]),
        Route("/logout", end, methods=["POST"]),
    ]
