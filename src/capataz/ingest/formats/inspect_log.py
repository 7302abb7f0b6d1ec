"""inspect logs: a `.json` log with its samples, or the samples of an `.eval` archive one by one.

Times and usage come from the events of a sample where it has them. Long texts may be kept apart as attachments and
are put back. The other parts of an archive hold no run and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON, RunEnded, Usage
from capataz.ingest.build import ImportedRun, RunBuilder, finished
from capataz.ingest.formats import chat
from capataz.ingest.formats.base import Context, DocumentFormat
from capataz.ingest.results import looks_wrong
from capataz.ingest.shape import items, mapping, moment, objects, parts, pick, real, text, whole

NAME = "inspect"
_ATTACHED = "attachment://"


def looks(value: JSON) -> bool:
    return _is_sample(mapping(value)) or _is_frame(value)


def _is_sample(record: dict[str, JSON]) -> bool:
    return "epoch" in record and "messages" in record and "target" in record


def _is_frame(value: JSON) -> bool:
    record = mapping(value)
    if isinstance(record.get("eval"), dict) and ("plan" in record or "status" in record):
        return True
    first = mapping(next(iter(items(value)), None))
    return ("epoch" in first and "target" in first) or ("scorer" in first and "samples" in first)


def runs(value: JSON, context: Context) -> Iterator[ImportedRun]:
    record = mapping(value)
    if _is_sample(record):
        yield from finished(_sample(record, context, ""))
        return
    task = text(mapping(record.get("eval")).get("task"))
    for sample in objects(record.get("samples")):
        if "messages" in sample:
            yield from finished(_sample(sample, context, task))


def _sample(sample: dict[str, JSON], context: Context, task: str) -> RunBuilder:
    builder = context.builder(NAME)
    id = text(sample.get("id"))
    builder.id = text(sample.get("uuid")) or f"{context.file} sample {id} epoch {text(sample.get('epoch'))}"
    builder.task_key, builder.task_type = f"{task}:{id}", task or None
    attached = mapping(sample.get("attachments"))
    if isinstance(sample.get("input"), str):
        builder.say(_whole_text(text(sample["input"]), attached))
    times, spent = _measured(sample)
    replies = 0
    for message in objects(sample.get("messages")):
        # Older logs give messages no ids: then the replies are told apart by their order.
        named = message if "id" in message else {**message, "id": f"reply {replies}"}
        replies += message.get("role") == "assistant"
        _message(builder, named, attached, times, spent)
    totals = [mapping(used) for used in mapping(sample.get("model_usage")).values()]
    builder.spread(_usage(totals[0]) if totals else None)
    _outcome(builder, sample)
    return builder


def _message(
    builder: RunBuilder,
    message: dict[str, JSON],
    attached: dict[str, JSON],
    times: dict[str, float],
    spent: dict[str, Usage],
) -> None:
    content = message.get("content")
    words = _whole_text(parts(content), attached)
    role, id = text(message.get("role")), text(message.get("id"))
    if role == "user" and words.strip() == builder.task.strip():
        return
    if role == "tool":
        error = mapping(message.get("error"))
        value = text(error.get("message")) if error and not words else words
        call = text(message.get("tool_call_id"))
        builder.result(value, id=call, error=bool(error) or looks_wrong(value), at=times.get(call))
        return
    told: dict[str, JSON] = {**message, "content": words}
    told.pop("timestamp", None)
    if role == "assistant" and id in spent:
        used = spent[id]
        told["usage"] = {"prompt_tokens": used.input, "completion_tokens": used.output}
    chat.tell(builder, told, times.get(id))


def _whole_text(words: str, attached: dict[str, JSON]) -> str:
    return text(attached.get(words.removeprefix(_ATTACHED))) or words if words.startswith(_ATTACHED) else words


def _measured(sample: dict[str, JSON]) -> tuple[dict[str, float], dict[str, Usage]]:
    """When each reply and each result came (by message and call id), and what each reply used."""
    times: dict[str, float] = {}
    spent: dict[str, Usage] = {}
    replies = 0
    for event in objects(sample.get("events")):
        done = moment(pick(event, "completed", "timestamp"))
        if event.get("event") == "model":
            output = mapping(event.get("output"))
            choice = mapping(next(iter(items(output.get("choices"))), None))
            id = text(mapping(choice.get("message")).get("id")) or f"reply {replies}"
            replies += 1
            usage = _usage(mapping(output.get("usage")))
            if id and usage is not None:
                spent[id] = usage
        elif event.get("event") == "tool":
            id = text(event.get("id"))
        else:
            continue
        if id and done is not None:
            times[id] = done
    return times, spent


def _usage(said: dict[str, JSON]) -> Usage | None:
    if not said:
        return None
    read, wrote = whole(said.get("input_tokens_cache_read")), whole(said.get("input_tokens_cache_write"))
    # inspect counts as the provider does: where the total says so, the cached tokens stand beside the input.
    sent, got = whole(said.get("input_tokens")), whole(said.get("output_tokens"))
    apart = whole(said.get("total_tokens")) >= sent + got + read + wrote and (read or wrote)
    return Usage(sent + (read + wrote if apart else 0), got, read, wrote, whole(said.get("reasoning_tokens")))


def _outcome(builder: RunBuilder, sample: dict[str, JSON]) -> None:
    limit, error = mapping(sample.get("limit")), mapping(sample.get("error"))
    if limit:
        builder.end(RunEnded("partial", "ceiling", text(limit.get("type"))))
    elif error:
        builder.end(RunEnded("aborted", "source-error", text(error.get("message"))))
    for name, score in mapping(sample.get("scores")).items():
        value = mapping(score).get("value")
        good = _good(value)
        if good is not None:
            builder.label(good, name, text(value))
            return


def _good(value: JSON) -> bool | None:
    if isinstance(value, str):
        return {"C": True, "I": False}.get(value)
    number = real(value)
    if isinstance(value, bool):
        return value
    return None if number is None or number not in (0.0, 1.0) else number == 1.0


FORMAT = DocumentFormat(NAME, looks, runs)
