"""Runs added up: what the figures say, in memory that does not grow, alike however they are added."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given as cases, strategies as st

from capataz.events.facts import (
    Call,
    ChildEnded,
    EffectChecked,
    EscalationAnswered,
    Fact,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunStarted,
    Spend,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    Usage,
    VerdictGiven,
    Versions,
)
from capataz.lens.metrics.figures import Figures, figures_of
from capataz.lens.metrics.prometheus import COUNTERS, NAMES, exposition
from capataz.lens.metrics.sketch import Sketch
from capataz.lens.metrics.tally import MOST_GROUPS, OTHER, Tally, tally
from capataz.lens.spans import names as n
from capataz.testing.scripted import given

TELEMETRY = Path(__file__).resolve().parents[2] / "src" / "capataz" / "telemetry"


def story(run: str = "r", outcome: str = "completed", **started: str) -> list[Fact]:
    call, bad = Call(1, 0, "c", "pay", {}, "write", "81"), Call(1, 1, "d", "look", {})
    busy = Fault("transient", "overloaded", "busy", status=529)
    late = Fault("transient", "timeout", "late", origin="tool")
    end: Fact = RunEscalated("auth", "key") if outcome == "escalated" else RunEnded(outcome, "why")  # type: ignore[arg-type]
    return [
        RunStarted(run, started.get("agent", "a"), "t", model="openai:m", task_type=started.get("task"),
                   versions=Versions("p1", "t1", "q1")),
        ModelCallStarted(1, 0, "m", endpoint="openai"),
        ModelCallFailed(1, 0, busy, "m", seconds=1.0),
        ModelCallStarted(1, 1, "m", endpoint="openai"),
        ModelReplied(1, 1, "", (call, bad), "calls", Usage(100, 20, money=Decimal("0.01")), "m", seconds=2.0),
        ToolStarted(1, 0, "pay"),
        ToolFinished(call, "ok", seconds=3.0),
        EffectChecked(1, 0, "after", "yes"),
        ToolStarted(1, 1, "look"),
        ToolFailed(bad, 0, late, "x", seconds=0.5),
        ToolFinished(bad, "x", error=True, fault=late, seconds=0.5),
        ToolRefused(bad, "ledger", "no"),
        VerdictGiven("nudge", "repeating", "identical", "loop-1", (4,), 1),
        VerdictGiven("stop", "repeating", "identical", "loop-1", (4,), 1),
        ModelCallStarted(2, 0, "m", endpoint="openai"),
        ModelReplied(2, 0, "done", (), "stop", Usage(50, 5, money=Decimal("0.02")), "m", seconds=1.0),
        end,
    ]  # fmt: skip


def figures(run: str = "r", outcome: str = "completed", **started: str) -> Figures:
    return figures_of(given(*story(run, outcome, **started)))


def test_a_run_in_figures() -> None:
    found = figures(task="refund")
    assert (found.agent, found.task_type, found.outcome, found.version) == ("a", "refund", "completed",
                                                                            "prompt:p1 tools:t1 policy:q1")  # fmt: skip
    assert (found.turns, found.tokens, found.money, found.seconds) == (2, 175, Decimal("0.03"), 16.0)
    assert (found.tool_calls, found.tool_errors) == (3, 2)
    assert found.tools["look"].refused == 1
    assert (found.models["m", "openai"].calls, found.models["m", "openai"].failures) == (3, 1)
    assert found.looped
    assert found.count(n.LOOPS) == 1, "one loop is one, however often it is judged"
    assert found.count(n.RETRIES) == 2
    assert found.worst_burst() == 2
    assert found.count(n.KILLS) == 2
    assert found.count(n.CONFIRMED) == 1


def test_an_unknown_price_is_not_nothing() -> None:
    facts: list[Fact] = [
        RunStarted("r", "a", "t", model="x:m"),
        ModelReplied(1, 0, "", usage=Usage(1, 1)),
        RunEnded("answered", ""),
    ]
    found = figures_of(given(*facts))
    assert found.money is None
    said = tally([found, figures()]).json()["all"]
    assert isinstance(said, dict)
    assert (said["money"], said["money_per_task"], said["runs_without_price"]) == (None, None, 1)
    assert said["money_known"] == "0.03"


def test_a_suspended_run_goes_on() -> None:
    facts = [*story(outcome="escalated"), EscalationAnswered("retry", "ana")]
    assert figures_of(given(*facts[:-1])).outcome == "escalated"
    assert not figures_of(given(*facts)).over


def test_a_sub_agents_work_counts_once_in_all_and_whole_in_its_task() -> None:
    child = figures("r.1.0")
    child.root = "r"
    top = [*story("r")[:-1], ChildEnded("r.1.0", "b", "completed", Spend(2, 2, 150, 25, Decimal("0.03")), 1, 0),
           RunEnded("completed", "done")]  # fmt: skip
    both = tally([figures_of(given(*top)), child])
    assert both.all.input_tokens + both.all.output_tokens == 350
    assert both.all.tokens_each.count == 1
    assert both.all.tokens_each.total == 350


def test_rates_say_what_they_are_of_and_nothing_of_nothing() -> None:
    empty = Tally().all
    assert (empty.completion_rate, empty.loop_rate, empty.tool_error_rate) == (None, None, None)
    some = tally([figures(), figures(outcome="partial"), figures(outcome="escalated"), figures(outcome="aborted")])
    assert some.all.completion_rate == 0.25
    talking = figures(outcome="answered")
    talking.role = "talking"
    assert tally([talking]).all.completion_rate is None


@cases(st.lists(st.sampled_from(["a", "b", "c"]), max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_runs_changes_nothing(agents: list[str], chance: random.Random) -> None:
    runs = [figures(f"r{number}", agent=agent) for number, agent in enumerate(agents)]
    mixed = [*runs]
    chance.shuffle(mixed)
    assert tally(runs).json() == tally(mixed).json()


def test_groups_are_bounded() -> None:
    total = Tally()
    for number in range(MOST_GROUPS + 50):
        total.add(Figures(run=str(number), agent=f"a{number}"))
    assert len(total.agents) == MOST_GROUPS + 1
    assert total.agents[OTHER].runs == 50


@cases(st.lists(st.floats(1e-5, 1e6), min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_right_to_a_percent(values: list[float], share: float) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    found = sketch.quantile(share)
    assert found == pytest.approx(exact, rel=0.0101)


@cases(st.lists(st.floats(0, 1e6), max_size=50), st.lists(st.floats(0, 1e6), max_size=50))
def test_two_sketches_add_up(first: list[float], second: list[float]) -> None:
    a, b, both = Sketch(), Sketch(), Sketch()
    for value in first:
        a.add(value)
        both.add(value)
    for value in second:
        b.add(value)
        both.add(value)
    a.merge(b)
    assert a.buckets == both.buckets
    assert (a.count, a.least, a.most) == (both.count, both.least, both.most)
    assert a.total == pytest.approx(both.total)


# ── Prometheus ───────────────────────────────────────────────────────────────────────────────────────────


def promtool(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus): the rules are not proven here")
    return subprocess.run([program, *words], input=text, capture_output=True, text=True, timeout=60, cwd=TELEMETRY)


def test_every_series_is_there_before_anything_ran() -> None:
    text = exposition(Tally())
    assert [name for name in NAMES if f"# TYPE {name} " not in text] == []
    assert "capataz_loops_total 0\n" in text


def test_the_text_is_what_a_scraper_reads() -> None:
    odd = figures("x", agent='a "quoted"\\ name\n')
    text = exposition(tally([figures(), odd]))
    assert 'capataz_retries_total{agent="a",error_class="transient",of="model"} 1\n' in text
    assert 'agent="a \\"quoted\\"\\\\ name\\n"' in text
    assert 'capataz_runs_total{agent="a",outcome="completed"} 1' in text
    assert 'capataz_run_seconds_bucket{agent="a",le="30"} 1' in text
    checked = promtool("check", "metrics", text=text)
    assert checked.returncode == 0, checked.stderr


def test_the_shipped_rules_watch_series_that_exist() -> None:
    rules = (TELEMETRY / "prometheus-rules.yml").read_text("utf-8")
    watched = set(re.findall(r"capataz_[a-z_]+", rules))
    known = {
        *COUNTERS,
        *(f"{name}_{part}" for name in NAMES if name not in COUNTERS for part in ("bucket", "sum", "count")),
    }
    assert watched
    assert watched <= known


def test_the_shipped_rules_are_proven() -> None:
    for words in (("check", "rules", "prometheus-rules.yml"), ("test", "rules", "prometheus-rules-test.yml")):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr
