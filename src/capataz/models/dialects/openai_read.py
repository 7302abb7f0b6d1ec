"""Answers of chat completions, streamed or whole.

Servers deviate most here: deltas without index, one index for two calls, null deltas, chunks without choices, errors
under status 200, a finish reason that does not fit. So the calls decide, not the finish reason; a new id is a new
call; arguments are never glued together; and without a finish reason nothing has finished.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from capataz.events.facts import JSON, Fault, Opaque, Usage
from capataz.faults.classify import classify_stream_error
from capataz.models.dialects.base import Asked, Profile
from capataz.models.dialects.codec import dumps, is_cut
from capataz.models.dialects.reading import (
    BROKEN_STREAM,
    CUT_STREAM,
    asked,
    count,
    money,
    obj,
    objects,
    parsed,
    reply,
    text,
)
from capataz.ports import ModelRequest, RawCall, Reply

_STOPS = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "filter",
    "error": "error",
}


@dataclass(slots=True)
class _Growing:
    id: str = ""
    index: int | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    def complete(self) -> bool:
        whole = "".join(self.arguments).strip()
        return bool(whole) and not is_cut(whole)


@dataclass(slots=True)
class ChatReader:
    """Reads one stream. The end mark is a finish reason; `[DONE]` alone is none."""

    profile: Profile
    request: ModelRequest | None = None
    _text: list[str] = field(default_factory=list[str])
    _refusal: list[str] = field(default_factory=list[str])
    _thinking: list[str] = field(default_factory=list[str])
    _kept: dict[str, JSON] = field(default_factory=dict[str, JSON])
    _calls: list[_Growing] = field(default_factory=list[_Growing])
    _stop: str = ""
    _usage: JSON = None
    _model: str = ""
    _id: str = ""
    _fault: Fault | None = None

    def feed(self, event: str, data: bytes) -> None:
        if self._fault is not None or not data or data.strip() == b"[DONE]":
            return
        chunk = parsed(data)
        if chunk is None:
            self._fault = BROKEN_STREAM
        elif event == "error" or chunk.get("error") or ("choices" not in chunk and chunk.get("object") == "error"):
            self._fault = classify_stream_error(self.profile.name, chunk)
        else:
            self._chunk(chunk)

    def _chunk(self, chunk: dict[str, JSON]) -> None:
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        elif obj(chunk.get("x_groq")).get("usage"):
            self._usage = obj(chunk["x_groq"])["usage"]
        if not self._model:
            self._model, self._id = text(chunk.get("model")), text(chunk.get("id"))
        for choice in objects(chunk.get("choices"))[:1]:
            if choice.get("error"):
                self._fault = classify_stream_error(self.profile.name, choice)
                return
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta)
            if choice.get("finish_reason"):
                self._stop = text(choice["finish_reason"])

    def _delta(self, delta: dict[str, JSON]) -> None:
        content = delta.get("content")
        if content:
            _spoken(content, self._text, self._thinking)
        if delta.get("refusal"):
            self._refusal.append(text(delta["refusal"]))
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought:
            self._thinking.append(text(thought))
        _keep(delta, self.profile, self._kept)
        calls = delta.get("tool_calls")
        if calls:
            for call in objects(calls):
                self._grow(call)
        elif isinstance(delta.get("function_call"), dict):
            self._grow({"index": 0, "function": delta["function_call"]})

    def _grow(self, part: dict[str, JSON]) -> None:
        """Find the call this part belongs to, or begin one; never lay one call's arguments on another's."""
        function = obj(part.get("function"))
        name, id, index = text(function.get("name")), text(part.get("id")), part.get("index")
        at = index if isinstance(index, int) else None
        arguments = function.get("arguments")
        call = self._known(id, at, name, bool(arguments))
        if call is None:
            call = _Growing(id, at)
            self._calls.append(call)
        call.id = call.id or id
        if name and name != call.name:
            call.name += name
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else dumps(arguments).decode())

    def _known(self, id: str, index: int | None, name: str, says: bool) -> _Growing | None:
        """The call a part continues, or None when it begins a new one. `says`: the part brings arguments."""
        if id:
            for call in reversed(self._calls):
                if call.id == id and (index is None or call.index == index):
                    return None if name and says and call.complete() else call
        mine = [call for call in self._calls if index is None or call.index == index]
        last = mine[-1] if mine else None
        if last is None or (id and last.id):
            return None
        other = name != last.name and (index is None or bool(last.arguments))
        return None if name and ((says and last.complete()) or other) else last

    @property
    def failed(self) -> bool:
        return self._fault is not None

    def finish(self) -> Reply | Fault:
        if self._fault is not None:
            return self._fault
        if not self._stop:
            return CUT_STREAM
        if self._stop == "error":
            return Fault("transient", "stream-error", "the provider ended the stream with an error", status=200)
        calls = [RawCall(call.id, call.name, "".join(call.arguments)) for call in self._calls]
        said, refusal = "".join(self._text), "".join(self._refusal)
        stop = _STOPS.get(self._stop, self._stop)
        if refusal:
            said, stop, calls = said or refusal, "refusal", []
        return reply(
            asked(self.request),
            said,
            calls,
            stop,
            chat_usage(self._usage),
            id=self._id,
            model=self._model,
            thinking="".join(self._thinking),
            opaque=_opaque(self.profile, self._kept),
        )


def chat_whole(body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
    """Read an answer that came in one piece."""
    answer = parsed(body)
    if answer is None:
        return Fault("transient", "malformed-answer", "the answer is not JSON", status=200)
    choices = objects(answer.get("choices"))
    if answer.get("error") or (not choices and answer.get("object") == "error"):
        return classify_stream_error(profile.name, answer)
    if not choices:
        return Fault("transient", "no-choices", "the answer holds no choices", status=200)
    if choices[0].get("error"):
        return classify_stream_error(profile.name, choices[0])
    return _choice(choices[0], answer, profile, asked(request))


def _choice(choice: dict[str, JSON], answer: dict[str, JSON], profile: Profile, words: Asked) -> Reply | Fault:
    finish = choice.get("finish_reason")
    message = choice.get("message")
    if not finish or finish == "error" or not isinstance(message, dict):
        return Fault("transient", "unfinished-answer", "the answer has no finish reason", status=200)
    said: list[str] = []
    thinking: list[str] = []
    _spoken(message.get("content"), said, thinking)
    thinking.insert(0, text(message.get("reasoning_content") or message.get("reasoning")))
    calls = [_whole_call(call) for call in objects(message.get("tool_calls"))]
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [_whole_call({"function": message["function_call"]})]
    stop, refusal = _STOPS.get(text(finish), text(finish)), text(message.get("refusal"))
    if refusal:
        said, stop, calls = said or [refusal], "refusal", []
    kept: dict[str, JSON] = {}
    _keep(message, profile, kept)
    usage = chat_usage(answer.get("usage"))
    return reply(
        words,
        "".join(said),
        calls,
        stop,
        usage,
        id=text(answer.get("id")),
        model=text(answer.get("model")),
        thinking="".join(thinking),
        opaque=_opaque(profile, kept),
    )


def _whole_call(call: dict[str, JSON]) -> RawCall:
    function = obj(call.get("function"))
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else "" if arguments is None else dumps(arguments).decode()
    return RawCall(text(call.get("id")), text(function.get("name")), written)


def _spoken(content: JSON, said: list[str], thinking: list[str]) -> None:
    """Text, or a list of parts in which some servers put their thinking too."""
    if isinstance(content, str):
        said.append(content)
        return
    for part in objects(content):
        if part.get("type") == "thinking":
            _spoken(part.get("thinking"), thinking, thinking)
        else:
            said.append(text(part.get("text")))


def _keep(message: dict[str, JSON], profile: Profile, kept: dict[str, JSON]) -> None:
    """Gather the fields this provider wants back: text is continued, lists are lengthened."""
    for name in profile.kept_fields:
        value, before = message.get(name), kept.get(name)
        if isinstance(value, str):
            kept[name] = f"{text(before)}{value}"
        elif isinstance(value, list):
            kept[name] = [*cast("list[JSON]", before if isinstance(before, list) else []), *value]


def _opaque(profile: Profile, kept: dict[str, JSON]) -> Opaque | None:
    return Opaque(profile.name, dumps([kept]).decode()) if kept else None


def chat_usage(value: JSON) -> Usage:
    """Input includes what came from the cache, as everywhere in this dialect."""
    usage = obj(value)
    if not usage:
        return Usage(reported=False)
    inside, outside = obj(usage.get("prompt_tokens_details")), obj(usage.get("completion_tokens_details"))
    return Usage(
        count(usage.get("prompt_tokens")),
        count(usage.get("completion_tokens")),
        count(inside.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens")),
        count(inside.get("cache_write_tokens")),
        count(outside.get("reasoning_tokens")),
        money(usage.get("cost")),
    )
