"""What the model sees: the neutral history, as a fold over the log.

The prompt is never stored. It is rebuilt from facts, message by message, so that a live run, a resumed run and a
recorded one see the same. A message never changes once a model has seen it; until then a note of the runtime may
still be laid beside the results it belongs to (never between a call and its result: providers refuse that).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from capataz.events.facts import (
    Call,
    ConversationRecalled,
    EffectChecked,
    EscalationAnswered,
    Event,
    Fact,
    HistoryCompressed,
    MessageReceived,
    ModelReplied,
    ResultsShortened,
    RunStarted,
    ToolAnsweredLate,
    ToolFinished,
    ToolRefused,
    VerdictGiven,
)
from capataz.memory.compress import receipts, stubbed
from capataz.memory.message import (
    NOTE_MARK as NOTE_MARK,
    RECEIPTS_SHOWN,
    SUMMARY_MARK,
    Message as Message,
    shown as shown,
)

LATE_SHOWN = 2000
"""Characters of a late answer the model is shown."""


@dataclass(slots=True)
class Transcript:
    """The messages so far. `fold` takes the events of one run in order."""

    messages: list[Message] = field(default_factory=list[Message])
    _open: dict[int, Message | None] = field(default_factory=dict[int, "Message | None"])
    _seen: int = 0
    """Messages a model has seen: they are never touched again, but for compression."""
    summary: str = ""
    receipts: list[str] = field(default_factory=list[str])
    """Lines for the calls that have left the history."""
    gone: int = 0
    """How many messages of the whole transcript are no longer in `messages` as they were."""
    head: int = 0
    """How many messages at the beginning stand for those that are gone."""
    task_at: int = 0
    """Where the task of this run stands; what comes before it is the conversation's."""
    said: int = 0
    """How many messages of the conversation were recalled one by one."""
    said_from: int = 0
    """The position of the first of them in the conversation."""
    effects: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    _heard: list[Message] = field(default_factory=list[Message])
    """What was said while a batch was at work."""
    _late: list[str] = field(default_factory=list[str])
    """Notes that wait for the end of the batch: nothing may come between a call and its result."""

    def fold(self, event: Event) -> None:
        match event.fact:
            case RunStarted(task=task):
                self.messages.append(Message("user", task))
            case ModelReplied(purpose="loop" | "closing") as reply:
                self._reply(reply)
            case ToolFinished(call=call, result=result, error=error):
                self._answer(call, shown(result), error)
            case ToolRefused(call=call, message=message):
                self._answer(call, shown({"error": message}), True)
            case MessageReceived(role=role, text=text):
                self._hear(Message("user", text if role == "user" else f"{NOTE_MARK} {text}"))
            case EscalationAnswered(action="answer", text=text, by=by):
                self._hear(Message("user", f"[from {by}] {text}"))
            case VerdictGiven(note=note) if note:
                self._note(note)
            case fact:
                self._remember(fact)

    def _remember(self, fact: Fact) -> None:
        """The facts about memory itself."""
        match fact:
            case EffectChecked(turn=turn, position=position, phase="after", answer=answer):
                self.effects[turn, position] = {"yes": "confirmed", "no": "denied"}.get(answer, "in doubt")
            case HistoryCompressed(upto=upto, summary=summary):
                self._compress(upto, summary)
            case ResultsShortened(upto=upto):
                self._shorten(upto)
            case ConversationRecalled() as recalled:
                self._recall(recalled)
            case ToolAnsweredLate() as late:
                self._late.append(
                    f"The call of {late.tool} in turn {late.turn}, which was given up on, has answered late: "
                    f"{shown(late.result)[:LATE_SHOWN]}"
                )
                if not self._open:
                    self._close()
            case _:
                pass

    def _reply(self, reply: ModelReplied) -> None:
        self._close()
        said = Message("assistant", reply.text, reply.calls, thinking=reply.thinking, opaque=reply.opaque)
        self.messages.append(said)
        self._open = {call.position: None for call in reply.calls}
        self._seen = len(self.messages)

    def _answer(self, call: Call, text: str, error: bool) -> None:
        if call.position not in self._open:
            return
        self._open[call.position] = Message("tool", text, call=call, error=error)
        if all(self._open.values()):
            self._close()

    def _hear(self, message: Message) -> None:
        """What somebody says in the middle of a batch stands behind its results."""
        if self._open:
            self._heard.append(message)
        else:
            self.messages.append(message)

    def _close(self) -> None:
        """Results fold by position, whatever the order in which parallel calls ended."""
        self.messages.extend(message for _, message in sorted(self._open.items()) if message is not None)
        self._open = {}
        self.messages.extend(self._heard)
        self._heard = []
        late, self._late = self._late, []
        for note in late:
            self._note(note)

    def _note(self, note: str) -> None:
        self._close()
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role in ("tool", "user") and len(self.messages) > self._seen:
            self.messages[-1] = replace(last, text=f"{last.text}\n\n{NOTE_MARK} {note}")
        else:
            self.messages.append(Message("user", f"{NOTE_MARK} {note}"))

    # ── what leaves the history ──────────────────────────────────────────────────────────────────────────

    def position(self, index: int) -> int:
        """The position in the whole transcript of `messages[index]`."""
        return index - self.head + self.gone

    def _compress(self, upto: int, summary: str) -> None:
        """The messages before `upto` become a summary and receipts. What stays is the very same messages."""
        cut = upto - self.gone + self.head
        self.receipts.extend(receipts(self.coverable(cut), self.effects))
        self.summary = summary
        memory = Message("user", self._memory())
        # The task is never summarised: where it would go, it stands first from now on.
        standing = [self.messages[self.task_at], memory] if self.task_at < cut else [memory]
        self.task_at = 0 if self.task_at < cut else self.task_at - cut + 1
        self._seen = max(0, self._seen - cut) + len(standing)
        self.messages[:] = [*standing, *self.messages[cut:]]
        self.gone, self.head = upto, len(standing)

    def coverable(self, cut: int) -> list[Message]:
        """What a summary up to `messages[cut]` would stand for: neither the task nor an older summary."""
        if not self.head <= self.task_at < cut:
            return self.messages[self.head : cut]
        return self.messages[self.head : self.task_at] + self.messages[self.task_at + 1 : cut]

    @property
    def remembered(self) -> list[Message]:
        """What was recalled of the conversation and not summarised in this run: messages before the task."""
        return self.messages[self.head : self.task_at]

    @property
    def summarised(self) -> int:
        """The position in the conversation up to which the summary now holds."""
        return self.said_from + min(self.gone, self.said)

    def _memory(self) -> str:
        lines = self.receipts[-RECEIPTS_SHOWN:]
        left_out = len(self.receipts) - len(lines)
        older = [f"({left_out} older calls are not listed)"] if left_out else []
        done = "\n".join([*older, *lines])
        return f"{SUMMARY_MARK}\n{self.summary}" + (f"\n\nCalls made before:\n{done}" if done else "")

    def _shorten(self, upto: int) -> None:
        cut = upto - self.gone + self.head
        for index in range(self.head, min(cut, len(self.messages))):
            self.messages[index] = stubbed(self.messages[index])

    def _recall(self, recalled: ConversationRecalled) -> None:
        """What is remembered comes before the task that was just given."""
        self.summary, self.said, self.said_from = recalled.summary, len(recalled.said), recalled.upto
        before = [Message("user", self._memory())] if recalled.summary else []
        self.head = len(before)
        before += [Message(item.role, item.text) for item in recalled.said]
        self.messages[:0] = before
        self.task_at = len(before)
