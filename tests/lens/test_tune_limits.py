"""Choosing limits: what every count would do is known from one replay, and the choice stays within what is allowed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given as with_data, strategies as st

from capataz.events.facts import JSON, Call, Event, Fact, Kind, ModelReplied, ToolFinished, ToolStarted
from capataz.guards.catalogue import default_guards
from capataz.guards.limits import DEFAULTS, LIMITS, Limit
from capataz.guards.watch import Watch
from capataz.lens.replay import replay
from capataz.lens.tune.choose import choose, chosen_thresholds
from capataz.lens.tune.probe import COUNTS, LOOKS, WAITS, Curves, Point, Prober, Trial, Users, told_at
from capataz.policy.policy import Policy
from capataz.testing.scripted import given

PROBER = Prober()
CLASSES: tuple[Kind, ...] = ("read", "exec")
Step = tuple[str, Kind, JSON, bool]


def run(*steps: Step) -> list[Event]:
    """One call a turn: (argument, class, result, whether it failed)."""
    facts: list[Fact] = []
    for turn, (argument, kind, result, error) in enumerate(steps, 1):
        call = Call(turn, 0, f"c{turn}", f"do_{kind}", {"q": argument}, kind)
        facts += [
            ModelReplied(turn, 1, "", (call,), "calls"),
            ToolStarted(turn, 0, call.tool),
            ToolFinished(call, result, error=error),
        ]
    return given(*facts)


def same(times: int, kind: Kind = "read", *, error: bool = False) -> list[Step]:
    return [("x", kind, "no such column: name" if error else "the same answer", error)] * times


def empty(times: int) -> list[Step]:
    return [(f"word {n * n}", "search", [], False) for n in range(times)]


def cut_at(setting: str, stop: int, events: Sequence[Event]) -> int | None:
    """Where a live policy with this limit alone would end the run."""
    never = Limit(10**6, 10**6)
    limits = {name: never for name in LIMITS} | {setting: Limit(told_at(DEFAULTS.limit(setting).nudge, stop), stop)}
    watch = Watch(default_guards(DEFAULTS.with_limits(limits)))
    cut = next(
        (one for one in replay(events, watch).fired if one.verdict.action == "stop" and one.signal.setting), None
    )
    return None if cut is None else cut.place


@pytest.mark.parametrize("setting", ["repeats.read", "repeats.search", "repeats.exec", "errors", "empty_search"])
@pytest.mark.parametrize("times", [3, 5, 9, 12])
def test_one_replay_knows_what_each_count_would_do(setting: str, times: int) -> None:
    kinds: dict[str, Kind] = {"repeats.search": "search", "repeats.exec": "exec", "empty_search": "search"}
    steps = same(times, kinds.get(setting, "read"), error=setting == "errors")
    if setting == "empty_search":
        steps = empty(times)
    events = run(*steps)
    places = PROBER.places(events)
    kind = steps[0][1]
    for stop in COUNTS:
        assert places.get((setting, kind, stop)) == cut_at(setting, stop, events), stop


@with_data(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["r", "s"]), st.sampled_from(CLASSES)),
        min_size=1,
        max_size=30,
    )
)
def test_counts_in_a_row_are_those_of_the_guard(drawn: list[tuple[str, str, Kind]]) -> None:
    steps: list[Step] = [(argument, kind, result, False) for argument, result, kind in drawn]
    events = run(*steps)
    places = PROBER.places(events)
    for kind in CLASSES:
        setting = f"repeats.{kind}"
        for stop in (3, 4, 6):
            assert places.get((setting, kind, stop)) == cut_at(setting, stop, events)


def test_a_stricter_count_never_cuts_later() -> None:
    places = PROBER.places(run(*same(12)))
    cuts = [places["repeats.read", "read", stop] for stop in COUNTS]
    assert cuts == sorted(cuts)


def curves(**points: dict[int, tuple[int, int, int]]) -> Curves:
    """Curves as given: count to (good cut, failed cut, calls saved), 1,000 good runs and 10,000 calls."""
    drawn = Curves(good=1000, failed=1000, calls=10_000)
    for name, curve in points.items():
        setting = name.replace("__", ".")
        drawn.whole[setting] = {count: Point(*curve.get(count, (0, 0, 0))) for count in COUNTS}
    return drawn


def stops(drawn: Curves, most: int) -> dict[str, int]:
    return {one.setting: one.chosen.stop for one in choose(drawn, DEFAULTS, most) if one.chosen != one.now}


def test_what_saves_much_for_no_good_run_is_made_stricter() -> None:
    assert stops(curves(revisits={3: (0, 80, 900), 4: (0, 70, 700), 5: (0, 50, 400)}), 4) == {"revisits": 3}


def test_what_cuts_too_many_good_runs_is_loosened() -> None:
    drawn = curves(
        errors={4: (9, 300, 3000), 5: (3, 250, 2500), 6: (1, 200, 2400)},
        repeats__read={5: (1, 90, 800), 6: (0, 80, 100)},
    )
    chosen = stops(drawn, 2)
    assert chosen == {"errors": 6}


def test_what_few_failed_runs_have_met_is_left_as_it_is() -> None:
    assert stops(curves(reworded={3: (0, 9, 5000), 4: (0, 2, 10)}), 4) == {}


def test_a_gain_too_small_to_matter_changes_nothing() -> None:
    assert stops(curves(revisits={3: (0, 80, 9), 5: (0, 50, 0)}), 4) == {}


@with_data(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 900)), min_size=10, max_size=10))
def test_the_sum_of_good_runs_stays_within_what_is_allowed(most: int, drawn: list[tuple[int, int]]) -> None:
    good = sorted((point[0] for point in drawn), reverse=True)
    saved = sorted((point[1] for point in drawn), reverse=True)
    curve = {count: (good[n], 50, saved[n]) for n, count in enumerate(COUNTS)}
    told = curves(errors=curve, repeats__read=curve)
    loosest = 2 * good[-1]
    assert sum(one.after.good for one in choose(told, DEFAULTS, most)) <= max(most, loosest)


def test_the_model_is_always_told_before_it_is_cut() -> None:
    told = choose(curves(revisits={3: (0, 80, 900), 5: (0, 50, 400)}), DEFAULTS, 4)
    changed = next(one for one in told if one.chosen != one.now)
    assert changed.chosen == Limit(2, 3)
    assert chosen_thresholds(DEFAULTS, told).revisits == Limit(2, 3)
    assert chosen_thresholds(DEFAULTS, told).errors == DEFAULTS.errors


@pytest.mark.parametrize(
    ("drawn", "most", "why"),
    [
        (curves(errors={count: (1 if count <= 6 else 0, 50, 900) for count in COUNTS}), 0, "cuts 1 good run fewer"),
        (
            curves(errors={count: (1_200 if count <= 6 else 0, 50, 900) for count in COUNTS}),
            0,
            "cuts 1,200 good runs fewer",
        ),
        (curves(errors={3: (0, 50, 2_400), 4: (0, 50, 900), 6: (0, 50, 900)}), 9, "saves 1,500 calls more"),
    ],
)
def test_a_choice_says_why_in_plain_words(drawn: Curves, most: int, why: str) -> None:
    assert [one.why for one in choose(drawn, DEFAULTS, most, ("errors",))] == [why]


def test_parts_add_up_to_the_whole() -> None:
    runs = [(run(*same(n)), n % 2 == 0) for n in range(2, 12)]
    whole, one, other = Curves(), Curves(), Curves()
    trial, left, right = Trial(), Trial(), Trial()
    watch = Watch(default_guards())
    for number, (events, label) in enumerate(runs):
        whole.add(events, label, PROBER)
        (one if number % 2 else other).add(events, label, PROBER)
        trial.add("x", events, label, watch)
        (left if number % 3 else right).add("x", events, label, watch)
    one.merge(other)
    left.merge(right)
    assert (one.whole, one.by_class, one.good, one.failed, one.calls) == (
        whole.whole, whole.by_class, whole.good, whole.failed, whole.calls,
    )  # fmt: skip
    assert left == trial
    assert trial.good == 5
    assert trial.good_cut == 3
    assert trial.saved == sum(n - 5 for n in (7, 9, 11))


def test_a_run_of_unknown_outcome_is_only_counted() -> None:
    told = Curves()
    told.add(run(*same(9)), None, PROBER)
    assert (told.unknown, told.good, told.failed, told.whole) == (1, 0, 0, {})


# ── polls, and single tools ──────────────────────────────────────────────────────────────────────────────


def polled(looks: int, pause: float, tool: str = "job") -> list[Event]:
    """So many equal looks at one thing; without a pause the record has no times."""
    events: list[Event] = []
    for turn in range(1, looks + 1):
        call = Call(turn, 0, f"c{turn}", tool, {"id": 1}, "poll")
        for fact in (ModelReplied(turn, 1, "", (call,), "calls"), ToolFinished(call, {"state": "queued"})):
            events.append(Event(len(events), pause * turn, fact))
    return events


def test_every_time_of_a_poll_is_tried_in_one_go() -> None:
    places = PROBER.places(polled(61, pause=60))
    for setting in ("poll_budget", "tools.job.poll_budget"):
        cut = {wait: places.get((setting, "poll", wait)) for wait in WAITS}
        assert all(cut[wait] is not None for wait in WAITS if 18 * 60 <= wait <= 3_600)
        assert all(cut[wait] is None for wait in WAITS if wait > 3_600)
    assert ("poll_looks_blind", "poll", 21) not in places
    for stop, watch in ((900, DEFAULTS), (2_700, DEFAULTS.with_limits({"poll_budget": Limit(1_800, 2_700)}))):
        live = replay(polled(61, pause=60), Watch(default_guards(watch))).cut
        assert live is not None
        assert places["poll_budget", "poll", stop] == live.place


def test_where_a_record_has_no_times_the_looks_are_tried() -> None:
    places = PROBER.places(polled(40, pause=0))
    assert {count for setting, _, count in places if setting == "poll_looks_blind"} == {n for n in LOOKS if n <= 40}
    assert not any(setting.endswith("poll_budget") for setting, _, _ in places)


def test_a_poll_that_has_a_time_of_its_own_says_nothing_of_the_others() -> None:
    own = DEFAULTS.with_limits({"tools.job.poll_budget": Limit(1_200, 1_800)})
    places = Prober(own).places(polled(61, pause=60))
    assert {setting for setting, _, _ in places} == {"tools.job.poll_budget"}


def used(drawn: Curves, tool: str, kind: str, good: int = 100, failed: int = 50) -> Curves:
    drawn.users[tool] = Users(good, failed, {kind})
    return drawn


def test_a_poll_is_given_the_time_good_runs_need() -> None:
    drawn = Curves(good=1000, failed=1000, calls=10_000)
    drawn.whole["poll_budget"] = {wait: Point(9 if wait <= 900 else 0, 50, 800) for wait in WAITS}
    (changed,) = (one for one in choose(drawn, DEFAULTS, 2) if one.chosen != one.now)
    assert (changed.setting, changed.chosen) == ("poll_budget", Limit(1_200, 1_800))
    assert chosen_thresholds(DEFAULTS, [changed]).poll_budget == 1_200.0


def test_one_tool_is_made_stricter_than_its_class_where_only_it_loops() -> None:
    drawn = used(curves(repeats__read={3: (9, 90, 900), 4: (6, 80, 800), 5: (0, 70, 300)}), "crm.find", "read")
    drawn.whole["tools.crm.find.repeat"] = {
        count: Point(0, 60, {3: 800, 4: 700, 5: 300}.get(count, 0)) for count in COUNTS
    }
    (changed,) = (one for one in choose(drawn, DEFAULTS, 2) if one.chosen != one.now)
    assert (changed.setting, changed.now, changed.chosen) == ("tools.crm.find.repeat", Limit(3, 5), Limit(2, 3))
    chosen = chosen_thresholds(DEFAULTS, [changed])
    assert chosen.tool("crm.find").repeat == Limit(2, 3)
    assert chosen.repeats == DEFAULTS.repeats


def test_one_tool_is_let_be_where_its_limit_cuts_good_runs_and_saves_nothing() -> None:
    drawn = used(curves(repeats__read={5: (3, 70, 900), 8: (3, 70, 900)}), "draw", "read")
    drawn.whole["tools.draw.repeat"] = {count: Point(3 if count < 8 else 0, 1, 2) for count in COUNTS}
    (changed,) = (one for one in choose(drawn, DEFAULTS, 4) if one.chosen != one.now)
    assert (changed.setting, changed.chosen) == ("tools.draw.repeat", Limit(3, 8))


@pytest.mark.parametrize(
    ("good", "failed", "kinds"), [(29, 50, {"read"}), (100, 9, {"read"}), (100, 50, {"read", "exec"})]
)
def test_a_tool_that_few_runs_used_or_that_is_of_many_classes_stays_with_its_class(
    good: int, failed: int, kinds: set[str]
) -> None:
    drawn = curves(repeats__read={3: (0, 90, 900), 4: (0, 80, 900), 5: (0, 70, 900)})
    drawn.users["find"] = Users(good, failed, kinds)
    drawn.whole["tools.find.repeat"] = {count: Point(0, 60, 900 - 100 * count) for count in COUNTS}
    assert [one for one in choose(drawn, DEFAULTS, 4) if one.chosen != one.now] == []


def test_what_a_tool_by_itself_would_do_is_what_a_policy_with_it_does() -> None:
    events = run(*same(9))
    places = PROBER.places(events)
    for stop in COUNTS:
        limits = DEFAULTS.with_limits({"tools.do_read.repeat": Limit(told_at(3, stop), stop)})
        live = replay(events, Watch(default_guards(limits))).cut
        assert places.get(("tools.do_read.repeat", "read", stop)) == (None if live is None else live.place)


def test_what_is_chosen_for_tools_and_polls_is_written_and_read_back() -> None:
    limits = {"tools.crm.find.repeat": Limit(2, 3), "tools.job.poll_budget": Limit(1_200, 1_800)}
    limits |= {"poll_budget": Limit(300, 450), "poll_looks_blind": Limit(12, 31)}
    policy = Policy(thresholds=DEFAULTS.with_limits(limits))
    read = Policy.from_toml(policy.to_toml()).thresholds
    assert read == policy.thresholds
    assert {name: read.limit(name) for name in limits} == limits
    assert (read.patience("job"), read.patience("other"), read.poll_looks_blind) == (1_200.0, 300.0, 31)
