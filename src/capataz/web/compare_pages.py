"""Two runs side by side; a fork of one; and calling one off."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import orjson
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from capataz.events.facts import JSON, RunStarted, ToolFinished
from capataz.lens.diff import Diff, Row, diff
from capataz.lens.fork import Edit, steps_to_fork
from capataz.lens.words import tone_of
from capataz.mistakes import CapatazError, Misuse
from capataz.policy.policy import Policy
from capataz.ports import Job
from capataz.runtime.fork import begin_fork
from capataz.runtime.launch import resume
from capataz.web.books import Book
from capataz.web.gate import Refused, caller_of, require
from capataz.web.render import page, path, readable
from capataz.web.run_pages import book_of, number
from capataz.web.shown import clip
from capataz.web.site import Site, site_of
from capataz.web.tokens import Caller

_log = logging.getLogger("capataz.web")
PER_PAGE = 200
"""Lines of a comparison on one page."""
CONTEXT = 3
"""Lines shown before the first divergence."""


async def compare(request: Request) -> Response:
    """Two runs, from a little before the place where they part."""
    site, caller = site_of(request), caller_of(request)
    a, b = (request.query_params.get(name, "").strip()[:200] for name in ("a", "b"))
    if not a or not b:
        return page(request, "diff.html", a=a, b=b, found=None, rows=[], first=0, heads={})
    books = [await site.books.get(name, caller) for name in (a, b)]
    found = await asyncio.to_thread(diff, books[0].events, books[1].events)
    first = int(number(request.query_params.get("from")) or 0)
    first = max(0, min(first, max(0, len(found.rows) - 1)))
    rows = [_row(site, place, row, found) for place, row in enumerate(found.rows[first : first + PER_PAGE], first)]
    heads = {name: _head(site, book) for name, book in zip(("a", "b"), books, strict=True)}
    return page(
        request, "diff.html", a=a, b=b, found=found, rows=rows, first=first, heads=heads, per_page=PER_PAGE,
        jump=max(0, (found.divergence or 0) - CONTEXT),
    )  # fmt: skip


def _head(site: Site, book: Book) -> dict[str, object]:
    started = site.shower.fact(book.started) if book.started is not None else None
    task = started.task if isinstance(started, RunStarted) else ""
    tree = book.tree
    tone = tone_of(tree.outcome, tree.ending.reason if tree.ending is not None else "")
    return {"run": book.run, "task": task, "outcome": tree.outcome, "tone": tone, "spend": tree.spend}


def _row(site: Site, place: int, row: Row, found: Diff) -> dict[str, object]:
    show = site.shower.text
    one = row.a or row.b
    assert one is not None
    changes = [
        (show(change.path), *(None if side is None else clip(show(side), 1_200) for side in (change.a, change.b)))
        for change in row.changes[:20]
        if change.path
    ]
    return {
        "place": place,
        "sign": row.sign,
        "words_only": row.words_only,
        "retitled": any(not change.path for change in row.changes),
        "diverges": place == found.divergence,
        "role": one.role,
        "a": None if row.a is None else (show(row.a.title), row.a.seq, row.a.turn),
        "b": None if row.b is None else (show(row.b.title), row.b.seq, row.b.turn),
        "text": clip(show(one.text), 300) if row.sign == "same" else "",
        "changes": changes,
        "more": max(0, len(row.changes) - 20),
    }


async def fork_form(request: Request) -> Response:
    require(request, "operate")
    site, book = site_of(request), await book_of(request)
    return await _fork_form(request, site, book, int(number(request.query_params.get("step")) or -1))


async def _fork_form(
    request: Request, site: Site, book: Book, step: int, wrong: str = "", status: int = 200
) -> Response:
    started = site.shower.fact(book.started) if book.started is not None else None
    instructions = started.instructions if isinstance(started, RunStarted) else ""
    steps = [(seq, site.shower.text(words)) for seq, words in steps_to_fork(book.events)][-500:]
    event = book.event(step)
    fact = site.shower.event(event).fact if event is not None else None
    result = readable(fact.result) if isinstance(fact, ToolFinished) else None
    agent = book.started.agent if book.started is not None else ""
    return page(
        request, "fork.html", status, run=book.run, step=step, steps=steps, result=result, agent=agent,
        instructions=instructions, drivable=agent in site.agents or await site.has_workers(), foreign=book.foreign,
        wrong=wrong, may_act=caller_of(request).may("admin"),
    )  # fmt: skip


async def fork(request: Request) -> Response:
    """Begin the fork and have it driven."""
    site, caller = site_of(request), require(request, "operate")
    await site.gate.believe(request)
    book = await book_of(request)
    async with request.form() as form:
        step = int(number(str(form.get("step") or "")) or -1)
        try:
            wanted = _wanted(form)
            run = await forked(site, caller, book, step, wanted, policy=str(form.get("policy") or ""),
                               acts=form.get("acts") == "yes")  # fmt: skip
        except Misuse as error:
            return await _fork_form(request, site, book, step, site.shower.text(str(error)), 422)
    return RedirectResponse(path("runs", run), 303)


def _wanted(form: FormData) -> Edit:
    text, instructions = str(form.get("result") or ""), str(form.get("instructions") or "")
    result: tuple[JSON] | None = None
    if form.get("edit_result") == "yes":
        result = (read_result(text),)
    return Edit(result, instructions if form.get("edit_instructions") == "yes" else None)


def read_result(text: str) -> JSON:
    """JSON where it is JSON, else the text itself."""
    try:
        found: JSON = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return found


async def forked(
    site: Site, caller: Caller, book: Book, step: int, edit: Edit, *, policy: str = "", acts: bool = False
) -> str:
    """Begin a fork of this book and have it driven; its id. `policy` is the text of a policy file."""
    if acts and not caller.may("admin"):
        raise Refused(403, "This token may not do that", "to let acting tools run after a fork takes the scope 'admin'")
    started = book.started
    if policy.strip():
        edit = replace(edit, policy="given", rules=Policy.from_toml(policy, "the policy given").to_toml())
    name = started.agent if started is not None else ""
    if not await site.has_workers() and name not in site.agents:
        raise Misuse(
            f"this server does not have the agent {name!r} and no worker is there: start `capataz worker MODULE:APP`, "
            "or the server with `capataz serve MODULE:APP`"
        )
    run = await begin_fork(site.app.yard(), book.run, step, edit, allow_acts=acts)
    assert started is not None, "a log without its beginning cannot be forked"
    tenant = caller.tenant or started.tenant
    if tenant:
        site.books.claim(run, tenant)
    await _drive(site, Job(run, name, started.task, started.task_type, tenant=tenant, user=started.user))
    return run


async def _drive(site: Site, job: Job) -> None:
    """Through the queue, as any other run; in this process only where no worker would come for it."""
    if site.engine is not None and await site.has_workers():
        await site.engine.submit(job)
        return
    spec, yard = site.agents[job.agent].prepare(site.app), site.app.yard()

    async def drive() -> None:
        try:
            await resume(spec, job.run, yard, "forked")
        except CapatazError as error:
            _log.warning("fork %s was not driven to its end: %s", job.run, error)

    site.work(drive(), f"fork {job.run}")


async def cancel(request: Request) -> Response:
    site, caller = site_of(request), require(request, "operate")
    await site.gate.believe(request)
    run = str(request.path_params["run"])
    await call_off(site, caller, run)
    return RedirectResponse(path("runs", run), 303)


async def call_off(site: Site, caller: Caller, run: str, why: str = "") -> None:
    """Order the end of a submitted run. Raises `Misuse` where there is nothing to end."""
    if not await site.books.may_see(caller, run, None):
        await site.books.get(run, caller)
    reason = f"called off by {caller.name}" + (f": {why}" if why else "")
    if site.engine is not None:
        if await site.engine.cancel(run, reason):
            return
        row = await site.engine.look(run)
        if row is not None and row.order is not None:
            raise Misuse(f"run {run} was called off before: the first order stands, with its reason")
    raise Misuse(f"run {run} is not in the queue: only submitted runs that are not over can be called off")


def routes() -> list[Route]:
    return [
        Route("/diff", compare),
        Route("/runs/{run}/fork", fork_form, methods=["GET"]),
        Route("/runs/{run}/fork", fork, methods=["POST"]),
        Route("/runs/{run}/cancel", cancel, methods=["POST"]),
    ]
