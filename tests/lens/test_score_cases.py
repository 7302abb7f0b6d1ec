"""The score on the labelled cases, its keys, its rules, and what a broken file says."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capataz.cli.guards import guards
from capataz.cli.main import main
from capataz.lens.cases.check import GATES, LOOPS
from capataz.lens.cases.read import case_of, read_cases
from capataz.lens.score import Score, Scored, score
from capataz.mistakes import Misuse

CASES = Path(__file__).parents[1] / "data" / "cases"
SHORT, LONG = CASES / "stuck_open.json", CASES / "stuck_long_open.json"


def _report(path: Path) -> dict[str, Any]:
    done = CliRunner().invoke(guards, ["score", str(path), "--json"])
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_short_cases_reach_what_was_promised() -> None:
    report = _report(SHORT)
    assert list(report) == [
        "precision", "recall", "f1", "healthy", "mean_steps_to_cut", "recovering", "by_kind", "cases",
    ]  # fmt: skip
    assert report["f1"] >= 0.97
    assert report["healthy"] == {"total": 33, "killed": 0}
    assert report["mean_steps_to_cut"] <= 7.3
    for kind in GATES:
        assert report["by_kind"][kind]["caught"] == report["by_kind"][kind]["total"] > 0
    assert set(report["cases"][0]) == {"id", "fired_at", "signal", "verdict"}


def test_the_long_cases_reach_what_was_promised() -> None:
    report = _report(LONG)
    assert report["f1"] >= 0.93
    assert report["healthy"] == {"total": 22, "killed": 0}
    assert report["recovering"] == {"total": 6, "killed": 0}
    assert report["mean_steps_to_cut"] <= 8


def test_people_read_the_same_figures() -> None:
    shown = CliRunner().invoke(guards, ["score", str(SHORT)]).stdout
    report = _report(SHORT)
    assert f"f1 {report['f1']:.3f}" in shown
    assert f"{report['healthy']['killed']} of 33" in shown


def test_a_policy_that_only_observes_catches_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[guards]\nrepeating = "observe"\n', encoding="utf-8")
    done = CliRunner().invoke(guards, ["score", str(SHORT), "--policy", str(policy), "--json"])
    report = json.loads(done.stdout)
    assert report["by_kind"]["identical"]["caught"] < report["by_kind"]["identical"]["total"]
    assert report["by_kind"]["alternating"]["missed"] == 0


def _loop(**expected: object) -> dict[str, Any]:
    history = [
        {"turn": i, "tool": "send", "args": {"to": "a"}, "result": "ok", "state_changed": True} for i in range(9)
    ]
    tools = {"send": {"class": "message", "target_arg": "to"}}
    window = {"signal": "identical", "not_before": None, "at_latest": None, **expected}
    return {"id": "x", "kind": "identical", "tools": tools, "history": history, "expected": window}


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        ({"not_before": 2, "at_latest": 5}, "caught"),
        ({"not_before": 4, "at_latest": 8}, "early"),
        ({"not_before": 1, "at_latest": 2}, "late"),
        ({}, "caught"),
    ],
)
def test_a_cut_counts_inside_its_window(window: dict[str, int], verdict: str) -> None:
    (scored,) = score([case_of(_loop(signal="identical", **window))]).cases
    assert (scored.fired_at, scored.verdict) == (3, verdict)


def test_steps_are_counted_from_the_onset() -> None:
    plain, late = case_of(_loop()), case_of(_loop(onset=2))
    assert [one.steps for one in score([plain, late]).cases] == [4, 2]


def test_an_early_cut_costs_precision_and_recall() -> None:
    early, right = case_of(_loop(not_before=6)), case_of(_loop())
    precision, recall, f1 = score([early, right]).rate(LOOPS)
    assert (precision, recall, f1) == (0.5, 0.5, 0.5)


def test_a_healthy_run_that_is_cut_costs_precision() -> None:
    killed = case_of({**_loop(), "kind": "healthy", "expected": {"signal": None}})
    scored = score([killed, case_of(_loop())])
    assert [one.verdict for one in scored.cases] == ["killed", "caught"]
    assert scored.rate(LOOPS)[0] == 0.5


def test_nothing_to_score_is_no_perfect_score() -> None:
    assert Score(()).rate(LOOPS) == (None, None, None)
    missed = Scored(case_of(_loop()), None, None, "missed", None)
    assert Score((missed,)).rate(LOOPS) == (None, 0.0, None)


def _healthy(**more: object) -> dict[str, Any]:
    return {**_loop(), "kind": "healthy", "expected": None, **more}


def _item(**more: object) -> dict[str, Any]:
    call = {"turn": 1, "tool": "send", "args": {"to": "a"}, "result": "ok", **more}
    return {**_loop(), "history": [call], "expected": None, "kind": "healthy"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "cases.json is not JSON"),
        (b"{}", "cases.json holds no list of cases"),
        (b"[7]", "case 0 of the list: is 7; give an object"),
        (b'[{"kind": "healthy", "history": [{"text": "hi"}]}]', "case 0 of the list: id is missing; give a text"),
        (b'[{"id": "a", "kind": "healthy"}]', "case 'a': history is missing; give a list"),
        (b'[{"id": "a", "kind": "healthy", "history": []}]', "case 'a': history is empty; give at least one"),
    ],
)
def test_a_broken_file_is_refused_by_name(text: bytes, says: str) -> None:
    with pytest.raises(Misuse, match=re.escape(says)):
        read_cases(text, "cases.json")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({**_loop(), "kind": "identicle"}, "kind is 'identicle'; give one of healthy, identical, target"),
        ({**_loop(), "kind": "identicle"}, "(did you mean identical?)"),
        ({**_loop(), "kind": None}, "kind is None"),
        ({**_loop(), "id": 7}, "id is 7; give a text"),
        ({**_loop(), "id": ""}, "id is empty"),
        (_loop(signal="loop"), "expected.signal is 'loop'; give one of identical"),
        (_loop(signal=None), "expected.signal is missing; give one of"),
        (_loop(not_before=5, at_latest=3), "expected.not_before is 5, after at_latest 3"),
        (_loop(not_before=40), "expected.not_before is 40, but the history ends at 8"),
        (_loop(onset=12), "expected.onset is 12, but the history ends at 8"),
        (_loop(onset=5, at_latest=4), "expected.onset is 5, after at_latest 4"),
        (_loop(not_before=-1), "expected.not_before is -1; give an index"),
        (_loop(not_before="2"), "expected.not_before is '2'; give an index"),
        (_loop(not_before=2.0), "expected.not_before is 2.0; give an index"),
        (_loop(not_before=True), "expected.not_before is True; give an index"),
        ({**_loop(), "expected": {"not_befor": 2}}, "expected.not_befor is no field; did you mean not_before?"),
        ({**_loop(), "expected": None}, "expected is missing; give signal, and not_before and at_latest"),
        ({**_loop(), "expected": []}, "expected is []; give an object"),
        (_healthy(expected={"signal": "identical"}), "expected.signal is 'identical', but kind is healthy"),
        (_healthy(expected={"at_latest": 4}), "expected.at_latest is 4, but kind is healthy"),
        (_healthy(accept_also=["loop"]), "accept_also[0] is 'loop'; give one of"),
        (_healthy(tools={"send": {"class": "wrte"}}), "tools.send.class is 'wrte'; give one of read, search"),
        (_healthy(tools={"send": {"clas": "read"}}), "tools.send.clas is no field; did you mean class?"),
        (_healthy(tools={"send": "write"}), "tools.send is 'write'; give an object"),
        (_healthy(tools=[]), "tools is []; give an object"),
        (_healthy(tools={"send": {"poll_budget_s": -5}}), "tools.send.poll_budget_s is -5; give a number of seconds"),
        (_healthy(tools={"sent": {"class": "write"}}), "history[0].tool is 'send', which is not under tools"),
        (_healthy(history="none"), "history is 'none'; give a list"),
        (_healthy(history=[3]), "history[0] is 3; give an object with either tool (a call) or text"),
        (_healthy(history=[{"turn": 1}]), "give an object with either tool (a call) or text"),
        (_healthy(history=[{"text": "a", "role": "usr"}]), "history[0].role is 'usr'; give one of user"),
        (_healthy(contract={"acting": "yes"}), "contract.acting is 'yes'; give true or false"),
        (_healthy(contract={"required_effects": [1]}), "contract.required_effects[0] is 1; give the name of a tool"),
        (_healthy(agent_role="boss"), "agent_role is 'boss'; give one of acting"),
        (_healthy(now_s="late"), "now_s is 'late'; give a number of seconds"),
        (_item(args=[1]), "history[0].args is [1]; give an object"),
        (_item(is_error="no"), "history[0].is_error is 'no'; give true or false"),
        (_item(state_change=True), "history[0].state_change is no field; did you mean state_changed?"),
        (_item(turn="3"), "history[0].turn is '3'; give a whole number"),
        (_item(started_s=9, ended_s=4), "history[0].ended_s is 4, before started_s 9"),
        (_healthy(history=[{"turn": 4, "text": "a"}, {"turn": 2, "text": "b"}]), "history[1].turn is 2, after turn 4"),
    ],
)
def test_a_wrong_label_is_refused_with_its_field_and_how_to_mend_it(raw: dict[str, Any], says: str) -> None:
    with pytest.raises(Misuse, match=re.escape(says)):
        read_cases(json.dumps([raw]).encode(), "cases.json")
    with pytest.raises(Misuse, match=re.escape(says)):
        case_of(raw)


def test_every_mistake_of_a_file_is_told_at_once() -> None:
    raws = [_loop(onset=99), {**_loop(), "id": "y", "kind": "odd"}]
    with pytest.raises(Misuse) as raised:
        read_cases(json.dumps(raws).encode(), "cases.json")
    told = str(raised.value)
    assert "case 'x': expected.onset" in told
    assert "case 'y': kind is 'odd'" in told
    with pytest.raises(Misuse, match="and 2 more"):
        read_cases(json.dumps([7] * 12).encode(), "cases.json")


def test_a_label_may_leave_out_where_and_a_case_what_a_tool_is() -> None:
    case = case_of({**_loop(at_latest=99), "tools": {}})
    assert score([case]).cases[0].verdict == "caught"
    assert case_of({**_loop(), "expected": {"signal": "identical"}}).kind == "identical"


def test_one_id_names_one_case() -> None:
    with pytest.raises(Misuse, match="case 'x': id is given to 2 cases; give each its own"):
        read_cases(json.dumps([_loop(), _loop()]).encode(), "cases.json")


def test_what_people_note_beside_a_label_is_let_be() -> None:
    noted = {**_loop(first_onset=1, reviewer="x"), "trade": "mail", "why": "money", "labelled_by": ["a", "b"]}
    assert case_of(noted).kind == "identical"


def test_cases_may_stand_under_a_name() -> None:
    assert [case.id for case in read_cases(json.dumps({"cases": [_loop()]}).encode(), "f")] == ["x"]


# ── where they come from ─────────────────────────────────────────────────────────────────────────────────


def _zipped(text: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("notes/read me.md", "what these are")
        archive.writestr("cases.json", text)
    return held.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zip": _zipped,
}


@pytest.mark.parametrize("how", PACKED)
def test_cases_are_read_packed_and_from_standard_input(how: str, tmp_path: Path) -> None:
    packed = PACKED[how](SHORT.read_bytes())
    (tmp_path / "held").write_bytes(packed)
    plain = CliRunner().invoke(guards, ["score", str(SHORT), "--json"])
    for words, given in (([str(tmp_path / "held")], None), (["-"], packed)):
        done = CliRunner().invoke(guards, ["score", *words, "--json"], input=given)
        assert done.exit_code == 0, done.output
        assert done.stdout == plain.stdout


def test_a_folder_of_cases_is_read_and_what_is_beside_them_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(SHORT.read_bytes())
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(LONG.read_bytes()))
    (tmp_path / "README.md").write_text("which these are")
    (tmp_path / "others.json").write_text('[{"id": 1}]')
    done = CliRunner().invoke(guards, ["score", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["cases"]) == 137
    assert done.stderr.count("left alone, no cases") == 2


@pytest.mark.parametrize(
    ("name", "held", "says"),
    [
        ("a.json", b"[{", "is not JSON"),
        ("a.json.gz", gzip.compress(b"[]" * 999, mtime=0)[:-12], "cannot be unpacked"),
        ("README.md", b"nothing here", "there is no case in"),
        ("a.json", b"[]", "there is no case in"),
    ],
)
def test_a_folder_that_cannot_be_scored_says_why(name: str, held: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(held)
    done = CliRunner().invoke(main, ["guards", "score", str(tmp_path)])
    assert done.exit_code != 0
    assert says in " ".join(done.stderr.split())


def test_the_same_cases_given_twice_are_refused() -> None:
    done = CliRunner().invoke(main, ["guards", "score", str(SHORT), str(SHORT)])
    assert done.exit_code != 0
    assert "together these files cannot be scored" in " ".join(done.stderr.split())


def test_cases_in_a_tar_or_behind_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    expected = {"signal": None, "not_before": None, "at_latest": None}
    healthy = {
        "id": "one",
        "kind": "healthy",
        "tools": {},
        "history": [{"turn": 1, "text": "Hi."}],
        "expected": expected,
    }
    held = b"\xef\xbb\xbf" + json.dumps([healthy]).encode()
    with tarfile.open(tmp_path / "cases.tgz", "w:gz") as archive:
        for name, data in {"README.md": b"prose", "cases.json": held}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    done = CliRunner().invoke(main, ["guards", "score", "--json", str(tmp_path / "cases.tgz")])
    assert json.loads(done.stdout)["healthy"] == {"total": 1, "killed": 0}
    assert "README.md" in done.stderr
