"""Metrics with plots, what alert rules read now, and what a scraper is shown."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from capataz.lens.alerts.evaluate import Reading, evaluate, history_needed
from capataz.lens.alerts.points import point_of
from capataz.lens.alerts.words import rule_words
from capataz.lens.metrics.figures import ModelFigures, ToolFigures
from capataz.lens.metrics.prometheus import CONTENT_TYPE, exposition
from capataz.lens.metrics.tally import BY, By, Runs, Tally, tally
from capataz.lens.words import duration, money
from capataz.telemetry.reading import Scrape
from capataz.web.figures import BUCKETS, Gathering, Plot, buckets, plot
from capataz.web.gate import caller_of
from capataz.web.render import page
from capataz.web.site import Site, site_of
from capataz.web.tokens import Caller

WINDOWS: Mapping[str, float] = {"1h": 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
MOST_SCRAPED = 100_000
_GATHERED = "gathering"
_COLUMNS: Mapping[type, tuple[str, ...]] = {
    Runs: ("runs", "completed", "tokens a task", "money a task", "tool errors", "loops", "steps", "p50", "p99"),
    ToolFigures: ("calls", "errors", "refused", "in doubt", "p50", "p95", "p99"),
    ModelFigures: ("calls", "failures", "tokens in", "tokens out", "money", "p50", "p95", "p99"),
}


def gathering(request: Request) -> Gathering:
    """The figures this server has read already."""
    state = request.app.state
    if not hasattr(state, _GATHERED):
        state.gathering = Gathering()
    found = state.gathering
    assert isinstance(found, Gathering)
    return found


async def gathered(request: Request, since: float | None, agent: str | None) -> tuple[Tally, list[Plot], bool, int]:
    """Everything a page of metrics shows."""
    site, caller = site_of(request), caller_of(request)
    found, cut = await gathering(request).since(site, caller, since, agent)
    now = site.clock.now()
    start = since if since is not None else min((each.started_at for each in found), default=now)
    parts = buckets(found, start, now)
    plots = [
        plot("Completed, of acting runs", [_percent(part.completion_rate) for part in parts], "{:.0f} %", 100.0),
        plot("Runs", [float(part.runs) or None for part in parts], "{:,.0f}"),
        plot("Tokens a task", [part.tokens_each.mean for part in parts], "{:,.0f}"),
        plot("Tool errors", [_percent(part.tool_error_rate) for part in parts], "{:.1f} %"),
        plot("Runs with a loop", [_percent(part.loop_rate) for part in parts], "{:.1f} %"),
        plot("Seconds a task, p99", [part.seconds.quantile(0.99) for part in parts], "{:,.1f} s"),
    ]
    return tally(found), plots, cut, len(found)


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100.0 * rate


async def metrics(request: Request) -> Response:
    site = site_of(request)
    window = request.query_params.get("window", "7d")
    window = window if window in WINDOWS else "7d"
    by: By | None = next((one for one in BY if one == request.query_params.get("by")), None)
    by = by or "agent"
    agent = request.query_params.get("agent", "").strip()[:200]
    total, plots, cut, count = await gathered(request, site.clock.now() - WINDOWS[window], agent or None)
    groups: Mapping[str, Runs | ToolFigures | ModelFigures] = total.by(by)
    kind = {"tool": ToolFigures, "model": ModelFigures}.get(by, Runs)
    rows = [(site.shower.text(name), cells(found)) for name, found in sorted(groups.items())[:500]]
    return page(
        request, "metrics.html", plots=plots, rows=rows, columns=_COLUMNS[kind], by=by, window=window, agent=agent,
        windows=tuple(WINDOWS), groupings=BY, cut=cut, count=count, all=cells(total.all), all_columns=_COLUMNS[Runs],
        buckets=BUCKETS,
    )  # fmt: skip


def cells(found: Runs | ToolFigures | ModelFigures) -> list[str]:
    """One line of a table, in the order of its columns."""
    match found:
        case Runs():
            spent = "unknown" if found.unpriced else _or(found.money_each.mean, "${:.4f}")
            rates = (_rate(found.tool_error_rate), _rate(found.loop_rate))
            tokens, steps = _or(found.tokens_each.mean, "{:,.0f}"), _or(found.turns.mean, "{:.1f}")
            times = [_time(found.seconds.quantile(share)) for share in (0.5, 0.99)]
            return [f"{found.runs:,}", _rate(found.completion_rate), tokens, spent, *rates, steps, *times]
        case ToolFigures():
            errors = _rate(found.errors / found.calls if found.calls else None)
            times = [_time(found.seconds.quantile(share)) for share in (0.5, 0.95, 0.99)]
            return [f"{found.calls:,}", errors, f"{found.refused:,}", f"{found.in_doubt:,}", *times]
        case ModelFigures():
            failures = _rate(found.failures / found.calls if found.calls else None)
            tokens_each = [f"{found.input_tokens:,}", f"{found.output_tokens:,}"]
            spent = "unknown" if found.unpriced else money(found.money)
            times = [_time(found.seconds.quantile(share)) for share in (0.5, 0.95, 0.99)]
            return [f"{found.calls:,}", failures, *tokens_each, spent, *times]


def _or(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _time(value: float | None) -> str:
    return "–" if value is None else duration(value)


async def readings(request: Request, site: Site, caller: Caller) -> list[Reading]:
    """What each rule reads now, over the runs the caller may see."""
    rules, now = site.rules, site.clock.now()
    seconds, runs = history_needed(rules)
    recent, _ = await gathering(request).since(site, caller, now - seconds, None)
    if len(recent) < runs:
        recent, _ = await gathering(request).since(site, caller, None, None, max(runs, 1))
    points = [point_of(figures) for figures in recent]
    return [evaluate(rule, points, now) for rule in rules]


async def alerts(request: Request) -> Response:
    site = site_of(request)
    found = await readings(request, site, caller_of(request))
    order = {"firing": 0, "not enough data": 1, "ok": 2, "no data": 3}
    shown = sorted(found, key=lambda reading: (order[reading.standing], reading.rule.name))
    return page(request, "alerts.html", readings=[_reading(site, one) for one in shown])


def _reading(site: Site, one: Reading) -> dict[str, object]:
    tones = {"firing": "bad", "not enough data": "warn", "ok": "good", "no data": "plain"}
    return {
        "name": one.rule.name or one.rule.metric,
        "state": one.standing,
        "tone": tones[one.standing],
        "severity": one.rule.severity,
        "rule": rule_words(one.rule),
        "words": site.shower.text(one.words),
        "change": site.shower.text(one.change),
        "notes": [site.shower.text(note) for note in one.notes],
        "runs": one.runs,
    }


async def scrape(request: Request) -> Response:
    """Prometheus' text format; for a token of a tenant only of its runs."""
    site, caller, state = site_of(request), caller_of(request), request.app.state
    if caller.tenant is None:
        if not hasattr(state, "scrape"):
            state.scrape = Scrape(site.store)
        assert isinstance(state.scrape, Scrape)
        return Response(await state.scrape.text(site.clock.now()), media_type=CONTENT_TYPE)
    found, _ = await gathering(request).since(site, caller, None, None, MOST_SCRAPED)
    return Response(exposition(tally(found)), media_type=CONTENT_TYPE)


def routes() -> list[Route]:
    return [Route("/metrics/view", metrics), Route("/alerts", alerts), Route("/metrics", scrape)]
