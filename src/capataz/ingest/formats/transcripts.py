"""Transcripts of several agents talking (Who&When), steps with one action and its echo (Agent-as-a-Judge), and ATIF.

In a transcript of several agents the speaker's name stands in the place of the model's. Code that a terminal answers
is a call of that terminal; a message addressed to another agent is a hand-off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from capataz.events.facts import JSON, Usage
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.results import failed_exit, looks_wrong
from capataz.ingest.shape import arguments, mapping, moment, objects, parts, pick, real, text, whole

_FENCE = re.compile(r"```(\w*)\n(.*?)```", re.S)
_HANDOFF = re.compile(r"(.+?) \(-> (.+?)\)")
_ACTED = re.compile(r"([A-Z][\w ]{2,60}?): ?(.*)", re.S)


def _talk(value: JSON) -> list[dict[str, JSON]]:
    return list(objects(mapping(value).get("history")))


def looks_talk(value: JSON) -> bool:
    history = _talk(value)
    spoken = [message for message in history[:6] if isinstance(message.get("content"), str)]
    return (
        bool(spoken) and all("role" in message or "name" in message for message in spoken) and "action" not in spoken[0]
    )


def runs_talk(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    builder = context.builder("transcript")
    question = text(pick(record, "question", "task", "query"))
    builder.id = ":".join(word for word in (text(record.get("_subset")), text(record.get("question_ID"))) if word)
    builder.task_key, builder.role = text(record.get("question_ID")) or question, "coordinating"
    builder.say(question)
    history = _talk(value)
    for index, message in enumerate(history):
        _spoken(builder, message, index, history)
    fault = text(record.get("mistake_reason"))
    if "mistake_step" in record:
        who, where = text(record.get("mistake_agent")), text(record.get("mistake_step"))
        builder.label(False, "people", f"{who} at message {where}: {fault}")
    yield from finished(builder)


def _spoken(builder: RunBuilder, message: dict[str, JSON], index: int, history: list[dict[str, JSON]]) -> None:
    words, who = parts(message.get("content")), _speaker(message)
    if _terminal(who):
        wrong = failed_exit(words[:200]) or "execution failed" in words[:80]
        if not builder.result(words, error=wrong):
            builder.say(words, "runtime")
        return
    if who.lower() in ("human", "user"):
        if words.strip() != builder.task.strip():
            builder.say(words)
        return
    handoff = _HANDOFF.fullmatch(who)
    if handoff is not None:
        call = Asked("handoff", {"to": handoff.group(2), "message": words}, kind="message")
        calls = builder.reply("", (call,), model=handoff.group(1))
        builder.settle(calls[0], "")
        return
    following = _speaker(history[index + 1]) if index + 1 < len(history) else ""
    fences = _FENCE.findall(words)
    if _terminal(following) and fences:
        run = Asked(fences[-1][0].lower() or "code", {"code": fences[-1][1]}, kind="exec")
        builder.reply(words, (run,), model=_agent(who))
        return
    builder.reply(words, model=_agent(who))


def _speaker(message: dict[str, JSON]) -> str:
    return text(message.get("name")) or text(message.get("role"))


def _agent(who: str) -> str:
    """The agent, without what some transcripts put behind its name (`Orchestrator (thought)`)."""
    return who.partition(" (")[0]


def _terminal(who: str) -> bool:
    low = who.lower()
    return "terminal" in low or "executor" in low


def _steps(value: JSON) -> list[dict[str, JSON]]:
    return [step for step in objects(value) if "step" in step and ("agent" in step or "environment" in step)]


def looks_steps(value: JSON) -> bool:
    return isinstance(value, list) and len(_steps(value[:3])) > 0


def runs_steps(value: JSON, context: Context) -> Iterator[ImportedRun]:
    builder = context.builder("agent-steps")
    builder.role = "acting"
    for step in _steps(value):
        words = text(step.get("user_message"))
        if words:
            builder.say(words)
        agent, used = mapping(step.get("agent")), mapping(step.get("step_usage"))
        action, thought = text(agent.get("action")), text(agent.get("thought"))
        if not action and not thought:
            continue
        cost = real(used.get("cost"))
        usage = Usage(
            whole(used.get("input_tokens")),
            whole(used.get("output_tokens")),
            money=None if cost is None else Decimal(str(cost)),
        )
        asked = (_acted(action),) if action else ()
        calls = builder.reply(thought, asked, usage=usage, model=text(used.get("model")))
        seen = step.get("environment")
        if calls and seen is not None:
            seconds = real(used.get("step_execution_time")) or 0.0
            builder.settle(calls[0], seen, error=looks_wrong(seen), seconds=seconds)
    yield from finished(builder)


def _acted(action: str) -> Asked:
    found = _ACTED.fullmatch(action)
    if found is None:
        return Asked(action.split(None, 1)[0][:60] if action.split() else "action", {"input": action})
    label, rest = found.group(1), found.group(2)
    if "command" in label.lower():
        return Asked("shell", {"command": rest})
    if "python" in label.lower():
        return Asked("python", {"code": rest}, kind="exec")
    return Asked(label, {"input": rest})


def looks_atif(value: JSON) -> bool:
    record = mapping(value)
    return text(record.get("schema_version")).startswith("ATIF") and isinstance(record.get("steps"), list)


def runs_atif(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    agent = mapping(record.get("agent"))
    builder = context.builder("atif")
    builder.id, builder.agent = text(record.get("session_id")), text(agent.get("name"))
    builder.model = text(agent.get("model_name"))
    for step in objects(record.get("steps")):
        _atif(builder, step, moment(step.get("timestamp")))
    total = mapping(record.get("final_metrics"))
    sent, got = whole(total.get("total_prompt_tokens")), whole(total.get("total_completion_tokens"))
    builder.spread(Usage(sent, got))
    yield from finished(builder)


def _atif(builder: RunBuilder, step: dict[str, JSON], at: float | None) -> None:
    words = parts(step.get("message"))
    if text(step.get("source")) != "agent":
        builder.say(words, "user" if step.get("source") == "user" else "runtime", at)
        return
    asked = [_asked(call) for call in objects(step.get("tool_calls"))]
    metrics = mapping(step.get("metrics"))
    cost = real(metrics.get("cost_usd"))
    usage = Usage(
        whole(metrics.get("prompt_tokens")),
        whole(metrics.get("completion_tokens")),
        whole(metrics.get("cached_tokens")),
        money=None if cost is None else Decimal(str(cost)),
    )
    thinking = text(step.get("reasoning_content"))
    builder.reply(words, asked, usage=usage, at=at, model=text(step.get("model_name")), thinking=thinking)
    wrong = mapping(step.get("extra")).get("tool_result_is_error") is True
    for result in objects(mapping(step.get("observation")).get("results")):
        value = parts(result.get("content"))
        builder.result(value, id=text(result.get("source_call_id")), error=wrong or looks_wrong(value), at=at)


def _asked(call: dict[str, JSON]) -> Asked:
    name = text(call.get("function_name")) or "unknown"
    return Asked(name, arguments(call.get("arguments")), text(call.get("tool_call_id")))


TALK = DocumentFormat("transcript", looks_talk, runs_talk)
STEPS = DocumentFormat("agent-steps", looks_steps, runs_steps)
ATIF = DocumentFormat("atif", looks_atif, runs_atif)
