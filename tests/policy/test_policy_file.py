"""The policy as a file: what is written comes back, what means nothing is refused with its place."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st

from capataz import Policy
from capataz.events.facts import Fault, Row
from capataz.guards.catalogue import GUARDS
from capataz.guards.limits import Limit, Thresholds, ToolLimits
from capataz.mistakes import PolicyMisuse
from capataz.policy.breaker import BreakerRule
from capataz.policy.effective import lines, settings as other_numbers
from capataz.policy.file import FILE_ROWS, parse
from capataz.policy.table import DEFAULT_TABLE, ROWS, FaultTable, Override, Rule, Terminal

seconds = st.floats(0, 86_400)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
rules = st.builds(
    Rule,
    st.integers(0, 100),
    st.sampled_from(get_args(Terminal)),
    seconds,
    st.floats(1, 100),
    seconds,
    st.floats(0, 10),
)
overrides = st.builds(
    Override,
    st.none() | st.integers(0, 100),
    st.none() | st.sampled_from(get_args(Terminal)),
    st.none() | seconds,
    st.none() | st.floats(1, 100),
    st.none() | seconds,
    st.none() | st.floats(0, 10),
).filter(lambda override: bool(override.given()))
by_row = st.dictionaries(st.sampled_from(FILE_ROWS), overrides, min_size=1, max_size=3)
laid = st.dictionaries(names, by_row, max_size=3)
breakers = st.builds(BreakerRule, st.integers(0, 10_000), st.floats(0.1, 86_400), st.floats(0.1, 86_400))
limits = st.builds(lambda nudge, more: Limit(nudge, nudge + more), st.integers(1, 50), st.integers(0, 50))
thresholds = st.builds(
    Thresholds,
    repeats=st.fixed_dictionaries({kind: limits for kind in ("read", "search", "write", "exec", "message")}),
    errors=limits,
    chant=st.integers(1, 99),
    poll_budget=seconds,
    tools=st.dictionaries(
        names,
        st.builds(ToolLimits, st.none() | limits, st.none() | seconds, st.none() | seconds, st.booleans()),
        max_size=3,
    ),
)
modes = st.dictionaries(
    st.sampled_from(GUARDS) | st.just("large-refunds"), st.sampled_from(["enforce", "observe", "off"])
)
policies = st.builds(
    Policy,
    faults=st.builds(
        FaultTable,
        rules=st.fixed_dictionaries({row: rules for row in FILE_ROWS}).map(
            lambda rows: {**rows, "ours": DEFAULT_TABLE["ours"]}
        ),
        providers=laid,
        models=laid,
        tools=laid,
    ),
    modes=modes,
    claims=st.integers(0, 9),
    closing_tokens=st.integers(1, 9_999),
    closing_seconds=seconds,
    least_output=st.integers(0, 999),
    long_wait=seconds,
    thresholds=thresholds,
    breaker=breakers,
    provider_breakers=st.dictionaries(names, breakers, max_size=2),
    tool_breakers=st.dictionaries(names, breakers, max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(policies)
def test_what_is_written_comes_back(policy: Policy) -> None:
    again = Policy.from_toml(policy.to_toml())
    assert again == policy
    assert again.digest == policy.digest


@settings(max_examples=30, deadline=None)
@given(policies, policies)
def test_the_digest_differs_when_anything_differs(one: Policy, other: Policy) -> None:
    assert (one.digest == other.digest) is (one == other)


def test_the_digest_covers_every_field() -> None:
    changed: dict[str, Any] = {
        "faults": FaultTable({**DEFAULT_TABLE, "unknown": Rule(2, "human", jitter=0.1)}),
        "modes": {"searching": "observe"},
        "thresholds": Thresholds(chant=11),
        "breaker": BreakerRule(9),
        "provider_breakers": {"openai": BreakerRule()},
        "tool_breakers": {"refund": BreakerRule()},
    }
    digests = {Policy().digest}
    for f in fields(Policy):
        value = changed.get(f.name) or getattr(Policy(), f.name) + 1
        digests.add(replace(Policy(), **{f.name: value}).digest)
    assert len(digests) == len(fields(Policy)) + 1


def test_an_empty_file_is_the_default_policy() -> None:
    assert Policy.from_toml("") == Policy()


def test_a_row_without_numbers_keeps_its_defaults() -> None:
    rows = "\n".join(f"[faults.{row}]" for row in FILE_ROWS)
    policy = Policy.from_toml(f"{rows}\nretries = 7")
    assert policy.faults.rules["unknown"] == replace(DEFAULT_TABLE["unknown"], retries=7)
    assert policy.faults.rules["transient"] == DEFAULT_TABLE["transient"]


ROWS_TEXT = "\n".join(f"[faults.{row}]" for row in FILE_ROWS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("claims = ", "p.toml is not TOML"),
        ("clams = 3", r"p.toml has no 'clams': did you mean 'claims'\?"),
        ("claims = 2.5", "p.toml: claims = 2.5: give a whole number"),
        ("claims = true", "claims = True"),
        ("claims = -1", "at least 0"),
        ("long_wait = nan", "long_wait = nan"),
        ("[faults.transient]", r"no \[faults.rate_limit\], \[faults.invalid_input\]"),
        ("[faults.transiet]", "did you mean 'transient'"),
        (f"{ROWS_TEXT}\n[faults.ours]", r"\[faults.ours\] cannot be set"),
        (f"{ROWS_TEXT}\nretrys = 3", r"\[faults.unknown\] has no 'retrys': did you mean 'retries'"),
        (f"{ROWS_TEXT}\nretries = '3'", r"\[faults.unknown\] retries = '3'"),
        (f"{ROWS_TEXT}\nretries = 101", r"\[faults.unknown\] retries = 101: give a whole number from 0 to 100"),
        (f"{ROWS_TEXT}\nfirst = inf", r"\[faults.unknown\] first = inf"),
        (f"{ROWS_TEXT}\nterminal = 'boss'", r"terminal = 'boss': give one of supervisor, human"),
        (f"{ROWS_TEXT}\nterminal = 3", "terminal = 3"),
        ("[providers.openai.ratelimit]", "did you mean 'rate_limit'"),
        ("[providers.openai]\ntransient = 3", "has to be a table"),
        ("[providers.openai.ours]", "has no 'ours'"),
        ('[models."gpt 5".breaker]', r'\[models."gpt 5"\] has no \'breaker\''),
        ("[tools.refund.transient]\nfactor = 0.5", r"\[tools.refund.transient\] factor = 0.5"),
        ("[breaker]\nfailures = 1.5", r"\[breaker\] failures = 1.5"),
        ("[breaker]\nrest = 0", r"\[breaker\] rest = 0"),
        ("[guards]\nsearchin = 'off'", "did you mean 'searching'"),
        ("[guards]\nsearching = 'on'", "give one of enforce, observe, off"),
        ("[thresholds]\nchants = 3", "did you mean 'chant'"),
        ("[thresholds]\nerrors = 3", "has to be a table"),
        ("[thresholds]\nerrors = { nudge = 3 }", "has no stop"),
        ("[thresholds]\nerrors = { nudge = 5, stop = 3 }", "more than stop"),
        ("[thresholds.repeats]\nreads = { nudge = 1, stop = 2 }", "did you mean 'read'"),
        ("[thresholds.tools.x]\nfree = 1", "give true or false"),
        ("faults = 3", "has to be a table"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(PolicyMisuse, match=words) as caught:
        Policy.from_toml(text, "p.toml")
    assert str(caught.value).startswith("p.toml")


def test_a_guard_of_ones_own_may_be_named() -> None:
    assert Policy.from_toml("[guards]\nlarge-refunds = 'observe'").mode("large-refunds") == "observe"


def test_the_table_is_exhaustive() -> None:
    assert set(DEFAULT_TABLE) == set(get_args(Row)) == set(ROWS)
    for row in ROWS:
        with pytest.raises(PolicyMisuse, match=f"no rule for {row}"):
            FaultTable({name: rule for name, rule in DEFAULT_TABLE.items() if name != row})


def test_a_row_without_a_rule_is_found_when_the_table_is_imported() -> None:
    """With a row nobody gave a rule to, the module cannot be imported; a type checker says so before."""
    code = (
        "import typing, capataz.events.values as values, capataz.events.facts as facts\n"
        "rows = typing.Literal[(*typing.get_args(facts.Row), 'bad')]\n"
        "values.Row = facts.Row = rows\n"
        "import capataz.policy.table"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    assert "'bad'" in ran.stderr


def test_our_own_limit_is_never_retried() -> None:
    with pytest.raises(PolicyMisuse, match="never retried"):
        FaultTable({**DEFAULT_TABLE, "ours": Rule(1, "partial")})
    with pytest.raises(PolicyMisuse, match="never retried"):
        FaultTable(models={"m": {"ours": Override(retries=1)}})


LIMITED, DENIED = Fault("rate_limit", "x", "no"), Fault("auth", "x", "no")


def test_a_model_wins_over_its_provider_and_both_over_the_row() -> None:
    table = FaultTable(
        providers={"openai": {"rate_limit": Override(retries=2, cap=9.0)}},
        models={"gpt-5": {"rate_limit": Override(retries=1)}, "openai:gpt-5": {"rate_limit": Override(first=3.0)}},
    )
    assert table.retries(LIMITED) == table.retries(LIMITED, model="groq:llama") == 5
    assert table.retries(LIMITED, model="openai:gpt-4") == 2
    assert table.rule(LIMITED, model="openai:gpt-5") == Rule(1, "supervisor", 3.0, 2.0, 9.0, 0.5)
    assert table.retries(LIMITED, model="azure:gpt-5") == 1


def test_a_reason_lowers_the_number_and_never_raises_it() -> None:
    table = FaultTable(tools={"t": {"transient": Override(retries=9)}})
    assert table.retries(Fault("transient", "x", "no", retries=1), tool="t") == 1
    assert table.retries(Fault("transient", "x", "no", retries=50), tool="t") == 9


@pytest.mark.parametrize(
    ("row", "retries", "terminal"),
    [
        ("transient", 3, "correct"),
        ("rate_limit", 5, "correct"),
        ("invalid_input", 0, "correct"),
        ("auth", 0, "human"),
        ("contract", 0, "correct"),
        ("unknown", 0, "correct"),
    ],
)
def test_the_error_of_a_tool_is_the_models_to_read(row: Any, retries: int, terminal: str) -> None:
    rule = FaultTable().rule(Fault(row, "x", "no"), tool="look")
    assert (rule.retries, rule.terminal) == (retries, terminal)


def test_a_tool_can_be_told_apart_and_all_of_them() -> None:
    table = FaultTable(tools={"*": {"transient": Override(retries=0)}, "look": {"unknown": Override(retries=2)}})
    assert table.retries(Fault("transient", "x", "no"), tool="other") == 0
    assert table.retries(Fault("unknown", "x", "no"), tool="look") == 2
    assert table.rule(DENIED, tool="look").terminal == "human"


def test_where_each_number_comes_from() -> None:
    laid = '[models."gpt-5".unknown]\njitter = 0.2\n[tools.pay.unknown]\nretries = 1\n'
    text = f"claims = 3\n{ROWS_TEXT}\nretries = 4\n{laid}"
    policy = Policy.from_toml(text)
    found = {(line.subject, line.row): line.values for line in lines(policy, parse(text, "p.toml"), "p.toml")}
    plain = found["", "unknown"]
    assert (plain["retries"].value, plain["retries"].origin, plain["cap"].origin) == (4, "p.toml", "default")
    mine = found["models.gpt-5", "unknown"]
    assert (mine["jitter"].value, mine["jitter"].origin) == (0.2, "[models.gpt-5.unknown]")
    assert mine["retries"].value == 4
    assert found["tools.pay", "unknown"]["retries"].origin == "[tools.pay.unknown]"
    assert found["tools.*", "unknown"]["retries"].value == 0
    assert found["", "ours"]["retries"].origin == "fixed"
    numbers = other_numbers(policy, parse(text, "p.toml"), "p.toml")
    assert (numbers["claims"].origin, numbers["long_wait"].origin) == ("p.toml", "default")
