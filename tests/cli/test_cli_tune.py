"""`capataz tune`, as a user runs it."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import json
import lzma
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from capataz.cli.main import main
from capataz.cli.tuning import labeller
from capataz.events.facts import Call, Event, Evidence, Fact, ModelReplied, RunEnded, RunStarted
from capataz.policy.policy import Policy
from capataz.stores.open import open_store

ID = "r7"


def tune(*words: str) -> Result:
    return CliRunner().invoke(main, ["tune", *words])


def chat(path: Path, name: str, times: int) -> None:
    """A chat in which the same thing is asked so many times."""
    said: list[dict[str, object]] = [{"role": "user", "content": f"Where is order {name}?"}]
    for n in range(times):
        function = {"name": "get_order", "arguments": json.dumps({"id": name})}
        said.append({"role": "assistant", "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]})
        said.append({"role": "tool", "tool_call_id": f"c{n}", "content": '{"state": "paid"}'})
    (path / f"{name}.json").write_text(json.dumps({"id": name, "messages": said}))


@pytest.fixture(autouse=True)
def as_a_new_process() -> None:
    """What one command has read of labels is not kept for the next."""
    labeller.cache_clear()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Forty runs that end soon, and twenty that ask the same twelve times."""
    folder = tmp_path / "records"
    folder.mkdir()
    rows = ["run,label"]
    for n in range(60):
        chat(folder, f"r{n}", 12 if n >= 40 else 1 + n % 3)
    report = tune(str(folder), "--json")
    assert report.exit_code == 0, report.output
    assert json.loads(report.stdout)["runs"] == {"good": 0, "failed": 0, "unknown": 60}
    from capataz.ingest.read import read_runs

    for run in read_runs([folder]):
        rows.append(f"{run.id},{'failed' if len(run.events) > 20 else 'good'}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    return tmp_path


def report_of(records: Path, *words: str) -> Any:
    told = tune(str(records / "records"), "--label", str(records / "labels.csv"), "--json", *words)
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


def test_a_policy_is_written_that_is_read_back(records: Path) -> None:
    told = report_of(records, "--write", str(records / "policy.toml"))
    assert told["runs"] == {"good": 40, "failed": 20, "unknown": 0}
    chosen = {one["setting"]: one["chosen"] for one in told["choices"]}
    policy = Policy.from_toml((records / "policy.toml").read_text())
    assert chosen["repeats.read"] == {"nudge": 3, "stop": 4}
    assert policy.thresholds.repeats["read"].stop == 4
    assert CliRunner().invoke(main, ["policy", "check", str(records / "policy.toml")]).exit_code == 0
    trial = told["trial"]
    assert trial["now"]["calls_saved"] == 20 * 7
    assert trial["chosen"]["calls_saved"] == 20 * 8
    assert trial["chosen"]["good_cut"] == 0
    again = tune(
        str(records / "records"),
        "--label",
        str(records / "labels.csv"),
        "--json",
        "--policy",
        str(records / "policy.toml"),
    )
    assert json.loads(again.stdout)["trial"]["now"] == trial["chosen"]


def test_the_terminal_says_what_a_replay_is_worth(records: Path) -> None:
    told = tune(str(records / "records"), "--label", str(records / "labels.csv"))
    assert told.exit_code == 0, told.output
    assert "exact up to the first firing" in " ".join(told.stdout.split())
    assert "cut at  5" in told.stdout


def test_the_page_needs_nothing_else(records: Path) -> None:
    report_of(records, "--html", str(records / "t.html"))
    page = (records / "t.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    drawings = page.count("<svg")
    assert drawings >= 1
    for part in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + part.partition("</svg>")[0] + "</svg>")
    assert "exact up to the first firing" in " ".join(page.split())


def test_a_function_says_how_a_run_went(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (records / "went.py").write_text("def well(run):\n    return len(run.events) < 20 or None\n")
    monkeypatch.chdir(records)
    told = json.loads(tune("records", "--label", "went:well", "--json").stdout)
    assert told["runs"] == {"good": 40, "failed": 0, "unknown": 20}


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("body", "why"),
    [("run.nothing", "went.py:2: AttributeError: "), ("exit(3)", "went.py:2: sys.exit(3)"), ("'good'", "said 'good'")],
)
def test_a_function_that_fails_is_named_with_the_run(
    body: str, why: str, jobs: str, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (records / "went.py").write_text(f"def well(run):\n    return {body} if run.id == {ID!r} else None\n")
    monkeypatch.chdir(records)
    monkeypatch.delitem(sys.modules, "went", raising=False)
    told = tune("records", "--label", "went:well", "--jobs", jobs)
    assert told.exit_code == 2
    assert "went:well" in told.stderr
    assert repr(ID) in told.stderr
    assert why in told.stderr
    assert "Traceback" not in told.stderr


def test_a_function_takes_one_run(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (records / "went.py").write_text("def well():\n    return True\n")
    monkeypatch.chdir(records)
    monkeypatch.delitem(sys.modules, "went", raising=False)
    told = tune("records", "--label", "went:well")
    assert told.exit_code == 2
    assert ": TypeError: well() takes 0 positional arguments but 1 was given" in told.stderr
    assert "tuning.py" not in told.stderr


def test_what_a_function_prints_stays_out_of_the_report(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (records / "went.py").write_text("def well(run):\n    print('looking')\n    return True\n")
    monkeypatch.chdir(records)
    monkeypatch.delitem(sys.modules, "went", raising=False)
    told = tune("records", "--label", "went:well", "--json", "--jobs", "1")
    assert json.loads(told.stdout)["runs"]["good"] == 60
    assert "looking" in told.stderr


def test_labels_of_runs_that_are_not_there_are_counted_and_named(records: Path) -> None:
    labels = records / "labels.csv"
    assert "labels" not in tune(str(records / "records"), "--label", str(labels), "--jobs", "2").stderr
    labeller.cache_clear()
    labels.write_text(labels.read_text() + "\nx1,good\nx1,good\nx2,\n")
    told = tune(str(records / "records"), "--label", str(labels), "--json")
    assert f"{labels} labels 1 run that is not here: x1\n" in told.stderr
    labeller.cache_clear()
    labels.write_text(labels.read_text() + "".join(f"y{n},bad\n" for n in range(6)))
    told = tune(str(records / "records"), "--label", str(labels), "--json", "--jobs", "2")
    assert f"{labels} labels 7 runs that are not here: x1, y0, y1, y2, y3, ...\n" in told.stderr
    assert json.loads(told.stdout)["runs"] == {"good": 40, "failed": 20, "unknown": 0}


def test_a_run_that_is_labelled_both_ways_is_named_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text('run,label,note\nr1,good,"one\ntwo"\nr2,bad,\nr1,failed,\n')
    told = tune(str(tmp_path), "--label", str(tmp_path / "l.csv"))
    assert told.exit_code == 2
    assert "l.csv:5: run 'r1' is failed here and the opposite in line 3" in told.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("command", ["tune", "diagnose"])
def test_a_kind_of_a_tool_that_no_run_has_is_told(command: str, jobs: str, records: Path) -> None:
    words = [command, str(records / "records"), "--json", "--jobs", jobs, "--kind", "get_order=read"]
    assert CliRunner().invoke(main, words).stderr == ""
    told = CliRunner().invoke(main, [*words, "--kind", "get_ordr=poll"])
    assert told.exit_code == 0
    said = "--kind get_ordr changes nothing: no run has a tool of that name; there are get_order\n"
    assert told.stderr == said


def test_a_store_says_itself_what_its_tools_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def fill() -> None:
        store = open_store(url)
        lease = await store.claim("r", "me")
        await store.append(lease, 0, [Event(0, 1.0, RunStarted("r", "a", "t"))])
        await store.close()

    asyncio.run(fill())
    for words in (["tune", "--store", url], ["diagnose", str(tmp_path / "runs.db")]):
        told = CliRunner().invoke(main, [*words, "--kind", "look=poll"])
        assert told.exit_code == 0, told.output
        assert "--kind look changes nothing: no tool was guessed here" in told.stderr


def test_a_tool_is_of_one_kind(tmp_path: Path) -> None:
    told = tune(str(tmp_path), "--kind", "look=poll", "--kind", "look=read")
    assert told.exit_code == 2
    assert "'look' is poll and read" in told.stderr


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_the_number_of_processes_changes_nothing(records: Path, jobs: str) -> None:
    told = report_of(records, "--jobs", jobs)
    assert told["trial"] == report_of(records, "--jobs", "2")["trial"]


def _lines(records: Path) -> bytes:
    """All records as one file of lines, a broken one among them."""
    files = sorted((records / "records").iterdir(), key=lambda path: int(path.stem[1:]))
    return b"\n".join([*(file.read_bytes() for file in files), b"{broken"])


def _zipped(text: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("runs.jsonl", text)
    return held.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes, "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zip": _zipped,
}  # fmt: skip


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("command", ["tune", "diagnose"])
def test_standard_input_is_read_like_a_file_packed_or_not(how: str, command: str, records: Path) -> None:
    packed = PACKED[how](_lines(records))
    (records / "runs").write_bytes(packed)
    more = ["--label", str(records / "labels.csv")] if command == "tune" else []
    from_file = CliRunner().invoke(main, [command, str(records / "runs"), *more, "--json"])
    piped = CliRunner().invoke(main, [command, "-", *more, "--json"], input=packed)
    assert (from_file.exit_code, piped.exit_code) == (0, 0), piped.output
    one, other = json.loads(from_file.stdout), json.loads(piped.stdout)
    assert one["reading"]["broken"] == 1
    assert [note.startswith("<stdin>") for note in other["reading"]["notes"]] == [True]
    del one["reading"]["notes"], other["reading"]["notes"]
    assert other["reading"] == one["reading"]
    assert other["runs"] == one["runs"] if command == "tune" else other["all"] == one["all"]


def test_what_came_on_standard_input_is_gone_through_again(records: Path) -> None:
    told = tune_piped(_lines(records), "--label", str(records / "labels.csv"), "--html", str(records / "t.html"))
    assert json.loads(told.stdout)["trial"] == report_of(records)["trial"]
    assert "standard input" in (records / "t.html").read_text()


def tune_piped(given: bytes, *words: str) -> Result:
    told = CliRunner().invoke(main, ["tune", "-", "--json", *words], input=given)
    assert told.exit_code == 0, told.output
    return told


def test_a_store_of_our_own_is_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def fill() -> None:
        store = open_store(url)
        proof = (Evidence("effect", "look", "seen", 1),)
        ends = (RunEnded("completed", "x", evidence=proof), RunEnded("partial", "x"), RunEnded("answered", "x"))
        for n, ended in enumerate(ends):
            lease = await store.claim(f"r{n}", "me")
            call = Call(1, 0, "c", "look", {"n": n}, "read")
            facts: tuple[Fact, ...] = (
                RunStarted(f"r{n}", "a", "t"),
                ModelReplied(1, 1, "", (call,), "calls"),
                ended,
            )
            await store.append(lease, 0, [Event(seq, 1.0 + seq, fact) for seq, fact in enumerate(facts)])
        await store.close()

    asyncio.run(fill())
    told = tune("--store", url, "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["runs"] == {"good": 1, "failed": 1, "unknown": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what to read"),
        ((".", "--max-killed", "many"), "write a share"),
        ((".", "--label", "nothing.csv"), "there is no file"),
        ((".", "--label", "nowhere:well"), "there is no module"),
        ((".", "--label", "json:nothing"), "is no function"),
    ],
)
def test_a_mistake_is_one_clear_line(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = tune(*words)
    assert told.exit_code == 2
    assert said in told.stderr


def test_a_word_that_is_no_outcome_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("run,label\nr1,good\nr2,perhaps\n")
    told = tune(str(tmp_path), "--label", str(tmp_path / "l.csv"))
    assert told.exit_code == 2
    assert "l.csv:3: 'perhaps'" in told.stderr


def test_nothing_is_written_on_runs_of_one_kind_only(records: Path) -> None:
    (records / "labels.csv").write_text("run,label\nr1,good\n")
    told = tune(str(records / "records"), "--label", str(records / "labels.csv"), "--write", str(records / "p.toml"))
    assert told.exit_code == 2
    assert not (records / "p.toml").exists()
