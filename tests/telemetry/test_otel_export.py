"""Spans as a receiver gets them: who is whose parent, what a crash leaves, what is sampled, what nests inside."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider, StatusCode

from capataz import Agent, App, Event, Misuse, tool
from capataz.events.facts import (
    Call,
    EscalationAnswered,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from capataz.stores.memory import MemoryStore
from capataz.telemetry.otel import OpenTelemetry
from capataz.testing.script import Script, say
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, given, says
from capataz.testing.worker import UnreliableWorker
from tests.telemetry.conftest import Received


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


def looker(*steps: Any, **settings: Any) -> Agent:
    return Agent("looker", ScriptedModel(*steps), [look], role="talking", **settings)


async def test_a_run_is_a_tree_of_run_turns_calls_and_sub_agents(received: Received) -> None:
    app = App("memory:", telemetry=received.watch())
    below = looker(calls(("look", {"order": "81"})), says("paid"))
    above = Agent("above", ScriptedModel(calls(("looker", {"task": "look"})), says("ok")), [below.as_tool()],
                  role="coordinating")  # fmt: skip
    outcome = await app.arun(above, "go")
    await app.close()
    [root] = received.named("invoke_agent above")
    assert root.parent is None
    path = []
    span: Any = received.named("execute_tool look")[0]
    while span is not None:
        path.append(span.name)
        span = received.parent(span)
    assert path == ["execute_tool look", "capataz.turn", "invoke_agent looker", "execute_tool looker", "capataz.turn",
                    "invoke_agent above"]  # fmt: skip
    assert {each.context.trace_id for each in received.spans if each.context} == {root.context.trace_id}
    assert (root.attributes or {})["capataz.run.id"] == outcome.run
    assert (root.attributes or {})["capataz.outcome"] == "answered"


async def test_times_are_those_of_the_log(received: Received) -> None:
    store, clock = MemoryStore(), FakeClock()
    app = App(store, clock=clock, chance=FakeChance(), telemetry=received.watch())

    @tool(kind="read")
    async def slow(order: str) -> str:
        """Take seven seconds."""
        clock.move(7)
        return order

    outcome = await app.arun(Agent("a", ScriptedModel(calls(("slow", {"order": "1"})), says("x")), [slow],
                                   role="talking"), "go")  # fmt: skip
    log = await store.read(outcome.run)
    [span] = received.named("execute_tool slow")
    assert span.end_time is not None
    assert span.start_time is not None
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(7)
    [run] = received.named("invoke_agent")
    assert (run.start_time, run.end_time) == (int(log[0].at * 1e9), int(log[-1].at * 1e9))
    assert received.metric("gen_ai.execute_tool.duration")[0][1].sum == pytest.approx(7)
    await app.close()


async def test_spans_of_a_tools_own_hang_below_the_tool_and_a_run_below_its_caller(received: Received) -> None:
    tracer = received.tracers.get_tracer("users")

    @tool(kind="read")
    def query(text: str) -> str:
        """Query, in a thread."""
        with tracer.start_as_current_span("sql"):
            return text

    app = App("memory:", telemetry=received.watch())
    agent = Agent("a", ScriptedModel(calls(("query", {"text": "1"}), ("query", {"text": "2"})), says("x")), [query],
                  role="talking")  # fmt: skip
    with tracer.start_as_current_span("request"):
        await app.arun(agent, "go")
        with tracer.start_as_current_span("after"):
            pass
    await app.close()
    parents = [received.parent(span) for span in received.named("sql")]
    assert [parent.name for parent in parents if parent] == ["execute_tool query"] * 2
    assert len({parent.context.span_id for parent in parents if parent and parent.context}) == 2
    for name in ("invoke_agent a", "after"):
        above = received.parent(received.named(name)[0])
        assert above is not None
        assert above.name == "request"


async def test_an_escalated_run_ends_its_span_and_goes_on_in_a_linked_one(received: Received) -> None:
    watch = received.watch()
    story = given(
        RunStarted("r", "a", "t", model="openai:m"),
        ModelCallStarted(1, 0, "m"),
        ModelReplied(1, 0, "", usage=Usage(1, 1)),
        RunEscalated("approval", "a person has to say"),
        EscalationAnswered("approve", "ana"),
        RunResumed(2, "continued"),
        ModelCallStarted(2, 0, "m"),
        ModelReplied(2, 0, "done", usage=Usage(1, 1)),
        RunEnded("answered", "answered"),
    )
    for event in story[:4]:
        watch("r", event)
    assert [span.name for span in received.named("invoke_agent")] == ["invoke_agent a"]
    other = received.watch()  # another process, with nothing but the log
    other.recall("r", story[:5])
    for event in story[5:]:
        other("r", event)
    first, second = received.named("invoke_agent")
    assert first.context is not None
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert second.context is not None
    assert second.context.trace_id == first.context.trace_id
    assert (first.attributes or {})["capataz.outcome"] == "escalated"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_what_was_asked_for_and_the_providers_name_of_the_answer(
    received: Received, provider: Literal["openai", "anthropic"]
) -> None:
    """From the wire through the log: settings where they are set, and nothing where they are not."""
    extra: dict[str, Any] = {"top_k": 40} if provider == "anthropic" else {"seed": 7, "stop": "END"}
    async with UnreliableWorker({"m": Script((say("hello"), say("hello")))}) as worker, \
            App("memory:", telemetry=received.watch()) as app:  # fmt: skip
        ways: tuple[dict[str, Any], ...] = ({"temperature": 0, "max_output": 900, "extra": extra}, {})
        for more in ways:
            agent = Agent("a", f"{provider}:m", base_url=worker.url(provider), api_key="any", role="talking", **more)
            await app.arun(agent, f"go {len(more)}")
        assert worker.violations == []
    told = [{key: value for key, value in (span.attributes or {}).items()
             if key.startswith("gen_ai.re") and key not in ("gen_ai.request.model", "gen_ai.response.model")}
            for span in received.named("chat")]  # fmt: skip
    expected: dict[str, Any] = {"temperature": 0.0, "max_tokens": 900, **extra}
    if "stop" in expected:
        expected["stop_sequences"] = (expected.pop("stop"),)
    wanted = {f"gen_ai.request.{name}": value for name, value in expected.items()}
    assert {key: value for key, value in told[0].items() if key in wanted} == wanted
    assert not any(key in told[1] for key in wanted if key != "gen_ai.request.max_tokens")
    assert all(isinstance(each["gen_ai.response.id"], str) for each in told)


def crashed() -> list[Event]:
    call = Call(1, 0, "c1", "pay", {"order": "81"}, "write", "81")
    return given(
        RunStarted("r", "a", "t", model="openai:m"),
        ModelCallStarted(1, 0, "m"),
        ModelReplied(1, 0, "", (call,), "calls", Usage(1, 1)),
        ToolStarted(1, 0, "pay", "r:1:0"),
        RunResumed(2, "recovered"),
        ToolFinished(call, {"error": "interrupted"}, error=True, in_doubt=True),
        ModelCallStarted(2, 0, "m"),
        ModelReplied(2, 0, "I do not know.", usage=Usage(1, 1)),
        RunEnded("partial", "in-doubt", "the payment is in doubt"),
    )


async def test_what_a_dead_worker_left_open_is_ended_as_hung_by_the_recovery(received: Received) -> None:
    story, first = crashed(), received.watch()
    for event in story[:4]:
        first("r", event)
    first.flush()
    assert [span.name for span in received.spans] == ["chat m"]
    second = received.watch()
    second.recall("r", story[:4])
    assert len(received.spans) == 1, "what was told before is not told again"
    for event in story[4:]:
        second("r", event)
    [hung] = received.named("execute_tool pay")
    assert (hung.attributes or {})["error.type"] == "hung"
    assert hung.status.status_code is StatusCode.ERROR
    assert hung.end_time == int(story[4].at * 1e9)
    assert received.events("capataz.tool.settled") == [{"gen_ai.tool.name": "pay", "capataz.tool.in_doubt": True}]
    [run] = received.named("invoke_agent")
    assert run.start_time == int(story[0].at * 1e9)
    assert run.status.status_code is StatusCode.ERROR
    assert {received.parent(span).name for span in received.named("capataz.turn")} == {"invoke_agent a"}  # type: ignore[union-attr]
    assert all(span.end_time for span in received.spans)


async def test_the_sampler_is_asked_with_what_a_run_begins_with_and_obeyed() -> None:
    exporter, tracers = InMemorySpanExporter(), TracerProvider(sampler=ALWAYS_OFF)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    app = App("memory:", telemetry=OpenTelemetry(tracers))
    await app.arun(looker(calls(("look", {"order": "1"})), says("x")), "go")
    await app.close()
    assert exporter.get_finished_spans() == ()


async def test_every_worker_samples_a_trace_alike() -> None:
    shares = []
    for _ in range(2):
        exporter, tracers = InMemorySpanExporter(), TracerProvider(sampler=TraceIdRatioBased(0.5))
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        watch = OpenTelemetry(tracers)
        for number in range(60):
            for event in given(RunStarted(f"r{number}", "a", "t"), RunEnded("answered", "answered")):
                watch(f"r{number}", event)
        shares.append({span.context.trace_id for span in exporter.get_finished_spans() if span.context})
    assert shares[0] == shares[1]
    assert 10 < len(shares[0]) < 50


async def test_a_watcher_that_fails_is_told_of_and_disturbs_nobody(
    received: Received, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __call__(self, run: str, event: Event) -> None:
            raise RuntimeError("no disk")

        def recall(self, run: str, events: Any) -> None:
            raise RuntimeError("no disk")

    app = App("memory:", telemetry=[Broken(), received.watch()])
    with caplog.at_level(logging.WARNING, "capataz.runtime"):
        outcome = await app.arun(looker(says("x")), "go")
    await app.close()
    assert outcome.name == "answered"
    assert received.named("invoke_agent")
    assert len([r for r in caplog.records if "Broken failed" in r.getMessage()]) == 1


async def test_many_runs_side_by_side_keep_apart(received: Received) -> None:
    app = App("memory:", telemetry=received.watch())
    agent = Agent("a", ScriptedModel(says("x")), [look], role="talking")
    await asyncio.gather(*(app.arun(agent, "go") for _ in range(20)))
    await app.close()
    assert len(received.named("invoke_agent")) == 20
    for span in received.named("chat"):
        turn = received.parent(span)
        assert turn is not None
        assert (turn.attributes or {})["capataz.run.id"] == (span.attributes or {})["capataz.run.id"]


def test_a_provider_that_is_not_the_sdks_is_refused() -> None:
    with pytest.raises(Misuse, match="give a TracerProvider"):
        OpenTelemetry(NoOpTracerProvider(), MeterProvider())
