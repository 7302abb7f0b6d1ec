"""LangChain agent steps: pairs of an action (tool, input, log) and its observation, printed or as JSON.

WorkBench results are such records with the steps as printed text and, where the print is missing, only the list of
calls. The log of an action is what the model wrote, and may hold imagined observations: it is kept as its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from capataz.events.facts import JSON, RunEnded
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats import literal
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.results import looks_wrong
from capataz.ingest.shape import arguments, items, mapping, pick, text

NAME = "langchain"
_GIVEN_UP = "Agent stopped due to iteration limit"
_UNKNOWN = "is not a valid tool"
_CALL = re.compile(r"([\w.]+?)(?:\.func)?\((.*)\)\s*", re.S)


def looks(value: JSON) -> bool:
    record = mapping(value)
    if isinstance(record.get("full_response"), str) and "function_calls" in record:
        return True
    return isinstance(record.get("intermediate_steps"), list)


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    printed = text(record.get("full_response"))
    told = mapping(literal.read(printed)) if printed else record
    if printed and not told:
        context.report.warn(context.file, context.line, "printed steps cannot be read: only the list of calls is used")
    builder = context.builder("workbench" if "function_calls" in record else NAME)
    _name(builder, record)
    builder.say(text(pick(record, "query", "input")) or text(told.get("input")))
    steps = items(told.get("intermediate_steps"))
    for step in steps:
        _step(builder, step)
    if not steps:
        _listed(builder, text(record.get("function_calls")))
    _close(builder, text(told.get("output")), text(record.get("error")))
    exact = record.get("_exact")
    if isinstance(exact, bool):
        builder.label(exact, "side effects equal the expected ones")
    yield from finished(builder)


def _name(builder: RunBuilder, record: dict[str, JSON]) -> None:
    builder.id = text(pick(record, "_id", "id", "run_id"))
    builder.model = text(pick(record, "_model", "model"))
    builder.task_type = text(pick(record, "_domain", "domain")) or None
    # A task of this benchmark is known by its words: the number in an id counts within one results file.
    builder.task_key = text(pick(record, "query", "input"))
    builder.role = "acting"


def _step(builder: RunBuilder, step: JSON) -> None:
    action, observation = step, None
    if isinstance(step, list) and step:
        action, observation = step[0], step[1] if len(step) > 1 else None
    said = mapping(action)
    said = {**mapping(said.get("kwargs")), **said} if "kwargs" in said else said
    if "action" in said and isinstance(said["action"], dict):
        said, observation = said["action"], pick(mapping(step), "observation", "result")
    tool = text(said.get("tool"))
    if not tool:
        return
    calls = builder.reply(text(said.get("log")), (Asked(tool, arguments(pick(said, "tool_input", "toolInput"))),))
    if calls:
        wrong = looks_wrong(observation) or (isinstance(observation, str) and _UNKNOWN in observation[:200])
        builder.settle(calls[0], observation, error=wrong)


def _listed(builder: RunBuilder, source: str) -> None:
    """Calls whose steps were lost (the run broke off): known by tool and arguments, without results."""
    for call in items(literal.read(source)):
        found = _CALL.fullmatch(text(call))
        if found is None:
            continue
        said = mapping(literal.read(f"f({found.group(2)})"))
        said.pop("__class__", None)
        builder.reply("", (Asked(found.group(1), said),))


def _close(builder: RunBuilder, output: str, error: str) -> None:
    if output.startswith(_GIVEN_UP) or error.startswith(_GIVEN_UP):
        builder.end(RunEnded("partial", "ceiling", output or error))
    elif error:
        builder.end(RunEnded("aborted", "source-error", error))
    elif output:
        builder.reply(output)


FORMAT = DocumentFormat(NAME, looks, runs)
