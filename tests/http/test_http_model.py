"""Against real sockets: whatever the other side does, the call ends within its limits, with one classified fault."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import orjson
import pytest

from capataz.mistakes import ModelRefused
from capataz.models.http import HttpModel
from capataz.ports import Deadlines, Model
from tests.http.peers import (
    DONE,
    HELLO,
    KEY,
    LAST,
    SHORT,
    STOPPED,
    STREAM,
    TOTAL,
    USED,
    Behaviour,
    Peer,
    chunk,
    fault_of,
    model_at,
    request,
    serving,
)

WHOLE = orjson.dumps(
    {
        "id": "1",
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    }
)


async def good(peer: Peer) -> None:
    await peer.say(STREAM, chunk(HELLO), chunk(STOPPED), chunk(USED), chunk(DONE) + LAST)


def plain(status: str, body: bytes, *headers: str) -> Behaviour:
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers]

    async def answer(peer: Peer) -> None:
        await peer.say("\r\n".join([*lines, "", ""]).encode() + body)

    return answer


async def test_a_streamed_answer() -> None:
    beats: list[float] = []
    async with serving(good) as server:
        model = model_at(server.url)
        reply = await model.complete(request(), lambda: beats.append(time.monotonic()))
        await model.close()
    assert (reply.text, reply.stop, reply.usage.input, reply.usage.output) == ("hello", "stop", 9, 2)
    assert reply.first_byte is not None
    assert 0 < reply.first_byte < 60
    assert len(beats) >= 2
    head, body = server.requests[0]
    assert head.startswith("POST /v1/chat/completions ")
    assert f"authorization: bearer {KEY}" in head.lower()
    assert orjson.loads(body)["stream"] is True


async def test_an_answer_that_is_not_streamed() -> None:
    async with serving(plain("200 OK", WHOLE)) as server:
        for streams in (False, True):
            model = model_at(server.url, streams=streams)
            reply = await model.complete(request(), lambda: None)
            assert (reply.text, reply.usage.output) == ("hello", 2)
            await model.close()


@pytest.mark.parametrize("kind", [b"application/json", b"text/plain"])
async def test_a_stream_under_another_name_is_still_a_stream(kind: bytes) -> None:
    async def misnamed(peer: Peer) -> None:
        await peer.say(STREAM.replace(b"text/event-stream", kind), chunk(HELLO), chunk(STOPPED), chunk(DONE) + LAST)

    async with serving(misnamed) as server:
        model = model_at(server.url)
        assert (await model.complete(request(), lambda: None)).text == "hello"
        await model.close()


async def test_one_connection_and_one_encoder_serve_the_calls_of_a_run() -> None:
    asked = request()
    async with serving(good) as server:
        model = model_at(server.url)
        for _ in range(5):
            await model.complete(asked, lambda: None)
        await model.close()
    assert server.connections == 1
    assert len(server.requests) == 5
    assert len({body for _, body in server.requests}) == 1
    assert [name for name in asked.memo if "encoder" in name] == ["encoder of openai"]


async def test_a_kept_connection_that_was_closed_meanwhile_is_not_the_providers_fault() -> None:
    served = 0

    async def closing(peer: Peer) -> None:
        nonlocal served
        served += 1
        if served == 2:
            raise ConnectionError
        await good(peer)

    async with serving(closing) as server:
        model = model_at(server.url)
        await model.complete(request(), lambda: None)
        reply = await model.complete(request(), lambda: None)
        await model.close()
    assert reply.text == "hello"
    assert (server.connections, len(server.requests)) == (2, 3)


async def test_a_fresh_connection_that_breaks_is_not_tried_again_here() -> None:
    async def closing(peer: Peer) -> None:
        raise ConnectionError

    async with serving(closing) as server:
        fault = await fault_of(model_at(server.url))
    assert fault.row == "transient"
    assert len(server.requests) == 1


async def test_calls_at_once_do_not_wait_for_one_another() -> None:
    async def slow(peer: Peer) -> None:
        await asyncio.sleep(0.2)
        await good(peer)

    async with serving(slow) as server:
        model = model_at(server.url)
        await asyncio.gather(*(model.complete(request(), lambda: None) for _ in range(150)))
        await model.close()
    assert server.connections == 150


async def test_the_end_mark_ends_the_answer_even_if_the_connection_stays_open() -> None:
    async def lingering(peer: Peer) -> None:
        await peer.say(STREAM, chunk(HELLO), chunk(STOPPED), chunk(DONE))
        await asyncio.sleep(30)

    async with serving(lingering) as server:
        model = model_at(server.url)
        reply = await model.complete(request(), lambda: None)
        await model.close()
    assert reply.text == "hello"


async def test_an_answer_is_whole_if_its_end_mark_came_before_the_connection_broke() -> None:
    async def breaking(peer: Peer) -> None:
        await peer.say(STREAM, chunk(HELLO), chunk(STOPPED), chunk(DONE))
        peer.writer.transport.abort()

    async with serving(breaking) as server:
        model = model_at(server.url)
        assert (await model.complete(request(), lambda: None)).text == "hello"
        await model.close()


# ── waits ────────────────────────────────────────────────────────────────────────────────────────────────


async def silent(peer: Peer) -> None:
    await asyncio.sleep(30)


async def only_headers(peer: Peer) -> None:
    await peer.say(STREAM)
    await asyncio.sleep(30)


async def stalling(peer: Peer) -> None:
    await peer.say(STREAM, chunk(HELLO))
    await asyncio.sleep(30)


async def trickling(peer: Peer) -> None:
    await peer.say(STREAM)
    while True:
        await peer.say(chunk(": still here\n"))
        await asyncio.sleep(0.1)


async def trickling_headers(peer: Peer) -> None:
    await peer.say(b"HTTP/1.1 200 OK\r\n")
    for n in range(300):
        await peer.say(f"x-{n}: y\r\n".encode())
        await asyncio.sleep(0.1)


async def trickling_plain(peer: Peer) -> None:
    await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
    while True:
        await peer.say(b" ")
        await asyncio.sleep(0.1)


async def refusing_slowly(peer: Peer) -> None:
    await peer.say(b"HTTP/1.1 429 Too Many\r\nretry-after: 3\r\ncontent-length: 1000\r\n\r\n{")
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("behave", "limits", "words", "least"),
    [
        (silent, SHORT, "said nothing for 0.4 s", 0.4),
        (only_headers, SHORT, "said nothing for 0.4 s", 0.4),
        (stalling, SHORT, "nothing for 0.4 s", 0.4),
        (trickling, TOTAL, "not complete after 1.2 s", 1.2),
        (trickling_headers, SHORT, "said nothing for 0.4 s", 0.4),
        (trickling_plain, TOTAL, "not complete after 1.2 s", 1.2),
    ],
)
async def test_every_wait_ends_at_its_limit(behave: Behaviour, limits: Deadlines, words: str, least: float) -> None:
    async with serving(behave) as server:
        begin = time.monotonic()
        fault = await fault_of(model_at(server.url), request(limits))
        took = time.monotonic() - begin
    assert (fault.row, fault.reason) == ("transient", "timeout")
    assert words in fault.message
    assert least <= took < 20


async def test_a_server_that_never_accepts_is_given_up_at_the_connect_limit() -> None:
    # TEST-NET-1 is routed nowhere; where a network refuses at once instead, that is a connection fault, and no wait.
    begin = time.monotonic()
    fault = await fault_of(model_at("http://192.0.2.1:9/v1"), request(Deadlines(connect=0.5)))
    assert time.monotonic() - begin < 20
    assert fault.row in ("transient", "unknown")
    assert fault.reason in ("timeout", "connection")


async def test_a_refusal_whose_body_never_comes_is_still_that_refusal() -> None:
    async with serving(refusing_slowly) as server:
        fault = await fault_of(model_at(server.url), request())
    assert (fault.row, fault.status, fault.wait) == ("rate_limit", 429, 3.0)


async def test_cancelling_passes_through_at_once() -> None:
    asked = asyncio.Event()

    async def behave(peer: Peer) -> None:
        asked.set()
        await asyncio.sleep(30)

    async with serving(behave) as server:
        model = model_at(server.url)
        task = asyncio.create_task(model.complete(request(), lambda: None))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.close()


# ── refusals and breaks ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "body", "headers", "row"),
    [
        ("429 Too Many Requests", b"{}", ["retry-after-ms: 1500"], "rate_limit"),
        ("401 Unauthorized", f'{{"error":{{"message":"Incorrect API key: {KEY}"}}}}'.encode(), [], "auth"),
        ("500 Oops", b"<html>oops</html>", [], "transient"),
        ("529 Overloaded", b"", [], "transient"),
        ("400 Bad", b'{"error":{"message":"no such thing"}}', [], "invalid_input"),
        ("500 Oops", b"x" * 3_000_000, [], "transient"),
    ],
)
async def test_a_refusal_is_classified(status: str, body: bytes, headers: list[str], row: str) -> None:
    async with serving(plain(status, body, *headers)) as server:
        fault = await fault_of(model_at(server.url))
    assert fault.row == row
    assert fault.status == int(status[:3])
    assert len(fault.message) < 2000
    if headers:
        assert fault.wait == 1.5


async def test_a_redirect_is_not_followed() -> None:
    async with serving(good) as other:
        location = f"location: {other.url}/chat/completions"
        async with serving(plain("307 Elsewhere", b"", location)) as server:
            fault = await fault_of(model_at(server.url))
        assert not other.requests
    assert fault.status == 307


async def cut_in_a_chunk(peer: Peer) -> None:
    await peer.say(STREAM, chunk(HELLO), b"ff\r\ndata: {")
    peer.writer.transport.abort()


async def cut_between_events(peer: Peer) -> None:
    await peer.say(STREAM, chunk(HELLO))
    peer.writer.close()


async def cut_at_once(peer: Peer) -> None:
    await peer.say(STREAM)
    peer.writer.transport.abort()


async def cut_while_whole(peer: Peer) -> None:
    await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n", WHOLE[:60])
    peer.writer.transport.abort()


async def ended_early(peer: Peer) -> None:
    await peer.say(STREAM, chunk(HELLO), LAST)


async def dropped(peer: Peer) -> None:
    peer.writer.transport.abort()


async def nonsense(peer: Peer) -> None:
    await peer.say(b"what is this?\r\n\r\n")


@pytest.mark.parametrize("behave", [cut_at_once, cut_in_a_chunk, cut_between_events, ended_early])
async def test_a_cut_stream_is_a_failed_turn(behave: Behaviour) -> None:
    async with serving(behave) as server:
        fault = await fault_of(model_at(server.url))
    assert (fault.row, fault.reason) == ("transient", "truncated-stream")


@pytest.mark.parametrize("behave", [dropped, nonsense, cut_while_whole])
async def test_a_broken_connection_is_transient(behave: Behaviour) -> None:
    async with serving(behave) as server:
        fault = await fault_of(model_at(server.url))
    assert (fault.row, fault.reason, fault.status) == ("transient", "connection", None)


async def test_nobody_listening_is_transient() -> None:
    async with serving(good) as server:
        url = server.url
    fault = await fault_of(model_at(url))
    assert (fault.row, fault.reason) == ("transient", "connection")


async def endless(peer: Peer) -> None:
    await peer.say(STREAM)
    while True:
        await peer.say(chunk("data: " + "x" * 60_000 + "\n"))


@pytest.mark.parametrize("streams", [True, False])
async def test_an_endless_answer_is_refused_and_not_kept(streams: bool) -> None:
    async with serving(endless) as server:
        model = model_at(server.url, streams=streams)
        model.most_bytes = 1_000_000
        fault = await fault_of(model, request())
    assert (fault.row, fault.reason, fault.retries) == ("contract", "answer-too-large", 0)


async def test_an_error_inside_a_stream_is_classified_by_its_kind() -> None:
    async def failing(peer: Peer) -> None:
        error = 'data: {"error":{"type":"server_error","code":"rate_limit_exceeded","message":"slow down"}}\n\n'
        await peer.say(STREAM, chunk(HELLO), chunk(error), LAST)

    async with serving(failing) as server:
        assert (await fault_of(model_at(server.url))).row == "rate_limit"


# ── loops, keys, addresses ───────────────────────────────────────────────────────────────────────────────


async def test_every_event_loop_has_connections_of_its_own() -> None:
    async with serving(good) as server:
        model = model_at(server.url)

        async def elsewhere() -> str:
            try:
                return (await model.complete(request(), lambda: None)).text
            finally:
                await model.close()

        assert (await model.complete(request(), lambda: None)).text == "hello"
        for _ in range(2):
            assert await asyncio.to_thread(asyncio.run, elsewhere()) == "hello"
        assert (await model.complete(request(), lambda: None)).text == "hello"
        await model.close()
        assert (await model.complete(request(), lambda: None)).text == "hello"
        await model.close()
    assert server.connections == 4


@pytest.mark.parametrize(("key", "shown"), [("k", True), ("any", True), ("EMPTY", True), ("sk-12345", False)])
async def test_a_key_that_is_no_secret_leaves_the_words_of_an_error_alone(key: str, shown: bool) -> None:
    words = f"no token {key} was taken"
    async with serving(plain("401 Unauthorized", orjson.dumps({"error": {"message": words}}))) as server:
        model = replace(model_at(server.url), key=key)
        with pytest.raises(ModelRefused) as refused:
            await model.complete(request(), lambda: None)
        await model.close()
    assert (words in refused.value.fault.message) == shown
    assert ("***" in refused.value.fault.message) != shown


def test_the_key_is_not_shown() -> None:
    model = model_at("http://127.0.0.1:1/v1")
    assert KEY not in repr(model)
    assert isinstance(model, HttpModel)
    port: Model = model
    assert port is model


@pytest.mark.parametrize(
    ("provider", "base", "url"),
    [
        ("openai", "https://a.example/v1", "https://a.example/v1/chat/completions"),
        ("openai", "https://a.example/v1/", "https://a.example/v1/chat/completions"),
        ("openai", "https://a.example/d?api-version=1", "https://a.example/d/chat/completions?api-version=1"),
        ("anthropic", "https://a.example", "https://a.example/v1/messages"),
        ("anthropic", "https://a.example/v1", "https://a.example/v1/messages"),
    ],
)
def test_where_a_request_goes(provider: str, base: str, url: str) -> None:
    assert model_at(base, provider).url("m") == url


async def test_a_proxy_of_the_environment_is_used_but_never_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving(good) as proxy, serving(good) as server:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        for url in (server.url, "http://far.example/v1"):
            model = model_at(url)
            assert (await model.complete(request(), lambda: None)).text == "hello"
            await model.close()
    assert len(server.requests) == 1
    assert proxy.requests[0][0].startswith("POST http://far.example/v1/chat/completions ")
