"""Each fact in words: one short line for people, the same in the terminal, on the page and in live progress.

Only what the fact itself says is put into words here; nothing is looked up, judged or guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import orjson

from capataz.events.facts import (
    JSON,
    Answer3,
    AnswerRead,
    ApprovalAsked,
    BreakerClosed,
    BreakerOpened,
    Call,
    CapabilityLearned,
    CeilingReached,
    CheckEvaluated,
    ChildEnded,
    CompressionFailed,
    ConversationRecalled,
    EffectChecked,
    EscalationAnswered,
    Fact,
    Fault,
    HistoryCompressed,
    MessageReceived,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    ModelSwitched,
    OutputCapped,
    ResultsShortened,
    RunEnded,
    RunEscalated,
    RunLabelled,
    RunResumed,
    RunStarted,
    Spend,
    TickPassed,
    ToolFailed,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    VerdictGiven,
    WaitEnded,
    WaitStarted,
)

Tone = Literal["good", "bad", "warn", "plain", "quiet"]

_ACTIONS: Mapping[str, tuple[Tone, str]] = {
    "nudge": ("warn", "nudged"),
    "fail-turn": ("warn", "turn refused"),
    "stop": ("bad", "stopped"),
    "escalate": ("bad", "escalated"),
    "observe": ("quiet", "observed"),
}
_ANSWERS: Mapping[Answer3, Tone] = {"yes": "good", "no": "bad", "unknown": "warn"}
_OUTCOMES: Mapping[str, Tone] = {
    "completed": "good",
    "answered": "good",
    "partial": "warn",
    "escalated": "warn",
    "aborted": "bad",
}
_DOUBTS: Mapping[str, Tone] = {"no-action": "plain", "acts-failed": "warn", "noted": "warn"}
"""Reasons for which an answer is not shown as good: nothing was done, or what was seen on the way speaks against it."""
_STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and ends of lines, and what turns the direction of all text behind it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One fact in words. `evidence` are the sequence numbers that prove it, where it is a judgement."""

    tone: Tone
    head: str
    text: str = ""
    evidence: tuple[int, ...] = ()


def tone_of(outcome: str | None, reason: str = "") -> Tone:
    """How an outcome feels; "plain" while there is none, and no answer is good whose reason speaks against it."""
    if outcome == "answered" and reason in _DOUBTS:
        return _DOUBTS[reason]
    return "plain" if outcome is None else _OUTCOMES[outcome]


def line(fact: Fact) -> Line:
    """The fact in words."""
    if isinstance(fact, ModelCallStarted | ModelReplied | ModelCallFailed | AnswerRead):
        return _of_model(fact)
    if isinstance(fact, ModelSwitched | OutputCapped | WaitStarted | WaitEnded):
        return _of_trying(fact)
    if isinstance(fact, ToolFailed | BreakerOpened | BreakerClosed | CapabilityLearned):
        return _of_trouble(fact)
    if isinstance(fact, ToolRefused | ToolStarted | ToolFinished | EffectChecked | ChildEnded):
        return _of_tool(fact)
    if isinstance(fact, CheckEvaluated | VerdictGiven | CeilingReached | RunEnded):
        return _of_judgement(fact)
    if isinstance(fact, ApprovalAsked | EscalationAnswered | RunEscalated):
        return _of_people(fact)
    return _of_run(fact)


def _of_run(fact: Fact) -> Line:
    match fact:
        case RunStarted(agent=agent, task=task):
            return Line("plain", agent, task)
        case RunResumed(reason=reason, epoch=epoch):
            return Line("warn", "resumed", f"{reason} (epoch {epoch})")
        case MessageReceived(role=role, text=text):
            return Line("plain", "a person says" if role == "user" else "the runtime says", text)
        case TickPassed(waiting_for=waiting):
            return Line("quiet", "waiting", f"for {'itself' if waiting == 'own' else f'the {waiting}'}")
        case RunLabelled(success=success, by=by, detail=detail):
            word = {True: "a success", False: "a failure", None: "not labelled"}[success]
            return Line("plain", f"labelled by {by or 'someone'}", f"{word}{f': {detail}' if detail else ''}")
        case ConversationRecalled(said=messages):
            return Line("quiet", "recalls the conversation", counted(len(messages), "message"))
        case HistoryCompressed(upto=upto, summary=summary):
            return Line("quiet", "history compressed", f"what stood before message {upto}: {short(summary, 200)}")
        case CompressionFailed(reason=reason):
            return Line("warn", "history not compressed", reason)
        case ResultsShortened(upto=upto):
            return Line("quiet", "old results shortened", f"those before message {upto}")
        case _:  # a fact without words of its own is shown by its name rather than not at all
            return Line("quiet", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(fact).__name__).lower())


def _of_model(fact: ModelCallStarted | ModelReplied | ModelCallFailed | AnswerRead) -> Line:
    match fact:
        case ModelCallStarted(attempt=attempt, model=model, purpose=purpose):
            again = f", try {attempt + 1}" if attempt else ""
            return Line("quiet", "asks", f"{model} ({purpose}{again})")
        case ModelReplied(text=text, calls=calls):
            asked = ", ".join(called(call) for call in calls)
            return Line("plain", "says", short(text, 200)) if text or not asked else Line("plain", "asks for", asked)
        case ModelCallFailed(fault=fault, attempt=attempt):
            return Line("bad", f"call failed (try {attempt + 1})", faulted(fault))
        case AnswerRead(problem=problem):
            return Line("warn" if problem else "good", f"typed answer {'does not fit' if problem else 'read'}", problem)


def _of_trying(fact: ModelSwitched | OutputCapped | WaitStarted | WaitEnded) -> Line:
    match fact:
        case ModelSwitched(model=model, before=before, reason=reason):
            return Line("warn", "switched model", f"from {before} to {model}: {reason}")
        case OutputCapped(cap=cap, reason=reason):
            return Line("warn", f"asks for at most {counted(cap, 'token')}", reason)
        case WaitStarted(seconds=seconds, reason=reason):
            return Line("warn", f"waits {duration(seconds)}", reason)
        case WaitEnded():
            return Line("quiet", "tries again")


def _of_tool(fact: ToolRefused | ToolStarted | ToolFinished | EffectChecked | ChildEnded) -> Line:
    match fact:
        case ToolRefused(call=call, reason=reason, message=message):
            return Line("warn", f"refused {called(call)}", f"{reason}: {message}")
        case ToolStarted(tool=tool):
            return Line("quiet", "runs", tool)
        case ToolFinished(call=call, result=result, error=error, in_doubt=doubt):
            return Line(
                "bad" if error or doubt else "plain",
                called(call),
                ("in doubt: " if doubt else "") + short(said(result), 160),
            )
        case EffectChecked(phase=phase, answer=answer, detail=detail):
            tone = _ANSWERS[answer] if phase == "after" else "quiet"
            more = "" if detail.endswith(f"answered {answer}") else detail  # the head has said it
            return Line(tone, f"read-back {phase} the act: {answer}", more)
        case ChildEnded(agent=agent, outcome=outcome, run=run):
            return Line(tone_of(outcome), f"{agent} ended {outcome}", run)


def _of_trouble(fact: ToolFailed | BreakerOpened | BreakerClosed | CapabilityLearned) -> Line:
    match fact:
        case ToolFailed(call=call, attempt=attempt, fault=fault):
            return Line("warn", f"{called(call)} failed (try {attempt + 1})", faulted(fault))
        case BreakerOpened(of=of, name=name, failures=failures, seconds=seconds):
            words = f"{counted(failures, 'failure')} in a row: left alone for {duration(seconds)}"
            return Line("bad", f"breaker of {of} {name} opened", words)
        case BreakerClosed(of=of, name=name):
            return Line("good", f"breaker of {of} {name} closed", "it has answered again")
        case CapabilityLearned(model=model, parameter=parameter, advice=advice):
            return Line("warn", f"{model} does not take {parameter}", f"for the capability table: {advice}")


def _of_people(fact: ApprovalAsked | EscalationAnswered | RunEscalated) -> Line:
    match fact:
        case ApprovalAsked(shown=shown, reason=reason):
            return Line("warn", "asks for approval", f"{shown}: {reason}" if reason else shown)
        case EscalationAnswered(action=action, by=by, text=text):
            return Line("plain", f"{by or 'someone'} decided: {action.replace('-', ' ')}", text)
        case RunEscalated(reason=reason, detail=detail, to=to):
            return Line("warn", f"escalated to a {to}: {reason}", detail)


def _of_judgement(fact: CheckEvaluated | VerdictGiven | CeilingReached | RunEnded) -> Line:
    match fact:
        case CheckEvaluated(name=name, passed=passed, detail=detail):
            return Line("good" if passed else "plain", f"check {'passed' if passed else 'not passed'}: {name}", detail)
        case VerdictGiven(action=action, guard=guard, kind=kind, words=words, evidence=evidence):
            tone, word = _ACTIONS[action]
            return Line(tone, f"{word} · {guard} ({kind})" if guard != kind else f"{word} · {guard}", words, evidence)
        case CeilingReached(ceiling=ceiling, limit=limit, used=used):
            return Line("warn", f"ceiling of {limit:g} {ceiling} reached", f"{used:g} used")
        case RunEnded(outcome=outcome, reason=reason, detail=detail):
            return Line(tone_of(outcome, reason), f"{outcome}: {reason}", detail)


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────


def called(call: Call, limit: int = 100) -> str:
    """A call as one would write it: `refund(order_id="81", cents=1250)`."""
    arguments = ", ".join(f"{name}={short(said(value, quoted=True), 60)}" for name, value in call.arguments.items())
    return short(f"{call.tool}({arguments})", limit)


def said(value: JSON, *, quoted: bool = False) -> str:
    """A JSON value as text; a string as it is, unless it is to be `quoted`."""
    if isinstance(value, str) and not quoted:
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # integers beyond 64 bits, unpaired surrogates
        return json.dumps(value)


def harmless(text: str) -> str:
    """Text that steers neither a terminal nor what stands around it: nobody approves what reads the other way round.

    >>> harmless("pay \u202e001 to me")
    'pay �001 to me'
    """
    return _STEERING.sub("�", text)


def spelled(text: str) -> str:
    r"""JSON text with such characters in the way JSON writes them: it means the same.

    >>> spelled('{"to": "\u202e"}')
    '{"to": "\\u202e"}'
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def short(text: str, limit: int) -> str:
    """On one line and at most `limit` characters; what is cut is marked."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def faulted(fault: Fault) -> str:
    """A fault in words: its row, its reason and the provider's own message."""
    status = f" {fault.status}" if fault.status is not None else ""
    return f"{fault.row.replace('_', ' ')}{status}: {fault.message or fault.reason}"


def duration(seconds: float) -> str:
    """Seconds in the unit a person would choose."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def money(amount: Decimal | None) -> str:
    """Dollars. An unknown price is said to be unknown; it is never shown as nothing."""
    if amount is None:
        return "price unknown"
    cents = f"{amount:.2f}"
    return f"${cents}" if amount >= 1 or Decimal(cents) == amount else f"${amount:.4f}"


def spent(spend: Spend) -> str:
    """What a run used, on one line."""
    counts = (counted(spend.turns, "turn"), counted(spend.calls, "call"), counted(spend.tokens, "token"))
    return " · ".join((*counts, money(spend.money), duration(spend.seconds)))


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 turn", "1,200 tokens"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
