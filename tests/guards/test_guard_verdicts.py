"""What the kernel makes of a signal: told first, cut on the same loop, and never against the policy."""

from __future__ import annotations

import pytest

from capataz.guards.base import Advice, Signal
from capataz.guards.catalogue import GUARDS, default_guards
from capataz.guards.watch import Watch
from capataz.kernel.verdicts import judge
from capataz.lens.replay import replay
from capataz.policy.policy import Policy
from capataz.policy.thresholds import ToolLimits, enabled_guards
from tests.guards.story import Log


def _signal(advice: Advice, urgent: bool = False) -> Signal:
    return Signal("repeating", "identical", "identical:x", (1, 2), advice, "words", "note", urgent)


@pytest.mark.parametrize(
    ("advice", "heard", "turn", "action"),
    [
        ("nudge", {}, 3, "nudge"),
        ("stop", {}, 3, "nudge"),
        ("stop", {"identical:x": 2}, 3, "stop"),
        ("stop", {"identical:x": 3}, 3, "observe"),
        ("stop", {"identical:other": 2}, 3, "nudge"),
        ("nudge", {"identical:x": 2}, 3, "nudge"),
        ("fail-turn", {}, 3, "fail-turn"),
        ("escalate", {}, 3, "escalate"),
    ],
)
def test_a_loop_is_told_before_it_is_cut(advice: Advice, heard: dict[str, int], turn: int, action: str) -> None:
    verdict = judge(_signal(advice), heard, turn)
    assert verdict.action == action
    assert (verdict.note == "") == (action == "observe")


def test_an_urgent_stop_needs_no_second_turn() -> None:
    assert judge(_signal("stop", urgent=True), {}, 1).action == "stop"


@pytest.mark.parametrize("advice", ["nudge", "stop", "fail-turn", "escalate"])
def test_observing_says_nothing_to_the_model(advice: Advice) -> None:
    verdict = judge(_signal(advice, urgent=True), {"identical:x": 1}, 5, "observe")
    assert (verdict.action, verdict.note, verdict.words) == ("observe", "", "words")


def test_a_replay_obeys_the_modes(log: Log) -> None:
    for _ in range(8):
        log.call("send", {"to": "a"}, "sent", kind="message", target="a")
    watch = Watch(default_guards())
    cut = replay(log.events, watch).cut
    assert cut is not None
    assert cut.seq == log.events[cut.place].seq
    assert replay(log.events, watch, {"repeating": "observe"}).cut is None
    assert all(one.signal.guard != "repeating" for one in replay(log.events, watch, {"repeating": "off"}).fired)


def test_a_guard_that_is_off_is_not_even_fed() -> None:
    names = [guard.name for guard in enabled_guards(Policy(modes={"spending": "off", "cycling": "observe"}))]
    assert names == [name for name in GUARDS if name != "spending"]


def test_what_a_tool_declares_yields_to_the_policy() -> None:
    declared = {"job": ToolLimits(poll_budget=60.0), "other": ToolLimits(free=True)}
    own = Policy().thresholds.with_tools({"job": ToolLimits(poll_budget=5.0)})
    joined = own.with_tools(declared)
    assert joined.tool("job").poll_budget == 5.0
    assert joined.tool("other").free


def test_a_free_tool_is_never_counted(log: Log) -> None:
    for _ in range(30):
        log.call("draw", {}, "same")
    watch = Watch(enabled_guards(Policy(), {"draw": ToolLimits(free=True, repeat=None)}))
    assert replay(log.events, watch).cut is None
