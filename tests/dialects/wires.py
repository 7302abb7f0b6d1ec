"""Bodies of any dialect read back in neutral words, and the named checks of the case files as methods."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from capataz.models.dialects import DIALECTS, Profile
from capataz.models.dialects.base import SENT
from capataz.models.dialects.codec import neutral_names, wire_name
from capataz.ports import ModelRequest
from capataz.testing.wire import check_anthropic, check_bedrock, check_gemini, check_openai_chat, check_responses
from tests.dialects.given import Case, profile_of, request_of


def strict(body: bytes, profile: Profile, model: str = "") -> list[str]:
    """The findings of the strict validator in front of this provider."""
    checks: dict[str, Callable[[], list[str]]] = {
        "anthropic": lambda: check_anthropic(body),
        "openai": lambda: check_openai_chat(body, profile.name),
        "openai-responses": lambda: check_responses(body),
        "gemini": lambda: check_gemini(body, model),
        "bedrock": lambda: check_bedrock(body),
    }
    return checks[profile.dialect]()


@dataclass
class Turn:
    """One wire message in neutral words, whatever its dialect."""

    role: str
    texts: list[str] = field(default_factory=list)
    uses: list[tuple[str, str, Any]] = field(default_factory=list)
    results: list[tuple[str, str, bool]] = field(default_factory=list)
    images: int = 0
    raw: Any = None


def turns_of(body: dict[str, Any]) -> list[Turn]:
    if "contents" in body:
        return [_gemini_turn(content) for content in body["contents"]]
    if "input" in body:
        return [_item_turn(item) for item in body["input"]]
    return [_turn(message) for message in body["messages"]]


def _gemini_turn(content: dict[str, Any]) -> Turn:
    turn = Turn({"model": "assistant"}.get(content["role"], content["role"]), raw=content)
    for part in content["parts"]:
        if "text" in part:
            turn.texts.append(part["text"])
        elif "functionCall" in part:
            turn.uses.append((part["functionCall"]["name"], part["functionCall"]["name"], part["functionCall"]["args"]))
        elif "functionResponse" in part:
            answer = part["functionResponse"]
            turn.results.append((answer["name"], str(answer["response"]), "error" in answer["response"]))
        else:
            turn.images += 1
    return turn


def _item_turn(item: dict[str, Any]) -> Turn:
    if item["type"] == "function_call":
        return Turn("assistant", uses=[(item["call_id"], item["name"], orjson.loads(item["arguments"]))], raw=item)
    if item["type"] == "function_call_output":
        return Turn("tool", results=[(item["call_id"], item["output"], "error" in item["output"])], raw=item)
    if item["type"] == "reasoning":
        return Turn("assistant", raw=item)
    content = item["content"]
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    images = 0 if isinstance(content, str) else sum(part["type"] == "input_image" for part in content)
    return Turn(item["role"], parts, images=images, raw=item)


def _turn(message: dict[str, Any]) -> Turn:
    turn = Turn(message["role"], raw=message)
    content: Any = message.get("content")
    if message["role"] == "tool":
        turn.results.append((message["tool_call_id"], content, "error" in content))
    elif isinstance(content, str):
        turn.texts.append(content)
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "tool_use" or "toolUse" in part:
            use = part.get("toolUse") or part
            turn.uses.append((use.get("id") or use.get("toolUseId"), use["name"], use["input"]))
        elif part.get("type") == "tool_result" or "toolResult" in part:
            done = part.get("toolResult") or part
            text = done["content"] if isinstance(done["content"], str) else str(done["content"])
            error = done.get("is_error") or done.get("status") == "error"
            turn.results.append((done.get("tool_use_id") or done.get("toolUseId"), text, bool(error)))
        elif "text" in part:
            turn.texts.append(part["text"])
        elif "image" in str(part.get("type")) or "image" in part:
            turn.images += 1
    for call in message.get("tool_calls") or []:
        function = call["function"]
        turn.uses.append((call["id"], function["name"], orjson.loads(function["arguments"])))
    return turn


@dataclass
class Wire:
    """A body, with the named checks of the case files as methods."""

    case: Case
    profile: Profile
    request: ModelRequest
    data: bytes
    body: dict[str, Any] = field(init=False)
    turns: list[Turn] = field(init=False)

    def __post_init__(self) -> None:
        self.body = orjson.loads(self.data)
        self.turns = turns_of(self.body)

    def check(self, name: str, *args: Any) -> None:
        method = getattr(self, f"is_{name}", None)
        if method is None:
            raise NotImplementedError(f"the check {name!r} of case {self.case['id']} is not known")
        assert method(*args), f"{self.case['id']}: {name}{args} does not hold of {self.data.decode()}"

    # ── turns ──

    def is_roles_alternate(self) -> bool:
        roles = [turn.role for turn in self.turns if turn.role != "tool"]
        return all(one != two for one, two in pairwise(roles))

    def is_first_role(self, role: str) -> bool:
        return self.turns[0].role == role

    def is_last_role(self, role: str) -> bool:
        return self.turns[-1].role == role

    def is_no_role(self, role: str) -> bool:
        no_system = role != "system" or not (self.body.get("system") or self.body.get("instructions"))
        return no_system and all(turn.role != role for turn in self.turns)

    def is_system_count(self, number: int) -> bool:
        return sum(turn.role == "system" for turn in self.turns) + ("system" in self.body) == number

    is_one_system = is_single_system = lambda self: self.is_system_count(1)

    def is_no_empty_assistant(self) -> bool:
        said = [turn for turn in self.turns if turn.role == "assistant" and turn.raw.get("type") != "reasoning"]
        return all("".join(turn.texts).strip() or turn.uses for turn in said)

    def is_no_empty_text_block(self) -> bool:
        def full(turn: Turn, text: str) -> bool:
            return bool(text.strip() or (turn.uses and isinstance(turn.raw["content"], str)))

        return all(full(turn, text) for turn in self.turns for text in turn.texts)

    is_no_blank_text_block = is_no_empty_text = is_no_empty_text_block

    def is_content_is_string_everywhere(self) -> bool:
        return all(isinstance(turn.raw["content"], str) for turn in self.turns)

    def is_no_null_content(self) -> bool:
        return all(turn.raw["content"] is not None for turn in self.turns)

    def is_text_contains(self, text: str) -> bool:
        return text in self.data.decode()

    def is_no_user_right_after_tool(self) -> bool:
        pairs = pairwise(self.turns)
        return all(not (one.role == "tool" and two.role == "user") for one, two in pairs)

    # ── calls ──

    def _uses(self) -> list[tuple[str, str, Any]]:
        return [use for turn in self.turns for use in turn.uses]

    def is_tool_use_count(self, number: int) -> bool:
        return len(self._uses()) == number

    def is_unique_tool_ids(self) -> bool:
        ids = [use[0] for use in self._uses()]
        return len(set(ids)) == len(ids)

    def is_tool_ids_match(self, pattern: str) -> bool:
        ids = [use[0] for use in self._uses()] + [done[0] for turn in self.turns for done in turn.results]
        return bool(ids) and all(re.search(pattern, id) for id in ids)

    def is_every_tool_call_answered(self) -> bool:
        return sorted(use[0] for use in self._uses()) == sorted(done[0] for turn in self.turns for done in turn.results)

    def is_every_tool_use_answered_next_turn(self) -> bool:
        for one, two in zip(self.turns, [*self.turns[1:], Turn("none")], strict=True):
            if one.uses and [use[0] for use in one.uses] != [done[0] for done in two.results]:
                return False
        return True

    def is_results_before_text(self) -> bool:
        return not strict(self.data, self.profile)

    def is_no_orphan_tool_result(self) -> bool:
        seen: set[str] = set()
        for turn in self.turns:
            if any(done[0] not in seen for done in turn.results):
                return False
            seen |= {use[0] for use in turn.uses}
        return True

    def is_tool_messages_contiguous_after_call(self) -> bool:
        open_ids: set[str] = set()
        for turn in self.turns:
            if open_ids and turn.role != "tool":
                return False
            open_ids = (open_ids | {use[0] for use in turn.uses}) - {done[0] for done in turn.results}
        return not open_ids

    def is_synthetic_error_result_for(self, id: str) -> bool:
        done = [done for turn in self.turns for done in turn.results if done[0] == id]
        return len(done) == 1 and done[0][2] and "unknown" in done[0][1]

    def is_no_empty_tool_result(self) -> bool:
        return all(done[1].strip() for turn in self.turns for done in turn.results)

    is_tool_result_not_empty = is_tool_result_nonempty = is_no_empty_tool_result

    def is_tool_input_is_object(self) -> bool:
        return all(isinstance(use[2], dict) for use in self._uses())

    is_tool_arguments_are_json = is_arguments_parse = is_tool_arguments_valid_json = is_tool_input_is_object

    def is_calls_last_in_turn(self) -> bool:
        kinds = [bool(turn.uses) for turn in self.turns if turn.role == "assistant"]
        return kinds == sorted(kinds)

    def is_toolconfig_or_no_tool_blocks(self) -> bool:
        return "toolConfig" in self.body or not any(turn.uses or turn.results for turn in self.turns)

    def is_function_response_not_mixed_with_text(self) -> bool:
        return all(not (turn.results and turn.texts) for turn in self.turns)

    # ── thinking ──

    def is_thinking_block_first_with_signature(self, signature: str) -> bool:
        turn = next(turn for turn in self.turns if turn.role == "assistant")
        first = turn.raw["content"][0]
        return bool(first["type"] == "thinking" and first["signature"] == signature)

    def is_redacted_thinking_present(self, data: str) -> bool:
        return {"type": "redacted_thinking", "data": data} in self.turns[1].raw["content"]

    def is_absent_anywhere(self, text: str) -> bool:
        return text not in self.data.decode()

    def is_present_anywhere(self, text: str) -> bool:
        return text in self.data.decode()

    # ── images ──

    def is_tool_message_text_only(self) -> bool:
        return all(isinstance(turn.raw["content"], str) for turn in self.turns if turn.role == "tool")

    def is_image_in_following_user_message(self) -> bool:
        last = max(at for at, turn in enumerate(self.turns) if turn.role == "tool" or turn.results)
        return self.turns[last + 1].role == "user" and self.turns[last + 1].images > 0

    def is_image_in_tool_result(self) -> bool:
        return any("image" in done[1] for turn in self.turns for done in turn.results)

    # ── settings and tools ──

    def _params(self) -> dict[str, Any]:
        config = {**self.body, **self.body.get("generationConfig", {}), **self.body.get("inferenceConfig", {})}
        names = {"topP": "top_p", "maxOutputTokens": "max_output_tokens", "topK": "top_k"}
        return {**config, **{ours: config[theirs] for theirs, ours in names.items() if theirs in config}}

    def is_absent(self, name: str) -> bool:
        return name not in self._params()

    def is_present(self, name: str) -> bool:
        return name in self._params()

    def is_equals(self, name: str, value: Any) -> bool:
        return bool(self._params().get(name) == value)

    def is_not_both(self, one: str, two: str) -> bool:
        return not {one, two} <= self._params().keys()

    def is_drop_recorded(self, name: str) -> bool:
        return any(name in note for note in self.request.memo[SENT].notes)

    def is_tool_choice_in(self, *choices: str) -> bool:
        choice = self.body.get("tool_choice", "auto")
        return (choice["type"] if isinstance(choice, dict) else choice) in choices

    def _tools(self) -> list[tuple[str, Any, Any]]:
        made: list[tuple[str, Any, Any]] = []
        for tool in self.body.get("tools", self.body.get("toolConfig", {}).get("tools", [])):
            inner = tool.get("functionDeclarations") or [tool.get("function") or tool.get("toolSpec") or tool]
            for one in inner:
                schema = (
                    one.get("parameters") or one.get("input_schema") or one.get("inputSchema", {}).get("json") or {}
                )
                made.append((one["name"], schema, one))
        return made

    def is_tool_names_match(self, pattern: str) -> bool:
        names = [name for name, _, _ in self._tools()] + [use[1] for use in self._uses()]
        return bool(names) and all(re.search(pattern, name) for name in names)

    def is_tool_name_reversible(self) -> bool:
        names = [tool.name for tool in self.request.tools]
        back = neutral_names(names)
        return (
            [back.get(wire, wire) for wire, _, _ in self._tools()]
            == names
            == [back.get(wire_name(n), n) for n in names]
        )

    def is_tool_not_strict(self, name: str) -> bool:
        return all(not one.get("strict") for wire, _, one in self._tools() if wire == wire_name(name))

    def is_tool_strict(self, name: str) -> bool:
        return any(one.get("strict") is True for wire, _, one in self._tools() if wire == wire_name(name))

    def is_schema_root_lacks(self, *words: str) -> bool:
        return bool(self._tools()) and all(not set(words) & schema.keys() for _, schema, _ in self._tools())

    def is_schema_lacks_anywhere(self, *words: str) -> bool:
        return bool(self._tools()) and all(not set(words) & set(_keywords(schema)) for _, schema, _ in self._tools())

    def is_cache_marks_at_most(self, number: int) -> bool:
        return self.data.count(b'"cache_control"') <= number

    is_max_cache_marks = is_cache_control_count_max = is_cache_marks_at_most

    def is_deterministic(self) -> bool:
        again = request_of(self.case, self.profile)
        return DIALECTS[self.profile.dialect].encoder(self.profile).body(again) == self.data


def _keywords(schema: Any) -> list[str]:
    """Every keyword of a schema, at any depth; names of properties are not keywords."""
    if not isinstance(schema, dict):
        return []
    found = list(schema)
    for key, value in schema.items():
        if key == "properties":
            found += [word for item in value.values() for word in _keywords(item)]
        elif isinstance(value, list):
            found += [word for item in value for word in _keywords(item)]
        else:
            found += _keywords(value)
    return found


def wire(case: Case) -> Wire:
    """The body this case leads to."""
    profile = profile_of(case)
    request = request_of(case, profile)
    return Wire(case, profile, request, DIALECTS[profile.dialect].encoder(profile).body(request))
