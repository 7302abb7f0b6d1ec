"""Templates, and the few helpers they use. Everything is escaped; markup comes from templates only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from capataz.events.facts import JSON
from capataz.lens import words
from capataz.lens.diagnose.values import plain
from capataz.lens.template import environment
from capataz.lens.trace.fold import CallView
from capataz.web.gate import caller_of
from capataz.web.shown import LONGEST, clip
from capataz.web.site import site_of

_VALUE = re.compile(r"[A-Za-z0-9_#$€£@][\w@#.:/%+-]*(?:,\d{3})*(?:\.\d+)?", re.ASCII)
_MOST_LINKS = 30
_STATES = {"done": "plain", "failed": "bad", "refused": "warn", "in-doubt": "bad"}


@cache
def templates() -> Environment:
    made = environment("capataz.web", "templates")
    helpers: dict[str, Any] = dict(
        line=words.line,
        duration=words.duration,
        money=words.money,
        spent=words.spent,
        counted=words.counted,
        tone_of=words.tone_of,
        short=words.short,
        state_tone=_state_tone,
        called=_called,
        moment=moment,
        result=result,
        linked=linked,
        path=path,
    )
    made.globals.update(helpers)
    made.filters["clip"] = clip
    return made


def _state_tone(view: CallView) -> str:
    return _STATES.get(view.state, "quiet")


def _called(view: CallView) -> str:
    return clip(words.called(view.call, 600), 600)


def html(name: str, **context: Any) -> str:
    """A template filled in, for a part of a page."""
    return templates().get_template(name).render(**context)


def page(request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A whole page."""
    site, caller = site_of(request), caller_of(request)
    text = html(
        name,
        caller=caller,
        mark=request.scope["mark"],
        here=request.url.path,
        signed_in=bool(site.gate.tokens),
        masked=site.shower.mask is not None,
        **context,
    )
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def moment(at: float | None) -> str:
    """A time as text, in UTC; empty where there is no plausible one."""
    if at is None or not 0 < at < 2**40:
        return ""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def result(view: CallView, whole: bool = False) -> str:
    """What a call came back with, readable: JSON is set out, texts are as they are."""
    value = view.full if whole and view.full is not None else view.result
    return clip(readable(value), 1 << 20 if whole else LONGEST)


def readable(value: JSON) -> str:
    """A value as a person reads it."""
    if isinstance(value, str):
        return value
    try:
        return words.spelled(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    except TypeError:  # integers beyond 64 bits, unpaired surrogates
        return words.said(value)


def linked(text: str, run: str) -> Markup:
    """The text with its values as links to where each comes from; everything else escaped."""
    parts: list[Markup] = []
    last = made = 0
    for match in _VALUE.finditer(text):
        token = match.group().rstrip(".,:;/-")
        if made >= _MOST_LINKS:
            break
        if len(token) < 2 or len(token) > 80 or plain(token) is None or text[match.start() - 1 : match.start()] == "<":
            continue
        start, end = match.start(), match.start() + len(token)
        address = f"{path('runs', run, 'value')}?v={quote(token, safe='')}"
        parts += [
            escape(text[last:start]),
            Markup('<a class="v" tabindex="-1" href="{}">{}</a>').format(address, token),
        ]
        last, made = end, made + 1
    return Markup("").join([*parts, escape(text[last:])])


def path(*parts: str | int) -> str:
    """A path on this server, each part quoted."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def query(**wanted: str | int | float | None) -> str:
    """A query of what is given."""
    from urllib.parse import urlencode

    given: Mapping[str, str] = {key: str(value) for key, value in wanted.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""
