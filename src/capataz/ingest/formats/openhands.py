"""OpenHands: lists of events (actions, observations), with the model's raw replies beside them or without, and the
resolver's results that hold such a list.

The resolver's own "success" is a model's opinion, so it is no label.
"""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON, Call, RunEnded
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats import chat
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.results import looks_wrong
from capataz.ingest.shape import items, mapping, moment, objects, pick, several, text

NAME = "openhands"
_SILENT = several("change_agent_state null agent_state_changed system recall recall_observation condensation condense")
_TALK = several("message finish think reject")
_PLAIN = several(
    "thought is_confirmed confirmation_state action_risk security_risk action source timestamp id message keep_prompt "
    "hidden blocking kernel_init_code include_extra translated_ipython_code impl_source timeout"
)
"""Arguments that say nothing of what was done."""


def looks(value: JSON) -> bool:
    events = _events(value)
    known = [event for event in events[:12] if isinstance(event.get("action"), str) or "observation" in event]
    if any("role" in event for event in known):
        return False
    return any("args" in event or "content" in event or "extras" in event or "cause" in event for event in known)


def _events(value: JSON) -> list[dict[str, JSON]]:
    return list(objects(mapping(value).get("history") if isinstance(value, dict) else value))


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    builder = context.builder(NAME)
    builder.role = None
    builder.id = text(pick(record, "instance_id", "id"))
    builder.task_key = text(pick(record, "instance_id"))
    builder.say(text(record.get("instruction")))
    told = _Teller(builder)
    for event in _events(value):
        told.event(event)
    yield from finished(builder)


class _Teller:
    """Tells one list of events."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._calls: dict[str, Call] = {}
        """By the id of the event that acted, and by the model's own call id."""
        self._replies: set[str] = set()
        self._open: list[Call] = []

    def event(self, event: dict[str, JSON]) -> None:
        action, observed = event.get("action"), event.get("observation")
        at = moment(event.get("timestamp"))
        if isinstance(action, str) and action not in _SILENT:
            self._act(event, action, at)
        elif isinstance(observed, str) and observed not in _SILENT:
            self._observe(event, observed, at)

    def _act(self, event: dict[str, JSON], action: str, at: float | None) -> None:
        said = mapping(event.get("args")) or event
        words = text(pick(said, "content", "final_thought", "thought")) or text(event.get("message"))
        source = text(event.get("source"))
        person = source == "user" or (not source and action == "message" and self._builder.empty)
        if action in _TALK:
            if not person:
                self._builder.reply(words, at=at)
            elif words != self._builder.task:
                self._builder.say(words, at=at)
            if action in ("finish", "reject"):
                done = action == "finish"
                ended = (
                    RunEnded("answered", "source-says-done", answer=words) if done else RunEnded("aborted", "rejected")
                )
                self._builder.end(ended)
        elif source != "user":
            self._call(event, action, said, at)

    def _call(self, event: dict[str, JSON], action: str, said: dict[str, JSON], at: float | None) -> None:
        meta = mapping(event.get("tool_call_metadata"))
        reply = mapping(meta.get("model_response"))
        key, id = text(reply.get("id")), text(meta.get("tool_call_id"))
        if key and key not in self._replies:
            self._replies.add(key)
            self._answered(reply, at)
        call = self._calls.get(id) if id else None
        if call is None:
            given = {name: value for name, value in said.items() if name not in _PLAIN}
            calls = self._builder.reply(text(said.get("thought")), (Asked(action, given, id),), at=at)
            call = calls[0] if calls else None
        if call is not None:
            self._calls[f"#{text(event.get('id'))}"] = call
            self._open.append(call)

    def _answered(self, reply: dict[str, JSON], at: float | None) -> None:
        """The model's whole reply, with all its calls, as it was received."""
        message = mapping(mapping(next(iter(items(reply.get("choices"))), None)).get("message"))
        usage = chat.usage_of(mapping(reply.get("usage")))
        asked = list(chat.message_calls(message))
        words, model = text(message.get("content")), text(reply.get("model"))
        for call in self._builder.reply(words, asked, usage=usage, at=at, model=model):
            self._calls[call.id] = call

    def _observe(self, event: dict[str, JSON], observed: str, at: float | None) -> None:
        call = self._calls.get(f"#{text(event.get('cause'))}") if event.get("cause") is not None else None
        call = call or (self._open[0] if self._open else None)
        if call is None:
            return
        if call in self._open:
            self._open.remove(call)
        extras = mapping(event.get("extras"))
        code = pick(mapping(extras.get("metadata")), "exit_code")
        code = code if code is not None else pick(event, "exit_code")
        wrong = observed == "error" or (isinstance(code, int) and code > 0)
        value = text(event.get("content")) or text(event.get("message"))
        self._builder.settle(call, value, error=wrong or looks_wrong(value), at=at)


FORMAT = DocumentFormat(NAME, looks, runs)
