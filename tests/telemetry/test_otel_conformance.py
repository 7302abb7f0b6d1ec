"""Every span against a strict table of our own: a schema alone passes keys that no viewer knows.

The table is written from the text of the conventions, version 1.41: kind, name, required and allowed attributes with
their types, per type of span. An unknown `gen_ai.*` key fails, and so does content that nobody has asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from capataz import Agent, App, tool
from capataz.events.facts import Fault, Usage
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says
from tests.telemetry.conftest import Received

WHOLE, DECIMAL, TEXT, TRUTH, TEXTS = (int,), (float, int), (str,), (bool,), (tuple,)


@dataclass(frozen=True)
class Shape:
    """What a span of one type looks like."""

    kind: SpanKind
    name: str
    required: Mapping[str, tuple[type, ...]]
    allowed: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    content: frozenset[str] = frozenset()


COMMON = {"error.type": TEXT, "gen_ai.agent.name": TEXT, "gen_ai.conversation.id": TEXT}
MESSAGES = frozenset(("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"))
TABLE: Mapping[str, Shape] = {
    "chat": Shape(
        SpanKind.CLIENT,
        r"chat \S+",
        {"gen_ai.operation.name": TEXT, "gen_ai.provider.name": TEXT, "gen_ai.request.model": TEXT},
        {
            **COMMON,
            "gen_ai.request.stream": TRUTH,
            **dict.fromkeys(
                (
                    f"gen_ai.request.{name}"
                    for name in ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
                ),
                (float,),
            ),
            "gen_ai.request.max_tokens": WHOLE,
            "gen_ai.request.seed": WHOLE,
            "gen_ai.request.stop_sequences": TEXTS,
            "gen_ai.response.id": TEXT,
            "gen_ai.response.model": TEXT,
            "gen_ai.response.finish_reasons": TEXTS,
            "gen_ai.response.time_to_first_chunk": DECIMAL,
            "gen_ai.usage.input_tokens": WHOLE,
            "gen_ai.usage.output_tokens": WHOLE,
            "gen_ai.usage.cache_read.input_tokens": WHOLE,
            "gen_ai.usage.cache_creation.input_tokens": WHOLE,
            "gen_ai.usage.reasoning.output_tokens": WHOLE,
            "server.address": TEXT,
            "server.port": WHOLE,
        },
        MESSAGES,
    ),
    "execute_tool": Shape(
        SpanKind.INTERNAL,
        r"execute_tool \S+",
        {"gen_ai.operation.name": TEXT, "gen_ai.tool.name": TEXT},
        {**COMMON, "gen_ai.tool.call.id": TEXT, "gen_ai.tool.type": TEXT},
        frozenset(("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")),
    ),
    "invoke_agent": Shape(
        SpanKind.INTERNAL,
        r"invoke_agent \S+",
        {"gen_ai.operation.name": TEXT, "gen_ai.provider.name": TEXT},
        {**COMMON, "gen_ai.request.model": TEXT},
        frozenset(("gen_ai.system_instructions",)),
    ),
    "": Shape(SpanKind.INTERNAL, r"capataz\.turn", {"capataz.turn.number": WHOLE}, COMMON),
}
EVALUATION = {
    "gen_ai.evaluation.name": TEXT,
    "gen_ai.evaluation.score.label": TEXT,
    "gen_ai.evaluation.score.value": DECIMAL,
    "gen_ai.evaluation.explanation": TEXT,
}


def problems(span: ReadableSpan, content: bool) -> Iterator[str]:
    """Everything about a span that the conventions do not say."""
    attributes = dict(span.attributes or {})
    shape = TABLE[str(attributes.get("gen_ai.operation.name", ""))]
    if span.kind is not shape.kind:
        yield f"{span.name}: kind {span.kind}"
    if not re.fullmatch(shape.name, span.name):
        yield f"{span.name}: not named like {shape.name}"
    known = {**shape.required, **shape.allowed, **dict.fromkeys(shape.content if content else (), TEXT)}
    yield from (f"{span.name}: {name} is missing" for name in shape.required if name not in attributes)
    for name, value in attributes.items():
        if name in known:
            if not isinstance(value, known[name]) or (isinstance(value, bool) and known[name] is not TRUTH):
                yield f"{span.name}: {name} is a {type(value).__name__}"
        elif not name.startswith("capataz."):
            yield f"{span.name}: {name} is not of the conventions"
    yield from misdated(span)
    for event in span.events:
        yield from event_problems(event.name, dict(event.attributes or {}))


def misdated(span: ReadableSpan) -> Iterator[str]:
    if span.start_time is None or span.end_time is None or span.end_time < span.start_time:
        yield f"{span.name}: times"


def event_problems(name: str, attributes: dict[str, Any]) -> Iterator[str]:
    if name != "gen_ai.evaluation.result" and not name.startswith("capataz."):
        yield f"event {name}"
    if name == "gen_ai.evaluation.result" and "gen_ai.evaluation.name" not in attributes:
        yield f"event {name} without a name"
    for key, value in attributes.items():
        known = EVALUATION.get(key) if name == "gen_ai.evaluation.result" else None
        if known is not None and not isinstance(value, known):
            yield f"event {name}: {key} is a {type(value).__name__}"
        if known is None and not key.startswith("capataz.") and key not in ("gen_ai.tool.name", "gen_ai.request.model",
                                                                            "gen_ai.agent.name"):  # fmt: skip
            yield f"event {name}: {key} is not of the conventions"


@tool(kind="read")
def look(order: str) -> dict[str, Any]:
    """Look an order up."""
    if order == "none":
        raise ValueError("there is no such order")
    return {"order": order, "state": "paid", "mail": "ana@example.com"}


@tool(kind="write", target="order", confirm=lambda order, **_: True)
def refund(order: str) -> str:
    """Pay back."""
    return "ok"


async def a_day(received: Received, **settings: Any) -> list[ReadableSpan]:
    """Runs of all kinds: a sub-agent, errors, a retry, a loop, an empty turn, a refused call."""
    app = App("memory:", clock=FakeClock(), chance=FakeChance(), telemetry=received.watch(**settings))
    passing = Fault("transient", "overloaded", "busy, ask ana@example.com", status=529)
    rich = Usage(100, 20, cache_read=40, cache_write=10, reasoning=5)
    below = Agent("below", ScriptedModel(calls(("look", {"order": "81"}), usage=rich), says("paid")), [look],
                  role="talking")  # fmt: skip
    above = ScriptedModel(passing, calls(("below", {"task": "is 81 paid?"})), says("It is."))
    again = calls(("look", {"order": "7"}))
    acting = ScriptedModel(
        says("I have refunded it."), calls(("look", {"order": "none"})), calls(("nothing", {})),
        calls(("refund", {"order": "81"})), says("Refunded."),
    )  # fmt: skip
    await app.arun(Agent("above", above, [below.as_tool()], "Be kind.", role="coordinating"), "Is 81 paid?")
    await app.arun(Agent("actor", acting, [look, refund], "Refund."), "Refund 81", task_type="refund")
    await app.arun(Agent("looper", ScriptedModel(again), [look], role="talking"), "Look at 7")
    await app.close()
    return received.spans


@pytest.mark.parametrize("content", [False, True])
async def test_every_span_is_of_the_conventions(received: Received, content: bool) -> None:
    spans = await a_day(received, content=content)
    kinds = {str((span.attributes or {}).get("gen_ai.operation.name", "")) for span in spans}
    assert kinds == set(TABLE), "the day has to show every type of span"
    assert [problem for span in spans for problem in problems(span, content)] == []


async def test_the_table_finds_what_a_schema_would_pass(received: Received) -> None:
    span = (await a_day(received))[0]
    wrong = ReadableSpan(
        name="chat  x",
        kind=SpanKind.INTERNAL,
        attributes={**(span.attributes or {}), "gen_ai.usage.input_tokens": "12", "gen_ai.usage.total_tokens": 3},
        start_time=2,
        end_time=1,
    )
    assert len(list(problems(wrong, False))) >= 5


async def test_the_whole_day_holds_every_kind_of_event(received: Received) -> None:
    await a_day(received)
    names = {event.name for span in received.spans for event in span.events}
    assert {"gen_ai.evaluation.result", "capataz.wait", "capataz.tool.refused", "capataz.effect.checked",
            "capataz.child.ended"} <= names  # fmt: skip


async def test_content_is_off_unless_asked_for_and_then_masked(received: Received) -> None:
    spans = await a_day(received, content=True)
    text = json.dumps([dict(span.attributes or {}) for span in spans])
    assert "81" in text
    assert "ana@example.com" not in text
    assert "<EMAIL>" in text
    descriptions = [span.status.description for span in spans if span.status.description]
    assert any("<EMAIL>" in words for words in descriptions)


async def test_messages_have_the_parts_and_the_reason_that_viewers_read(received: Received) -> None:
    await a_day(received, content=True)
    last = [span for span in received.named("chat") if (span.attributes or {})["gen_ai.agent.name"] == "below"][-1]
    read: Any = dict(last.attributes or {})
    history = json.loads(read["gen_ai.input.messages"])
    assert [message["role"] for message in history] == ["user", "assistant", "tool"]
    assert history[1]["parts"][0] == {"type": "tool_call", "id": "call-0", "name": "look", "arguments": {"order": "81"}}
    assert history[2]["parts"][0]["type"] == "tool_call_response"
    assert "response" in history[2]["parts"][0]
    [said] = json.loads(read["gen_ai.output.messages"])
    assert said["finish_reason"] == "stop"
    assert read["gen_ai.response.finish_reasons"] == ("stop",)


async def test_a_mask_of_ones_own_sees_content_before_it_is_an_attribute(received: Received) -> None:
    seen: list[Any] = []

    def mask(value: Any) -> Any:
        seen.append(value)
        return "gone"

    spans = await a_day(received, content=True, mask=mask)
    assert seen
    for span in spans:
        for name in (*MESSAGES, "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"):
            assert (span.attributes or {}).get(name) in (None, '"gone"')


async def test_tokens_stand_on_model_calls_only_and_include_the_cached(received: Received) -> None:
    spans = await a_day(received)
    for span in spans:
        usage = [name for name in span.attributes or {} if name.startswith("gen_ai.usage.")]
        assert not usage or span.name.startswith("chat ")
    cached = [s for s in spans if "gen_ai.usage.cache_read.input_tokens" in (s.attributes or {})]
    assert cached
    assert (cached[0].attributes or {})["gen_ai.usage.input_tokens"] == 100
    assert (cached[0].attributes or {})["gen_ai.usage.cache_creation.input_tokens"] == 10


async def test_the_next_conventions_are_an_option_that_adds(received: Received) -> None:
    spans = await a_day(received, semconv="next")
    cached = [s for s in spans if "gen_ai.usage.cache_write.input_tokens" in (s.attributes or {})]
    assert cached
    assert received.metric("gen_ai.client.token.usage")
    assert received.metric("gen_ai.client.inference.usage.input_tokens")
    assert received.metric("gen_ai.invoke_agent.tool_calls")


async def test_histograms_have_the_buckets_of_the_conventions(received: Received) -> None:
    await a_day(received)
    bounds = {name: received.metric(name)[0][1].explicit_bounds for name in (
        "gen_ai.client.token.usage", "gen_ai.client.operation.duration", "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration")}  # fmt: skip
    assert bounds["gen_ai.client.token.usage"] == tuple(4.0**power for power in range(14))
    assert bounds["gen_ai.client.operation.duration"][:3] == (0.01, 0.02, 0.04)
    assert bounds["gen_ai.client.operation.duration"][-1] == bounds["gen_ai.execute_tool.duration"][-1] == 81.92
    assert (bounds["gen_ai.invoke_agent.duration"][0], bounds["gen_ai.invoke_agent.duration"][-1]) == (0.1, 409.6)
