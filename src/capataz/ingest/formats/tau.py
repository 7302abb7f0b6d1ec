"""tau-bench results: a chat between an agent and a simulated customer, the task, and the reward its database gave."""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON
from capataz.ingest.build import ImportedRun, finished
from capataz.ingest.formats import chat
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.shape import mapping, objects, pick, real, text

NAME = "tau-bench"


def looks(value: JSON) -> bool:
    record = mapping(value)
    return "reward" in record and "task_id" in record and bool(chat.messages_of(pick(record, "traj", "messages")))


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    builder = context.builder(NAME)
    task = text(record.get("task_id"))
    builder.id = f"task {task} trial {text(record.get('trial')) or '0'}"
    builder.task_key = f"{context.file}:{task}"
    builder.role = "talking"
    for message in objects(pick(record, "traj", "messages")):
        chat.tell(builder, message)
    reward = real(record.get("reward"))
    if reward is not None:
        builder.label(reward >= 1, "reward", f"{reward:g}")
    yield from finished(builder)


FORMAT = DocumentFormat(NAME, looks, runs)
