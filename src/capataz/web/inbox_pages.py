"""What waits for a person, and the answer that lets it go on."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, cast, get_args

import orjson
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from capataz.events.facts import JSON, ApprovalAsked, Call, RunEscalated
from capataz.mistakes import Misuse, NotFound
from capataz.runtime.inbox import Waiting, answer, as_json, read_waiting
from capataz.runtime.supervise import Decision
from capataz.web.gate import caller_of, require
from capataz.web.render import page, path, readable
from capataz.web.run_pages import listed
from capataz.web.shown import Shower
from capataz.web.site import Site, site_of
from capataz.web.tokens import Caller

Action: TypeAlias = Literal["retry", "approve", "reject", "correct", "answer", "happened", "not-happened", "abort"]
ACTIONS: tuple[Action, ...] = get_args(Action)
MOST = 100


async def waiting(site: Site, caller: Caller, limit: int = MOST) -> list[Waiting]:
    """What waits for people this caller may speak for, newest first."""
    found: list[Waiting] = []
    for row in (await listed(site, caller, {"outcome": "escalated"}, None, limit)).rows:
        item = read_waiting((await site.books.get(row.run, caller)).events)
        if item is not None:
            found.append(item)
    return found


async def one(site: Site, caller: Caller, run: str) -> Waiting:
    """What this run waits for. Raises `NotFound` where it does not wait."""
    item = read_waiting((await site.books.get(run, caller, fresh=True)).events)
    if item is None:
        raise NotFound(f"run {run} does not wait for anyone")
    return item


def told(item: Waiting, shower: Shower) -> dict[str, JSON]:
    """What waits, masked, for pages and programs."""
    raw = as_json(item)
    escalation, approval = shower.fact(item.escalation), item.approval
    assert isinstance(escalation, RunEscalated)
    shown = shower.fact(approval) if approval is not None else None
    assert shown is None or isinstance(shown, ApprovalAsked)
    raw |= {
        "task": shower.text(item.task),
        "reason": escalation.reason,
        "detail": escalation.detail,
        "answer": escalation.answer,
        "missing": list(escalation.missing),
        "capabilities": [shower.text(learned.advice) for learned in item.learned],
    }
    if approval is not None and shown is not None:
        raw["approval"] = {
            "shown": shown.shown,
            "why": shown.reason,
            "digest": approval.digest,
            "arguments": shower.value(_arguments(item.call)),
        }
    return raw


def _arguments(call: Call | None) -> dict[str, JSON]:
    return dict(call.arguments) if call is not None else {}


async def decide(site: Site, caller: Caller, run: str, decision: Decision, digest: str, by: str) -> None:
    """Write the decision; a run that the queue knows goes on by itself."""
    await site.books.get(run, caller)
    who = f"{by} ({caller.name})" if by and by != caller.name else caller.name
    await answer(site.store, site.clock, run, decision, who, digest)
    await site.books.get(run, caller, fresh=True)  # else the very next page would still say that it waits
    if site.engine is not None:
        await site.engine.wake(run)


async def inbox(request: Request) -> Response:
    site = site_of(request)
    items = [told(item, site.shower) for item in await waiting(site, caller_of(request))]
    return page(request, "inbox.html", items=items)


async def item(request: Request) -> Response:
    site, caller = site_of(request), caller_of(request)
    found = await one(site, caller, str(request.path_params["run"]))
    return _item(request, site, found)


def _item(request: Request, site: Site, found: Waiting, wrong: str = "", status: int = 200) -> Response:
    shown = told(found, site.shower)
    asked = cast("dict[str, JSON] | None", shown["approval"])
    arguments = readable(asked["arguments"]) if asked else ""
    masked = found.call is not None and asked is not None and asked["arguments"] != _arguments(found.call)
    return page(request, "wait.html", status, item=shown, arguments=arguments, masked_arguments=masked, wrong=wrong)


async def respond(request: Request) -> Response:
    """An answer from the form. What does not fit is said on the page again."""
    site, caller = site_of(request), require(request, "operate")
    await site.gate.believe(request)
    run = str(request.path_params["run"])
    async with request.form() as form:
        try:
            decision = await _decision(site, caller, run, form)
            await decide(site, caller, run, decision, str(form.get("digest") or ""), str(form.get("by") or "")[:80])
        except Misuse as error:
            found = await one(site, caller, run)
            return _item(request, site, found, site.shower.text(str(error)), 422)
    return RedirectResponse(path("runs", run), 303)


async def _decision(site: Site, caller: Caller, run: str, form: FormData) -> Decision:
    action, words = str(form.get("action") or ""), str(form.get("text") or "").strip()[:20_000]
    given = _loaded(str(form.get("arguments") or "")) if action == "correct" else None
    return await decision(site, caller, run, action, words, given)


async def decision(
    site: Site, caller: Caller, run: str, action: str, words: str, arguments: dict[str, JSON] | None
) -> Decision:
    """A decision from what was sent. Where the arguments were shown masked, what was left so is put back first."""
    if action not in ACTIONS:
        raise Misuse(f"an answer is one of {', '.join(ACTIONS)}")
    if action == "correct" and arguments is not None and site.shower.mask is not None:
        call = (await one(site, caller, run)).call
        original = _arguments(call)
        back = unmasked(arguments, site.shower.value(original), original)
        arguments = cast("dict[str, JSON]", back)
        if _PLACEHOLDER.search(orjson.dumps(arguments).decode()) and arguments != original:
            raise Misuse("the corrected arguments still hold a mask such as <EMAIL>: write the value itself")
    return Decision(action, words, arguments if action == "correct" else None)


_PLACEHOLDER = re.compile(r"<[A-Z][A-Z0-9_-]{1,30}>")


def unmasked(given: JSON, masked: JSON, original: JSON) -> JSON:
    """What was given, with the originals in the place of masks that were left as they were shown."""
    if given == masked:
        return original
    if isinstance(given, dict) and isinstance(masked, dict) and isinstance(original, dict):
        known = {key: (masked[key], original[key]) for key in given if key in masked and key in original}
        return {key: unmasked(value, *known[key]) if key in known else value for key, value in given.items()}
    if isinstance(given, list) and isinstance(masked, list) and isinstance(original, list):
        return _each(given, masked, original)
    return given


def _each(given: list[JSON], masked: list[JSON], original: list[JSON]) -> list[JSON]:
    if not len(given) == len(masked) == len(original):
        return given
    return [unmasked(*three) for three in zip(given, masked, original, strict=True)]


def _loaded(text: str) -> dict[str, JSON]:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Misuse(f"the corrected arguments are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Misuse("to correct a call, give all its arguments as one JSON object")
    return cast("dict[str, JSON]", value)


def routes() -> list[Route]:
    return [
        Route("/inbox", inbox),
        Route("/inbox/{run}", item, methods=["GET"]),
        Route("/inbox/{run}", respond, methods=["POST"]),
    ]
