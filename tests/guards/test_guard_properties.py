"""What holds for every history: batches, chunks, noise and drawn ids change no verdict, and memory has a ceiling."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.guards_speed import events as long_run
from capataz.events.facts import JSON, Call, Event, Kind, ModelReplied, ToolFinished
from capataz.guards.base import Signal
from capataz.guards.catalogue import default_guards
from capataz.guards.watch import Watch
from capataz.lens.cases.read import Case, case_of
from capataz.lens.replay import Replayed, replay
from capataz.lens.score import score_case

CASES = Path(__file__).parents[1] / "data" / "cases"
WATCH = Watch(default_guards())
TOOLS: tuple[tuple[str, Kind], ...] = (("get", "read"), ("find", "search"), ("set", "write"), ("run", "exec"))

steps = st.tuples(
    st.sampled_from(TOOLS),
    st.integers(0, 3),
    st.sampled_from(["ok", "", "no results", "1 failed", "later"]),
    st.booleans(),
    st.sampled_from([True, False, None]),
)
replies = st.lists(st.lists(steps, min_size=1, max_size=4), max_size=30)


def _events(said: list[list[Any]], order: Random | None = None, noise: Random | None = None) -> list[Event]:
    """One reply for each list of steps. `order` shuffles in which order its calls end, `noise` adds what drifts."""
    made: list[Event] = []
    for turn, batch in enumerate(said):
        calls = tuple(
            Call(turn, place, f"{turn}.{place}", tool, _arguments(number, noise), kind, str(number))
            for place, ((tool, kind), number, *_rest) in enumerate(batch)
        )
        made.append(Event(0, float(turn), ModelReplied(turn, 1, "", calls, "calls")))
        ended = [
            ToolFinished(call, _result(text, noise), error=error, state_changed=changed)
            for call, (_tool, _number, text, error, changed) in zip(calls, batch, strict=True)
        ]
        if order is not None:
            order.shuffle(ended)
        made += [Event(0, float(turn), fact) for fact in ended]
    return [Event(seq, event.at, event.fact) for seq, event in enumerate(made)]


def _arguments(number: int, noise: Random | None) -> dict[str, JSON]:
    arguments: dict[str, JSON] = {"number": number, "other": "x"}
    if noise is not None:
        arguments = {"request_id": f"{noise.getrandbits(48):012x}", **dict(reversed(arguments.items()))}
    return arguments


def _result(text: str, noise: Random | None) -> JSON:
    held: dict[str, JSON] = {"out": text, "data": [] if text == "" else [text]}
    if noise is not None:
        held["ts"] = noise.randrange(10**9)
        held["trace_id"] = f"{noise.getrandbits(64):016x}"
        held["took_ms"] = noise.randrange(500)
    return held


def _verdicts(replayed: Replayed) -> list[tuple[str, str, str]]:
    return [(one.signal.guard, one.signal.kind, one.verdict.action) for one in replayed.fired]


@settings(max_examples=120, deadline=None)
@given(replies, st.randoms(use_true_random=False))
def test_the_order_in_which_calls_of_a_reply_end_changes_no_verdict(said: list[list[Any]], order: Random) -> None:
    assert _verdicts(replay(_events(said), WATCH)) == _verdicts(replay(_events(said, order=order), WATCH))


@settings(max_examples=120, deadline=None)
@given(replies, st.randoms(use_true_random=False))
def test_noise_changes_no_verdict(said: list[list[Any]], noise: Random) -> None:
    assert _verdicts(replay(_events(said), WATCH)) == _verdicts(replay(_events(said, noise=noise), WATCH))


@settings(max_examples=30, deadline=None)
@given(replies, st.integers(0, 60))
def test_a_state_put_away_and_taken_up_again_goes_on_the_same(said: list[list[Any]], cut: int) -> None:
    history = _events(said)
    state, whole = WATCH.start(), list[Signal]()
    for event in history:
        state, signals = WATCH.step(state, event)
        whole += signals
    state, parts = WATCH.start(), list[Signal]()
    for place, event in enumerate(history):
        if place == cut:
            state = pickle.loads(pickle.dumps(copy.deepcopy(state)))
        state, signals = WATCH.step(state, event)
        parts += signals
    assert parts == whole


@settings(max_examples=30, deadline=None)
@given(replies)
def test_a_guard_alone_sees_what_it_sees_in_company(said: list[list[Any]]) -> None:
    history = _events(said)
    state, together = WATCH.start(), list[Signal]()
    for event in history:
        state, signals = WATCH.step(state, event)
        together += signals
    for guard in default_guards():
        own, alone = guard.start(), list[Signal]()
        for event in history:
            own, signal = guard.step(own, event)
            if signal is not None:
                alone.append(signal)
        # Alone, a guard gives one signal an event: of those for one batch the last.
        assert alone == _last_of_each_batch([one for one in together if one.guard == guard.name], history)


def _last_of_each_batch(signals: list[Signal], history: list[Event]) -> list[Signal]:
    turn, turns = -1, dict[int, int]()
    for event in history:
        turn += isinstance(event.fact, ModelReplied)
        turns[event.seq] = turn
    latest: dict[int, Signal] = {}
    for signal in signals:
        latest[turns[signal.evidence[-1]]] = signal
    return list(latest.values())


def _healthy() -> Iterator[Any]:
    for name in ("stuck_open.json", "stuck_long_open.json"):
        for raw in json.loads((CASES / name).read_bytes()):
            if raw["kind"] == "healthy":
                yield pytest.param(raw, id=raw["id"])


@pytest.mark.parametrize("raw", list(_healthy()))
def test_a_healthy_run_stays_healthy_with_other_names_ids_and_times(raw: dict[str, Any]) -> None:
    for seed in range(3):
        assert score_case(_redrawn(raw, Random(seed))).verdict == "spared"


def _redrawn(raw: dict[str, Any], chance: Random) -> Case:
    """The same story with the tools renamed, every drawn id and every clock drawn again, and times stretched."""
    told = copy.deepcopy(raw)
    names = {name: f"tool{number}_{chance.randrange(100)}" for number, name in enumerate(raw["tools"])}
    told["tools"] = {names[name]: tool for name, tool in raw["tools"].items()}
    ids: dict[str, str] = {}
    stretch = 1 + chance.random() / 2
    for item in told["history"]:
        for key in ("started_s", "ended_s"):
            if item.get(key) is not None:
                item[key] = item[key] * stretch
        if "tool" in item:
            item["tool"] = names.get(item["tool"], item["tool"])
            item["result"] = _other_ids(item["result"], ids, chance)
            item["args"] = _other_ids(item["args"], ids, chance)
    for tool in told["tools"].values():
        if "poll_budget_s" in tool:
            tool["poll_budget_s"] *= stretch
    return case_of(told)


def _other_ids(value: Any, ids: dict[str, str], chance: Random) -> Any:
    if isinstance(value, dict):
        return {key: _other_ids(part, ids, chance) for key, part in value.items()}
    if isinstance(value, list):
        return [_other_ids(part, ids, chance) for part in value]
    if isinstance(value, str) and len(value) in (8, 12, 32) and all(c in "0123456789abcdef" for c in value):
        return ids.setdefault(value, "".join(chance.choice("0123456789abcdef") for _ in value))
    if isinstance(value, int) and not isinstance(value, bool) and 1_700_000_000 <= value < 1_800_000_000:
        return value + chance.randrange(1_000)
    return value


@pytest.mark.timeout(300)
def test_memory_stays_bounded_on_a_million_events() -> None:
    """Every third of the run is weighed; after the first the state has its size and keeps it."""
    state, sizes = WATCH.start(), list[int]()
    for place, event in enumerate(long_run(1_000_000 // 3)):
        state, _ = WATCH.step(state, event)
        if place % 330_000 == 329_999:
            sizes.append(len(pickle.dumps(state)))
    assert len(sizes) == 3
    assert max(sizes) < 1_000_000
    assert sizes[-1] < sizes[0] * 1.2
