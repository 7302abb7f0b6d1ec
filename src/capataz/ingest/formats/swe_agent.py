"""SWE-agent and mini-swe-agent trajectories.

SWE-agent keeps steps (action, observation, thought) and the chat beside them; where the chat has real tool calls
their names and arguments are used. mini-swe-agent keeps only a chat whose replies hold one fenced shell command each
and whose user messages hold what it printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from capataz.events.facts import JSON, RunEnded, Usage
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.commands import command_kind
from capataz.ingest.formats import chat
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.results import failed_exit, looks_wrong
from capataz.ingest.shape import arguments, items, mapping, moment, objects, parts, pick, real, several, text, whole

NAME = "swe-agent"
MINI = "mini-swe-agent"
_OWN = several(
    "open goto scroll_up scroll_down create edit insert search_dir search_file find_file submit "
    "str_replace_editor exit_forfeit bash connect_start connect_sendline debug_start decompile disassemble"
)
_FENCE = re.compile(r"```(?:mswea_bash_command|bash|sh)\s*\n(.*?)\n?```", re.S)
_SUBMITTED = ("submitted", "submitted (")


def looks(value: JSON) -> bool:
    if any("action" in step and "observation" in step for step in _steps(value)[:5]):
        return True
    history = list(objects(mapping(value).get("history")))[:4]
    return bool(history) and all("role" in message and "agent" in message for message in history)


def _steps(value: JSON) -> list[dict[str, JSON]]:
    return list(objects(mapping(value).get("trajectory")))


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    info = mapping(record.get("info"))
    builder = context.builder(NAME)
    builder.role = "acting"
    steps = _steps(value)
    if not steps:
        # Demonstrations keep the chat alone.
        for message in objects(record.get("history")):
            chat.tell(builder, message)
    asked = _chat(builder, record) if steps else {}
    for step in steps:
        action = text(step.get("action"))
        call = asked.pop(action, None) or _action(action)
        wrote = text(step.get("thought")) or text(step.get("response"))
        calls = builder.reply(wrote, (call,) if call else ())
        if calls:
            seen = text(step.get("observation"))
            seconds = real(step.get("execution_time")) or 0.0
            builder.settle(calls[0], seen, error=looks_wrong(seen), seconds=seconds)
    _spread(builder, info)
    _ended(builder, info)
    yield from finished(builder)


def _chat(builder: RunBuilder, record: dict[str, JSON]) -> dict[str, Asked]:
    """The task from the chat, and its structured calls by the action they became."""
    found: dict[str, Asked] = {}
    for message in objects(record.get("history")):
        role, content = text(message.get("role")), parts(message.get("content"))
        if role == "system":
            builder.instructions = content
        elif role == "user" and not builder.task and message.get("is_demo") is not True:
            builder.say(content)
        for call in objects(message.get("tool_calls")):
            function = mapping(call.get("function"))
            name = text(function.get("name"))
            found.setdefault(text(message.get("action")), Asked(name, arguments(function.get("arguments"))))
    return found


def _action(action: str) -> Asked | None:
    action = action.strip()
    if not action:
        return None
    verb = action.split(None, 1)[0]
    if verb in _OWN and verb != "bash":
        return Asked(verb, {"command": action}, kind=command_kind(action.split("\n", 1)[0]))
    return Asked("bash", {"command": action})


def _spread(builder: RunBuilder, info: dict[str, JSON]) -> None:
    stats = mapping(info.get("model_stats"))
    cost = real(stats.get("instance_cost"))
    money = None if cost is None else Decimal(str(cost))
    builder.spread(Usage(whole(stats.get("tokens_sent")), whole(stats.get("tokens_received")), money=money))


def _ended(builder: RunBuilder, info: dict[str, JSON]) -> None:
    status = text(info.get("exit_status"))
    if not status:
        return
    if status.lower().startswith(_SUBMITTED):
        builder.end(RunEnded("answered", "source-says-done", status))
    else:
        ceiling = any(word in status.lower() for word in ("cost", "context", "limit", "timeout"))
        builder.end(RunEnded("partial" if ceiling else "aborted", "ceiling" if ceiling else "source-error", status))


def looks_mini(value: JSON) -> bool:
    format_ = text(mapping(value).get("trajectory_format"))
    if format_.startswith("mini-swe-agent"):
        return True
    return any(
        text(message.get("role")) == "assistant" and _command(message) is not None
        for message in chat.messages_of(value)[:6]
    )


def _command(message: dict[str, JSON]) -> str | None:
    found = _FENCE.search(parts(message.get("content")))
    return found.group(1) if found else None


def runs_mini(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    builder = context.builder(MINI)
    builder.role = "acting"
    builder.task_key = text(record.get("instance_id"))
    waiting = False
    for message in chat.messages_of(value):
        command = _command(message) if text(message.get("role")) == "assistant" else None
        if command is not None and not items(message.get("tool_calls")):
            usage = chat.usage_of(mapping(pick(message, "usage")))
            builder.reply(parts(message.get("content")), (Asked("bash", {"command": command}),), usage=usage)
            waiting = True
        elif waiting and text(message.get("role")) == "user":
            seen = parts(message.get("content"))
            builder.result(seen, error=failed_exit(seen), at=moment(message.get("timestamp")))
            waiting = False
        else:
            chat.tell(builder, message)
    _ended(builder, mapping(record.get("info")))
    yield from finished(builder)


FORMAT = DocumentFormat(NAME, looks, runs)
MINI_FORMAT = DocumentFormat(MINI, looks_mini, runs_mini)
