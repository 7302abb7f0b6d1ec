"""`POST /v1/traces`: where any framework's exporter is pointed to. And the tree of a received run's spans."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from capataz.ingest.otlp import Unusable, answer, from_json, from_protobuf, unpacked
from capataz.ingest.receiver import Node, read, tree
from capataz.mistakes import NotFound
from capataz.web.gate import require
from capataz.web.problems import problem
from capataz.web.render import page
from capataz.web.run_pages import book_of
from capataz.web.site import Site, site_of

PROTOBUF, JSON_TYPE = "application/x-protobuf", "application/json"
SHOWN = 2_000
"""Spans on one page."""


async def take(request: Request) -> Response:
    """Spans in; answered with success once they are durable, so that the sender stops sending them."""
    site, caller = site_of(request), require(request, "operate")
    if site.receiver is None:
        return problem(503, "This store cannot keep spans", "serve from a SQLite file or PostgreSQL to receive them")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON_TYPE):
        return problem(415, "", f"send {PROTOBUF} or {JSON_TYPE}")
    body, encoding = await request.body(), request.headers.get("content-encoding", "")
    decode = from_protobuf if kind == PROTOBUF else from_json
    try:
        value = await asyncio.to_thread(lambda: decode(unpacked(body, encoding)))
    except Unusable as error:
        return problem(400, "These are no spans", str(error))
    _, refused = await site.receiver.take(value, caller.tenant)
    why = "spans without usable ids, or beyond what is kept of one trace" if refused else ""
    return Response(answer(kind == PROTOBUF, refused, why), media_type=kind)


async def spans(request: Request) -> Response:
    """The spans of a received run as they hang together."""
    site, book = site_of(request), await book_of(request)
    if site.receiver is None or not book.foreign:
        raise NotFound(f"run {book.run} was not told by received spans")
    found = read(await site.receiver.book.of(book.run))
    left = [SHOWN]
    shown = [_shown(site, node, left) for node in tree(found)]
    return page(request, "spans.html", run=book.run, nodes=[n for n in shown if n], count=len(found), cut=left[0] <= 0)


def _shown(site: Site, node: Node, left: list[int], depth: int = 0) -> dict[str, object] | None:
    if left[0] <= 0 or depth > 100:
        return None
    left[0] -= 1
    span = node.span
    inside = [shown for child in node.inside if (shown := _shown(site, child, left, depth + 1))]
    if span is None:
        return {"id": node.id, "name": "", "inside": inside}
    took = None if span.start is None or span.end is None else span.end - span.start
    return {
        "id": node.id,
        "name": site.shower.text(span.name),
        "what": span.what,
        "took": took,
        "error": site.shower.text(span.error),
        "inside": inside,
    }


def routes() -> list[Route]:
    return [Route("/v1/traces", take, methods=["POST"]), Route("/runs/{run}/spans", spans)]
