"""Many runs: sums that add up across parts, whose size does not grow, and the reports made of them."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser

from hypothesis import given, strategies as st

from capataz.ingest.build import ImportedRun
from capataz.lens.diagnose.as_json import report_json
from capataz.lens.diagnose.examine import Examiner
from capataz.lens.diagnose.findings import Subject
from capataz.lens.diagnose.page import page, percent
from capataz.lens.diagnose.totals import KEPT, Totals, Waits

Told = Callable[..., ImportedRun]
EXAMINER = Examiner()
EVIL = "<script>alert(1)</script><img src=x onerror=1>"


def feed(totals: Totals, runs: Sequence[ImportedRun]) -> Totals:
    for run in runs:
        subject = Subject(run.id, run.source_format, str(run.origin), run.label, run.task_key, "orders")
        totals.add(EXAMINER.examine(subject, run.events), run.events)
        for name, guess in run.guesses.items():
            totals.tool(name, guess.kind, guess.target, guess.why)
    return totals


def several(tell: Told, count: int) -> list[ImportedRun]:
    made: list[ImportedRun] = []
    for number in range(count):
        loops = [("refund", {"order_id": "81"}, "Error: no")] * (number % 12)
        good = [("find_order", {"order_id": str(number)}, {"total": 50 + number}), ("refund", {"order_id": "1"}, "ok")]
        made.append(
            tell(
                loops if number % 3 == 0 else good,
                f"It was {900 + number}.",
                f"task {number % 5}",
                number % 3 != 0,
                f"r{number}",
            )
        )
    return made


def test_parts_add_up_to_the_whole(tell: Told) -> None:
    runs = several(tell, 120)
    whole = report_json(feed(Totals(), runs), {})
    parts = [feed(Totals(), runs[start::3]) for start in range(3)]
    together = Totals()
    for part in parts:
        together.merge(pickle.loads(pickle.dumps(part)))
    assert report_json(together, {}) == whole


def test_what_is_kept_does_not_grow_with_the_number_of_runs(tell: Told) -> None:
    runs = several(tell, 60)
    small = feed(Totals(), runs)
    large = feed(Totals(), [*runs, *several(tell, 1_200)])
    assert sum(len(heap) for heap in large.worst.values()) <= 5 * KEPT
    assert len(pickle.dumps(large)) < 2 * len(pickle.dumps(small))


def test_the_price_of_a_cut_is_told(tell: Told) -> None:
    good = tell([("refund", {"order_id": "81"}, "Error: no")] * 12, "Done.", label=True, id="g")
    bad = tell([("refund", {"order_id": "81"}, "Error: no")] * 12, "Done.", label=False, id="b")
    sums = feed(Totals(), [good, bad]).all
    assert (sums.cut, sums.good_cut, sums.good, sums.bad) == (2, 1, 1, 1)
    assert sums.after_bad.calls * 2 == sums.after.calls


def test_distance_needs_thirty_good_runs(tell: Told) -> None:
    normal = [("find_order", {"order_id": "1"}, "paid"), ("refund", {"order_id": "1"}, "ok")]
    odd = tell([("read_page", {"url": "u"}, "x")] * 30, None, label=False, id="odd")
    for count, expected in ((29, None), (30, 1.0)):
        good = [tell(normal, "Done.", label=True, id=f"g{n}") for n in range(count)]
        shown = feed(Totals(), [*good, odd]).shown()
        found = next(one for name in shown for one in shown[name] if one.diagnosis.subject.id == "odd")
        assert found.good_runs == count
        assert found.distance is None if expected is None else (found.distance or 0) > 0.9


def test_pointers_are_counted_within_source_and_length(tell: Told) -> None:
    runs = [tell([], "It is 4711.", label=False, id="a"), tell([], "Yes.", label=True, id="b")]
    rows = report_json(feed(Totals(), runs), {})["pointers"]
    assert rows == [
        {
            "kind": "no-source",
            "source": "test",
            "band": "under 10 turns",
            "good": 0,
            "good_of": 1,
            "bad": 1,
            "bad_of": 1,
        }
    ]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_quantiles_of_waits_are_close(seconds: list[float]) -> None:
    waits = Waits()
    waits.add(seconds)
    exact = sorted(seconds)[max(0, -(-len(seconds) // 2) - 1)]
    assert exact <= waits.quantile(0.5) + 0.01
    assert waits.quantile(0.5) <= max(0.01, exact * 1.2)


def test_json_is_plain_and_versioned(tell: Told) -> None:
    told = report_json(feed(Totals(), several(tell, 30)), {"broken": 0})
    again = json.loads(json.dumps(told))
    assert again["version"] == 1
    assert set(again) == {
        "version", "reading", "all", "sources", "kinds", "errors_by_row", "silences", "pointers", "pointer_limits",
        "tools", "worst",
    }  # fmt: skip
    assert again["tools"]["refund"]["kind"] == "write"
    worst = again["worst"]["loop"][0]
    assert worst["cut"]["seqs"]
    assert set(worst["baselines"]) == {"first_acting_step", "last_step", "spoke_most"}


class Tags(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [
            f"{name}={value}" for name, value in attrs if name in ("src", "href", "action") or name[:2] == "on"
        ]


def test_the_page_needs_nothing_else_and_escapes_everything(tell: Told) -> None:
    evil = tell([(f"refund{EVIL}", {EVIL: EVIL}, f"Error: {EVIL}")] * 12, f"{EVIL} 4711", EVIL, False, EVIL)
    text = page(feed(Totals(), [evil]), {"notes": [EVIL], "broken": 1, "runs": {EVIL: 1}, "skipped": {EVIL: 1}}, EVIL)
    found = Tags()
    found.feed(text)
    assert not found.tags & {"script", "img", "link", "iframe", "object", "form", "base", "svg"}
    assert found.links == []
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


def test_reports_hold_no_secret_and_nobody_in_person(tell: Told) -> None:
    mail, key = "ana.puig@example.com", "ghp_" + "a1B2c3D4e5F6" * 3
    loop = [("refund", {"to": mail, "auth": key}, f"Error: {mail} with {key} was refused")] * 12
    totals = feed(Totals(), [tell(loop, f"{mail} has 4711", f"Write to {mail}", False, f"run of {mail}")])
    for text in (page(totals, {}, "t"), json.dumps(report_json(totals, {}))):
        assert mail not in text
        assert key not in text
        assert "EMAIL" in text


def test_the_page_says_first_what_fails_and_what_it_cost(tell: Told) -> None:
    text = page(feed(Totals(), several(tell, 60)), {}, "records")
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))
    assert words.index("of 60 runs") < words.index("The loop that never ends") < words.index("By source")
    assert "that is the price of the cut" in words
    assert "Without looking one would guess" in words
    assert "exact up to the first firing" in words


def test_the_page_of_nothing() -> None:
    assert "No run was found" in page(Totals(), {}, "nothing")


def test_percent() -> None:
    assert [percent(1, 3), percent(3, 700), percent(0, 5), percent(1, 0)] == ["33 %", "0.4 %", "0 %", "-"]
