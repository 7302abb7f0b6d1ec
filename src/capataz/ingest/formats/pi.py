"""pi and OpenClaw sessions: lines of typed entries, messages among them, usage and cost per message."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from capataz.events.facts import JSON, Usage
from capataz.faults.classify import classify_text
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats.base import Context, SessionFormat
from capataz.ingest.results import looks_wrong
from capataz.ingest.shape import arguments, mapping, moment, objects, parts, pick, real, text, whole

NAME = "pi"
_MIRROR = "delivery-mirror"
"""The model name under which OpenClaw repeats what it itself said to the person."""


def looks(value: JSON) -> bool:
    line = mapping(value)
    if line.get("type") == "session":
        return "version" in line and "id" in line and ("cwd" in line or "timestamp" in line)
    role = text(mapping(line.get("message")).get("role"))
    return line.get("type") == "message" and "parentId" in line and role in ("user", "assistant", "toolResult")


class Entries:
    """Fed the lines of one session; one run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._builder: RunBuilder | None = None

    def feed(self, value: JSON, line: int) -> Iterator[ImportedRun]:
        said = mapping(value)
        if self._builder is None:
            self._builder = self._context.builder(NAME, line)
        if said.get("type") == "session":
            self._builder.id = text(said.get("id"))
        elif said.get("type") == "message":
            _message(self._builder, mapping(said.get("message")), moment(said.get("timestamp")))
        yield from ()

    def close(self) -> Iterator[ImportedRun]:
        if self._builder is not None:
            yield from finished(self._builder)


def _message(builder: RunBuilder, message: dict[str, JSON], at: float | None) -> None:
    content = message.get("content")
    match text(message.get("role")):
        case "assistant":
            _assistant(builder, message, at)
        case "toolResult":
            value = parts(content)
            wrong = message.get("isError") is True or mapping(message.get("details")).get("status") == "error"
            builder.result(value, id=text(message.get("toolCallId")), error=wrong or looks_wrong(value), at=at)
        case "user":
            builder.say(parts(content), at=at)
        case _:
            builder.say(parts(content), "runtime", at)


def _assistant(builder: RunBuilder, message: dict[str, JSON], at: float | None) -> None:
    content = message.get("content")
    if message.get("model") == _MIRROR:
        builder.say(parts(content), "runtime", at)
        return
    stop = text(message.get("stopReason"))
    blocks = list(objects(content))
    asked = [
        Asked(text(block.get("name")) or "unknown", arguments(block.get("arguments")), text(block.get("id")))
        for block in blocks
        if block.get("type") == "toolCall"
    ]
    if stop == "error" and not asked and not parts(content):
        builder.failed(classify_text(text(message.get("errorMessage")), "model"), at)
        return
    thinking = "\n".join(text(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
    usage, model = _usage(mapping(message.get("usage"))), text(message.get("model"))
    builder.reply(parts(content), asked, usage=usage, at=at, model=model, stop=stop, thinking=thinking)


def _usage(said: dict[str, JSON]) -> Usage | None:
    if not said:
        return None
    read, wrote = whole(said.get("cacheRead")), whole(said.get("cacheWrite"))
    cost = real(pick(mapping(said.get("cost")), "total"))
    money = None if not cost else Decimal(str(cost))
    return Usage(whole(said.get("input")) + read + wrote, whole(said.get("output")), read, wrote, money=money)


FORMAT = SessionFormat(NAME, looks, Entries)
