"""Bedrock Converse as the provider enforces it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import cast

from capataz.testing.wire.parts import (
    Findings,
    Obj,
    check_list,
    check_name,
    check_number,
    check_root,
    check_unique,
    full,
    objects,
    read,
)

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_KINDS = frozenset(("text", "image", "toolUse", "toolResult", "reasoningContent", "document", "cachePoint"))


def check_bedrock(body: bytes | str | Obj) -> list[str]:
    """What Bedrock would refuse in this body; nothing when it is fine."""
    found = Findings()
    made = read(body, found)
    if made is None:
        return found
    config = cast("Obj", made.get("inferenceConfig") or {})
    check_number(config, "temperature", 0, 1, found)
    for block in objects(made.get("system")):
        found.need(full(block.get("text")), "an empty system block")
    messages = check_list(made.get("messages"), "messages", found)
    roles = [message.get("role") for message in messages]
    found.need(set(roles) <= {"user", "assistant"}, f"roles {sorted(set(map(str, roles)))}")
    found.need(not roles or (roles[0] == "user" and roles[-1] == "user"), "the user is not first and last")
    for one, two in pairwise(roles):
        found.need(one != two, f"two turns of {one} in a row")
    tools = cast("Obj", made["toolConfig"]).get("tools") if "toolConfig" in made else None
    used = _pairs(messages, found)
    if tools is None:
        found.need(not used, "calls in the history and no toolConfig")
    else:
        specs = [cast("Obj", tool.get("toolSpec") or {}) for tool in check_list(tools, "toolConfig.tools", found)]
        for at, spec in enumerate(specs):
            check_name(spec.get("name"), f"tools[{at}]", found)
            check_root(cast("Obj", spec.get("inputSchema") or {}).get("json"), f"tools[{at}]", found)
            found.need("description" not in spec or full(spec["description"]), f"tools[{at}]: an empty description")
        check_unique([spec.get("name") for spec in specs], "tool names", found)
    return found


def _pairs(messages: list[Obj], found: Findings) -> bool:
    seen: list[object] = []
    open_ids: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        blocks = check_list(message.get("content"), f"{where}.content", found)
        for block in blocks:
            _block(block, where, found)
        answers = [str(cast("Obj", block["toolResult"]).get("toolUseId")) for block in blocks if "toolResult" in block]
        found.need(sorted(answers) == sorted(open_ids), f"{where}: results {answers} for calls {open_ids}")
        open_ids = [str(cast("Obj", block["toolUse"]).get("toolUseId")) for block in blocks if "toolUse" in block]
        seen += open_ids
    found.need(not open_ids, f"the last calls {open_ids} were not answered")
    check_unique(seen, "call ids", found)
    return bool(seen)


def _block(block: Obj, where: str, found: Findings) -> None:
    found.need(len(block.keys() & _KINDS) == 1, f"{where}: a block of kinds {sorted(block)}")
    found.need("text" not in block or full(block["text"]), f"{where}: an empty text block")
    if "toolUse" in block:
        use = cast("Obj", block["toolUse"])
        found.need(_ID.match(str(use.get("toolUseId"))), f"{where}: the call id {use.get('toolUseId')!r}")
        found.need(isinstance(use.get("input"), dict), f"{where}: input is not an object")
        check_name(use.get("name"), where, found)
    if "toolResult" in block:
        content = objects(cast("Obj", block["toolResult"]).get("content"))
        said = content and all("text" not in item or full(item["text"]) for item in content)
        found.need(said, f"{where}: an empty result")
