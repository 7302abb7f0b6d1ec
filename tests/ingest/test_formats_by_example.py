"""Each format, from a small record written by hand: what becomes of it, event by event."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from capataz.events.facts import (
    JSON,
    Fact,
    MessageReceived,
    ModelCallFailed,
    ModelReplied,
    RunEnded,
    RunLabelled,
    RunStarted,
    ToolFinished,
)
from capataz.ingest.build import ImportedRun
from capataz.ingest.report import Report

Reads = Callable[..., tuple[list[ImportedRun], Report]]


def told(run: ImportedRun) -> str:
    """A run in one line: replies with their calls' classes, results, errors in capitals."""
    words: list[str] = []
    for event in run.events:
        match event.fact:
            case ModelReplied(calls=calls):
                words.append("reply(" + ",".join(f"{call.tool}:{call.kind}" for call in calls) + ")")
            case ToolFinished(error=error, call=call):
                words.append(f"{'ERROR' if error else 'result'}({call.turn}.{call.position})")
            case MessageReceived(role=role):
                words.append(role)
            case ModelCallFailed(fault=fault):
                words.append(f"failed({fault.row})")
            case RunEnded(outcome=outcome):
                words.append(outcome)
            case RunLabelled(success=success):
                words.append(f"label({success})")
            case _:
                pass
    return " ".join(words)


CASES = {
    "agent_steps.json": [
        ("agent-steps", "reply(python:exec) result(1.0) reply(shell:exec) ERROR(2.0)"),
    ],
    "anthropic_messages.json": [
        ("chat", "reply(find_order:search) result(1.0) reply(refund:write) ERROR(2.0) reply()"),
    ],
    "atif.json": [("atif", "reply(Bash:read) result(1.0)")],
    "capataz_log.jsonl": [("capataz", "reply(find_order:read) result(1.0) reply() answered label(True)")],
    "claude_code_first.jsonl": [("claude-code", "reply(Write:write) result(1.0) reply()")],
    "claude_code_second.jsonl": [
        ("claude-code", "reply(Glob:search,Glob:search) result(1.0) result(1.1)"),
        ("claude-code", "reply()"),
    ],
    "claude_code_loglines.json": [("claude-code", "reply(Bash:read) result(1.0)")],
    "claude_code_stream.jsonl": [("claude-code", "reply(Bash:exec) reply(Bash:exec) ERROR(2.0) answered")],
    "wrapped_events.jsonl": [("claude-code", "reply(Bash:exec) result(1.0) label(True)")],
    "codex_session.jsonl": [("codex", "runtime reply(shell:read,shell:exec) result(1.0) ERROR(1.1) reply()")],
    "codex_old.jsonl": [("codex", "reply(shell:read) result(1.0) reply()")],
    "codex_exec.jsonl": [
        ("codex", "reply(shell:read) ERROR(1.0) reply(shop.find_order:search) result(2.0) reply()"),
    ],
    "pi_session.jsonl": [("pi", "runtime reply(read:read) ERROR(1.0) failed(rate_limit)")],
    "swe_agent.traj": [
        (
            "swe-agent",
            "reply(find_file:search) result(1.0) reply(edit:write) result(2.0) reply(bash:exec) ERROR(3.0) "
            "reply(submit:message) result(4.0) answered",
        )
    ],
    "mini_swe.traj.json": [("mini-swe-agent", "reply(bash:read) result(1.0) reply(bash:exec) ERROR(2.0)")],
    "openhands_events.json": [
        (
            "openhands",
            "reply(execute_bash:exec,execute_bash:read) ERROR(1.0) result(1.1) reply() answered",
        )
    ],
    "openhands_resolver.jsonl": [("openhands", "reply(run:exec) result(1.0) reply() answered")],
    "inspect_log.json": [("inspect", "reply(bash:read) ERROR(1.0) reply() partial label(False)")],
    "inspect_sample.json": [("inspect", "reply(bash:read) ERROR(1.0) reply() partial label(False)")],
    "openai_chat.json": [
        ("chat", "reply(find_order:search,find_parcel:search) ERROR(1.1) result(1.0) reply() label(True)"),
    ],
    "openai_exchange.json": [("chat", "reply()")],
    "responses_items.json": [("chat", "reply(get_weather:read) result(1.0) reply()")],
    "tau_results.json": [
        ("tau-bench", "reply(cancel_reservation:write) ERROR(1.0) reply() user label(False)"),
        ("tau-bench", "reply() label(True)"),
    ],
    "workbench.jsonl": [
        (
            "workbench",
            "reply(email.send_email:message) result(1.0) reply(email.sned:message) ERROR(2.0) reply() label(True)",
        ),
        ("workbench", "reply(email.send_email:message) aborted label(False)"),
        ("workbench", "partial label(False)"),
    ],
    "langchain_steps.json": [
        ("langchain", "reply(search:search) result(1.0) reply(read_page:read) result(2.0) reply()"),
    ],
    "reflexion.txt": [
        ("reflexion", "reply(Search:search) result(1.0) reply() label(True)"),
        ("reflexion", "reply(Search:search) result(1.0) reply() partial label(False)"),
    ],
    "react.txt": [("react", "reply(Calculator:read) result(1.0) reply()")],
    "intercode.jsonl": [
        (
            "intercode",
            "reply(sql:read) result(1.0) reply(sql:exec) ERROR(2.0) reply(sql:write) result(3.0) "
            "reply(submit:message) result(4.0) label(True)",
        ),
        (
            "intercode",
            "reply(bash:read) result(1.0) reply(bash:exec) result(2.0) reply(bash:poll) result(3.0) label(False)",
        ),
    ],
    "who_and_when.jsonl": [
        (
            "transcript",
            "reply(python:exec) ERROR(1.0) reply() reply(handoff:message) result(3.0) reply() label(False)",
        )
    ],
    "otlp_genai.json": [
        ("otel", "reply(find_order:search) result(1.0) reply(refund:write) ERROR(2.0)"),
        ("otel", "reply()"),
    ],
    "otlp_events.jsonl": [("otel", "reply() user reply(look:read)")],
    "openinference.json": [("otel", "reply(find_order:search) result(1.0)")],
    "vercel.json": [("otel", "reply(weather:exec) result(1.0)")],
}


@pytest.mark.parametrize("name", CASES)
def test_record_becomes_these_events(name: str, records: Path, read: Reads) -> None:
    runs, report = read(records / name)
    assert [(run.source_format, told(run)) for run in runs] == CASES[name]
    assert report.broken == 0
    assert sum(report.runs.values()) == len(runs)


def test_every_record_has_a_case(records: Path) -> None:
    without_runs = {"cassette.yaml", "inspect_header.json"}
    assert {path.name for path in records.iterdir()} == set(CASES) | without_runs


@pytest.mark.parametrize("name", CASES)
def test_events_are_in_order_and_runs_begin_with_their_start(name: str, records: Path, read: Reads) -> None:
    for run in read(records / name)[0]:
        assert [event.seq for event in run.events] == list(range(len(run.events)))
        times = [event.at for event in run.events]
        assert times == sorted(times)
        first = run.events[0].fact
        assert isinstance(first, RunStarted)
        assert first.run == run.id
        assert not any(isinstance(event.fact, RunStarted) for event in run.events[1:])


def test_what_holds_no_run_is_counted_by_name(records: Path, read: Reads) -> None:
    _, report = read(records / "cassette.yaml")
    assert report.skipped == {"HTTP cassette (exchanges of a provider, not a run)": 1}
    assert read(records / "inspect_header.json")[1].skipped == {"nothing an agent did": 1}


def replies(run: ImportedRun) -> list[ModelReplied]:
    return [event.fact for event in run.events if isinstance(event.fact, ModelReplied)]


def test_one_message_in_several_lines_is_one_model_call_with_its_usage_once(records: Path, read: Reads) -> None:
    run = read(records / "claude_code_second.jsonl")[0][0]
    (reply,) = replies(run)
    assert reply.text == "Let me look"
    assert [call.arguments for call in reply.calls] == [{"pattern": "*"}, {"pattern": "b*"}]
    assert (reply.usage.input, reply.usage.output, reply.usage.cache_write) == (15182, 90, 15178)


def test_lines_without_session_or_role_are_still_one_reply(read: Reads, tmp_path: Path) -> None:
    """The shape in which the repeated usage was reported first."""
    blocks: list[tuple[JSON, int]] = [
        ({"type": "text", "text": "Let me look"}, 1),
        ({"type": "tool_use", "id": "t1", "name": "Glob", "input": {"pattern": "*"}}, 90),
        ({"type": "tool_use", "id": "t2", "name": "Glob", "input": {"pattern": "b*"}}, 90),
    ]
    lines: list[str] = []
    for number, (block, output) in enumerate(blocks):
        usage: JSON = {"input_tokens": 4, "cache_creation_input_tokens": 15178, "output_tokens": output}
        message: JSON = {"id": "m1", "content": [block], "usage": usage}
        lines.append(json.dumps({"type": "assistant", "message": message, "uuid": f"u{number}"}))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    ((run,), _) = read(tmp_path)
    (reply,) = replies(run)
    assert (reply.text, len(reply.calls), reply.usage.input, reply.usage.output) == ("Let me look", 2, 15182, 90)


def test_a_sub_agent_told_in_the_same_file_is_a_child(records: Path, read: Reads) -> None:
    runs, report = read(records / "claude_code_second.jsonl")
    assert [(run.id, run.parent) for run in runs] == [("s2", None), ("s2/b1", "s2")]
    assert report.runs == {"claude-code": 1, "claude-code sub-agents": 1}
    spans, _ = read(records / "otlp_genai.json")
    assert [(run.id, run.parent) for run in spans] == [("t1", None), ("t1/5", "t1")]


def test_a_reused_id_belongs_to_the_newest_call_and_a_resent_call_is_dropped(records: Path, read: Reads) -> None:
    run = read(records / "claude_code_stream.jsonl")[0][0]
    assert [dict(reply.calls[0].arguments) for reply in replies(run)] == [{"command": "make"}, {"command": "make test"}]
    results = [event.fact for event in run.events if isinstance(event.fact, ToolFinished)]
    assert [result.call.arguments["command"] for result in results] == ["make test"]


def test_totals_of_a_run_are_spread_over_replies_without_a_figure(records: Path, read: Reads) -> None:
    run = read(records / "claude_code_stream.jsonl")[0][0]
    assert [(reply.usage.tokens, reply.usage.money) for reply in replies(run)] == [(180, Decimal("0.15"))] * 2
    swe = read(records / "swe_agent.traj")[0][0]
    assert sum(reply.usage.input for reply in replies(swe)) == 4000
    assert swe.usage_known


def test_input_always_includes_the_cached_tokens(records: Path, read: Reads) -> None:
    assert replies(read(records / "anthropic_messages.json")[0][0])[0].usage.input == 100
    assert replies(read(records / "pi_session.jsonl")[0][0])[0].usage.input == 160
    codex = replies(read(records / "codex_session.jsonl")[0][0])[0].usage
    assert (codex.input, codex.cache_read, codex.reasoning) == (1000, 400, 20)


def test_unreported_usage_is_an_estimate_and_says_so(records: Path, read: Reads) -> None:
    run = read(records / "tau_results.json")[0][0]
    assert not run.usage_known
    assert all(not reply.usage.reported and reply.usage.output >= 0 for reply in replies(run))


def test_times_are_kept_where_they_are_known(records: Path, read: Reads) -> None:
    wrapped = read(records / "wrapped_events.jsonl")[0][0]
    assert wrapped.times_known
    gaps = [round(b.at - a.at, 3) for a, b in zip(wrapped.events, wrapped.events[1:], strict=False)]
    assert gaps == [0.0, 5.0, 0.0]
    assert not read(records / "react.txt")[0][0].times_known


def test_the_task_and_the_role_are_told(records: Path, read: Reads) -> None:
    def start(name: str) -> RunStarted:
        fact: Fact = read(records / name)[0][0].events[0].fact
        assert isinstance(fact, RunStarted)
        return fact

    assert (start("openai_chat.json").task, start("openai_chat.json").role) == ("Where is order 81?", "acting")
    assert start("tau_results.json").role == "talking"
    assert start("who_and_when.jsonl").role == "coordinating"
    assert start("swe_agent.traj").task == "Fix the issue in x.py"
    assert start("codex_session.jsonl").instructions == "Be careful."
    assert start("otlp_genai.json").agent == "support"


def test_the_users_word_about_a_tool_wins(records: Path) -> None:
    from capataz.ingest.read import read_runs

    (run,) = read_runs([records / "vercel.json"], kinds={"weather": "read"})
    assert [call.kind for reply in replies(run) for call in reply.calls] == ["read"]
    assert run.guesses["weather"].why == "you said so"


@pytest.mark.parametrize("name", ["openai_chat.json", "claude_code_second.jsonl", "reflexion.txt"])
def test_packed_records_read_the_same(name: str, records: Path, read: Reads, tmp_path: Path) -> None:
    raw = (records / name).read_bytes()
    plain = [told(run) for run in read(records / name)[0]]
    (tmp_path / "a").write_bytes(gzip.compress(raw))
    (tmp_path / "b").write_bytes(lzma.compress(raw))
    with zipfile.ZipFile(tmp_path / "c", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/one", raw)
    for packed in "abc":
        assert [told(run) for run in read(tmp_path / packed)[0]] == plain


def test_standard_input(records: Path, read: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress((records / "intercode.jsonl").read_bytes())))

    monkeypatch.setattr("sys.stdin", Pipe())
    runs, report = read("-")
    assert [run.origin.file for run in runs] == ["<stdin>", "<stdin>"]
    assert report.files == 1
