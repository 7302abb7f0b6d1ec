"""Trouble that lasts: few lines, and none of them missing."""

from __future__ import annotations

from hypothesis import given, strategies as st

from capataz.faults.lasting import AGAIN, MOST_REASONS, Lasting

WHAT = "the beat of w could not be written"


class Ear:
    """Hears the lines, at a time that the test moves."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = 0.0
        self.troubles = Lasting(self.lines.append, lambda: self.now)


def test_an_hour_without_a_disk_is_seven_lines_and_one_for_the_end() -> None:
    ear = Ear()
    for second in range(0, 3601, 2):
        ear.now = float(second)
        ear.troubles.failed(WHAT, "disk full")
    ear.now += 2
    ear.troubles.over(WHAT)
    assert len(ear.lines) == 8
    assert ear.lines[0] == f"{WHAT}: disk full (told again every 10 min while it lasts)"
    assert ear.lines[3] == f"still, after 30 min and 901 times: {WHAT}: disk full"
    assert ear.lines[-1] == f"over after 60 min and 1,801 times: {WHAT}"


def test_a_new_reason_is_told_at_once_but_numbers_and_ids_make_none() -> None:
    ear = Ear()
    ear.troubles.failed(WHAT, "no answer from port 5432 for run 01m8qamm6k")
    ear.troubles.failed(WHAT, "no answer from port 5433 for run 01m8qanww2")
    assert len(ear.lines) == 1
    ear.troubles.failed(WHAT, "permission denied")
    assert ear.lines[1:] == [f"still, after 0 s and 3 times: {WHAT}: permission denied"]


def test_reasons_that_never_repeat_bring_no_flood() -> None:
    ear = Ear()
    for letter in "abcdefghijklmnop":
        ear.troubles.failed(WHAT, letter)
    assert len(ear.lines) == MOST_REASONS


def test_troubles_do_not_hide_one_another() -> None:
    ear = Ear()
    ear.troubles.failed(WHAT, "disk full")
    ear.troubles.failed("no work can be claimed", "disk full")
    ear.troubles.over(WHAT)
    ear.troubles.over("no work can be claimed")
    assert [line.split(":")[0] for line in ear.lines[2:]] == ["over after 0 s and once"] * 2


def test_what_goes_well_says_nothing_and_what_comes_back_at_once_is_not_over() -> None:
    ear = Ear()
    ear.troubles.over(WHAT)
    ear.troubles.failed(WHAT, "disk full")
    ear.now = 5.0
    ear.troubles.over(WHAT, calm=10.0)
    assert len(ear.lines) == 1
    ear.now = 11.0
    ear.troubles.over(WHAT, calm=10.0)
    assert ear.lines[-1] == f"over after 11 s and once: {WHAT}"


def test_what_nobody_has_ended_begins_anew() -> None:
    ear = Ear()
    for ear.now in (0.0, 2 * AGAIN):
        ear.troubles.failed(WHAT, "disk full")
    assert ear.lines == [f"{WHAT}: disk full (told again every 10 min while it lasts)"] * 2


@given(st.lists(st.tuples(st.floats(0, 2 * AGAIN), st.booleans()), max_size=60))
def test_whatever_happens_the_first_failure_and_the_end_are_told(steps: list[tuple[float, bool]]) -> None:
    ear = Ear()
    failing = False
    for pause, fails in steps:
        ear.now += pause
        before = len(ear.lines)
        if fails:
            ear.troubles.failed(WHAT, "disk full")
            assert len(ear.lines) == before + 1 or (failing and pause <= AGAIN)
        else:
            ear.troubles.over(WHAT)
            assert len(ear.lines) == before + failing
        failing = fails
