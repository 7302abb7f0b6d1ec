"""What the page of a run needs to know, worked out from its book: the head, and the turns one asks for.

Only what is shown is masked, and it is masked first; a run of thirty thousand events opens as fast as one of thirty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from capataz.events.facts import (
    Ceilings,
    Event,
    MessageReceived,
    ModelCallStarted,
    RunEnded,
    RunEscalated,
    RunStarted,
    Spend,
    ToolStarted,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)
from capataz.lens import words
from capataz.lens.trace.fold import CallView, Trace, TurnView
from capataz.lens.words import Line, Tone
from capataz.ports import Deadlines
from capataz.web.books import Book
from capataz.web.shown import Shower
from capataz.web.timeline import Picture, picture, tone_of_turn

PER_PAGE = 20
"""Turns on one page."""
MOST_VERDICTS = 20
MOST_ACTS = 8
MOST_SIGNALS = 20
MOST_ENTRIES = 60
"""Of one turn on a page: a runtime whose model calls are not recorded has all its tools in one turn."""
LONG = Deadlines().total
"""Seconds without news after which a run that has not ended is shown as one to look at."""
STRIP = 400
"""Turns in the strip of numbers; longer runs are reached by the picture and the pages."""


@dataclass(frozen=True, slots=True)
class Given:
    """A verdict with its number in the run and the index of its turn."""

    number: int
    seq: int
    turn: int
    place: str
    fact: VerdictGiven
    head: Line


@dataclass(frozen=True, slots=True)
class Gauge:
    """One thing that is spent. `share` in percent of its ceiling; None without one."""

    name: str
    used: str
    limit: str
    share: float | None


@dataclass(frozen=True, slots=True)
class Head:
    """Everything above the turns."""

    run: str
    started: RunStarted | None
    status: str
    outcome: str | None
    tone: Tone
    reason: str
    headline: str
    ending: RunEnded | RunEscalated | None
    evidence: tuple[tuple[str, str, int], ...]
    verdicts: tuple[Given, ...]
    verdict_count: int
    warnings: tuple[str, ...]
    signals: tuple[tuple[Line, str, int], ...]
    """What went wrong on the way: in words, where first, and the index of that turn."""
    gauges: tuple[Gauge, ...]
    spend: Spend
    acts: tuple[Act, ...]
    act_count: int
    picture: Picture
    events: int
    turns: int
    strip: tuple[tuple[int, int, Tone], ...]
    started_at: float
    now: float


@dataclass(frozen=True, slots=True)
class Act:
    """An act of the run and how it stands in the world."""

    called: str
    stands: Line
    turn: int
    anchor: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a turn, in the order of the log. One of `reply`, `call` and `mark` is set."""

    seq: int
    what: Literal["reply", "call", "mark", "verdict"]
    anchor: str
    proves: tuple[int, ...] = ()
    """Numbers of the verdicts it is evidence for; 0 is the end of the run."""
    reply: TurnView | None = None
    call: CallView | None = None
    mark: Line | None = None
    fact: VerdictGiven | None = None
    number: int = 0

    @property
    def found_by(self) -> int:
        """The event by which just this entry is found: a call's first is that of the reply which asked for it."""
        return self.call.seqs[-1] if self.call is not None and self.call.seqs else self.seq


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A turn as it is shown. `news`: what the model was told since the turn before."""

    index: int
    view: TurnView
    tone: Tone
    offset: float
    grown: int | None
    news: tuple[str, ...]
    entries: tuple[Entry, ...] = field(default=())
    earlier: Entry | None = None
    later: Entry | None = None
    """Where the entries before and behind those shown begin, when the turn has more than fit."""
    of: int = 0

    @property
    def title(self) -> str:
        names = {"closing": "Closing call", "compressing": "Compressing the history", "judging": "Judging"}
        return names.get(self.view.purpose, f"Turn {self.view.number}")


def head(book: Book, shower: Shower, now: float) -> Head:
    """The head of a run's page. `now`, in seconds since the epoch, is for what is still waited for."""
    tree, started = book.tree, book.started
    ending = tree.ending
    shown = shower.fact(ending) if ending is not None else None
    assert shown is None or isinstance(shown, RunEnded | RunEscalated)
    begun = shower.fact(started) if started is not None else None
    assert begun is None or isinstance(begun, RunStarted)
    acts = [(index, view) for index, turn in enumerate(tree.turns) for view in turn.calls if view.call.acting]
    return Head(
        run=book.run,
        started=begun,
        status=tree.status,
        outcome=tree.outcome,
        tone=_tone(tree, now),
        reason=shown.reason if shown is not None else "",
        headline=_headline(shown) if shown is not None else _waiting(book, now),
        ending=shown,
        evidence=_evidence(book, shown),
        verdicts=verdicts(book, shower, book.verdicts[-MOST_VERDICTS:]),
        verdict_count=len(book.verdicts),
        warnings=tuple(shower.text(warning) for warning in tree.warnings),
        signals=_signals(book, shower),
        gauges=tuple(_gauges(tree)),
        spend=tree.spend,
        acts=tuple(_act(index, view, shower) for index, view in acts[-MOST_ACTS:]),
        act_count=len(acts),
        picture=picture(tree),
        events=tree.events,
        turns=len(tree.turns),
        strip=_strip(tree),
        started_at=tree.started_at,
        now=tree.now,
    )


def _strip(tree: Trace) -> tuple[tuple[int, int, Tone], ...]:
    if len(tree.turns) > STRIP:
        return ()
    return tuple((index, turn.number, tone_of_turn(turn)) for index, turn in enumerate(tree.turns))


def _tone(tree: Trace, now: float) -> Tone:
    if tree.ending is not None:
        return words.tone_of(tree.outcome, tree.ending.reason)
    return "plain" if now - tree.now < LONG else "warn"


def _signals(book: Book, shower: Shower) -> tuple[tuple[Line, str, int], ...]:
    found = list(book.tree.signals.found.values())[:MOST_SIGNALS]
    lines = [(replace(one.line, head=shower.text(one.line.head)), one.first) for one in found]
    return tuple((told, book.tree.label(seq), book.turn_of(seq) or 0) for told, seq in lines)


def _waiting(book: Book, now: float) -> str:
    """What a run that has not ended waits for, and since when: a wait without an end has to be seen."""
    last = book.events[-1] if book.events else None
    match last.fact if last is not None else None:
        case ModelCallStarted(model=model):
            awaited = f"the model {model}"
        case ToolStarted(tool=tool):
            awaited = f"the tool {tool}"
        case WaitStarted(seconds=seconds):
            awaited = f"another try, due {words.duration(seconds)} later"
        case _:
            awaited = "its next step"
    since = now - book.tree.now
    told = f", for {words.duration(since)}" if since >= 1 else ""
    return f"It has not ended: it waits for {awaited}{told}."


def _headline(ending: RunEnded | RunEscalated) -> str:
    sentence = ending.detail or ending.reason.replace("-", " ")
    return sentence[:1].upper() + sentence[1:] if sentence.split(" ", 1)[0].isalpha() else sentence


def _evidence(book: Book, ending: RunEnded | RunEscalated | None) -> tuple[tuple[str, str, int], ...]:
    proofs = ending.evidence if ending is not None else ()
    return tuple((proof.name, proof.detail, proof.seq) for proof in proofs[:50])


def verdicts(book: Book, shower: Shower, chosen: Sequence[Event]) -> tuple[Given, ...]:
    """These verdicts of the run, masked, with their numbers."""
    numbers = {event.seq: number for number, event in enumerate(book.verdicts, 1)}
    found: list[Given] = []
    for event in chosen:
        fact = shower.fact(event.fact)
        assert isinstance(fact, VerdictGiven)
        turn = book.turn_of(event.seq)
        found.append(
            Given(numbers[event.seq], event.seq, turn or 0, book.tree.label(event.seq), fact, words.line(fact))
        )
    return tuple(found)


def _gauges(tree: Trace) -> list[Gauge]:
    spend, ceilings = tree.spend, tree.run.ceilings if tree.run is not None else Ceilings()
    money = None if ceilings.money is None else float(ceilings.money)
    return [
        _gauge("turns", spend.turns, f"{spend.turns:,}", ceilings.turns),
        _gauge("calls", spend.calls, f"{spend.calls:,}", ceilings.calls),
        _gauge("tokens", spend.tokens, f"{spend.tokens:,}", ceilings.tokens),
        _gauge("time", spend.seconds, words.duration(spend.seconds), ceilings.seconds, " s"),
        _gauge("money", float(spend.money or 0), "unknown" if spend.money is None else words.money(spend.money), money),
    ]


def _gauge(name: str, used: float, shown: str, limit: float | None, unit: str = "") -> Gauge:
    share = min(100.0, 100.0 * used / limit) if limit else None
    return Gauge(name, shown, "no ceiling" if limit is None else f"of {limit:,.10g}{unit}", share)


def _act(index: int, view: CallView, shower: Shower) -> Act:
    after = [effect for effect in view.effects if effect.phase == "after"]
    called = shower.text(words.called(view.call, 400))
    anchor = f"c{view.call.turn}-{view.call.position}"
    if view.state == "refused":
        return Act(called, Line("quiet", "not run", view.refusal or ""), index, anchor)
    if after:
        heads = {"yes": "confirmed", "no": "not there", "unknown": "unknown"}
        told = words.line(after[-1])
        return Act(called, Line(told.tone, heads[after[-1].answer], shower.text(told.text)), index, anchor)
    if view.state == "in-doubt":
        return Act(called, Line("bad", "in doubt", "it may still take effect"), index, anchor)
    tone: Tone = "bad" if view.state == "failed" else "warn"
    return Act(called, Line(tone, view.state if view.state != "done" else "not confirmed"), index, anchor)


# ── the turns ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Proofs:
    """For each anchor, the numbers of the verdicts it is evidence for."""

    of: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    @classmethod
    def read(cls, book: Book) -> Proofs:
        proofs = cls()
        pairs = [
            (seq, number)
            for number, event in enumerate(book.verdicts, 1)
            if isinstance(event.fact, VerdictGiven)
            for seq in event.fact.evidence
        ]
        ending = book.tree.ending
        pairs += [(proof.seq, 0) for proof in (ending.evidence if ending is not None else ())]
        for seq, number in pairs:
            kept = proofs.of.setdefault(anchor(book, seq), [])
            if number not in kept and len(kept) < 6:
                kept.append(number)
        return proofs


def anchor(book: Book, seq: int) -> str:
    """The name under which an event is found on a page: that of its call, where it belongs to one."""
    view = book.tree.call_at(seq)
    return f"e{seq}" if view is None else f"c{view.call.turn}-{view.call.position}"


def turn_pages(book: Book, shower: Shower, first: int, count: int = PER_PAGE, at: int | None = None) -> list[TurnPage]:
    """The turns from this index, masked. Of a long one the part with the event `at`, else its beginning."""
    proofs = Proofs.read(book)
    numbers = {event.seq: number for number, event in enumerate(book.verdicts, 1)}
    last = min(first + count, len(book.firsts))
    sought = None if at is None else book.turn_of(at)
    return [
        _turn(book, shower, index, proofs, numbers, at if index == sought else None)
        for index in range(max(first, 0), last)
    ]


def _turn(book: Book, shower: Shower, index: int, proofs: Proofs, numbers: dict[int, int], at: int | None) -> TurnPage:
    kept = shower.trace(book.turn(index)).turns
    shape = book.tree.turns[index]
    view = kept[0] if kept else shape
    view.tries = shape.tries
    before = _before(book, index)
    grown = None
    if before is not None and before.reply is not None and view.reply is not None:
        grown = view.reply.usage.input - before.reply.usage.input
    entries = _entries(view, proofs, numbers)
    sought = "" if at is None else anchor(book, at)
    place = next((n for n, entry in enumerate(entries) if entry.anchor == sought or entry.seq == at), 0)
    begin = place - place % MOST_ENTRIES
    end = begin + MOST_ENTRIES
    return TurnPage(
        index,
        view,
        tone_of_turn(shape),
        max(0.0, shape.started_at - book.tree.started_at),
        grown,
        _news(before),
        tuple(entries[begin:end]),
        entries[begin - MOST_ENTRIES] if begin else None,
        entries[end] if end < len(entries) else None,
        len(entries),
    )


def _before(book: Book, index: int) -> TurnView | None:
    """The turn of the loop before this one."""
    for place in range(index - 1, -1, -1):
        if book.tree.turns[place].purpose == "loop":
            return book.tree.turns[place]
    return None


def _news(before: TurnView | None) -> tuple[str, ...]:
    """What is new to the model since the turn before: everything else it has been told already."""
    if before is None:
        return ()
    notes = sum(1 for fact in before.verdicts if fact.note)
    said = sum(1 for mark in before.marks if isinstance(mark.fact, MessageReceived))
    back = sum(1 for call in before.calls if call.result is not None)
    found = [
        words.counted(back, "result") if back else "",
        words.counted(notes, "note from the harness", "notes from the harness") if notes else "",
        words.counted(said, "message") if said else "",
    ]
    return tuple(word for word in found if word)


def _entries(view: TurnView, proofs: Proofs, numbers: dict[int, int]) -> list[Entry]:
    found: list[tuple[tuple[int, int], Entry]] = []

    def proves(name: str) -> tuple[int, ...]:
        return tuple(proofs.of.get(name, ()))

    if view.reply is not None and view.reply_seq is not None:
        name = f"e{view.reply_seq}"
        found.append(((view.reply_seq, -1), Entry(view.reply_seq, "reply", name, proves(name), reply=view)))
    for call in view.calls:
        name = f"c{call.call.turn}-{call.call.position}"
        seq = call.seqs[0] if call.seqs else 0
        found.append(((seq, call.call.position), Entry(seq, "call", name, proves(name), call=call)))
    for mark in view.marks:
        fact = mark.fact
        if isinstance(fact, RunEnded | RunEscalated | WaitEnded):
            continue  # an end stands on top of the page, and the next try says that a wait is over
        name = f"e{mark.seq}"
        if isinstance(fact, VerdictGiven):
            number = numbers.get(mark.seq, 0)
            entry = Entry(
                mark.seq, "verdict", f"v{number}", proves(name), mark=words.line(fact), fact=fact, number=number
            )
        else:
            entry = Entry(mark.seq, "mark", name, proves(name), mark=words.line(fact))
        found.append(((mark.seq, 0), entry))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]
