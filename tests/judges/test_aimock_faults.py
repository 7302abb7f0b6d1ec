"""A second independent peer: the npm package @copilotkit/aimock, with faults scripted turn by turn, on both wires.

It is installed once into a cache outside the repository, with npm, where node and npm are there; else these tests say
why they are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from capataz import Agent, App, Budget, Completed, Deadlines, Outcome, Policy, tool
from capataz.events.facts import Fact, ModelCallFailed, ToolRefused, ToolStarted
from capataz.stores.memory import MemoryStore

PACKAGE = "@copilotkit/aimock@1.43.0"
POLICY = Policy.from_toml(
    "[providers.openai.transient]\nfirst = 0.05\n[providers.anthropic.transient]\nfirst = 0.05\n"
    "[providers.openai.rate_limit]\nfirst = 0.05\n[providers.anthropic.rate_limit]\nfirst = 0.05\n"
)
WIRES = ("openai", "anthropic")
REFUND = {"toolCalls": [{"name": "refund", "arguments": {"order": "81"}}]}


def failing(status: int, kind: str, code: str = "") -> dict[str, Any]:
    error = {"message": f"aimock says {status}", "type": kind, **({"code": code} if code else {})}
    return {"response": {"error": error, "status": status}}


PASSING: dict[str, dict[str, Any]] = {
    "rate limit": failing(429, "rate_limit_error", "rate_limit_exceeded"),
    "server error": failing(500, "server_error"),
    "overloaded": failing(529, "overloaded_error"),
    "cut after one chunk": {"response": REFUND, "truncateAfterChunks": 1},
    "dropped": {"response": REFUND, "latency": 200, "disconnectAfterMs": 100},
    "malformed": {"response": REFUND, "chaos": {"malformedRate": 1.0}},
    "disconnected": {"response": REFUND, "chaos": {"disconnectRate": 1.0}},
    "lost": {"response": REFUND, "chaos": {"dropRate": 1.0}},
}
LASTING: dict[str, tuple[dict[str, Any], str, str]] = {
    "quota": (failing(429, "insufficient_quota", "insufficient_quota"), "escalated", "auth"),
    "key": (failing(401, "authentication_error", "invalid_api_key"), "escalated", "auth"),
    "bad request": (failing(400, "invalid_request_error"), "aborted", "invalid_input"),
}


def fixtures() -> list[dict[str, Any]]:
    """One task for each fault and wire; the fault comes first, then the world is well again."""
    found: list[dict[str, Any]] = []
    for wire in WIRES:
        for name, fault in PASSING.items():
            task = {"userMessage": f"{name} / {wire}"}
            found.append({"match": {**task, "sequenceIndex": 0, "hasToolResult": False}, **fault})
            found.append({"match": {**task, "hasToolResult": False}, "response": REFUND})
            found.append({"match": {**task, "hasToolResult": True}, "response": {"content": "Order 81 is refunded."}})
        for name, (fault, _, _) in LASTING.items():
            found.append({"match": {"userMessage": f"{name} / {wire}"}, **fault})
        task = {"userMessage": f"length / {wire}"}
        found.append({"match": {**task, "sequenceIndex": 0}, "response": {**REFUND, "finishReason": "length"}})
        found.append({"match": task, "response": {"content": "I could not do it."}})
    return found


def installed() -> Path:
    """The program, installed where it is not yet; skips with the reason where it cannot be."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed here: the peer aimock is a program of theirs")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capataz" / "aimock-1.43.0"
    program = cache / "node_modules" / ".bin" / "llmock"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--prefix", str(cache), "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
        try:
            subprocess.run(words, check=True, capture_output=True, timeout=90)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"npm could not install {PACKAGE}: {error}")
    return program


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = installed()
    script = tmp_path_factory.mktemp("aimock") / "faults.json"
    script.write_text(json.dumps({"fixtures": fixtures()}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [str(program), "-p", str(port), "-f", str(script), "--log-level", "silent", "--strict"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/health", process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=10)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert process.poll() is None, "aimock ended before it began"
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, ConnectionError):
            time.sleep(0.1)
    pytest.fail("aimock did not come up within 20 seconds")


def asked(peer: str, task: str) -> int:
    """How often the peer was asked for this task, by its own journal."""
    with urlopen(f"{peer}/__aimock/journal?limit=1000", timeout=10) as answer:
        entries: Any = json.load(answer)
    entries = entries if isinstance(entries, list) else entries["entries"]
    return sum(task in json.dumps(entry, ensure_ascii=False) for entry in entries)


async def serve(peer: str, wire: str, name: str, paid: list[str]) -> tuple[Outcome, list[Fact]]:
    @tool(kind="write", target="order", confirm=lambda order: order in paid)
    def refund(order: str) -> str:
        """Pay the money of an order back."""
        paid.append(order)
        return "refunded"

    agent = Agent(
        "clerk",
        "openai:gpt-4o" if wire == "openai" else "anthropic:claude-sonnet-4-6",
        [refund],
        base_url=f"{peer}/v1" if wire == "openai" else peer,
        api_key="any",
        policy=POLICY,
        budget=Budget(turns=5, seconds=60),
        deadlines=Deadlines(connect=5.0, first_byte=5.0, silence=2.0, total=10.0),
    )
    async with App(MemoryStore()) as app:
        outcome = await agent.arun(f"{name} / {wire}", app=app)
        return outcome, [event.fact for event in await app.store.read(outcome.run)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", PASSING)
async def test_what_passes_is_waited_out_and_the_work_is_done_once(peer: str, wire: str, name: str) -> None:
    paid: list[str] = []
    outcome, facts = await serve(peer, wire, name, paid)
    assert isinstance(outcome, Completed), outcome
    assert paid == ["81"]
    failed = [fact for fact in facts if isinstance(fact, ModelCallFailed)]
    assert [fact.fault.row for fact in failed] == ["rate_limit" if name == "rate limit" else "transient"]
    assert asked(peer, f"{name} / {wire}") == 3


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", LASTING)
async def test_what_does_not_pass_is_asked_once(peer: str, wire: str, name: str) -> None:
    outcome, _ = await serve(peer, wire, name, [])
    _, ending, reason = LASTING[name]
    assert (outcome.name, outcome.reason) == (ending, reason), outcome
    assert asked(peer, f"{name} / {wire}") == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_from_an_answer_that_was_cut_off_is_not_run(peer: str, wire: str) -> None:
    paid: list[str] = []
    outcome, facts = await serve(peer, wire, "length", paid)
    assert outcome.name != "completed"
    assert paid == []
    assert not [fact for fact in facts if isinstance(fact, ToolStarted)]
    assert [fact.reason for fact in facts if isinstance(fact, ToolRefused)] == ["truncated"]
