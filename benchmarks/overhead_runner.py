"""Capataz in the shared overhead kit: the scripted lookup task, through the public API, with nothing left out.

The kit (not part of this repository) runs this file beside its runners for other libraries: copy it into the kit's
`runners/` as `ours.py` and add the lines `ours  -e PATH` to `venvs.txt` and `ours  ours  ours.py  trace,durable,d100`
to `runners.txt`. Guards, ledger, gate and ceilings are always on; `durable` adds a SQLite log with fsync, `trace` all
our spans through the kit's tracer provider, and `--opt metrics=1` our metrics too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from common import SYSTEM, do_lookup, prompt  # type: ignore[import-not-found]  # the kit's own module

from capataz import Agent, App, Budget, tool

_APPS: list[App] = []


@tool(kind="read")
async def lookup(key: str) -> str:
    """Look up the value stored under a key.

    Args:
        key: The key to look up.
    """
    return str(do_lookup(key))


async def make(cfg: Any) -> Callable[[str], Awaitable[str]]:
    app = App(f"sqlite:///{cfg.durable}" if cfg.durable else "memory:", telemetry=_watching(cfg))
    _APPS.append(app)
    agent = Agent(
        "bench",
        f"openai:{cfg.model}",
        tools=[lookup],
        instructions=SYSTEM,
        role="talking",
        budget=Budget(turns=cfg.n + 5, calls=cfg.n + 5, tokens=50_000_000),
        base_url=cfg.base_url,
        api_key=cfg.api_key,
    )

    async def run(task_id: str) -> str:
        outcome = await agent.arun(prompt(task_id), app=app)
        return outcome.answer

    return run


def _watching(cfg: Any) -> tuple[Any, ...]:
    if not cfg.trace:
        return ()
    from capataz.telemetry.otel import OpenTelemetry

    if cfg.opts.get("metrics") != "1":
        return (OpenTelemetry(cfg.tracer_provider),)
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    return (OpenTelemetry(cfg.tracer_provider, MeterProvider([InMemoryMetricReader()])),)


async def finish() -> None:
    for app in _APPS:
        await app.close()
