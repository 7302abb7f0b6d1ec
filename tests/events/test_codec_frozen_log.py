"""Logs written so far must be readable for ever. A new fact gets a new file beside these; none is ever changed."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path

import pytest

from capataz.events.codec import FACTS, encode, from_line
from capataz.events.facts import ModelReplied, RunEnded, RunStarted, ToolFinished, ToolRefused
from capataz.memory.transcript import Transcript

LOGS = Path(__file__).parent.parent / "data" / "logs"
V1 = LOGS / "v1.jsonl"
DIGESTS = {
    "v1-faults.jsonl": "6f9d26b6f5eb64084813c2703f7831473924f80562061cb0967b0d123384c5c0",
    "v1-forks.jsonl": "94330396460d59ae415b13c43eed60033c1c0b4119f0d098f0da0a68335dcb89",
    "v1-late.jsonl": "dccae201b577d980ef70cbb29cc3857fb4ec17ee87cf1bb38f59929e549575ba",
    "v1-memory.jsonl": "79e17e4a6bfbab0223d8120073d67fe5010359ac111d44175bb39f8cb9f22551",
    "v1-resumed.jsonl": "0519c96eaf191ed06f3d010ca9f603d45f0f8ca0df45594e53e8c877d29aadcb",
    "v1.jsonl": "86dcefa6b13baea6c856c80bbad3b78a7cf4c7345ce4ecef425bd70eb3848468",
    "v1-settings.jsonl": "1a209490b7f0204e22b6241d9a69c1cfcc88179ae48ae2fc8b201dbeb1a2dcc9",
    "v1-people.jsonl": "642a44a30a3b3126c0f2f418c8c1bb95132d203bc223acfa1600a89b94e7af54",
}


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.jsonl")), ids=lambda path: path.name)
def test_frozen_logs_were_not_touched_and_can_be_read(path: Path) -> None:
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[path.name]
    events = [from_line(line) for line in path.read_bytes().splitlines()]
    assert [event.seq for event in events] == list(range(len(events)))
    lines = path.read_bytes().splitlines()
    assert all(encode(event).strip() in line for event, line in zip(events, lines, strict=True))


def test_every_fact_of_today_stands_in_a_frozen_log() -> None:
    lines = [line for path in LOGS.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    missing = set(FACTS.values()) - {type(from_line(line).fact) for line in lines}
    how = (
        "once their shape is settled, write them with to_line to a new file in tests/data/logs and add its digest here"
    )
    assert not missing, how


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
