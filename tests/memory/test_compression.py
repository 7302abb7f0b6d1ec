"""Long histories: what is compressed, what never is, and that failing to compress does no harm."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capataz import Agent, Answered, App, Budget, Outcome, Partial, tool
from capataz.events.facts import (
    Call,
    CompressionFailed,
    Event,
    Fact,
    Fault,
    HistoryCompressed,
    ModelReplied,
    ResultsShortened,
    RunStarted,
    ToolFinished,
    Usage,
)
from capataz.memory.compress import STUB_KEEPS, cut_point
from capataz.memory.message import SUMMARY_MARK, Message
from capataz.memory.transcript import Transcript
from capataz.ports import ModelRequest, Reply
from capataz.stores.memory import MemoryStore
from capataz.testing.scripted import FakeChance, FakeClock, ScriptedModel, calls, says

WINDOW = 2000


@tool(kind="read")
def page(n: int) -> str:
    """Read a page."""
    return f"PAGE-{n} " + "x" * 800


def is_summary(request: ModelRequest) -> bool:
    return not request.tools


def sized(request: ModelRequest) -> int:
    return sum(
        len(message.text) + sum(len(str(call.arguments)) for call in message.calls) for message in request.history
    )


class Reader:
    """A model that reads page after page, then answers; what it says of a summary is up to the test."""

    def __init__(self, pages: int, summary: Any = "S: pages were read.") -> None:
        self.pages, self.summary = pages, summary
        self.summaries: list[ModelRequest] = []
        self.turn = 0

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        if is_summary(request):
            self.summaries.append(request)
            made = self.summary(request) if callable(self.summary) else self.summary
            return made if isinstance(made, (Reply, Fault)) else says(made, Usage(10, 5))
        self.turn += 1
        usage = Usage(sized(request) // 4, 10)
        if self.turn > self.pages or request.tool_choice == "none":
            return says("THE END", usage)
        return calls(("page", {"n": self.turn}), text=f"note {self.turn}: " + "w" * 200, usage=usage)


async def read(reader: Reader, **settings: Any) -> tuple[Outcome, list[Fact], ScriptedModel]:
    model = ScriptedModel(reader)
    agent = Agent(
        "reader",
        model,
        [page],
        role="talking",
        window=settings.pop("window", WINDOW),
        keep_last=settings.pop("keep_last", 4),
        budget=Budget(turns=40, tokens=500_000),
        **settings,
    )
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        outcome = await agent.arun("read the book", app=app)
        return outcome, [event.fact for event in await app.store.read(outcome.run)], model


async def test_a_long_run_stays_inside_its_window_and_ends_as_usual() -> None:
    outcome, facts, model = await read(Reader(25))
    assert isinstance(outcome, Answered)
    assert len([fact for fact in facts if isinstance(fact, HistoryCompressed)]) >= 2
    assert max(sized(request) // 4 for request in model.requests) < WINDOW


async def test_the_last_messages_are_the_same_byte_for_byte() -> None:
    _, _, model = await read(Reader(12))
    loop = [request for request in model.requests if request.tools]
    for earlier, later in pairwise(loop):
        # A turn adds two messages, and four are never touched.
        assert list(later.history)[-4:-2] == list(earlier.history)[-2:]


async def test_no_result_of_a_tool_enters_a_summary_and_each_message_is_summarised_once() -> None:
    reader = Reader(25)
    await read(reader)
    told = [request.history[0].text for request in reader.summaries]
    assert told
    assert not any("PAGE-" in text for text in told)
    for n in range(1, 10):
        assert sum(f"note {n}:" in text for text in told) == 1


async def test_a_summary_is_written_from_the_one_before() -> None:
    versions = iter("ABCDEFGHIJ")
    reader = Reader(25, lambda _: f"SUMMARY-{next(versions)}")
    _, facts, model = await read(reader)
    assert "Summary so far:\n(none)" in reader.summaries[0].history[0].text
    assert "Summary so far:\nSUMMARY-A" in reader.summaries[1].history[0].text
    done = [fact.upto for fact in facts if isinstance(fact, HistoryCompressed)]
    assert done == sorted(set(done))
    last = model.requests[-1].history[1].text
    assert last.startswith(SUMMARY_MARK)
    assert "turn 1: page ok" in last


async def test_a_call_and_its_results_stay_together() -> None:
    _, _, model = await read(Reader(25), keep_last=3)
    for request in model.requests:
        asked: set[tuple[int, int]] = set()
        for message in request.history:
            asked |= {(call.turn, call.position) for call in message.calls}
            if message.call is not None:
                assert (message.call.turn, message.call.position) in asked


@pytest.mark.parametrize(
    "summary",
    ["", "z" * 5000, Fault("transient", "x", "down"), Reply("half", stop="length"), Reply("no", stop="refusal")],
    ids=["empty", "over-long", "failed", "cut off", "refused"],
)
async def test_a_summary_that_cannot_be_used_leaves_the_old_one_and_the_run_goes_on(summary: Any) -> None:
    outcome, facts, _ = await read(Reader(7, summary))
    assert isinstance(outcome, Answered)
    assert not [fact for fact in facts if isinstance(fact, HistoryCompressed)]
    assert [fact for fact in facts if isinstance(fact, CompressionFailed)]


async def test_a_summariser_that_tells_its_whole_input_again_does_not_make_compression_grow() -> None:
    def echo(request: ModelRequest) -> str:
        return request.history[0].text + " and 200 words more" * 50

    reader = Reader(30, echo)
    outcome, facts, _ = await read(reader, window=8000, keep_last=6)
    assert isinstance(outcome, Answered)
    kept = [len(fact.summary) for fact in facts if isinstance(fact, HistoryCompressed)]
    assert all(size <= 8000 // 8 * 4 for size in kept)
    assert len(reader.summaries) <= 8
    kinds = [type(fact).__name__ for fact in facts]
    tries = [i for i, kind in enumerate(kinds) if kind in ("HistoryCompressed", "CompressionFailed")]
    assert all("ModelReplied" in kinds[a + 1 : b - 1] for a, b in pairwise(tries))


async def test_when_no_summary_can_be_had_old_results_become_marked_stubs() -> None:
    _, facts, model = await read(Reader(8, ""))
    assert [fact for fact in facts if isinstance(fact, ResultsShortened)]
    assert any("[result shortened:" in message.text for message in model.requests[-1].history)


async def test_when_nothing_helps_the_run_ends_partial() -> None:
    outcome, _, _ = await read(Reader(30, ""), window=1200, keep_last=8)
    assert isinstance(outcome, Partial)
    assert outcome.reason == "context-full"


async def test_a_refusal_for_length_gives_one_compression_and_one_retry() -> None:
    long = Fault("invalid_input", "context-too-long", "too long")
    state = {"refused": 0}

    class Narrow(Reader):
        def __call__(self, request: ModelRequest) -> Reply | Fault:
            if not is_summary(request) and sized(request) > 6000 and state["refused"] < 1:
                state["refused"] += 1
                return long
            return super().__call__(request)

    outcome, facts, _ = await read(Narrow(9), window=None)
    assert isinstance(outcome, Answered)
    assert len([fact for fact in facts if isinstance(fact, HistoryCompressed)]) == 1


async def test_a_provider_that_refuses_for_length_for_ever_ends_the_run() -> None:
    def refuses(request: ModelRequest) -> Reply | Fault:
        return says("short") if is_summary(request) else Fault("invalid_input", "context-too-long", "too long")

    model = ScriptedModel(refuses)
    async with App(MemoryStore(), clock=FakeClock(), chance=FakeChance()) as app:
        outcome = await Agent("reader", model, [page], role="talking").arun("read", app=app)
    assert outcome.name in ("partial", "aborted")
    assert len(model.requests) <= 4


async def test_the_summariser_can_be_another_model() -> None:
    cheap = ScriptedModel(says("short", Usage(5, 5)))
    reader = Reader(12)
    outcome, _, _ = await read(reader, summary_model=cheap)
    assert isinstance(outcome, Answered)
    assert cheap.requests
    assert not reader.summaries


texts = st.text(alphabet="abc ", max_size=60)


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """The events of some run, with any number of calls in each turn."""
    facts: list[Fact] = [RunStarted("r", "a", "task")]
    for turn in range(1, draw(st.integers(1, 12)) + 1):
        wanted = tuple(Call(turn, n, f"c{n}", "page", {"n": n}, "read") for n in range(draw(st.integers(0, 3))))
        facts.append(ModelReplied(turn, 0, draw(texts), wanted))
        facts += [ToolFinished(call, "r" * draw(st.integers(0, 600))) for call in wanted]
    return [Event(seq, float(seq), fact) for seq, fact in enumerate(facts)]


@settings(max_examples=200, deadline=None)
@given(runs(), st.integers(1, 10), texts)
def test_compressing_never_touches_the_tail_and_never_parts_a_call_from_its_results(
    events: list[Event], keep: int, summary: str
) -> None:
    transcript = Transcript()
    for event in events:
        transcript.fold(event)
    before = list(transcript.messages)
    cut = cut_point(before, keep)
    upto = transcript.position(cut)
    transcript.fold(Event(999, 0.0, HistoryCompressed(upto, summary, 1)))
    tail = before[max(cut, 1) :] if cut else before[1:]
    assert transcript.messages[len(transcript.messages) - len(tail) :] == tail
    first = next((message for message in transcript.messages[2:]), None)
    assert first is None or first.role != "tool"
    size = sum(len(message.text) for message in before[1:cut] if message.role == "tool")
    assert len(transcript.messages[1].text) < 200 + len(summary) + 60 * len(before) or size == 0


def test_a_short_result_is_not_worth_a_stub() -> None:
    from capataz.memory.compress import stubbed

    short = Message("tool", "x" * STUB_KEEPS)
    assert stubbed(short) is short
    assert "201 characters" in stubbed(Message("tool", "x" * 201)).text
