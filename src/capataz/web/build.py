"""Puts the server together: routes, the gate before them, and what becomes of errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ExceptionHandler

from capataz.mistakes import Misuse, NotFound, StoreError, Unreadable
from capataz.web import api, compare_pages, figures_pages, inbox_pages, otlp, run_pages, sign_in, upload_pages
from capataz.web.gate import Gatekeeper, Refused
from capataz.web.problems import TITLES, problem
from capataz.web.render import page, templates
from capataz.web.site import Site

STATIC = Path(__file__).parent / "static"


def build(site: Site) -> Starlette:
    """The ASGI application of a site."""
    handlers: dict[type[Exception] | int, ExceptionHandler] = {
        Refused: _refused,
        NotFound: _mistake,
        Misuse: _mistake,
        StoreError: _mistake,
        HTTPException: _http,
    }
    app = Starlette(
        routes=[
            Route("/healthz", _healthy),
            *sign_in.routes(),
            *api.routes(),
            *otlp.routes(),
            *inbox_pages.routes(),
            *compare_pages.routes(),
            *figures_pages.routes(),
            *upload_pages.routes(),
            *run_pages.routes(),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Gatekeeper, gate=site.gate)],
        exception_handlers=handlers,
        lifespan=_lifespan,
    )
    app.state.site = site
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncGenerator[None]:
    site: Site = app.state.site
    site.shower.text("warm@example.com")
    templates().get_template("run.html")
    if site.receiver is not None:
        site.work(site.receiver.watch(), "receiver")
    try:
        yield
    finally:
        for task in tuple(site.tasks):
            task.cancel()
        if site.tasks:
            await asyncio.wait(site.tasks, timeout=10)
        if site.closes:
            await site.app.close()


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok")


def for_programs(request: Request) -> bool:
    """Whether the answer is for a program: then errors are problems, not pages."""
    if request.url.path.startswith(("/api/", "/v1/")) or request.url.path == "/metrics":
        return True
    return "text/html" not in request.headers.get("accept", "*/*") and "*/*" not in request.headers.get("accept", "*/*")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    if for_programs(request):
        return problem(error.status, error.title, error.detail)
    return page(request, "error.html", error.status, title=error.title, detail=error.detail)


async def _mistake(request: Request, error: Exception) -> Response:
    """A mistake of the caller's, or a store that does not answer, in its own words."""
    status = 404 if isinstance(error, NotFound) else 422 if isinstance(error, Misuse) else 503
    if isinstance(error, Unreadable):
        status = 422
    site: Site = request.app.state.site
    detail = site.shower.text(str(error))
    if for_programs(request):
        return problem(status, "", detail)
    return page(request, "error.html", status, title=TITLES[status], detail=detail)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = TITLES.get(error.status_code, error.detail)
    if for_programs(request):
        answer = problem(error.status_code, title, error.detail if error.detail != title else "")
        answer.headers.update(error.headers or {})
        return answer
    return page(request, "error.html", error.status_code, title=title, detail="")
