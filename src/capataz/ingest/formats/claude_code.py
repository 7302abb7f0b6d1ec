"""Claude Code: session files (three generations), its stream-json output, and wrappers that hold such events.

One reply is written as several lines, one block each, that share the message's id and repeat its usage; lines of the
same id may have others between them. So the lines of a run are gathered first and each id becomes one reply, with
the largest usage seen. Sub-agents told in the same file are runs of their own, children of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from capataz.events.facts import JSON, RunEnded, Usage
from capataz.ingest.build import Asked, ImportedRun, RunBuilder
from capataz.ingest.formats import chat
from capataz.ingest.formats.base import Context, DocumentFormat, SessionFormat
from capataz.ingest.shape import items, mapping, moment, objects, parts, pick, real, several, text

NAME = "claude-code"
_TYPES = several(
    "user assistant system summary result file-history-snapshot queue-operation attachment progress custom-title "
    "last-prompt agent-name stream_event rate_limit_event"
)
_EMPTY = "(no content)"


def looks_line(value: JSON) -> bool:
    """A line of a session or of stream-json: typed, and carrying a session or a chain of ids."""
    line = mapping(value)
    if text(line.get("type")) not in _TYPES:
        return False
    if isinstance(line.get("message"), dict):
        message = mapping(line["message"])
        named = "role" in message or "uuid" in line or "sessionId" in line
        return named and "content" in message and line["type"] in ("user", "assistant")
    return any(key in line for key in ("sessionId", "session_id", "leafUuid", "messageId", "isSnapshotUpdate"))


class Lines:
    """Gathers lines per run and gives the runs at the end: a session file tells them interleaved."""

    def __init__(self, context: Context, format: str = NAME) -> None:
        self._context, self._format = context, format
        self._chains: dict[str, _Chain] = {}
        self._chain_of: dict[str, str] = {}
        self._session = ""
        self._held = 0

    def feed(self, value: JSON, line: int, at: float | None = None) -> Iterator[ImportedRun]:
        said = mapping(value)
        kind = text(said.get("type"))
        if kind not in ("user", "assistant", "result") and said.get("subtype") != "init":
            return
        self._held += 1
        if self._held > self._context.limits.run_events:
            return
        chain = self._chain(said, line)
        uuid = text(said.get("uuid"))
        if uuid and uuid in chain.seen:
            return
        chain.seen.add(uuid)
        chain.lines.append((moment(said.get("timestamp")) if at is None else at, said))
        yield from ()

    def close(self) -> Iterator[ImportedRun]:
        for key, chain in self._chains.items():
            run = _told(self.builder(key), chain)
            if run is not None:
                yield run

    def builder(self, key: str) -> RunBuilder:
        """The builder of one chain; the first one made of a session is the session itself."""
        chain = self._chains[key]
        if chain.builder is None:
            chain.builder = self._context.builder(self._format, chain.line)
            chain.builder.agent = NAME
            chain.builder.id = key
            chain.builder.parent = chain.parent
        return chain.builder

    def roots(self) -> list[RunBuilder]:
        """Builders of the runs that are no sub-agent's."""
        return [self.builder(key) for key, chain in self._chains.items() if chain.parent is None]

    def _chain(self, said: dict[str, JSON], line: int) -> _Chain:
        session = text(pick(said, "sessionId", "session_id")) or self._session
        self._session = session
        uuid = text(said.get("uuid"))
        key, parent = session, None
        sub = text(pick(said, "parent_tool_use_id", "agentId"))
        if not sub and said.get("isSidechain") is True:
            above = text(said.get("parentUuid"))
            sub = self._chain_of.get(above, "") or uuid
            self._chain_of[uuid] = sub
        if sub:
            key, parent = f"{session}/{sub}", session
        if key not in self._chains:
            self._chains[key] = _Chain(line, parent)
        return self._chains[key]


class _Chain:
    """The lines of one run."""

    def __init__(self, line: int, parent: str | None) -> None:
        self.line, self.parent = line, parent
        self.lines: list[tuple[float | None, dict[str, JSON]]] = []
        self.seen: set[str] = set()
        self.builder: RunBuilder | None = None


class _Reply:
    """All lines of one message id together."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thinking: list[str] = []
        self.asked: list[Asked] = []
        self.usage: Usage | None = None
        self.model = ""
        self.stop = ""

    def add(self, message: dict[str, JSON]) -> None:
        content = message.get("content")
        blocks = list(objects(content))
        words = parts(content)
        if words and words != _EMPTY and words not in self.texts:
            self.texts.append(words)
        self.thinking.extend(text(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
        for ask in chat.block_calls(blocks):
            if ask not in self.asked:
                self.asked.append(ask)
        self.usage = _largest(self.usage, chat.usage_of(mapping(message.get("usage"))))
        self.model = text(message.get("model")) or self.model
        self.stop = text(message.get("stop_reason")) or self.stop


def _largest(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return Usage(
        max(one.input, other.input),
        max(one.output, other.output),
        max(one.cache_read, other.cache_read),
        max(one.cache_write, other.cache_write),
        max(one.reasoning, other.reasoning),
    )


def _told(builder: RunBuilder, chain: _Chain) -> ImportedRun | None:
    replies: dict[str, _Reply] = {}
    for index, (_, said) in enumerate(chain.lines):
        if said.get("type") == "assistant":
            replies.setdefault(_id(said, index), _Reply()).add(mapping(said.get("message")))
    for index, (at, said) in enumerate(chain.lines):
        match text(said.get("type")):
            case "assistant":
                reply = replies.pop(_id(said, index), None)
                if reply is not None:
                    _replied(builder, reply, at)
            case "user":
                _heard(builder, said, at)
            case "result":
                _ended(builder, said)
            case _:
                _opened(builder, said)
    return builder.finish()


def _id(said: dict[str, JSON], index: int) -> str:
    return text(mapping(said.get("message")).get("id")) or text(said.get("uuid")) or str(index)


def _replied(builder: RunBuilder, reply: _Reply, at: float | None) -> None:
    builder.reply(
        "\n".join(reply.texts),
        reply.asked,
        usage=reply.usage,
        at=at,
        model=reply.model,
        stop=reply.stop,
        thinking="\n".join(word for word in reply.thinking if word),
    )


def _heard(builder: RunBuilder, said: dict[str, JSON], at: float | None) -> None:
    message = mapping(said.get("message"))
    for block in objects(message.get("content")):
        told = chat.block_result(block)
        if told is not None:
            builder.result(told[1], id=told[0], error=told[2], at=at)
    words = parts(message.get("content"))
    if words:
        own = said.get("isMeta") is True or said.get("isCompactSummary") is True
        builder.say(words, "runtime" if own else "user", at)


def _opened(builder: RunBuilder, said: dict[str, JSON]) -> None:
    builder.model = text(said.get("model")) or builder.model
    for name in items(said.get("tools")):
        if isinstance(name, str):
            builder.hints.setdefault(name, {})


def _ended(builder: RunBuilder, said: dict[str, JSON]) -> None:
    subtype, answer = text(said.get("subtype")), text(said.get("result"))
    if subtype == "success" and said.get("is_error") is not True:
        builder.end(RunEnded("answered", "source-says-done", answer=answer))
    elif "max_turns" in subtype or "budget" in subtype:
        builder.end(RunEnded("partial", "ceiling", subtype, answer))
    else:
        builder.end(RunEnded("aborted", "source-error", subtype, answer))
    cost = real(said.get("total_cost_usd"))
    whole = chat.usage_of(mapping(said.get("usage"))) or Usage()
    money = None if not cost else Decimal(str(cost))
    builder.spread(Usage(whole.input, whole.output, whole.cache_read, whole.cache_write, money=money))


def looks_wrapped(value: JSON) -> bool:
    """An object with the lines inside: `events` of {t, e}, or `loglines`."""
    record = mapping(value)
    events = list(objects(record.get("events")))[:3]
    if events and all(isinstance(event.get("e"), dict) for event in events):
        return any(looks_line(event["e"]) for event in events)
    return any(looks_line(line) for line in items(record.get("loglines"))[:5])


def runs_wrapped(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    lines = Lines(context)
    start = moment(record.get("agent_started_at")) or 0.0
    for index, event in enumerate(objects(record.get("events"))):
        passed = real(event.get("t"))
        at = None if passed is None else start + passed
        list(lines.feed(event.get("e"), context.line or index, at))
    for line in items(record.get("loglines")):
        list(lines.feed(line, context.line))
    roots = lines.roots()
    for number, builder in enumerate(roots):
        task, arm = text(record.get("_task")), text(record.get("_arm"))
        if task:
            builder.task_key = task.split("__", 1)[0]
            builder.id = f"{arm}/{task}" if number == 0 else f"{arm}/{task}#{number}"
        if text(record.get("instruction")):
            builder.say(text(record.get("instruction")))
        builder.role = "acting" if task else None
        resolved, tests = record.get("is_resolved"), mapping(record.get("parser_results"))
        if isinstance(resolved, bool) and tests:
            # Without results of tests the flag only says that the check itself never ran.
            builder.label(resolved, "tests", f"{sum(v == 'passed' for v in tests.values())} of {len(tests)} passed")
    yield from lines.close()


WRAPPED = DocumentFormat(NAME, looks_wrapped, runs_wrapped)
FORMAT = SessionFormat(NAME, looks_line, Lines)
