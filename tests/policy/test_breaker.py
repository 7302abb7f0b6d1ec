"""The circuit breaker as a machine: time comes in as data."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from capataz.mistakes import PolicyMisuse
from capataz.policy.breaker import Breaker, BreakerRule, Breakers

RULE = BreakerRule(failures=3, within=10.0, rest=30.0)


def opened(at: float = 2.0) -> Breaker:
    breaker = Breaker(RULE)
    assert [breaker.failed(at - 2), breaker.failed(at - 1), breaker.failed(at)] == [False, False, True]
    return breaker


def test_a_burst_opens_it_and_calls_are_held_back_until_it_has_rested() -> None:
    breaker = opened(2.0)
    assert breaker.held(3.0) == 29.0
    assert breaker.held(31.9) == pytest.approx(0.1)


def test_one_call_tries_and_the_others_wait_for_it() -> None:
    breaker = opened(2.0)
    assert breaker.held(32.0) is None
    assert breaker.held(33.0) == 29.0
    assert breaker.answered()
    assert breaker.held(33.0) is None


def test_a_try_that_fails_opens_it_again() -> None:
    breaker = opened(2.0)
    assert breaker.held(32.0) is None
    assert breaker.failed(33.0)
    assert breaker.held(34.0) == 29.0


def test_a_try_of_which_nobody_tells_the_end_does_not_close_it_for_ever() -> None:
    breaker = opened(2.0)
    assert breaker.held(32.0) is None
    assert breaker.held(62.0) is None


def test_failures_far_apart_or_with_an_answer_between_do_not_open_it() -> None:
    slow = Breaker(RULE)
    assert not any(slow.failed(at * 6.0) for at in range(20))
    mixed = Breaker(RULE)
    for at in range(20):
        assert not mixed.failed(at * 0.1)
        assert not mixed.failed(at * 0.1)
        assert not mixed.answered()


def test_failures_of_calls_that_left_before_it_opened_do_not_open_it_twice() -> None:
    breaker = opened(2.0)
    assert not breaker.failed(2.1)
    assert breaker.held(32.0) is None


def test_it_can_be_switched_off() -> None:
    breaker = Breaker(BreakerRule(failures=0))
    assert not any(breaker.failed(0.0) for _ in range(100))
    assert breaker.held(0.0) is None


@given(st.lists(st.tuples(st.sampled_from(["fail", "answer", "ask"]), st.floats(0, 20)), max_size=60))
def test_it_never_holds_a_call_back_for_longer_than_its_rest_and_never_for_ever(steps: list[tuple[str, float]]) -> None:
    breaker, now = Breaker(RULE), 0.0
    for what, passed in steps:
        now += passed
        if what == "fail":
            breaker.failed(now)
        elif what == "answer":
            breaker.answered()
        held = breaker.held(now)
        assert held is None or 0 < held <= RULE.rest + 1e-6
    assert breaker.held(now + 2 * RULE.rest) is None


def test_only_what_fails_takes_memory() -> None:
    breakers = Breakers()
    for n in range(1000):
        assert not breakers.failed(n, 0.0, RULE)
        assert breakers.held(n, 1.0) is None
        assert not breakers.answered(n)
    assert len(breakers._all) == 0


@pytest.mark.parametrize("numbers", [{"failures": -1}, {"failures": True}, {"rest": 0}, {"within": float("nan")}])
def test_numbers_that_cannot_be_are_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(PolicyMisuse):
        BreakerRule(**numbers)  # type: ignore[arg-type]
