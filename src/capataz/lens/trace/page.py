"""One run as one HTML page that needs nothing else: no script, no outside request, no second file.

Why the run ended stands on top; below it each turn, with the verdicts drawn where they were given and their evidence
marked. Everything a model or a tool wrote is text here and never markup: the template escapes all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from capataz.events.facts import Ceilings, RunEnded, RunEscalated, VerdictGiven, WaitEnded
from capataz.lens import words
from capataz.lens.template import template
from capataz.lens.trace.fold import CallView, Trace, TurnView
from capataz.lens.words import Line, Tone

_LONGEST = 6_000
"""Characters of one text on the page. The log has all of it."""
_STATES: dict[str, Tone] = {"done": "plain", "failed": "bad", "refused": "warn", "in-doubt": "bad"}


def page(tree: Trace) -> str:
    """The HTML page of a run, whole."""
    verdicts = _verdicts(tree)
    return template("capataz.lens.trace", "run.html").render(
        tree=tree,
        run=tree.run,
        ending=tree.ending,
        tone=words.tone_of(tree.outcome, tree.ending.reason if tree.ending is not None else ""),
        headline=_headline(tree),
        verdicts=verdicts,
        numbers={verdict.seq: verdict.number for verdict in verdicts},
        proofs=_proofs(tree, verdicts),
        turns=[_Turn(tree, turn) for turn in tree.turns],
        gauges=_gauges(tree),
        effects=[view for turn in tree.turns for view in turn.calls if view.call.acting],
        started=_moment(tree.started_at),
        anchor=partial(_anchor, tree),
        effect=_effect,
        line=words.line,
        state_tone=_state_tone,
        called=_called,
        said=_said,
        clip=_clip,
        spent=words.spent,
        duration=words.duration,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """One thing in a turn: the reply, a call, or a mark. Only one of them is set."""

    seq: int
    reply: TurnView | None = None
    call: CallView | None = None
    mark: Line | None = None
    verdict: VerdictGiven | None = None


@dataclass(frozen=True, slots=True)
class _Turn:
    tree: Trace
    view: TurnView

    @property
    def offset(self) -> str:
        """Time since the run began."""
        return words.duration(max(0.0, self.view.started_at - self.tree.started_at))

    @property
    def tone(self) -> Tone:
        """The worst that happened in the turn, for the strip that shows the whole run."""
        tones: set[Tone] = {words.line(verdict).tone for verdict in self.view.verdicts}
        if self.view.waits:
            tones.add("warn")
        tones |= {_state_tone(call) for call in self.view.calls}
        if self.view.reply is None and self.view.failures:
            tones.add("bad")
        if any(call.confirmed for call in self.view.calls):
            tones.add("good")
        return "bad" if "bad" in tones else "warn" if "warn" in tones else "good" if "good" in tones else "plain"

    def entries(self) -> list[_Entry]:
        """What happened, in the order of the log; the calls of a reply right behind it."""
        found: list[tuple[tuple[int, int], _Entry]] = []
        if self.view.reply is not None and self.view.reply_seq is not None:
            found.append(((self.view.reply_seq, -1), _Entry(self.view.reply_seq, reply=self.view)))
        for call in self.view.calls:
            found.append(((call.seqs[0], call.call.position), _Entry(call.seqs[0], call=call)))
        for mark in self.view.marks:
            if isinstance(mark.fact, RunEnded | RunEscalated | WaitEnded):
                continue  # an end stands on top of the page, and the next try says that a wait is over
            verdict = mark.fact if isinstance(mark.fact, VerdictGiven) else None
            found.append(((mark.seq, 0), _Entry(mark.seq, mark=words.line(mark.fact), verdict=verdict)))
        return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True)
class _Gauge:
    """One thing that is spent, beside its ceiling. `share` in percent; None without a ceiling."""

    name: str
    used: str
    limit: str
    share: float | None


def _gauges(tree: Trace) -> list[_Gauge]:
    spend, ceilings = tree.spend, tree.run.ceilings if tree.run is not None else Ceilings()
    limit = None if ceilings.money is None else float(ceilings.money)
    return [
        _gauge("turns", spend.turns, f"{spend.turns}", ceilings.turns),
        _gauge("calls", spend.calls, f"{spend.calls}", ceilings.calls),
        _gauge("tokens", spend.tokens, f"{spend.tokens:,}", ceilings.tokens),
        _gauge("seconds", spend.seconds, words.duration(spend.seconds), ceilings.seconds),
        _gauge("money", float(spend.money or 0), "unknown" if spend.money is None else words.money(spend.money), limit),
    ]


def _gauge(name: str, used: float, shown: str, limit: float | None) -> _Gauge:
    share = min(100.0, 100.0 * used / limit) if limit else None
    return _Gauge(name, shown, "" if limit is None else f"of {limit:,g}", share)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A verdict with its number on the page and where in the run it was given."""

    number: int
    place: str
    seq: int
    fact: VerdictGiven


def _verdicts(tree: Trace) -> list[_Verdict]:
    marks = [mark for turn in tree.turns for mark in turn.marks]
    given = [(mark.seq, mark.fact) for mark in marks if isinstance(mark.fact, VerdictGiven)]
    return [_Verdict(number, tree.label(seq), seq, fact) for number, (seq, fact) in enumerate(given, 1)]


def _anchor(tree: Trace, seq: int) -> str:
    """The name under which an event is found on the page: that of its call, where it belongs to one."""
    view = tree.call_at(seq)
    return f"e{seq}" if view is None else f"c{view.call.turn}-{view.call.position}"


def _proofs(tree: Trace, verdicts: list[_Verdict]) -> dict[str, list[int]]:
    """For each anchor that proves something, the numbers of the verdicts it proves; 0 is the end of the run."""
    pairs = [(seq, verdict.number) for verdict in verdicts for seq in verdict.fact.evidence]
    pairs += [(proof.seq, 0) for proof in (tree.ending.evidence if tree.ending is not None else ())]
    found: dict[str, list[int]] = {}
    for seq, number in pairs:
        numbers = found.setdefault(_anchor(tree, seq), [])
        if number not in numbers:
            numbers.append(number)
    return found


def _headline(tree: Trace) -> str:
    """Why it ended, in one sentence."""
    ending = tree.ending
    if ending is None:
        return "It has not ended."
    sentence = ending.detail or ending.reason.replace("-", " ")
    first = sentence.split(" ", 1)[0]
    return sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence


def _effect(view: CallView) -> Line:
    """How an act stands in the world, as far as the log knows."""
    after = [effect for effect in view.effects if effect.phase == "after"]
    if view.state == "refused":
        return Line("quiet", "not run", view.refusal or "")
    if after:
        heads = {"yes": "confirmed", "no": "not there", "unknown": "unknown"}
        last = words.line(after[-1])
        return Line(last.tone, heads[after[-1].answer], last.text)
    if view.state == "in-doubt":
        return Line("bad", "in doubt", "it may still take effect")
    return Line("bad" if view.state == "failed" else "warn", view.state if view.state != "done" else "not confirmed")


def _state_tone(view: CallView) -> Tone:
    return _STATES.get(view.state, "quiet")


def _called(view: CallView) -> str:
    return _clip(words.called(view.call, 400))


def _said(view: CallView) -> str:
    return _clip(view.full if view.full is not None else words.said(view.result)) if view.result is not None else ""


def _clip(text: str) -> str:
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}\n… {len(whole) - _LONGEST:,} more characters"


def _moment(at: float) -> str:
    """A time as text, in UTC; empty where the log has no plausible one."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if 0 < at < 2**40 else ""
