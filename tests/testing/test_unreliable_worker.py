"""The worker against its own wire, with a client of a few lines: what it says it does, it does."""

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest

from capataz.testing.script import Ask, Script, Seen, Step, Trouble, Turn, say, status, use
from capataz.testing.worker import UnreliableWorker
from capataz.testing.worker_wire import Dialect, signature

DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic")
TOOL = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


def body_of(dialect: Dialect, messages: list[dict[str, Any]], model: str = "m", **more: Any) -> dict[str, Any]:
    if dialect == "openai":
        tools: list[Any] = [{"type": "function", "function": {"name": "refund", "parameters": TOOL}}]
        return {"model": model, "messages": messages, "tools": tools, **more}
    tools = [{"name": "refund", "description": "pay back", "input_schema": TOOL}]
    return {"model": model, "messages": messages, "max_tokens": 500, "tools": tools, **more}


def exchange(dialect: Dialect) -> list[dict[str, Any]]:
    """A question, a call and its failed result."""
    ask: dict[str, Any] = {"role": "user", "content": "refund 81"}
    if dialect == "openai":
        call = {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": '{"order_id":"81"}'}}
        return [
            ask,
            {"role": "assistant", "content": "on it", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"error": "gateway down"}'},
        ]
    use_block = {"type": "tool_use", "id": "c1", "name": "refund", "input": {"order_id": "81"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "gateway down", "is_error": True}
    return [
        ask,
        {"role": "assistant", "content": [{"type": "text", "text": "on it"}, use_block]},
        {"role": "user", "content": [result]},
    ]


async def post(worker: UnreliableWorker, dialect: Dialect, body: Any) -> tuple[int, bytes, dict[str, str]]:
    path = "/chat/completions" if dialect == "openai" else "/v1/messages"
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "Authorization": "Bearer k"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(worker.url(dialect) + path, json=body, headers=headers) as response,
    ):
        return response.status, await response.read(), dict(response.headers)


def events(raw: bytes) -> list[Any]:
    lines = [line[6:] for line in raw.splitlines() if line.startswith(b"data: ")]
    return [orjson.loads(line) for line in lines if line != b"[DONE]"]


def collected(dialect: Dialect, raw: bytes) -> tuple[str, list[tuple[str, str, str]], str | None]:
    """Text, calls (id, name, arguments) and stop reason of a streamed reply."""
    return _openai(events(raw)) if dialect == "openai" else _anthropic(events(raw))


def _openai(chunks: list[Any]) -> tuple[str, list[tuple[str, str, str]], str | None]:
    text, stop, calls = "", None, dict[int, list[str]]()
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        text += choice["delta"].get("content") or ""
        stop = choice["finish_reason"] or stop
        for delta in choice["delta"].get("tool_calls", ()):
            function = delta["function"]
            call = calls.setdefault(delta["index"], [delta.get("id", ""), function.get("name", ""), ""])
            call[2] += function["arguments"]
    return text, [(c[0], c[1], c[2]) for c in calls.values()], stop


def _anthropic(found: list[Any]) -> tuple[str, list[tuple[str, str, str]], str | None]:
    text, stop, calls = "", None, dict[int, list[str]]()
    for event in found:
        block, delta = event.get("content_block", {}), event.get("delta", {})
        if block.get("type") == "tool_use":
            calls[event["index"]] = [block["id"], block["name"], ""]
        text += delta.get("text", "")
        if "partial_json" in delta:
            calls[event["index"]][2] += delta["partial_json"]
        stop = delta.get("stop_reason", stop)
    return text, [(c[0], c[1], c[2]) for c in calls.values()], stop


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_of_words_and_calls_arrives_whole(dialect: Dialect, stream: bool) -> None:
    turn = Turn(
        "I refund it now, as you asked.", (Ask("refund", {"order_id": "81"}), Ask("refund", {"order_id": "82"}))
    )
    async with UnreliableWorker({"m": Script((turn,))}) as worker:
        code, raw, _ = await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=stream))
        assert (code, worker.violations) == (200, [])
    if stream:
        text, calls, stop = collected(dialect, raw)
        found = [(name, orjson.loads(arguments)) for _, name, arguments in calls]
        assert len({id_ for id_, _, _ in calls}) == 2
    elif dialect == "openai":
        (choice,) = orjson.loads(raw)["choices"]
        text, stop = choice["message"]["content"], choice["finish_reason"]
        functions = [call["function"] for call in choice["message"]["tool_calls"]]
        found = [(function["name"], orjson.loads(function["arguments"])) for function in functions]
    else:
        reply = orjson.loads(raw)
        text, stop = reply["content"][0]["text"], reply["stop_reason"]
        found = [(block["name"], block["input"]) for block in reply["content"][1:]]
    assert text == turn.text
    assert found == [("refund", {"order_id": "81"}), ("refund", {"order_id": "82"})]
    assert stop == ("tool_calls" if dialect == "openai" else "tool_use")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_behaviour_sees_the_same_in_both_dialects(dialect: Dialect) -> None:
    seen: list[Seen] = []

    def watch(now: Seen) -> Step:
        seen.append(now)
        return say("ok")

    async with UnreliableWorker({"m": watch}) as worker:
        await post(worker, dialect, body_of(dialect, exchange(dialect)[:1]))
        await post(worker, dialect, body_of(dialect, exchange(dialect), tool_choice=_none(dialect)))
        assert worker.violations == []
    first, second = seen
    assert (first.task, first.turns, first.asked, first.tools) == ("refund 81", 0, 0, ("refund",))
    assert (second.said, second.asked, second.tools) == (("on it",), 1, ())
    (result,) = second.did("refund")
    assert result.error
    assert result.arguments == {"order_id": "81"}
    assert "gateway down" in result.text
    assert "gateway down" in second.last


def _none(dialect: Dialect) -> Any:
    return "none" if dialect == "openai" else {"type": "none"}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_statuses_carry_the_providers_own_body_and_hint(dialect: Dialect) -> None:
    steps = (status(429, wait=1.5), status(500), status(401), status(429, reason="insufficient_quota"))
    async with UnreliableWorker({"m": Script(steps)}) as worker:
        answers = [await post(worker, dialect, body_of(dialect, exchange(dialect)[:1])) for _ in steps]
    assert [code for code, _, _ in answers] == [429, 500, 401, 429]
    assert answers[0][2]["Retry-After"] == "1.5"
    errors = [orjson.loads(raw)["error"] for _, raw, _ in answers]
    word = "code" if dialect == "openai" else "type"
    assert errors[2][word] == ("invalid_api_key" if dialect == "openai" else "authentication_error")
    assert errors[3][word] == "insufficient_quota"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_cut_stream_ends_cleanly_without_its_end_mark(dialect: Dialect) -> None:
    async with UnreliableWorker({"m": Script((Trouble("cut"),))}) as worker:
        code, raw, _ = await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=True))
    text, _, stop = collected(dialect, raw)
    assert (code, stop) == (200, None)
    assert text
    assert Trouble("cut").turn.text.startswith(text)
    assert text != Trouble("cut").turn.text
    assert b"[DONE]" not in raw
    assert b"message_stop" not in raw


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("turn", [Turn(), say("x"), use("refund", order_id="81")])
async def test_no_turn_is_so_short_that_its_cut_stream_has_an_end(dialect: Dialect, turn: Turn) -> None:
    async with UnreliableWorker({"m": Script((Trouble("cut", turn=turn),))}) as worker:
        _, raw, _ = await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=True))
    assert collected(dialect, raw)[2] is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("kind", "stream"), [("hang", True), ("hang", False), ("stall", True), ("stall", False)])
async def test_silence_lasts_until_the_client_goes_away(dialect: Dialect, kind: Any, stream: bool) -> None:
    async with UnreliableWorker({"m": Script((Trouble(kind),))}) as worker:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=stream))
        assert len(worker.served) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_trickle_gives_signs_of_life_and_nothing_else(dialect: Dialect) -> None:
    async with UnreliableWorker({"m": Script((Trouble("trickle", interval=0.01),))}) as worker:
        got = bytearray()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await _drain(worker, dialect, got)
    mark = b": keep-alive" if dialect == "openai" else b'{"type":"ping"}'
    assert got.count(mark) > 3


async def _drain(worker: UnreliableWorker, dialect: Dialect, got: bytearray) -> None:
    path = "/chat/completions" if dialect == "openai" else "/v1/messages"
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    body = body_of(dialect, exchange(dialect)[:1], stream=True)
    async with (
        aiohttp.ClientSession() as session,
        session.post(worker.url(dialect) + path, json=body, headers=headers) as response,
    ):
        async for chunk in response.content.iter_any():
            got += chunk


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_dropped_connection_is_an_error_for_the_client(dialect: Dialect, stream: bool) -> None:
    async with UnreliableWorker({"m": Script((Trouble("drop"),))}) as worker:
        with pytest.raises(aiohttp.ClientError):
            await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=stream))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
async def test_malformed_is_not_json(dialect: Dialect, stream: bool) -> None:
    async with UnreliableWorker({"m": Script((Trouble("malformed"),))}) as worker:
        code, raw, _ = await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=stream))
    assert code == 200
    with pytest.raises(orjson.JSONDecodeError):
        _ = events(raw) if stream else orjson.loads(raw)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_error_can_hide_in_a_stream_of_status_200(dialect: Dialect) -> None:
    async with UnreliableWorker({"m": Script((Trouble("stream-error"),))}) as worker:
        code, raw, _ = await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=True))
    assert code == 200
    assert "error" in events(raw)[-1]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_raw_arguments_are_sent_as_they_are(dialect: Dialect) -> None:
    turn = Turn(calls=(Ask("refund", '{"order_id": 81'),))
    async with UnreliableWorker({"m": Script((turn,))}) as worker:
        _, raw, _ = await post(worker, dialect, body_of(dialect, exchange(dialect)[:1], stream=True))
    assert collected(dialect, raw)[1][0][2] == '{"order_id": 81'


async def test_a_script_goes_on_with_its_last_word_and_starts_over_when_played_again() -> None:
    async with UnreliableWorker() as worker:
        name = worker.play("m", Script((say("one"),), after=say("more")))
        body = body_of("openai", exchange("openai")[:1], name)
        texts = [
            orjson.loads((await post(worker, "openai", body))[1])["choices"][0]["message"]["content"] for _ in "abc"
        ]
        assert texts == ["one", "more", "more"]
        worker.play("m", Script((say("again"),)))
        assert b"again" in (await post(worker, "openai", body))[1]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_orphaned_result_is_refused_and_recorded(dialect: Dialect) -> None:
    async with UnreliableWorker({"m": Script(())}) as worker:
        history = exchange(dialect)
        code, raw, _ = await post(worker, dialect, body_of(dialect, [history[0], history[2]]))
        assert code == 400
        assert worker.violations
        assert worker.served[0].step is None
    assert orjson.loads(raw)["error"]["message"]


async def test_an_unknown_model_does_not_exist() -> None:
    async with UnreliableWorker() as worker:
        code, _, _ = await post(worker, "openai", body_of("openai", exchange("openai")[:1]))
        assert (code, worker.violations) == (404, [])


async def test_thinking_must_come_back_with_its_signature() -> None:
    turn = Turn("so", thinking="the order is broken", calls=(Ask("refund", {"order_id": "81"}, id="c1"),))
    async with UnreliableWorker({"m": Script((turn,))}) as worker:
        _, raw, _ = await post(worker, "anthropic", body_of("anthropic", exchange("anthropic")[:1]))
        block = orjson.loads(raw)["content"][0]
        assert block["signature"] == signature("the order is broken")
        history = exchange("anthropic")
        history[1]["content"].insert(0, block)
        thinking = {"type": "enabled", "budget_tokens": 1024}
        good = body_of("anthropic", history, thinking=thinking, max_tokens=2048)
        assert (await post(worker, "anthropic", good))[0] == 200
        history[1]["content"][0] = {**block, "thinking": "changed"}
        assert (await post(worker, "anthropic", good))[0] == 400
