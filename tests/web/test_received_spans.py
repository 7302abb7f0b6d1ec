"""Spans of other runtimes: late, twice, at once, out of order, without an end. A run each, never more than is known."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from capataz.events.facts import Event, ModelReplied, RunEnded, RunStarted, ToolFinished, VerdictGiven
from capataz.ingest.otlp import Unusable, from_json, from_protobuf, unpacked
from capataz.ingest.receiver import Node, batch, read, tell, tree
from capataz.lens.metrics.figures import figures_of
from capataz.lens.trace.fold import trace
from capataz.mistakes import StoreError
from capataz.stores.sqlite import SqliteStore
from capataz.testing.scripted import FakeClock
from capataz.web.receiver import Receiver

TRACE = "5b8efff798038103d269b633813fc60c"
OTHER = "aaaaaaaa98038103d269b633813fc60c"


def attributes(**values: Any) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue", bool: "boolValue", float: "doubleValue"}
    return [{"key": key.replace("__", "."), "value": {kinds[type(v)]: v}} for key, v in values.items()]


def span(id: str, parent: str = "", start: int = 0, end: int | None = None, trace: str = TRACE, **more: Any) -> Any:
    nanos = 1_780_000_000_000_000_000
    return {
        "traceId": trace,
        "spanId": id,
        "parentSpanId": parent,
        "name": more.pop("name", id),
        "startTimeUnixNano": str(nanos + start * 10**9),
        "endTimeUnixNano": str(nanos + (start + 1 if end is None else end) * 10**9),
        "status": more.pop("status", {}),
        "attributes": attributes(**more),
    }


def model(id: str, parent: str, start: int, tokens: int = 100, text: str = "", **more: Any) -> Any:
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])
    return span(
        id, parent, start, gen_ai__operation__name="chat", gen_ai__request__model="m",
        gen_ai__usage__input_tokens=tokens, gen_ai__usage__output_tokens=10, gen_ai__output__messages=said, **more,
    )  # fmt: skip


def used(id: str, parent: str, start: int, order: str = "81", **more: Any) -> Any:
    return span(
        id, parent, start, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_order",
        gen_ai__tool__call__id=f"call-{id}", gen_ai__tool__call__arguments=json.dumps({"order": order}),
        gen_ai__tool__call__result='{"state": "paid"}', **more,
    )  # fmt: skip


def post(*spans: Any) -> Any:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": list(spans)}]}]}


A = span("0a", "", 0, 20, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="support")
B = span("0b", "0a", 1, 15, name="step")
C1, C2 = model("c1", "0b", 2), used("c2", "0b", 4)
WHOLE = (A, B, C1, C2, model("c3", "0b", 6, text="It is paid."))


def spans_of(*posts: Any) -> Any:
    return read([kept for one in posts for kept in batch(one).spans])


def shape(nodes: list[Node]) -> Any:
    return {node.id: (node.span is not None, shape(node.inside)) for node in nodes}


# ── the tree ─────────────────────────────────────────────────────────────────────────────────────────────


def test_children_that_come_first_stand_under_a_stand_in_and_never_move() -> None:
    first = shape(tree(spans_of(post(C1, C2))))
    assert first == {"0b": (False, {"c1": (True, {}), "c2": (True, {})})}
    second = shape(tree(spans_of(post(C1, C2), post(B))))
    assert second == {"0a": (False, {"0b": (True, first["0b"][1])})}
    third = shape(tree(spans_of(post(C1, C2), post(B), post(A))))
    assert third == {"0a": (True, second["0a"][1])}


def test_every_span_is_shown_once_in_whatever_order() -> None:
    for order in itertools.permutations(WHOLE):
        waiting, seen = tree(spans_of(*map(post, order))), list[str]()
        while waiting:
            node = waiting.pop()
            seen.append(node.id)
            waiting += node.inside
        assert sorted(seen) == ["0a", "0b", "c1", "c2", "c3"]


def test_spans_that_are_their_own_ancestors_are_shown_rather_than_lost() -> None:
    nodes = tree(spans_of(post(span("01", "02"), span("02", "01"), span("03", "03"), span("04", "01"))))
    seen: list[str] = []
    while nodes:
        node = nodes.pop()
        seen.append(node.id)
        nodes += node.inside
    assert sorted(seen) == ["01", "02", "03", "04"]


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_spans_tell_the_same_run_in_whatever_order() -> None:
    runs = [tell(TRACE, spans_of(*map(post, order))) for order in itertools.permutations(WHOLE)]
    assert all(run == runs[0] for run in runs)


def test_without_a_root_it_runs_and_then_no_end_was_seen_and_it_is_never_a_success() -> None:
    spans = spans_of(post(C1, C2), post(B))
    assert trace(tell(TRACE, spans)).status == "running"
    ended = tell(TRACE, spans, silent=900.0)[-1].fact
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.reason) == ("partial", "no-end-seen")


def test_a_root_that_ended_well_is_answered_and_never_completed() -> None:
    ended = tell(TRACE, spans_of(post(*WHOLE)))[-1].fact
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.reason, ended.answer) == ("answered", "source-ended", "It is paid.")


def test_a_root_that_failed_is_aborted() -> None:
    bad = {**A, "status": {"code": 2, "message": "gave up"}}
    ended = tell(TRACE, spans_of(post(bad, C1)))[-1].fact
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.detail) == ("aborted", "gave up")


def test_the_guards_see_the_calls_in_time_order_and_only_note() -> None:
    looping = [used(f"{n:02x}", "0b", n) for n in range(10, 20)]
    events = tell(TRACE, spans_of(post(*reversed(looping))))
    notes = [event for event in events if isinstance(event.fact, VerdictGiven)]
    assert notes
    assert {event.fact.action for event in notes if isinstance(event.fact, VerdictGiven)} == {"observe"}
    for note in notes:
        assert isinstance(note.fact, VerdictGiven)
        assert all(seq < note.seq for seq in note.fact.evidence)
        assert all(isinstance(events[seq].fact, ToolFinished) for seq in note.fact.evidence)
    assert [event.seq for event in events] == list(range(len(events)))


# ── the receiver ─────────────────────────────────────────────────────────────────────────────────────────


class World:
    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.store = SqliteStore(path)
        self.receiver = Receiver(self.store, self.store.spans(), self.clock)

    async def take(self, *spans: Any, tenant: str | None = None) -> tuple[int, int]:
        return await self.receiver.take(post(*spans), tenant)

    async def run(self, run: str = TRACE) -> list[Event]:
        self.clock.move(1)
        await self.receiver.tick()
        return await self.store.read(run)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "log.db")


async def test_a_batch_that_is_sent_again_changes_nothing(world: World) -> None:
    many = [*WHOLE, *(used(f"{n:02x}", "0b", n) for n in range(30, 37))]
    assert len(many) == 12
    assert await world.take(*many) == (12, 0)
    before = await world.run()
    await asyncio.gather(world.take(*many), world.take(*many), world.take(*many))
    assert await world.run() == before
    [row] = await world.store.runs()
    assert (row.spend.tokens, row.events) == (220, len(before))
    await world.store.close()


async def test_a_later_snapshot_takes_the_place_of_the_earlier_and_the_totals_follow(world: World) -> None:
    await world.take(*WHOLE)
    assert trace(await world.run()).spend.tokens == 220
    late = {**model("c1", "0b", 2, tokens=500), "endTimeUnixNano": str(1_780_000_000_000_000_000 + 9 * 10**9)}
    await world.take(late)
    assert trace(await world.run()).spend.tokens == 620
    await world.take(C1)
    assert trace(await world.run()).spend.tokens == 620
    [row] = await world.store.runs()
    assert row.spend.tokens == 620
    assert figures_of(await world.store.read(TRACE)).tokens == 620
    await world.store.close()


async def test_the_same_span_id_in_another_trace_is_another_span(world: World) -> None:
    await world.take(*WHOLE)
    before = await world.run()
    await world.take(model("c1", "", 3, tokens=7, trace=OTHER))
    assert await world.run() == before
    assert trace(await world.run(OTHER)).spend.tokens == 17
    await world.store.close()


async def test_a_run_grows_as_spans_come_and_what_was_told_stays_where_it_only_grows(world: World) -> None:
    await world.take(C1, C2)
    first = await world.run()
    assert trace(first).status == "running"
    await world.take(model("c3", "0b", 6, text="It is paid."))
    second = await world.run()
    assert second[: len(first)] == first
    await world.take(B)
    await world.take(A)
    third = await world.run()
    assert trace(third).status == "ended"
    started = third[0].fact
    assert isinstance(started, RunStarted)
    assert (started.agent, started.source) == ("support", "otel")
    await world.store.close()


async def test_a_silent_trace_ends_without_an_end_and_goes_on_when_more_comes(world: World) -> None:
    await world.take(C1, C2)
    await world.run()
    world.clock.move(3600)
    await world.receiver.sweep()
    [row] = await world.store.runs()
    assert (row.outcome, row.reason) == ("partial", "no-end-seen")
    await world.take(B)
    assert trace(await world.run()).status == "running"
    await world.store.close()


async def test_what_was_kept_but_not_told_is_told_after_a_restart(world: World, tmp_path: Path) -> None:
    await world.take(*WHOLE)
    await world.store.close()
    again = World(tmp_path / "log.db")
    again.clock.time = world.clock.time + 5
    task = asyncio.create_task(again.receiver.watch())
    async with asyncio.timeout(5):
        while not await again.store.runs():  # noqa: ASYNC110 - another task writes to the store
            await asyncio.sleep(0.01)
    task.cancel()
    assert len(await again.store.read(TRACE)) > 3
    await again.store.close()


async def test_a_tenants_trace_is_its_own_even_with_the_same_id(world: World) -> None:
    await world.take(*WHOLE)
    await world.take(model("c1", "", 3, tokens=7), tenant="acme")
    await world.run()
    assert trace(await world.run(f"acme~{TRACE}")).spend.tokens == 17
    assert trace(await world.run()).spend.tokens == 220
    await world.store.close()


async def test_a_log_of_our_own_is_never_overwritten_by_a_trace_of_that_id(world: World) -> None:
    lease = await world.store.claim(TRACE, "me")
    ours = [Event(0, 1.0, RunStarted(TRACE, "a", "t"))]
    await world.store.append(lease, 0, ours)
    await world.take(*WHOLE)
    assert await world.run() == ours
    await world.store.close()


async def test_spans_without_usable_ids_are_counted_and_the_others_kept(world: World) -> None:
    bad = [span("zz"), span("", ""), {**span("01"), "traceId": "0" * 32}]
    assert await world.take(*WHOLE, *bad) == (5, 3)
    await world.store.close()


async def test_a_trace_without_any_agent_is_no_run(world: World) -> None:
    await world.take(span("01"), span("02", "01"))
    world.clock.move(1)
    await world.receiver.tick()
    assert await world.store.runs() == []
    await world.store.close()


async def test_figures_that_no_store_can_hold_stop_neither_their_own_trace_nor_another(world: World) -> None:
    """A number beyond 64 bits is kept as said; as a count of tokens it is none."""
    odd = {**model("c1", "", 3, tokens=10**30), "startTimeUnixNano": "9" * 26}
    assert await world.take(odd, *(model(f"d{n}", "", n, tokens=2**62) for n in range(4))) == (5, 0)
    assert trace(await world.run()).spend.input_tokens == 0
    await world.store.close()


async def test_a_trace_that_cannot_be_told_keeps_no_other_from_it(world: World) -> None:
    class Choosy(Receiver):
        async def tell(self, trace: str, silent: float | None = None) -> list[Event]:
            if trace == TRACE:
                raise StoreError("a value cannot be stored")
            return await Receiver.tell(self, trace, silent)

    world.receiver = Choosy(world.store, world.store.spans(), world.clock)
    await world.take(C1, C2, model("c1", "0b", 3, trace=OTHER))
    world.clock.move(1)
    with pytest.raises(StoreError, match="cannot be stored"):
        await world.receiver.tick()
    assert trace(await world.store.read(OTHER)).status == "running"
    world.clock.move(3600)
    with pytest.raises(StoreError, match="cannot be stored"):
        await world.receiver.sweep()
    assert trace(await world.store.read(OTHER)).status == "ended"
    await world.store.close()


async def test_what_a_call_took_is_what_its_span_took(world: World) -> None:
    await world.take(A, {**C1, "endTimeUnixNano": str(1_780_000_000_000_000_000 + 4 * 10**9)}, C2)
    facts = [event.fact for event in await world.run()]
    assert [fact.seconds for fact in facts if isinstance(fact, ModelReplied)] == [2.0]
    assert [fact.seconds for fact in facts if isinstance(fact, ToolFinished)] == [1.0]
    await world.store.close()


# ── the wire ─────────────────────────────────────────────────────────────────────────────────────────────


def protobuf(*spans: Any) -> bytes:
    """The same request in protobuf, written by the official library."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for one in spans:
        made = scope.spans.add()
        made.trace_id, made.span_id = bytes.fromhex(one["traceId"]), bytes.fromhex(one["spanId"].zfill(16))
        made.parent_span_id = bytes.fromhex(one["parentSpanId"].zfill(16)) if one["parentSpanId"] else b""
        made.name = one["name"]
        made.start_time_unix_nano, made.end_time_unix_nano = (
            int(one[f"{name}TimeUnixNano"]) for name in ("start", "end")
        )
        for pair in one["attributes"]:
            [(kind, value)] = pair["value"].items()
            added = made.attributes.add()
            added.key = pair["key"]
            setattr(added.value, {"stringValue": "string_value", "intValue": "int_value"}[kind], value)
    return request.SerializeToString()


def test_protobuf_and_json_tell_the_same_run() -> None:
    long = [
        {
            **one,
            "spanId": one["spanId"].zfill(16),
            "parentSpanId": one["parentSpanId"].zfill(16) if one["parentSpanId"] else "",
        }
        for one in WHOLE
    ]
    assert tell(TRACE, spans_of(from_protobuf(protobuf(*WHOLE)))) == tell(TRACE, spans_of(post(*long)))


def test_packed_bodies_are_unpacked_within_bounds() -> None:
    body = json.dumps(post(*WHOLE)).encode()
    assert from_json(unpacked(gzip.compress(body), "gzip")) == post(*WHOLE)
    with pytest.raises(Unusable, match="larger than"):
        unpacked(gzip.compress(b"0" * (129 << 20), 1), "gzip")
    with pytest.raises(Unusable, match="cut off"):
        unpacked(gzip.compress(body)[:-20], "gzip")
    with pytest.raises(Unusable, match="not packed"):
        unpacked(body, "gzip")
    with pytest.raises(Unusable, match="not one of"):
        unpacked(body, "br")


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"[]", b"{", b'{"resourceSpans": 5}', b"[" * 5000])
def test_what_is_no_request_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(Unusable):
        from_json(body)


@pytest.mark.parametrize("levels", [200, 5_000])
def test_a_body_that_is_too_deep_is_not_called_broken(levels: int) -> None:
    with pytest.raises(Unusable, match="the body is nested too deeply"):
        from_json(b'{"resourceSpans": ' + b"[" * levels + b"]" * levels + b"}")
