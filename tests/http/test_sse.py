"""The parser gives the same events however the bytes are cut, and keeps no more than it may."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from capataz.mistakes import ModelRefused
from capataz.models.sse import SseParser


def parse(*chunks: bytes, limit: int = 1 << 20, end: bool = False) -> list[tuple[str, bytes]]:
    parser = SseParser(limit)
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + (list(parser.end()) if end else [])


def reference(stream: str) -> list[tuple[str, bytes]]:
    """The standard's algorithm, word for word and slow."""
    events: list[tuple[str, bytes]] = []
    data, event = "", ""
    lines = stream.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines[:-1]:
        if line == "":
            if data:
                events.append((event, data[:-1].encode()))
            data, event = "", ""
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data":
                data += value + "\n"
            elif name == "event":
                event = value
    return events


WORDS = st.sampled_from(["data", "event", "id", "retry", "", "dat", "data ", "x"])
VALUES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
LINES = st.builds(lambda name, mark, value: name + mark + value, WORDS, st.sampled_from([":", ": ", ":  ", ""]), VALUES)
ENDS = st.sampled_from(["\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"])
STREAMS = st.builds(
    lambda mark, parts: mark + "".join(line + end for line, end in parts),
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.tuples(LINES, ENDS), max_size=12),
)


@settings(max_examples=500, deadline=None)
@given(STREAMS, st.data())
def test_any_cut_gives_what_the_standard_says(stream: str, data: st.DataObject) -> None:
    raw = stream.encode()
    places = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    bounds = [0, *places, len(raw)]
    chunks = [raw[a:b] for a, b in pairwise(bounds)]
    assert parse(*chunks) == reference(stream)


@settings(max_examples=200, deadline=None)
@given(STREAMS)
def test_byte_by_byte(stream: str) -> None:
    raw = stream.encode()
    assert parse(*(raw[n : n + 1] for n in range(len(raw)))) == reference(stream)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(raw: bytes) -> None:
    parse(raw, end=True)


@pytest.mark.parametrize(
    ("chunks", "events"),
    [
        ([b"data: a\n\n"], [("", b"a")]),
        ([b"data: a\r", b"\n\r", b"\n"], [("", b"a")]),
        ([b"data: a\r", b"\r"], [("", b"a")]),
        ([b"data:a\ndata: b\n\n"], [("", b"a\nb")]),
        ([b": ping\n\ndata: a\n\n"], [("", b"a")]),
        ([b"event: ping\n\ndata: a\n\n"], [("", b"a")]),
        ([b"event: x\ndata: a\n\ndata: b\n\n"], [("x", b"a"), ("", b"b")]),
        ([b"\xef\xbb", b"\xbfdata: a\n\n"], [("", b"a")]),
        ([b"data\n\n"], [("", b"")]),
        ([b"data: a\n"], []),
        ([b""], []),
    ],
)
def test_the_cases_one_remembers(chunks: list[bytes], events: list[tuple[str, bytes]]) -> None:
    assert parse(*chunks) == events


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n", [("", b"a")]),
        (b'data: {"half": "of', []),
        (b"data: a\n\ndata: [DONE]", [("", b"a"), ("", b"[DONE]")]),
        (b"data:[DONE]\r\n", [("", b"[DONE]")]),
        (b"event: x\n", []),
    ],
)
def test_what_stands_at_the_end_without_an_empty_line(raw: bytes, events: list[tuple[str, bytes]]) -> None:
    assert parse(raw, end=True) == events


@pytest.mark.parametrize("chunk", [b"x" * 100, b"data: " + b"x" * 100, b": " + b"x" * 100, b"data: xx\n" * 12])
def test_an_event_beyond_the_bound_is_a_fault_and_is_not_kept(chunk: bytes) -> None:
    parser = SseParser(limit=1000)

    def pour() -> None:
        for _ in range(100):
            list(parser.feed(chunk))

    with pytest.raises(ModelRefused) as caught:
        pour()
    assert caught.value.fault.reason == "answer-too-large"
    assert caught.value.fault.row == "contract"


def test_many_small_events_are_no_large_one() -> None:
    assert len(parse(*[b"data: " + b"x" * 50 + b"\n\n"] * 100, limit=100)) == 100
