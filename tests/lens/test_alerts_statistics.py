"""Alerts say how sure they are: no alarm on noise, a real rise found, and how many more runs it would take."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given as cases, strategies as st

from capataz.lens.alerts.evaluate import Reading, evaluate
from capataz.lens.alerts.points import METRICS, Point
from capataz.lens.alerts.rules import DEFAULT_TOML, Rule, default_rules, made, read, seconds_of
from capataz.lens.alerts.state import AlertState, advance, states_from, states_json
from capataz.lens.alerts.statistics import difference, rise, runs_for_share, share
from capataz.lens.alerts.trial import trial
from capataz.lens.spans import names as n
from capataz.mistakes import Misuse

NOW = 1_800_000_000.0
STREAMS = 40
COST = made({"metric": "tokens_per_task", "rises": 0.2, "flat": "completion_rate"}, "test")


def stream(seed: int, runs: int, shift_at: int | None = None, factor: float = 1.2) -> list[Point]:
    """Costs of runs as they really lie: skewed, lognormal with a deviation of 0.6."""
    chance = random.Random(seed)
    factors = [factor if shift_at is not None and number >= shift_at else 1.0 for number in range(runs)]
    return [
        Point(
            f"r{number}",
            at=number * 60.0,
            outcome="completed" if chance.random() < 0.85 else "partial",
            tokens=int(20_000 * more * math.exp(chance.gauss(0, 0.6))),
        )
        for number, more in enumerate(factors)
    ]


def first_alarm(points: list[Point], begin: int, step: int = 50) -> int | None:
    for end in range(begin, len(points) + 1, step):
        if evaluate(COST, points[max(0, end - 2400) : end], points[end - 1].at).standing == "firing":
            return end
    return None


def test_quiet_streams_stay_quiet() -> None:
    assert sum(first_alarm(stream(seed, 2000), 600) is not None for seed in range(STREAMS)) <= 1


def test_a_rise_of_a_fifth_is_found_in_time() -> None:
    found = [first_alarm(stream(1000 + seed, 3600, 2100), 2150) for seed in range(STREAMS)]
    delays = sorted(end - 2100 for end in found if end is not None)
    assert len(delays) >= 34
    assert delays[len(delays) // 2] <= 400


# ── what a reading says ──────────────────────────────────────────────────────────────────────────────────


def runs(number: int, **fields: object) -> list[Point]:
    made_up: dict[str, object] = {
        "agent": "a",
        "at": NOW - 60,
        "outcome": "completed",
        "tokens": 400,
        "steps": 5,
        **fields,
    }
    return [Point(f"r{index}", **made_up) for index in range(number)]  # type: ignore[arg-type]


def looping(bad: int, of: int) -> list[Point]:
    return [*runs(of - bad), *runs(bad, counts={n.LOOPS: 1}, agent="b")]


def test_too_few_runs_say_how_many_more() -> None:
    reading = evaluate(made({"metric": "loop_rate", "over": 0.05}, "t"), looping(3, 10), NOW)
    assert (reading.standing, reading.more) == ("not enough data", 40)
    assert "40 more" in reading.words


def test_a_share_over_the_limit_by_chance_is_not_an_alarm() -> None:
    rule = made({"metric": "loop_rate", "over": 0.05}, "t")
    unsure = evaluate(rule, looping(4, 60), NOW)
    assert unsure.standing == "not enough data"
    assert "not sure yet" in unsure.words
    assert unsure.more > 100
    assert evaluate(rule, looping(60, 300), NOW).standing == "firing"
    assert evaluate(rule, looping(1, 300), NOW).standing == "ok"


def test_an_alarm_points_to_three_runs_and_its_interval() -> None:
    reading = evaluate(made({"metric": "loop_rate", "over": 0.05}, "t"), looping(60, 300), NOW)
    assert len(reading.runs) == 3
    assert reading.low is not None
    assert reading.high is not None
    assert 0.05 < reading.low < 0.2 < reading.high
    assert "(60 of 300" in reading.words


def test_a_percentile_is_judged_by_the_runs_above_it() -> None:
    rule = made({"metric": "latency_p99", "over": 60}, "t")
    slow = [*runs(380, seconds=5.0), *runs(20, seconds=90.0)]
    assert evaluate(rule, slow, NOW).standing == "firing"
    assert evaluate(rule, [*runs(399, seconds=5.0), *runs(1, seconds=9000.0)], NOW).standing == "ok"


def costs(recent: float, before: float, good: float = 0.9, version: str = "p2", number: int = 300) -> list[Point]:
    """Runs with a spread of a tenth, and with a version that changed between the windows."""
    made_up: list[Point] = []
    for index in range(number * 8):
        new = index >= number * 7
        size = (recent if new else before) * (0.9 + 0.2 * (index % 11) / 10)
        share_good = good if new else 0.9
        outcome = "completed" if (index % 10) < share_good * 10 else "partial"
        made_up.append(
            Point(
                f"r{index}",
                "a",
                at=NOW - 1e5 + index,
                outcome=outcome,
                tokens=1,
                money=size,
                versions={"model": "m", "prompt": version if new else "p1"},
            )
        )
    return made_up


def cost_rule(**more: object) -> Rule:
    return made({"metric": "money_per_task", "rises": 0.2, "flat": "completion_rate", **more}, "t")


def test_a_rise_names_the_change_that_coincides() -> None:
    reading = evaluate(cost_rule(), costs(0.125, 0.10), NOW)
    assert reading.standing == "firing"
    assert reading.value == pytest.approx(0.25, abs=0.01)
    assert "prompt p1 → p2, first in run r2100" in reading.change
    assert "model" not in reading.change
    assert reading.runs[0].startswith("r2")


def test_a_rise_that_bought_completion_is_no_alarm_and_one_that_lost_it_is() -> None:
    better = evaluate(cost_rule(), costs(0.125, 0.10, good=1.0), NOW)
    assert better.standing == "ok"
    assert "completion moved +10" in better.words
    assert evaluate(cost_rule(), costs(0.125, 0.10, good=0.6), NOW).standing == "firing"


def test_where_nobody_can_say_that_completion_is_flat_it_says_so() -> None:
    few = costs(0.2, 0.10, number=40)
    reading = evaluate(cost_rule(runs=40), few, NOW)
    assert reading.standing == "not enough data"
    assert "too wide to call it flat" in reading.words
    assert reading.more > 0


def test_a_rise_too_small_or_too_unsure_is_no_alarm() -> None:
    assert evaluate(cost_rule(), costs(0.105, 0.10), NOW).standing == "ok"
    few = evaluate(cost_rule(), costs(0.125, 0.10)[:500], NOW)
    assert (few.standing, few.more) == ("not enough data", 100)


def test_unknown_prices_are_no_data() -> None:
    reading = evaluate(cost_rule(), runs(700, money=None), NOW)
    assert reading.standing == "no data"
    assert "no price is known" in reading.words


def test_a_pace_is_the_busiest_minute_of_all_runs_together() -> None:
    minute = int(NOW // 60) - 2
    busy = runs(5, minutes={minute: 50_000, minute - 1: 10})
    rule = made({"metric": "tokens_per_minute", "over": 200_000}, "t")
    assert evaluate(rule, busy, NOW).standing == "firing"
    assert evaluate(rule, busy[:3], NOW).standing == "ok"


def test_a_pace_against_what_is_usual_at_that_hour() -> None:
    rule = made({"metric": "tokens_per_minute", "times": 3}, "t")
    days = [
        Point(f"d{day}", at=NOW - day * 86_400, minutes={int((NOW - day * 86_400) // 60): 1000}) for day in range(1, 6)
    ]
    now = [Point("now", at=NOW - 1, minutes={int(NOW // 60): 3500})]
    reading = evaluate(rule, [*days, *now], NOW)
    assert reading.standing == "firing"
    assert "usual at this hour" in reading.notes[0]
    few = evaluate(rule, [*days[:2], *now], NOW)
    assert (few.standing, few.more) == ("not enough data", 1)


# ── a rule on nothing ────────────────────────────────────────────────────────────────────────────────────


def minutely() -> list[Point]:
    """The report: twenty runs with four hundred tokens a minute."""
    return [Point(f"r{index}", "a", at=NOW - 60 * index - 1, outcome="completed", own_tokens=400, tokens=400,
                  minutes={int(NOW // 60) - index: 400}) for index in range(20)]  # fmt: skip


def test_a_metric_that_nobody_writes_is_refused_with_the_near_match() -> None:
    with pytest.raises(
        Misuse, match=r"rule 1: there is no metric 'tokens_total_typo' \(did you mean 'tokens_total'\?\)"
    ):
        read('[[rules]]\nmetric = "tokens_total_typo"\nover = 1000', "alerts.toml")


def test_an_agent_that_never_ran_is_no_data_and_not_ok() -> None:
    never, all_runs = read(
        '[[rules]]\nmetric = "tokens_total"\nagent = "billing-bot"\nover = 1000\n'
        '[[rules]]\nmetric = "tokens_total"\nover = 1000\n'
    )
    assert evaluate(never, minutely(), NOW).standing == "no data"
    assert evaluate(all_runs, minutely(), NOW).standing == "firing"
    assert evaluate(all_runs, [], NOW).standing == "no data"


@pytest.mark.parametrize("rule", [*default_rules(), *(
    made({"metric": name, way: 0.5 if way != "times" else 3}, "t")
    for name, metric in METRICS.items()
    for way in {"share": ("over", "under"), "tail": ("over",), "mean": ("rises",), "pace": ("over", "times"),
                "most": ("over",), "total": ("over",)}[metric.judged]
)], ids=lambda rule: rule.name)  # fmt: skip
def test_every_rule_can_be_set_off_with_made_up_data(rule: Rule) -> None:
    assert trial(rule, NOW).standing == "firing"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write each rule as"),
        ("[[rules]]\nover = 1", "there is no metric"),
        ('[[rules]]\nmetric = "loop_rate"', "takes exactly one of over or under"),
        ('[[rules]]\nmetric = "loop_rate"\nover = 1\nunder = 2', "exactly one"),
        ('[[rules]]\nmetric = "steps"\nover = 5', "exactly one of rises"),
        ('[[rules]]\nmetric = "loop_rate"\novr = 1', "did you mean 'over'"),
        ('[[rules]]\nmetric = "loop_rate"\nover = 5', "is a share: over is between 0 and 1, 0.05 for 5 %"),
        ('[[rules]]\nmetric = "hang_rate"\nover = 1', "is a share"),
        ('[[rules]]\nmetric = "completion_rate"\nunder = 90', "is a share: under"),
        ('[[rules]]\nmetric = "loop_rate"\nover = "much"', "over is a number"),
        ('[[rules]]\nmetric = "loop_rate"\nover = nan', "over is a number"),
        ('[[rules]]\nmetric = "loop_rate"\nover = 0.1\nwindow = "soon"', "is no time"),
        ('[[rules]]\nmetric = "loop_rate"\nover = 0.1\ntool = "x"', "a tool can only"),
        ('[[rules]]\nmetric = "loop_rate"\nover = 0.1\nseverity = "bad"', "severity is one of"),
        ('[[rules]]\nmetric = "loop_rate"\nover = 0.1\n' * 2, "two rules are called"),
        ('rules = "x"', "write each rule as"),
        ("[[rules", "is not TOML"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        read(text, "f")


def test_the_built_in_rules_cover_the_four_failures_and_money() -> None:
    watched = {rule.metric for rule in default_rules()}
    assert {"loop_rate", "hang_rate", "empty_turn_rate", "retry_burst", "tool_error_rate", "steps", "latency_p99",
            "money_per_task", "tokens_per_minute"} <= watched  # fmt: skip
    assert len(read(DEFAULT_TOML)) == len(default_rules())
    assert seconds_of("1.5h") == 5400


# ── when somebody is told ────────────────────────────────────────────────────────────────────────────────


def reading(standing: str, value: float = 0.1) -> Reading:
    return Reading(made({"metric": "loop_rate", "over": 0.05, "cooldown": "1h"}, "t"), standing, "words", value)  # type: ignore[arg-type]


def test_told_once_again_after_the_cooldown_and_when_it_is_over() -> None:
    states: dict[str, AlertState] = {}
    kinds: list[tuple[float, str]] = []
    course = [(0, "ok", 0.01), (1, "firing", 0.1), (60, "firing", 0.1), (120, "ok", 0.049),
              (180, "not enough data", 0.0), (240, "no data", 0.0), (4000, "firing", 0.1),
              (4060, "ok", 0.01), (4120, "firing", 0.1), (9000, "firing", 0.1)]  # fmt: skip
    for at, standing, value in course:
        states, notices = advance(states, [reading(standing, value)], float(at))
        states = states_from(states_json(states))
        kinds += [(at, notice.kind) for notice in notices]
    assert kinds == [(1, "fired"), (4000, "still"), (4060, "resolved"), (9000, "still")]
    assert states["loop_rate, over 0.05"].firing


def test_states_that_are_damaged_only_mean_to_be_told_once_more() -> None:
    assert states_from(["x"]) == {}
    assert states_from({"a": {"firing": True}, "b": 3}) == {}


def test_a_notice_reads_as_a_mail_and_as_a_message() -> None:
    _, [notice] = advance({}, [evaluate(made({"metric": "loop_rate", "over": 0.05}, "t"), looping(60, 300), NOW)], NOW)
    text = notice.text("https://runs.example.com/")
    assert text.splitlines()[0] == "ALERT loop_rate, over 0.05 (warning)"
    assert text.count("https://runs.example.com/r") == 3
    message = notice.json("https://runs.example.com/")
    assert (message["event"], message["test"], message["state"]) == ("alert.fired", False, "firing")
    assert len(message["links"]) == 3  # type: ignore[arg-type]


# ── the formulas ─────────────────────────────────────────────────────────────────────────────────────────


@cases(st.integers(1, 500), st.data())
def test_a_share_lies_in_its_interval(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole))
    found = share(part, whole)
    assert 0 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1


@cases(st.lists(st.floats(0.1, 100), min_size=3, max_size=40), st.floats(1.1, 5))
def test_a_factor_is_found_as_it_is(values: list[float], factor: float) -> None:
    found = rise([value * factor for value in values], values)
    assert found is not None
    assert found.effect == pytest.approx(factor - 1, rel=1e-6)
    assert rise([1.0], values) is None


def test_no_difference_is_none() -> None:
    moved, low, high = difference(80, 100, 800, 1000)
    assert moved == pytest.approx(0)
    assert low < 0 < high
    assert runs_for_share(0.10, 0.05) < runs_for_share(0.06, 0.05)
