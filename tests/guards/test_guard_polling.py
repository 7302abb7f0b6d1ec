"""Waiting: judged by time where there are times, by the number of looks where a record has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capataz.events.facts import JSON
from capataz.guards.catalogue import default_guards
from capataz.guards.limits import DEFAULTS, ToolLimits
from capataz.guards.watch import Watch
from capataz.ingest.read import read_runs
from capataz.lens.replay import replay
from tests.guards.story import Log

JOB: dict[str, JSON] = {"job": 7}


def _watch(budget: float | None = None) -> Watch:
    return Watch(default_guards(DEFAULTS.with_tools({"job_status": ToolLimits(poll_budget=budget)})))


def _waits(log: Log, looks: int, pause: float, **more: Any) -> None:
    """Looks at a job that does not move, with a pause that is a call of its own between them."""
    for i in range(looks):
        log.call("job_status", JOB, {"state": "queued", "elapsed_s": i * pause}, kind="poll", **more)
        log.call("sleep", {"seconds": 30}, "done", kind="exec", changed=False)
        log.at += pause


def _looks(log: Log) -> int:
    return sum(1 for event in log.events if getattr(getattr(event.fact, "call", None), "tool", "") == "job_status")


@pytest.mark.parametrize("looks", [14, 40])
def test_waiting_between_looks_within_the_time_of_the_poll_is_no_ring(log: Log, looks: int) -> None:
    _waits(log, looks, pause=60)
    assert replay(log.events, _watch(budget=3_600)).fired == ()


def test_a_ring_of_looks_and_waits_is_told_at_its_time_and_cut_at_half_as_much_again(log: Log) -> None:
    _waits(log, 100, pause=60)
    fired = replay(log.events, _watch(budget=1_800)).fired
    first, cut = fired[0], next(one for one in fired if one.verdict.action == "stop")
    waited = [log.events[one.place].at - log.events[0].at for one in (first, cut)]
    assert 1_800 <= waited[0] <= 2_100
    assert 2_700 <= waited[1] <= 3_000
    assert sum(one.verdict.action == "nudge" for one in fired if one.signal.identity == first.signal.identity) == 1


def test_looks_that_are_refused_are_waited_for_as_well(log: Log) -> None:
    """A service that boots answers with an error until it is there."""
    for _ in range(24):
        log.call("job_status", JOB, "connection refused", kind="poll", error=True)
        log.at += 20
    assert replay(log.events, _watch(budget=900)).cut is None
    assert replay(log.events, _watch(budget=200)).cut is not None


def _record(path: Path, looks: int) -> None:
    """A chat without any time in it."""
    said: list[dict[str, object]] = [{"role": "user", "content": "Tell me when the job is done."}]
    for n in range(looks):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "job_status", "arguments": json.dumps(JOB)}}
        said.append({"role": "assistant", "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"queued for {9 * n} s"})
    path.write_text(json.dumps({"messages": said}))


@pytest.mark.parametrize(("looks", "told", "cut"), [(11, 0, False), (20, 1, False), (21, 1, True), (40, 1, True)])
def test_a_record_without_times_is_judged_by_the_looks(tmp_path: Path, looks: int, told: int, cut: bool) -> None:
    _record(tmp_path / "chat.json", looks)
    (run,) = read_runs([tmp_path])
    assert not run.times_known
    assert {event.at for event in run.events} == {run.events[0].at}
    replayed = replay(run.events, Watch(default_guards()))
    assert sum(one.verdict.action == "nudge" for one in replayed.fired) == told
    assert (replayed.cut is not None) == cut
    if replayed.cut is not None:
        assert (replayed.cut.signal.setting, replayed.cut.signal.count) == ("poll_looks_blind", 21)
        assert "21 times, and nothing moved" in replayed.cut.signal.words


def test_a_record_without_times_burns_no_tokens_within_a_minute(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 90_000, "completion_tokens": 10}
    said = [
        {"role": "user", "content": "x"},
        *({"role": "assistant", "content": f"{n}", "usage": usage} for n in range(9)),
    ]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": said}))
    (run,) = read_runs([tmp_path])
    assert run.usage_known
    assert all(one.signal.kind != "token-rate" for one in replay(run.events, Watch(default_guards())).fired)
