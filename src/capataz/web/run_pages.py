"""Pages that show runs: the list, one run, parts of it, live, and where a value comes from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from capataz.events.codec import to_line
from capataz.lens.provenance import Mention, excerpt, provenance
from capataz.lens.trace.page import page as whole_page
from capataz.mistakes import NotFound
from capataz.ports import RunRow
from capataz.telemetry.reading import Place, rows_behind
from capataz.web.books import Book
from capataz.web.gate import Refused, caller_of
from capataz.web.queued import queued
from capataz.web.render import html, page, path, query, readable
from capataz.web.shown import masked_job, masked_row
from capataz.web.site import Site, site_of
from capataz.web.tokens import Caller
from capataz.web.views import PER_PAGE, Head, TurnPage, head, turn_pages

ROWS = 50
OUTCOMES = ("completed", "answered", "partial", "escalated", "aborted")
_READ = 200
"""Rows read from the store at a time."""
_SCANNED = 2_000
"""Rows looked through, at most, to fill one page of a filtered list."""


async def runs(request: Request) -> Response:
    """The list of runs, newest first."""
    site, caller = site_of(request), caller_of(request)
    asked = {name: request.query_params.get(name, "").strip()[:200] for name in ("agent", "outcome", "type", "q")}
    before = number(request.query_params.get("before"))
    place = None if before is None else Place(before, request.query_params.get("before_run", "")[:500])
    found = await listed(site, caller, asked, place, ROWS)
    behind = found.next
    shown = [masked_row(site.shower, row) for row in found.rows]
    older = "" if behind is None else query(**asked, before=behind.started_at, before_run=behind.run)
    return page(
        request,
        "runs.html",
        rows=shown,
        queued=await queued(site, caller, asked) if place is None else [],
        asked=asked,
        older=older,
        outcomes=(*OUTCOMES, "running"),
        paged=before is not None,
        now=site.clock.now(),
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of the list of runs. `next` is where it goes on; None where nothing is behind it."""

    rows: tuple[RunRow, ...]
    next: Place | None


async def listed(site: Site, caller: Caller, asked: dict[str, str], place: Place | None, most: int) -> Listed:
    """The rows a caller may see that fit what is asked for; looks through a bounded number of them."""
    found: list[RunRow] = []
    outcome = asked.get("outcome") or None
    wanted = None if outcome == "running" else outcome
    scanned = 0
    async for row in rows_behind(site.store, place, agent=asked.get("agent") or None, outcome=wanted, size=_READ):
        fits = _fits(row, asked) and await site.books.may_see(caller, row.run, None, row.root)
        if scanned >= _SCANNED or (fits and len(found) == most):
            return Listed(tuple(found), place)
        if fits:
            found.append(row)
        scanned += 1
        place = Place(row.started_at, row.run)
    return Listed(tuple(found), None)


def _fits(row: RunRow, asked: dict[str, str]) -> bool:
    words = asked.get("q", "").lower()
    if words and words not in f"{row.run} {row.task} {row.reason} {row.model}".lower():
        return False
    if asked.get("outcome") == "running" and row.status != "running":
        return False
    return not asked.get("type") or row.task_type == asked["type"]


def number(text: str | None) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < 1e15 else None


async def run(request: Request) -> Response:
    """One run: why it ended on top, then its turns, a page at a time."""
    site, caller, named = site_of(request), caller_of(request), str(request.path_params["run"])
    job = await site.job(named, caller)
    try:
        book = await book_of(request)
    except NotFound:
        if job is None:
            raise
        return page(request, "queued.html", run=named, job=masked_job(site.shower, job))
    shown = head(book, site.shower, site.clock.now())
    first = _first(request, book)
    at = number(request.query_params.get("event"))
    turns = turn_pages(book, site.shower, first, at=None if at is None else int(at))
    opening = site.shower.trace(book.opening()).opening if first == 0 else []
    return page(
        request,
        "run.html",
        **_context(book, shown, turns, first),
        opening=opening,
        can_fork=caller.may("operate"),
        can_cancel=caller.may("operate") and job is not None,
    )


def _context(book: Book, shown: Head, turns: list[TurnPage], first: int) -> dict[str, Any]:
    return {
        "head": shown,
        "turns": turns,
        "first": first,
        "per_page": PER_PAGE,
        "run": book.run,
        "last_seq": book.events[-1].seq if book.events else -1,
        "foreign": book.foreign,
    }


def _first(request: Request, book: Book) -> int:
    """Index of the first turn asked for: by turn, by an event to look at, or the last page."""
    seq = number(request.query_params.get("event"))
    if seq is not None:
        return (book.turn_of(int(seq)) or 0) // PER_PAGE * PER_PAGE
    if request.query_params.get("turn") == "last":
        return max(0, len(book.firsts) - 1) // PER_PAGE * PER_PAGE
    index = number(request.query_params.get("turn")) or 0
    return max(0, min(int(index), max(0, len(book.firsts) - 1))) // PER_PAGE * PER_PAGE


async def book_of(request: Request) -> Book:
    """The book the path names. "last" is the newest run."""
    site, caller = site_of(request), caller_of(request)
    named = str(request.path_params["run"])
    if named == "last":
        rows = (await listed(site, caller, {}, None, 1)).rows
        if not rows:
            raise NotFound("this store has no runs yet")
        named = rows[0].run
    return await site.books.get(named, caller)


async def verdict(request: Request) -> Response:
    """To the turn in which a verdict was given."""
    book = await book_of(request)
    place = int(request.path_params["number"])
    if not 1 <= place <= len(book.verdicts):
        raise NotFound(f"run {book.run} has no verdict {place}")
    seq = book.verdicts[place - 1].seq
    return RedirectResponse(f"{path('runs', book.run)}?event={seq}#v{place}", 303)


async def event(request: Request) -> Response:
    """One event, whole."""
    site, book = site_of(request), await book_of(request)
    found = book.event(int(request.path_params["seq"]))
    if found is None:
        raise NotFound(f"run {book.run} has no event {request.path_params['seq']}")
    shown = readable(orjson.loads(to_line(site.shower.event(found))))
    return page(request, "event.html", run=book.run, seq=found.seq, place=book.tree.label(found.seq), text=shown)


async def download(request: Request) -> Response:
    """The run as one self-contained page."""
    site, book = site_of(request), await book_of(request)
    shown = await asyncio.to_thread(lambda: whole_page(site.shower.trace(book.events)))
    name = "".join(char for char in book.run if char.isalnum() or char in "-_.")
    return Response(
        shown.encode("utf-8", "replace"),
        media_type="text/html; charset=utf-8",
        headers={
            "content-disposition": f'attachment; filename="{name}.html"',
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        },
    )


async def value(request: Request) -> Response:
    """Where a value comes from, and what took it over."""
    site, book = site_of(request), await book_of(request)
    asked = request.query_params.get("v", "").strip()[:500]
    found = await asyncio.to_thread(provenance, book.events, asked) if asked else None
    mentions = [_mention(site, book, mention, asked) for mention in found.mentions[:200]] if found is not None else []
    return page(request, "value.html", run=book.run, asked=site.shower.text(asked), found=found, mentions=mentions)


def _mention(site: Site, book: Book, mention: Mention, asked: str) -> dict[str, object]:
    return {
        "seq": mention.seq,
        "what": mention.what,
        "where": site.shower.text(mention.where),
        "place": book.tree.label(mention.seq),
        "text": excerpt(site.shower.text(mention.text), site.shower.text(asked)),
        "outside": mention.outside,
    }


async def live(request: Request) -> Response:
    """The run as it goes on: its head and each turn that changed, as parts of the page."""
    site, book = site_of(request), await book_of(request)
    after = int(number(request.query_params.get("after")) or -1)
    known = int(number(request.headers.get("last-event-id")) or after)
    stream = _news(site, caller_of(request), book.run, known)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _news(site: Site, caller: Caller, run: str, after: int) -> AsyncIterator[bytes]:
    waited, until = 0.0, site.clock.now() + site.patience
    yield b"retry: 2000\n\n"
    while site.clock.now() < until:
        book = await site.books.get(run, caller)
        last = book.events[-1].seq if book.events else -1
        if last != after:
            for piece in _changes(site, book, after):
                yield piece
            after = last
            if book.tree.status != "running":
                yield sse("end", "over", last)
                return
        elif waited >= 15:
            yield _head(site, book)
            waited = 0.0
        waited += site.pace
        await asyncio.sleep(site.pace)


def _changes(site: Site, book: Book, after: int) -> list[bytes]:
    last = book.events[-1].seq
    since = max(0, (book.turn_of(after) or 0), len(book.firsts) - PER_PAGE)
    parts = [_head(site, book)]
    for turn in turn_pages(book, site.shower, since, at=last):
        parts.append(sse("turn", html("turn.html", turn=turn, run=book.run, can_fork=False), last, turn.index))
    return parts


def _head(site: Site, book: Book) -> bytes:
    """The head as it stands now; also sent where nothing is new, since it says for how long nothing was."""
    shown = head(book, site.shower, site.clock.now())
    last = book.events[-1].seq if book.events else -1
    return sse("head", html("head.html", head=shown, run=book.run, foreign=book.foreign), last)


def sse(name: str, data: str, id: int, index: int | None = None) -> bytes:
    """One server-sent event. The index of a turn goes before its markup, parted by a line."""
    text = data if index is None else f"{index}\n{data}"
    lines = "".join(f"data: {line}\n" for line in text.encode("utf-8", "replace").decode().splitlines() or [""])
    return f"id: {id}\nevent: {name}\n{lines}\n".encode()


def routes() -> list[Route]:
    return [
        Route("/", runs, name="runs"),
        Route("/runs/{run}", run),
        Route("/runs/{run}/verdicts/{number:int}", verdict),
        Route("/runs/{run}/events/{seq:int}", event),
        Route("/runs/{run}/page", download),
        Route("/runs/{run}/value", value),
        Route("/runs/{run}/live", live),
    ]


__all__ = ["Refused", "routes"]
