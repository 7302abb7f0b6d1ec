"""Plays a scene twice on a real shop, with a real server: once in the naive loop, once under the foreman.

Both get the same task, the same tools and the same ceiling of turns. What is reported as done is read back from the
shop's tables, never from what a model or a loop says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capataz.app import App
from capataz.demo.clerk import TURNS, clerk, tools
from capataz.demo.naive import Chat, ProviderError, Tally, naive
from capataz.demo.scenes import Scene
from capataz.demo.shop import Rows, Shop
from capataz.demo.worker import BEHAVIOURS, TASK
from capataz.events.facts import ModelCallFailed, VerdictGiven
from capataz.lens.trace.fold import Trace, trace
from capataz.lens.words import counted, faulted, short
from capataz.ports import Deadlines
from capataz.testing.worker import UnreliableWorker

PATIENCE = 12.0
"""Seconds after which the demo itself cuts off the naive loop. The usual client would wait ten minutes."""

DEADLINES = Deadlines(connect=2.0, first_byte=2.0, silence=2.0, total=10.0)
"""Short ones, so that a hanging worker does not make a long demo."""


_AT_ONCE = 6


@dataclass(frozen=True, slots=True)
class Side:
    """How one of the two loops ended and what it cost. `honest`: what it reports agrees with the shop."""

    ended: str
    said: str
    honest: bool
    turns: int
    calls: int
    tokens: int
    seconds: float
    rows: Rows


@dataclass(frozen=True, slots=True)
class Played:
    """A scene, both ways. `deeds` is what the foreman did; `violations` are malformed requests (there are none)."""

    scene: Scene
    naive: Side
    foreman: Side
    run: str
    outcome: str
    deeds: tuple[str, ...]
    violations: tuple[str, ...]


def done(rows: Rows) -> bool:
    """Whether the task was done as it should be: one refund of the right sum, and a message."""
    return (rows.refunds, rows.refunded_cents) == (1, 1_250) and rows.messages >= 1


async def play(
    scenes: Sequence[Scene],
    app: App,
    folder: Path,
    show: Callable[[Played], None],
    *,
    deadlines: Deadlines = DEADLINES,
    patience: float = PATIENCE,
) -> list[Played]:
    """Play the scenes; `show` gets each as soon as it and those before it are over.

    Some are played at the same time, each on a shop (files in `folder`) and a server of its own. After `patience`
    seconds a naive loop that still waits is cut off.
    """
    gate, stage = asyncio.Semaphore(_AT_ONCE), _Stage(app, folder, deadlines, patience)

    async def one(number: int, scene: Scene) -> Played:
        async with gate:
            return await _play(scene, stage, number)

    played: list[Played] = []
    async with asyncio.TaskGroup() as group:
        for task in [group.create_task(one(number, scene)) for number, scene in enumerate(scenes)]:
            played.append(await task)
            show(played[-1])
    return played


@dataclass(frozen=True, slots=True)
class _Stage:
    """What all scenes share."""

    app: App
    folder: Path
    deadlines: Deadlines
    patience: float


async def _play(scene: Scene, stage: _Stage, number: int) -> Played:
    shops = [
        Shop.open(stage.folder / f"{number}-{who}.db", gateway=scene.gateway, catalogue=scene.catalogue)
        for who in ("naive", "foreman")
    ]
    async with UnreliableWorker(BEHAVIOURS) as first, UnreliableWorker(BEHAVIOURS) as second:
        plain, (foreman, run, tree) = await asyncio.gather(
            _naively(scene, first, shops[0], stage), _under_the_foreman(scene, second, shops[1], stage)
        )
        violations = (*first.violations, *second.violations)
    return Played(scene, plain, foreman, run, tree.outcome or "running", deeds(tree), violations)


# ── the two ways ─────────────────────────────────────────────────────────────────────────────────────────


async def _naively(scene: Scene, worker: UnreliableWorker, shop: Shop, stage: _Stage) -> Side:
    import aiohttp

    offered = tools(shop)
    specs = [
        {"type": "function", "function": {"name": s.name, "description": s.description, "parameters": dict(s.schema)}}
        for s in (item.spec for item in offered)
    ]
    tally, begun, said, success = Tally(), time.monotonic(), "", False
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        chat = Chat(session, worker.url("openai"), scene.worker, specs)
        functions = {item.name: item.function for item in offered}
        try:
            async with asyncio.timeout(stage.patience):
                said = await naive(TASK, chat, functions, TURNS, tally)
            ended, success = ("stopped at its ceiling" if tally.cut else "returned as a success"), not tally.cut
        except TimeoutError:
            ended = f"still waiting when the demo cut it off after {stage.patience:g} s"
        except (ProviderError, KeyError, ValueError) as error:
            ended = f"crashed: {type(error).__name__}: {short(str(error), 60)}"
    rows = shop.rows()
    honest = success == done(rows)
    return Side(ended, said, honest, tally.turns, tally.calls, tally.tokens, time.monotonic() - begun, rows)


async def _under_the_foreman(
    scene: Scene, worker: UnreliableWorker, shop: Shop, stage: _Stage
) -> tuple[Side, str, Trace]:
    agent = clerk(
        shop,
        f"{scene.dialect}:{scene.worker}",
        base_url=worker.url(scene.dialect),
        api_key="none-needed",
        deadlines=stage.deadlines,
    )
    outcome = await stage.app.arun(agent, TASK, task_type="demo")
    tree = trace(await stage.app.store.read(outcome.run))
    rows, spend = shop.rows(), outcome.spend
    ended = f"{outcome.name.capitalize()}: {outcome.reason.replace('_', ' ')}"
    honest = (outcome.name == "completed") == done(rows)
    side = Side(ended, outcome.answer, honest, spend.turns, spend.calls, spend.tokens, spend.seconds, rows)
    return side, outcome.run, tree


def deeds(tree: Trace) -> tuple[str, ...]:
    """What the foreman did that a loop alone would not have done, read from the log."""
    marks = [mark.fact for turn in tree.turns for mark in turn.marks]
    found: list[str] = []
    failures = [fact for fact in marks if isinstance(fact, ModelCallFailed)]
    if failures:
        found.append(f"saw {counted(len(failures), 'model call')} fail ({faulted(failures[-1].fault)})")
    waits = sum(len(turn.waits) for turn in tree.turns)
    if waits:
        found.append(f"tried again {_times(waits)}")
    refused = [call for turn in tree.turns for call in turn.calls if call.state == "refused"]
    found += [
        f"refused {counted(sum(call.refusal == reason for call in refused), *words)}"
        for reason, words in _REFUSED.items()
        if any(call.refusal == reason for call in refused)
    ]
    verdicts = [fact for fact in marks if isinstance(fact, VerdictGiven)]
    nudges, failed = (sum(v.action == action for v in verdicts) for action in ("nudge", "fail-turn"))
    if nudges:
        found.append(f"nudged {_times(nudges)}")
    if failed:
        found.append(f"sent {counted(failed, 'turn')} back")
    found += [f"stopped it: {v.words}" for v in verdicts if v.action in ("stop", "escalate")]
    confirmed = [call.call.tool for turn in tree.turns for call in turn.calls if call.confirmed]
    if confirmed:
        found.append(f"confirmed {', '.join(confirmed)} by reading back")
    return tuple(found)


_REFUSED: Mapping[str, tuple[str, str]] = {
    "ledger": ("repeated act", "repeated acts"),
    "unknown-tool": ("call of an unknown tool", "calls of an unknown tool"),
    "invalid-arguments": ("call with wrong arguments", "calls with wrong arguments"),
    "truncated": ("call that was cut off", "calls that were cut off"),
    "not-run": ("call behind a failed one", "calls behind a failed one"),
    "policy": ("call by policy", "calls by policy"),
}


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
