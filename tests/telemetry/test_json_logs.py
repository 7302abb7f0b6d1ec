"""JSON lines: one event a line, a schema that stays, nothing unmasked."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from capataz import Agent, App, tool
from capataz.events.facts import Event, Fact, MessageReceived, RunEnded, RunStarted
from capataz.telemetry.json_entries import entry_of
from capataz.telemetry.json_logs import LONGEST, EventLog, JsonFormatter, JsonLines
from capataz.testing.scripted import ScriptedModel, calls, given, says

HEAD = ["v", "time", "level", "event", "run", "seq", "root", "agent"]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "telemetry.md"


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return "of ana@example.com, key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


async def lines(**settings: Any) -> list[dict[str, Any]]:
    out = io.StringIO()
    app = App("memory:", telemetry=JsonLines(out, **settings))
    model = ScriptedModel(calls(("look", {"order": "81"}), text="I look."), says("It is bob@example.com's.\nReally."))
    await app.arun(Agent("a", model, [look], role="talking"), "Whose is 81?")
    await app.close()
    return [json.loads(line) for line in out.getvalue().splitlines()]


async def test_a_run_is_told_line_by_line() -> None:
    found = await lines()
    assert [line["event"] for line in found] == [
        "run.started", "model.replied", "tool.started", "tool.finished", "model.replied", "run.ended",
    ]  # fmt: skip
    assert all(list(line)[: len(HEAD)] == HEAD for line in found)
    assert {line["agent"] for line in found} == {"a"}
    replied = found[1]
    assert (replied["turn"], replied["text"], replied["tools"]) == (1, "I look.", ["look"])
    assert (replied["stop"], replied["input_tokens"], replied["output_tokens"]) == ("calls", 100, 20)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", replied["time"])
    assert found[3]["arguments"] == {"order": "81"}
    assert found[-1]["outcome"] == "answered"


async def test_nothing_goes_round_the_mask() -> None:
    text = json.dumps(await lines(debug=True))
    assert "ana@example.com" not in text
    assert "bob@example.com" not in text
    assert "abcdefghijklmnop" not in text
    assert "<EMAIL>" in text


async def test_content_can_be_left_out() -> None:
    for line in await lines(content=False):
        assert not {"task", "text", "arguments", "result", "answer"} & set(line)


def test_a_long_text_is_cut_after_it_was_masked() -> None:
    out = io.StringIO()
    watch = JsonLines(out)
    watch("r", Event(0, 0.0, MessageReceived("user", "x" * (LONGEST - 8) + " ana@example.com " + "y" * 9000)))
    line = json.loads(out.getvalue())
    assert len(line["text"]) < LONGEST + 50
    assert "ana@" not in line["text"]


def test_odd_text_stays_one_line() -> None:
    out = io.StringIO()
    JsonLines(out)("r", Event(0, 0.0, MessageReceived("user", "a\nb\r\u2028\ud800\x00")))
    assert out.getvalue().count("\n") == 1
    assert json.loads(out.getvalue())["event"] == "message.received"


def test_through_logging_ours_and_others_become_lines() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    watch = EventLog(logger)
    for event in given(RunStarted("r", "a", "write to ana@example.com"), RunEnded("aborted", "error", "it broke")):
        watch("r", event)
    try:
        raise ValueError("ana@example.com")
    except ValueError:
        logger.exception("not for %s", "bob@example.com")
    first, last, other = [json.loads(line) for line in out.getvalue().splitlines()]
    assert first["task"] == "write to <EMAIL>"
    assert (last["level"], last["event"], last["agent"]) == ("error", "run.ended", "a")
    assert (other["event"], other["logger"], other["message"]) == ("log", "test", "not for <EMAIL>")
    assert "Traceback" in other["exception"]
    assert "ana@" not in other["exception"]


def test_a_run_taken_up_by_another_process_is_still_told_with_its_agent() -> None:
    out = io.StringIO()
    watch = JsonLines(out)
    story = given(RunStarted("r", "a", "t", root="top"), RunEnded("answered", "answered"))
    watch.recall("r", story[:1])
    watch("r", story[1])
    line = json.loads(out.getvalue())
    assert (line["agent"], line["root"]) == ("a", "top")


def every_fact() -> list[Any]:
    return [kind for kind in get_args(Fact) if dataclasses.is_dataclass(kind)]


@pytest.mark.parametrize("kind", every_fact(), ids=lambda kind: kind.__name__)
def test_every_fact_has_a_name_in_the_schema(kind: type[Any]) -> None:
    """The names are in the documentation: whoever reads lines may rely on them."""
    from capataz.telemetry import json_entries

    assert kind in json_entries._TELL, f"{kind.__name__} is told by its class's name alone"


def test_the_documentation_lists_every_event() -> None:
    from capataz.telemetry import json_entries

    names = set(re.findall(r'return "([a-z_]+\.[a-z_]+)"', Path(json_entries.__file__).read_text("utf-8")))
    told = DOCS.read_text("utf-8")
    assert names
    assert not [name for name in sorted(names) if f"`{name}`" not in told]


def test_an_unknown_fact_is_told_by_its_name() -> None:
    class Unheard:
        pass

    unheard: Any = Unheard()
    assert entry_of(unheard) == ("Unheard", "info", {})
