"""Codex: session files (wrapped items, and the older bare ones) and the events `exec --json` prints.

Items arrive one by one; those between two outputs belong to one reply of the model. Token counts come as lines of
their own, after the reply they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON, RunEnded, Usage
from capataz.faults.classify import classify_text
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats.base import Context, SessionFormat
from capataz.ingest.results import failed_exit, looks_wrong
from capataz.ingest.shape import arguments, decode, items, mapping, moment, objects, parts, pick, several, text, whole

NAME = "codex"
_OUTER = several("session_meta response_item event_msg turn_context compacted")
_PRINTED = several("thread.started turn.started turn.completed turn.failed item.started item.updated item.completed")
_ITEMS = several(
    "function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call "
    "local_shell_call_output"
)
_CALLS = several("function_call custom_tool_call local_shell_call web_search_call mcp_tool_call")
_OUTPUTS = several("function_call_output custom_tool_call_output local_shell_call_output")


def looks(value: JSON) -> bool:
    line = mapping(value)
    kind = text(line.get("type"))
    if kind in _OUTER:
        return isinstance(line.get("payload"), dict)
    if kind in _PRINTED:
        return True
    if kind in _ITEMS and ("call_id" in line or "action" in line):
        return True
    return "instructions" in line and "id" in line and "timestamp" in line and "messages" not in line


class Rollout:
    """Fed the lines of one session; one run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._builder: RunBuilder | None = None
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._asked: list[Asked] = []
        self._usage: Usage | None = None
        self._at: float | None = None

    def feed(self, value: JSON, line: int) -> Iterator[ImportedRun]:
        said = mapping(value)
        if self._builder is None:
            self._builder = self._context.builder(NAME, line)
        self._at = moment(said.get("timestamp")) or self._at
        kind = text(said.get("type"))
        if kind in _PRINTED:
            self._printed(self._builder, kind, said)
            return
        payload = mapping(said.get("payload")) if kind in _OUTER else said
        if kind in ("session_meta", "turn_context") or "instructions" in said:
            self._meta(self._builder, payload)
        elif kind == "event_msg":
            self._event(self._builder, payload)
        elif kind != "compacted":
            self._item(self._builder, payload)
        yield from ()

    def close(self) -> Iterator[ImportedRun]:
        if self._builder is not None:
            self._flush(self._builder)
            yield from finished(self._builder)

    def _meta(self, builder: RunBuilder, payload: dict[str, JSON]) -> None:
        builder.id = builder.id or text(payload.get("id"))
        builder.model = text(payload.get("model")) or builder.model
        builder.instructions = builder.instructions or text(payload.get("instructions"))

    def _event(self, builder: RunBuilder, payload: dict[str, JSON]) -> None:
        kind = text(payload.get("type"))
        if kind == "token_count":
            last = mapping(mapping(payload.get("info")).get("last_token_usage"))
            self._usage = _usage(last) or self._usage
            self._flush(builder)
        elif kind in ("error", "stream_error"):
            self._flush(builder)
            builder.failed(classify_text(text(payload.get("message")), "model"), self._at)
        elif kind == "turn_aborted":
            builder.end(RunEnded("aborted", "source-error", text(payload.get("reason"))))

    def _item(self, builder: RunBuilder, item: dict[str, JSON]) -> None:
        kind = text(item.get("type"))
        if kind in _OUTPUTS:
            self._flush(builder)
            value = item.get("output")
            builder.result(value, id=text(item.get("call_id")), error=_wrong(value), at=self._at)
        elif kind in _CALLS:
            self._asked.append(_ask(item, kind))
        elif kind == "reasoning":
            self._thinking.extend(text(part.get("text")) for part in objects(item.get("summary")))
        elif item.get("role") == "assistant":
            if self._asked:
                self._flush(builder)
            self._texts.append(parts(item.get("content")))
        elif item.get("role") in ("user", "developer", "system"):
            self._flush(builder)
            words = parts(item.get("content"))
            own = item["role"] != "user" or words.startswith(("<environment_context", "<user_instructions", "# AGENTS"))
            builder.say(words, "runtime" if own else "user", self._at)

    def _printed(self, builder: RunBuilder, kind: str, said: dict[str, JSON]) -> None:
        builder.id = builder.id or text(said.get("thread_id"))
        if kind == "item.completed":
            self._done(builder, mapping(said.get("item")))
        elif kind == "turn.completed":
            self._usage = _usage(mapping(said.get("usage")))
            self._flush(builder)
            if self._usage is not None:
                builder.spread(self._usage)
        elif kind == "turn.failed":
            builder.failed(classify_text(text(mapping(said.get("error")).get("message")), "model"), self._at)

    def _done(self, builder: RunBuilder, item: dict[str, JSON]) -> None:
        """A finished item of the printed kind: call and result in one."""
        kind = text(pick(item, "type", "item_type"))
        if kind in ("agent_message", "assistant_message"):
            self._flush(builder)
            builder.reply(text(item.get("text")), at=self._at)
            return
        if kind in ("reasoning", "todo_list", "error", ""):
            return
        ask, value = _printed_call(item, kind)
        calls = builder.reply("", (ask,), at=self._at)
        code = item.get("exit_code")
        wrong = (isinstance(code, int) and code != 0) or item.get("status") == "failed"
        if calls:
            builder.settle(calls[0], value, error=wrong, at=self._at)

    def _flush(self, builder: RunBuilder) -> None:
        if not self._texts and not self._asked:
            return
        words, thinking = "\n".join(word for word in self._texts if word), "\n".join(self._thinking)
        builder.reply(words, self._asked, usage=self._usage, at=self._at, thinking=thinking)
        self._texts, self._thinking, self._asked, self._usage = [], [], [], None


def _ask(item: dict[str, JSON], kind: str) -> Asked:
    id = text(pick(item, "call_id", "id"))
    if kind == "local_shell_call":
        return Asked("shell", {"command": mapping(item.get("action")).get("command")}, id)
    if kind == "web_search_call":
        return Asked("web_search", mapping(item.get("action")), id)
    return Asked(text(item.get("name")) or kind, arguments(pick(item, "arguments", "input")), id)


def _printed_call(item: dict[str, JSON], kind: str) -> tuple[Asked, JSON]:
    if kind == "command_execution":
        return Asked("shell", {"command": item.get("command")}), item.get("aggregated_output")
    if kind == "file_change":
        paths = " ".join(text(change.get("path")) for change in objects(item.get("changes")))
        return Asked("apply_patch", {"path": paths, "changes": item.get("changes")}), ""
    if kind == "mcp_tool_call":
        name = ".".join(word for word in (text(item.get("server")), text(item.get("tool"))) if word)
        return Asked(name, arguments(item.get("arguments"))), pick(item, "result", "output", "error")
    if kind == "web_search":
        return Asked("web_search", {"query": item.get("query")}), item.get("results")
    return Asked(kind, {}), None


def _wrong(value: JSON) -> bool:
    """Codex puts a shell's exit code beside its output, as JSON or in the first line."""
    inner = decode(value)
    if isinstance(inner, dict):
        code = mapping(inner.get("metadata")).get("exit_code")
        return (isinstance(code, int) and code != 0) or inner.get("success") is False or looks_wrong(inner)
    words = parts(inner) if items(inner) else text(inner)
    return failed_exit(words[:300]) or looks_wrong(words)


def _usage(said: dict[str, JSON]) -> Usage | None:
    if not said:
        return None
    return Usage(
        whole(said.get("input_tokens")),
        whole(said.get("output_tokens")),
        whole(said.get("cached_input_tokens")),
        0,
        whole(said.get("reasoning_output_tokens")),
    )


FORMAT = SessionFormat(NAME, looks, Rollout)
