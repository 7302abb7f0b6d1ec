"""The HTTP API: submit, follow, call off, answer, fork, compare, measure. The same rights as the pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from capataz.events.codec import to_line
from capataz.events.facts import JSON, Event
from capataz.events.plain import to_json
from capataz.lens.diff import diff
from capataz.lens.fork import Edit
from capataz.lens.metrics.tally import BY, By
from capataz.lens.provenance import excerpt, provenance
from capataz.lens.trace.as_json import evidence_json, signals_json, spend_json, trace_json
from capataz.mistakes import Misuse, NotFound
from capataz.ports import Job, JobRow, JobState, RunRow
from capataz.runtime.described import differing
from capataz.telemetry.reading import Place
from capataz.web import upload_pages
from capataz.web.books import Book
from capataz.web.compare_pages import call_off, forked
from capataz.web.figures_pages import WINDOWS, gathered, readings
from capataz.web.gate import Refused, caller_of, require
from capataz.web.inbox_pages import decide, decision, one, told, waiting
from capataz.web.openapi import OPERATIONS, document
from capataz.web.problems import problem
from capataz.web.queued import job_json, queued
from capataz.web.render import page
from capataz.web.run_pages import OUTCOMES, book_of, listed
from capataz.web.shown import masked_row
from capataz.web.site import Site, site_of
from capataz.web.tokens import Caller
from capataz.web.wanted import LARGEST, Answer, Cancel, ForkAsked, Submit, Unfit, body, integer, real, word

Handler = Callable[[Request], Awaitable[Response]]
OVER = ("cancelled", "dead")
"""States in which a run that was never begun never will be."""
STATUS: Mapping[JobState, str] = {
    "queued": "queued",
    "parked": "queued",
    "claimed": "running",
    "waiting": "escalated",
    "done": "ended",
    "dead": "ended",
    "cancelled": "ended",
}
"""What the queue says of a run, in the words for runs."""


def reply(value: JSON, status: int = 200, **headers: str) -> Response:
    """A value as JSON; text that UTF-8 cannot say is replaced."""
    return Response(to_json(value), status, headers, media_type="application/json")


async def runs(request: Request) -> Response:
    site, caller = site_of(request), caller_of(request)
    limit = integer(request, "limit", 50, 1, 500)
    asked = {"agent": word(request, "agent"), "type": word(request, "task_type")}
    asked["outcome"] = word(request, "outcome", (*OUTCOMES, "running"))
    before, run = real(request, "before"), word(request, "before_run")
    if run and before is None:
        raise Refused(422, "A parameter is missing", "before_run goes with before")
    found = await listed(site, caller, asked, None if before is None else Place(before, run), limit)
    told: JSON = None if found.next is None else {"before": found.next.started_at, "before_run": found.next.run}
    jobs = await queued(site, caller, asked, limit) if before is None else []
    rows = [row_json(masked_row(site.shower, row)) for row in found.rows]
    return reply({"queued": [job_json(row) for row in jobs], "runs": rows, "next": told})


def row_json(row: RunRow) -> JSON:
    return {
        "run": row.run,
        "agent": row.agent,
        "task": row.task,
        "task_type": row.task_type,
        "status": row.status,
        "outcome": row.outcome,
        "reason": row.reason,
        "model": row.model,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "usage": spend_json(row.spend),
        "events": row.events,
        "root": row.root,
        "parent": row.parent,
    }


async def submit(request: Request) -> Response:
    """Put a task into the queue. The same `Idempotency-Key` a second time is the first submission."""
    site, caller = site_of(request), require(request, "operate")
    wanted = await body(request, Submit)
    if site.engine is None:
        return problem(503, "This store has no queue")
    if site.agents and wanted.agent not in site.agents:
        raise Misuse(f"there is no agent {wanted.agent!r} here; there are: {', '.join(sorted(site.agents))}")
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= 200:
        raise Refused(422, "The Idempotency-Key does not fit", "it has 1 to 200 characters")
    job = _job(site, caller, wanted, key)
    run = await site.engine.submit(job)
    row = await site.engine.look(run)
    other = () if row is None or run == job.run else differing(job, row.job)
    if other:
        words = f"it belongs to run {run}, with another {', '.join(other)}"
        return problem(422, "This Idempotency-Key was used for another task", words)
    status = STATUS[row.state] if row is not None else "queued"
    return reply({"run": run, "status": status}, 202, location=f"/api/v1/runs/{run}")


def _job(site: Site, caller: Caller, wanted: Submit, key: str | None) -> Job:
    around = site.app.yard().around
    tenant = caller.tenant or ""
    due = around.clock.now() + wanted.delay if wanted.delay else 0.0
    full = None if key is None else f"api:{tenant}:{key}"
    run = around.chance.identity()
    return Job(run, wanted.agent, wanted.task, wanted.task_type, None, tenant, wanted.priority, due, full)


async def run(request: Request) -> Response:
    """How a run stands, also one that no worker has begun yet."""
    site, caller = site_of(request), caller_of(request)
    named = str(request.path_params["run"])
    row = await site.job(named, caller)
    try:
        book = await site.books.get(named, caller)
    except NotFound:
        if row is None:
            raise
        return reply(_unbegun(site, row))
    return reply(summary(site, book, row))


def _unbegun(site: Site, row: JobRow) -> JSON:
    over = row.state in OVER
    return {
        "run": row.job.run,
        "agent": row.job.agent,
        "task": site.shower.text(row.job.task),
        "status": "ended" if over else "queued",
        "outcome": "aborted" if over else None,
        "reason": row.state if over else "",
        "detail": site.shower.text(row.reason),
    }


def summary(site: Site, book: Book, row: JobRow | None) -> dict[str, JSON]:
    """A run without its turns."""
    tree = book.tree
    shown = site.shower.trace([book.events[0], *_ends(book)])
    told: dict[str, JSON] = trace_json(shown)
    for name in ("opening", "turns", "run_id", "usage", "warnings", "signals", "events"):
        told.pop(name)
    ending = shown.ending
    return {
        "run": book.run,
        **told,
        "status": tree.status,
        "evidence": evidence_json(ending.evidence) if ending is not None else [],
        "usage": spend_json(tree.spend),
        "warnings": [site.shower.text(warning) for warning in tree.warnings],
        "signals": signals_json(tree),
        "events": tree.events,
        "turns": len(tree.turns),
        "verdicts": len(book.verdicts),
        "queue": None if row is None else row.state,
    }


def _ends(book: Book) -> list[Event]:
    seq = book.tree.ending_seq
    found = book.event(seq) if seq is not None else None
    return [found] if found is not None else []


async def trace(request: Request) -> Response:
    """Some turns of a run, with their calls and marks."""
    site, book = site_of(request), await book_of(request)
    first = integer(request, "turn", 0, 0, LARGEST)
    count = integer(request, "count", 20, 1, 100)
    events = [event for index in range(first, min(first + count, len(book.firsts))) for event in book.turn(index)]
    told = trace_json(site.shower.trace(events))
    return reply({"run": book.run, "first": first, "of": len(book.firsts), "turns": told["turns"]})


async def events(request: Request) -> Response:
    """The facts of a run, a page at a time; as server-sent events where that is what is accepted."""
    site, caller, named = site_of(request), caller_of(request), str(request.path_params["run"])
    after = integer(request, "after", -1, -1, LARGEST)
    try:
        book = await book_of(request)
    except NotFound:
        if await site.job(named, caller) is None:
            raise
        book = Book(named)
    if "text/event-stream" in request.headers.get("accept", ""):
        seen = request.headers.get("last-event-id", "")
        after = int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 16 else after
        stream = _follow(site, caller, book.run, after)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
    limit = integer(request, "limit", 200, 1, 1000)
    start = after + 1 - (book.events[0].seq if book.events else 0)
    found = book.events[max(0, start) : max(0, start) + limit]
    told: list[JSON] = [orjson.loads(to_line(event)) for event in site.shower.events(found)]
    more = bool(found) and found[-1].seq < book.events[-1].seq
    return reply({"run": book.run, "events": told, "next": found[-1].seq if more else None})


async def _follow(site: Site, caller: Caller, run: str, after: int) -> AsyncIterator[bytes]:
    until, waited = site.clock.now() + site.patience, 0.0
    while site.clock.now() < until:
        book, over = await _begun(site, caller, run)
        start = after + 1 - (book.events[0].seq if book.events else 0)
        news = book.events[max(0, start) :]
        for event in news:
            shown = site.shower.event(event)
            name = type(event.fact).__name__
            yield f"id: {event.seq}\nevent: {name}\ndata: ".encode() + to_line(shown).strip() + b"\n\n"
            after = event.seq
        if over:
            yield f"id: {after}\nevent: end\ndata: {{}}\n\n".encode()
            return
        waited = 0.0 if news else waited + site.pace
        if waited >= 15:
            yield b": still here\n\n"
            waited = 0.0
        await asyncio.sleep(site.pace)


async def _begun(site: Site, caller: Caller, run: str) -> tuple[Book, bool]:
    """A run that is followed, empty while it is only in the queue; and whether no more is to come."""
    try:
        book = await site.books.get(run, caller)
    except NotFound:
        row = await site.job(run, caller)
        if row is None:
            raise
        return Book(run), row.state in OVER
    return book, book.tree.status != "running"


async def cancel(request: Request) -> Response:
    site, caller = site_of(request), require(request, "operate")
    wanted, named = await body(request, Cancel), str(request.path_params["run"])
    if await site.job(named, caller) is None:
        await site.books.get(named, caller)
    try:
        await call_off(site, caller, named, wanted.reason)
    except Misuse as error:
        return problem(409, "There is nothing to call off", str(error))
    return reply({"run": named, "ordered": True}, 202)


async def inbox(request: Request) -> Response:
    site = site_of(request)
    found = await waiting(site, caller_of(request), integer(request, "limit", 100, 1, 500))
    return reply({"waiting": [told(item, site.shower) for item in found]})


async def item(request: Request) -> Response:
    site = site_of(request)
    return reply(told(await one(site, caller_of(request), str(request.path_params["run"])), site.shower))


async def respond(request: Request) -> Response:
    site, caller = site_of(request), require(request, "operate")
    wanted, named = await body(request, Answer), str(request.path_params["run"])
    await site.books.get(named, caller)
    try:
        arguments = None if wanted.arguments is None else dict[str, JSON](wanted.arguments)
        made = await decision(site, caller, named, wanted.action, wanted.text, arguments)
        await decide(site, caller, named, made, wanted.digest, wanted.by)
    except Misuse as error:
        return problem(409, "The answer does not fit what is waited for", site.shower.text(str(error)))
    return reply({"run": named, "decision": wanted.action})


async def fork(request: Request) -> Response:
    site, caller = site_of(request), require(request, "operate")
    wanted, book = await body(request, ForkAsked), await book_of(request)
    given: tuple[JSON] | None = None
    if "result" in wanted.model_fields_set:
        given = (wanted.result,)
    edit = Edit(given, wanted.instructions)
    run = await forked(site, caller, book, wanted.step, edit, policy=wanted.policy, acts=wanted.allow_acts)
    return reply({"run": run, "parent": book.run, "step": wanted.step}, 202, location=f"/api/v1/runs/{run}")


async def value(request: Request) -> Response:
    site, book = site_of(request), await book_of(request)
    asked = word(request, "v")
    if not asked:
        raise Refused(422, "A parameter is missing", "give the value as v")
    found = await asyncio.to_thread(provenance, book.events, asked)
    show = site.shower.text
    return reply(
        {
            "run": book.run,
            "value": show(asked),
            "source": None if found.source is None else found.source.seq,
            "first": None if found.first is None else found.first.seq,
            "mentions": [
                {
                    "seq": each.seq,
                    "what": each.what,
                    "where": show(each.where),
                    "text": excerpt(show(each.text), show(asked)),
                    "from_outside": each.outside,
                }
                for each in found.mentions
            ],
            "cut": found.cut,
        }
    )


async def compare(request: Request) -> Response:
    site, caller = site_of(request), caller_of(request)
    a, b = word(request, "a"), word(request, "b")
    if not a or not b:
        raise Refused(422, "A parameter is missing", "give two runs as a and b")
    books = [await site.books.get(name, caller) for name in (a, b)]
    found = await asyncio.to_thread(diff, books[0].events, books[1].events)
    show = site.shower.text
    rows: list[JSON] = [
        {
            "sign": row.sign,
            "a": None if row.a is None else {"seq": row.a.seq, "what": show(row.a.title)},
            "b": None if row.b is None else {"seq": row.b.seq, "what": show(row.b.title)},
            "changes": [
                {"path": show(c.path), "a": None if c.a is None else show(c.a), "b": None if c.b is None else show(c.b)}
                for c in row.changes
            ],
        }
        for row in found.rows[:2_000]
    ]
    return reply({"a": a, "b": b, "divergence": found.divergence, "words": found.words, "rows": rows})


async def metrics(request: Request) -> Response:
    site = site_of(request)
    window = word(request, "window", tuple(WINDOWS)) or "7d"
    by: By | None = next((name for name in BY if name == word(request, "by", BY)), None)
    since = site.clock.now() - WINDOWS[window]
    total, _, cut, count = await gathered(request, since, word(request, "agent") or None)
    return reply({"window": window, "runs": count, "cut": cut, **total.json(by)})


async def alerts(request: Request) -> Response:
    site = site_of(request)
    found = await readings(request, site, caller_of(request))
    return reply({"alerts": [site.shower.value(reading.json()) for reading in found]})


async def diagnose(request: Request) -> Response:
    require(request, "operate")
    return reply(upload_pages.as_json(*await upload_pages.for_programs(request)))


async def openapi(request: Request) -> Response:
    return reply(document())


async def shown(request: Request) -> Response:
    return page(request, "api.html", operations=OPERATIONS)


HANDLERS: dict[str, Handler] = {
    "list_runs": runs,
    "submit_run": submit,
    "get_run": run,
    "get_trace": trace,
    "get_events": events,
    "cancel_run": cancel,
    "fork_run": fork,
    "trace_value": value,
    "diff_runs": compare,
    "list_waiting": inbox,
    "get_waiting": item,
    "answer_run": respond,
    "get_metrics": metrics,
    "get_alerts": alerts,
    "diagnose_records": diagnose,
    "get_openapi": openapi,
}


def fitted(handler: Handler) -> Handler:
    """The handler, with bodies that do not fit answered."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except Unfit as unfit:
            return unfit.answer

    return answered


def routes() -> list[Route]:
    return [
        *(Route(each.path, fitted(HANDLERS[each.id]), methods=[each.method]) for each in OPERATIONS),
        Route("/api", shown),
    ]
