"""Logs written by every version so far must be readable for ever. Add a file beside v1.jsonl; never change one."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import get_args

from capataz.events.codec import FACTS, VERSIONS, encode, from_line
from capataz.events.facts import Fact, ModelReplied, RunEnded, RunStarted, ToolFinished, ToolRefused
from capataz.memory.transcript import Transcript

LOGS = Path(__file__).parent.parent / "data" / "logs"
V1 = LOGS / "v1.jsonl"
DIGEST = "86dcefa6b13baea6c856c80bbad3b78a7cf4c7345ce4ecef425bd70eb3848468"


def test_the_frozen_log_was_not_touched() -> None:
    assert hashlib.sha256(V1.read_bytes()).hexdigest() == DIGEST


def test_the_frozen_log_holds_every_fact_of_its_time_and_can_be_read() -> None:
    events = [from_line(line) for line in V1.read_bytes().splitlines()]
    assert {type(event.fact) for event in events} >= {FACTS[name] for name, version in VERSIONS.items() if version == 1}
    assert {type(event.fact) for event in events} <= set(get_args(Fact))
    assert [event.seq for event in events] == list(range(len(events)))


def test_the_frozen_log_says_what_it_always_said() -> None:
    events = [from_line(line) for line in V1.read_bytes().splitlines()]
    started, replied, found, refused, ended = (events[seq].fact for seq in (0, 7, 9, 21, 31))
    assert isinstance(started, RunStarted)
    assert started.ceilings.money == Decimal("0.50")
    assert [tool.kind for tool in started.tools] == ["read", "write", "message", "exec"]
    assert isinstance(replied, ModelReplied)
    assert replied.usage.money == Decimal("0.0031")
    assert replied.calls[0].arguments == {"order_id": "81"}
    assert isinstance(found, ToolFinished)
    order = {"id": "81", "state": "shipped", "cents": 4550, "weight": 1.25, "gift": False, "note": None}
    assert found.result == {"order": order}
    assert isinstance(refused, ToolRefused)
    assert refused.call.arguments == {"order": 2**70}
    assert isinstance(ended, RunEnded)
    assert [proof.seq for proof in ended.evidence] == [15, 25]


def test_the_frozen_log_folds_and_is_written_the_same_today() -> None:
    transcript = Transcript()
    for line in V1.read_bytes().splitlines():
        event = from_line(line)
        transcript.fold(event)
        assert encode(event).strip() in line
    assert [message.role for message in transcript.messages] == [
        *("user", "assistant", "tool", "assistant", "tool", "tool", "user", "assistant", "tool", "assistant"),
    ]
