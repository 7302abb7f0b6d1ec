"""The page of a run: whole by itself, honest about the end, and deaf to what hostile texts would like to be."""

import re
from collections.abc import Sequence
from decimal import Decimal
from html.parser import HTMLParser

import pytest

from capataz.events.facts import (
    Call,
    Ceilings,
    Event,
    Fact,
    Fault,
    ModelCallFailed,
    ModelReplied,
    RunEnded,
    RunEscalated,
    RunStarted,
    ToolFinished,
    ToolStarted,
    Usage,
    VerdictGiven,
)
from capataz.lens.trace.fold import trace
from capataz.lens.trace.page import page

HOSTILE = "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"


class Tags(HTMLParser):
    """What elements, attributes and anchors a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += data


def read(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return tags


def log(*facts: Fact) -> list[Event]:
    return [Event(seq, 10.0 + seq, fact) for seq, fact in enumerate(facts)]


def test_it_says_why_the_run_ended_and_by_what(stubborn_run: Sequence[Event]) -> None:
    html = page(trace(stubborn_run))
    text = read(html).words
    why = text[: text.index("Turn by turn")]
    for words in ("partial · identical", "The same refund a third time", "refund 81: refund 1", "nothing was sent"):
        assert words in why
    assert "stopped · looping (identical)" in why


def test_it_asks_nothing_of_any_network(stubborn_run: Sequence[Event]) -> None:
    html = page(trace(stubborn_run))
    tags = read(html)
    assert "http://" not in html
    assert "https://" not in html
    assert not re.search(r"url\(|@import", html)
    assert not tags.tags & {"script", "link", "img", "iframe", "object", "form"}
    assert not tags.attributes & {"src", "action", "srcset"}
    assert all(link.startswith("#") for link in tags.links)
    assert "default-src 'none'" in html


def test_every_link_leads_somewhere_and_no_name_is_given_twice(stubborn_run: Sequence[Event]) -> None:
    for count in range(len(stubborn_run) + 1):
        tags = read(page(trace(stubborn_run[:count])))
        assert len(set(tags.ids)) == len(tags.ids)
        assert {link[1:] for link in tags.links} <= set(tags.ids)


def test_the_evidence_of_a_verdict_is_marked_where_it_happened(stubborn_run: Sequence[Event]) -> None:
    html = page(trace(stubborn_run))
    marked = set(re.findall(r'class="call proof" id="(c\d+-\d+)"', html))
    assert marked == {"c2-0", "c3-0", "c4-0"}
    assert 'id="v2"' in html


def test_parallel_calls_of_a_turn_are_told_apart() -> None:
    first, second = (Call(1, position, f"c{position}", "refund", {"n": position}, "write") for position in (0, 1))
    html = page(
        trace(
            log(
                RunStarted("r", "a", "t"),
                ModelReplied(1, 0, "", (first, second)),
                ToolStarted(1, 0, "refund"),
                ToolFinished(first, "fine"),
                ToolStarted(1, 1, "refund"),
                ToolFinished(second, "again"),
                VerdictGiven("stop", "looping", "identical", "x", (5,), 1, "again"),
            )
        )
    )
    assert re.findall(r'class="call proof" id="(c\d+-\d+)"', html) == ["c1-1"]


def test_what_a_model_or_a_tool_writes_is_text_and_never_markup() -> None:
    call = Call(1, 0, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, "write", HOSTILE)
    html = page(
        trace(
            log(
                RunStarted(
                    HOSTILE, HOSTILE, HOSTILE, model=HOSTILE, instructions=HOSTILE, source=HOSTILE, parent=HOSTILE
                ),
                ModelReplied(1, 0, HOSTILE, (call,), thinking=HOSTILE, model=HOSTILE),
                ToolFinished(call, HOSTILE, child=HOSTILE),
                VerdictGiven("nudge", HOSTILE, HOSTILE, HOSTILE, (2,), 1, HOSTILE, HOSTILE),
                RunEnded("partial", HOSTILE, HOSTILE, HOSTILE, missing=(HOSTILE,)),
            )
        )
    )
    tags = read(html)
    assert not tags.tags & {"script", "img"}
    assert "onerror" not in tags.attributes
    assert tags.words.count("{{ 7*7 }}") >= 8
    assert "49" not in tags.words


@pytest.mark.parametrize("count", [0, 1, 4, 9, 13])
def test_a_run_still_going_on_has_a_page(stubborn_run: Sequence[Event], count: int) -> None:
    assert "running" in read(page(trace(stubborn_run[:count]))).words


def test_a_suspended_run_says_whom_it_waits_for() -> None:
    html = page(trace(log(RunStarted("r", "a", "t"), RunEscalated("auth", "the key was refused"))))
    assert "The key was refused" in read(html).words


def test_spend_stands_beside_its_ceiling() -> None:
    started = RunStarted("r", "a", "t", ceilings=Ceilings(turns=2, tokens=1000, money=Decimal(1)))
    html = page(trace(log(started, ModelReplied(1, 0, "hi", usage=Usage(400, 100, money=None)))))
    words = " ".join(read(html).words.split())
    assert "turns1of 2" in words
    assert "tokens500of 1,000" in words
    assert "moneyunknownof 1" in words
    assert 'style="width:50.0%"' in html


def test_long_texts_are_cut_and_say_so() -> None:
    html = page(trace(log(RunStarted("r", "a", "t"), ModelReplied(1, 0, "x" * 20_000))))
    assert "more characters" in html
    assert len(html) < 60_000


def test_text_that_utf8_cannot_say_is_still_a_page() -> None:
    html = page(trace(log(RunStarted("r", "a", "half \ud83d"), ModelReplied(1, 0, "half \ud83d"))))
    assert html.encode()


def test_a_reply_lost_for_good_says_so() -> None:
    html = page(trace(log(RunStarted("r", "a", "t"), ModelCallFailed(1, 0, Fault("auth", "key", "no such key", 401)))))
    assert "auth 401: no such key" in read(html).words
