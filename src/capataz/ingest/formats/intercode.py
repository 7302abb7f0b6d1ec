"""InterCode results: parallel lists of actions and observations for one task, with the best reward reached.

Which environment it was (SQL, bash, Python, capture the flag) decides what an action does.
"""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON, Kind
from capataz.ingest.build import Asked, ImportedRun, finished
from capataz.ingest.commands import command_kind, sql_kind
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.shape import items, mapping, real, text

NAME = "intercode"


def looks(value: JSON) -> bool:
    history = mapping(mapping(value).get("turn_history"))
    return isinstance(history.get("actions"), list) and isinstance(history.get("observations"), list)


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    history = mapping(record.get("turn_history"))
    environment = text(record.get("environment")) or "intercode"
    builder = context.builder(NAME)
    # Its runner wrote the method into the file's name; `_file` is that name where records were put together.
    method = text(record.get("_file"))
    builder.id = ":".join(word for word in (environment, method, text(record.get("task_id"))) if word)
    builder.task_key = f"{environment}:{text(record.get('task_id'))}"
    builder.task_type = environment
    builder.model = text(record.get("_model"))
    builder.agent = environment
    builder.role = "acting"
    builder.say(text(record.get("query")))
    seen, valid = items(history.get("observations")), items(history.get("valid_action"))
    thoughts = items(history.get("thoughts")) or items(history.get("steps"))
    for index, action in enumerate(items(history.get("actions"))):
        statement = text(action)
        tool, kind = _tool(environment, statement)
        thought = text(thoughts[index]) if index < len(thoughts) else ""
        calls = builder.reply(thought, (Asked(tool, {"input": statement}, kind=kind),))
        if index < len(seen):
            wrong = index < len(valid) and valid[index] is False
            observation = seen[index]
            builder.settle(calls[0], observation, error=wrong or _wrong(observation))
    reward = real(mapping(record.get("summary")).get("max_reward"))
    if reward is not None:
        builder.label(reward >= 1, "max_reward", f"{reward:g}")
    yield from finished(builder)


def _tool(environment: str, action: str) -> tuple[str, Kind]:
    if action.split(None, 1)[:1] == ["submit"] or action.startswith("submit("):
        return "submit", "message"
    if "sql" in environment:
        return "sql", sql_kind(action)
    if "python" in environment:
        return "python", "exec"
    return "bash", command_kind(action)


def _wrong(observation: JSON) -> bool:
    return isinstance(observation, str) and observation.startswith(("Error executing query", "Malformed Action"))


FORMAT = DocumentFormat(NAME, looks, runs)
