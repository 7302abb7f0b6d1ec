"""The diagnosis as one HTML page that needs nothing else: no script, no outside request, no second file.

The first screen is for whoever pays: what fails, how often, what it cost. Below it stands what an engineer needs to
believe it: kinds, errors, silences, the worst runs with the events that show it, and the limits of every pointer.
Everything a record says is text here and never markup: the template escapes all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capataz.events.facts import JSON
from capataz.lens.diagnose.findings import FAILURES, LIMITS, Failure, Shown
from capataz.lens.diagnose.totals import BANDS, KindSum, Sum, Sums, Totals, chosen
from capataz.lens.template import template

_MEANING: dict[Failure, str] = {
    "loop": "The same work again and again, without anything new.",
    "hang": "No sign of life, or a call whose result never came.",
    "talk": "Words instead of acts: nothing was called, or what was promised did not happen.",
    "error": "An error handled as if it were another: hopeless retries, no wait, given up too early.",
}
_SHORT: dict[Failure, str] = {"loop": "loop", "hang": "hang", "talk": "talk", "error": "error"}
BURST = "error-burst"
SIGN = "a sign, not counted as a failure"
_TONES: dict[Failure, str] = {"loop": "bad", "hang": "warn", "talk": "warn", "error": "bad"}
_POINTERS: dict[str, str] = {
    "no-source": "Values without a source",
    "computed": "Values the model worked out itself",
    "ungrounded-argument": "Arguments of acts that appear nowhere before",
    "conflict": "Sources that disagree",
    "distance": "Distance from good runs",
}


@dataclass(frozen=True, slots=True)
class _Card:
    """One of the four failures, as a manager reads it."""

    name: str
    meaning: str
    tone: str
    runs: int
    share: str
    cut: int
    after: Sum
    top: str


def page(totals: Totals, reading: Mapping[str, JSON], title: str) -> str:
    """The page, whole. `reading` is what was read and what could not be; `title` names the records."""
    kinds = sorted(totals.kinds.items(), key=lambda pair: -pair[1].runs)
    return template("capataz.lens.diagnose", "diagnosis.html").render(
        title=title,
        all=totals.all,
        headline=_headline(totals.all),
        cards=[_card(failure, totals, kinds) for failure in FAILURES],
        sources=sorted(totals.sources.items(), key=lambda pair: -pair[1].runs),
        kinds=[(SIGN if kind == BURST else FAILURES[failure], kind, sums) for (failure, kind), sums in kinds],
        short=_SHORT,
        rows=totals.rows.most_common(),
        waits=[("the model", totals.waits_model), ("a tool", totals.waits_tool)],
        pointers=_pointers(totals),
        pointer_names=_POINTERS,
        limits=LIMITS,
        worst=_worst(totals),
        tools=sorted(totals.tools.items(), key=lambda pair: (-pair[1].runs, pair[0])),
        reading=reading,
        percent=percent,
        spent=spent,
        chosen=chosen,
        number=number,
        seconds=seconds,
    )


def percent(part: int, whole: int) -> str:
    """A share for people: one digit after the point below ten, "-" where there is nothing to share.

    >>> percent(3, 700), percent(1, 3), percent(0, 0)
    ('0.4 %', '33 %', '-')
    """
    if not whole:
        return "-"
    share = 100 * part / whole
    return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"


def number(value: int) -> str:
    return f"{value:,}"


def seconds(value: float) -> str:
    return f"{value:,.1f} s"


def spent(total: Sum) -> str:
    """What was used, in words; money only where some of it is known."""
    told = f"{total.calls:,} calls, {total.tokens:,} tokens"
    if not total.money:
        return told
    runs = "run" if total.priced == 1 else "runs"
    whose = f" in {total.priced:,} {runs} whose price is known" if total.unpriced else ""
    return f"{told}, ${total.money:,.2f}{whose}"


def _headline(sums: Sums) -> str:
    if not sums.runs:
        return "No run was found in these records."
    failing = sum(sums.failures.values())
    told = f"{failing:,} of {sums.runs:,} runs ({percent(failing, sums.runs)}) show one of the four failures."
    if sums.cut:
        share = percent(sums.after.tokens, sums.spent.tokens)
        told += f" The guards would have ended {sums.cut:,}; {share} of all tokens were used after that point."
    return told


def _card(failure: Failure, totals: Totals, kinds: list[tuple[tuple[Failure, str], KindSum]]) -> _Card:
    runs = totals.all.failures.get(failure, 0)
    after, cut = Sum(), 0
    named: list[str] = []
    for (owner, kind), sums in kinds:
        if owner == failure and kind != BURST:
            named.append(f"{kind} ({sums.runs:,})")
            after.merge(sums.after)
            cut += sums.cut
    top = ", ".join(named[:3])
    return _Card(
        FAILURES[failure], _MEANING[failure], _TONES[failure], runs, percent(runs, totals.all.runs), cut, after, top
    )


def _pointers(totals: Totals) -> list[tuple[str, list[tuple[str, str, int, int, int, int]]]]:
    """By kind: (source, band, good with it, good, failed with it, failed), where anything has it."""
    found: list[tuple[str, list[tuple[str, str, int, int, int, int]]]] = []
    counts = totals.pointed
    for kind in ("no-source", "computed", "ungrounded-argument", "conflict"):
        rows: list[tuple[str, str, int, int, int, int]] = []
        for source in sorted({source for named, source, _, _ in counts if named == kind}):
            for _, band in BANDS:
                good, bad = counts[kind, source, band, "good"], counts[kind, source, band, "bad"]
                of_good, of_bad = counts["", source, band, "good"], counts["", source, band, "bad"]
                if of_good or of_bad:
                    rows.append((source, band, good, of_good, bad, of_bad))
        found.append((kind, rows))
    return found


def _worst(totals: Totals) -> list[tuple[str, list[Shown]]]:
    names: dict[str, str] = {str(name): title for name, title in FAILURES.items()}
    names["pointer"] = "No failure seen, but a place worth a look"
    return [(names[name], found) for name, found in totals.shown().items() if found]
