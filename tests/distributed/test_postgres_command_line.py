"""The command line over a PostgreSQL store: what it shows of a file, it shows of a database."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner

from capataz import Agent, App
from capataz.cli.main import main
from capataz.events.facts import Usage
from capataz.testing.scripted import ScriptedModel, says
from capataz.testing.servers import free_port
from tests.web.test_received_spans import TRACE, WHOLE, post


async def talk(url: str) -> str:
    async with App(url) as app:
        agent = Agent("clerk", ScriptedModel(says("Hello, Ana", Usage(10, 5))), role="talking")
        return (await agent.arun("I am Ana", app=app, conversation="c", tenant="acme", user="ana")).run


def told(url: str, *words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--json", "--store", url])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_money_conversations_and_erasure(database: str) -> None:
    run = asyncio.run(talk(database))
    (spent,) = told(database, "spend", "--by", "user")
    assert (spent["name"], spent["input_tokens"], spent["output_tokens"]) == ("acme/ana", 10, 5)
    done = CliRunner().invoke(main, ["accounts", "set", "tenant", "acme", "--tokens", "10", "--store", database])
    assert done.exit_code == 0, done.output
    assert "acme" in CliRunner().invoke(main, ["accounts", "list", "--store", database]).output
    listed = CliRunner().invoke(main, ["conversations", "list", "--store", database])
    assert " c " in f" {listed.output} ", listed.output
    shown = CliRunner().invoke(main, ["conversations", "show", "c", "--store", database])
    assert "Hello, Ana" in shown.output
    assert told(database, "erase", run)["runs"] == 1
    assert "Hello, Ana" not in CliRunner().invoke(main, ["conversations", "show", "c", "--store", database]).output
    erased = CliRunner().invoke(main, ["conversations", "erase", "c", "--yes", "--store", database])
    assert erased.exit_code == 0, erased.output
    assert "no conversation" in CliRunner().invoke(main, ["conversations", "show", "c", "--store", database]).output


def test_the_web_view_takes_spans_in(database: str) -> None:
    port = free_port()
    words = [sys.executable, "-m", "capataz", "serve", "--port", str(port), "--store", database]
    server = subprocess.Popen(words)
    try:
        body = json.dumps(post(*WHOLE)).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/traces", body, {"content-type": "application/json"}
        )
        assert soon(lambda: answered(request)) == 200
        assert TRACE in json.dumps(soon(lambda: told(database, "runs")))
    finally:
        server.terminate()
        server.wait(timeout=20)


def answered(request: urllib.request.Request) -> int:
    """The status; 0 where nobody listens yet."""
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError:
        return 0


def soon(look: Callable[[], Any]) -> Any:
    """What is found, once there is something."""
    until = time.monotonic() + 30
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.2)
    return found
