"""Every command, over logs full of what must not be shown: neither a stream nor a file it writes holds any of it.

The table names every command there is, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import click
import pytest
from click.testing import CliRunner

from capataz import Agent, App
from capataz.cli.main import main
from capataz.testing.scripted import ScriptedModel

ENVIRONMENT = "tilting-at-windmills"
KEY = "ghp_C4n4ryResult0123456789abcdefghijklm"
SECRETS = (ENVIRONMENT, KEY, "c4n4ry-pw-81", "c4n4ry-key")
PERSONAL = ("canary.person@example.org", "canary.key@example.org", "4539148803436467")
MODULE = f'''
from capataz import Agent, tool
from capataz.testing.scripted import ScriptedModel, calls, says

done = []

@tool(kind="read")
def look(who: str) -> dict:
    """Look somebody up."""
    return {{"{PERSONAL[1]}": [who, "{ENVIRONMENT}", {{"token": "{KEY}", "card": {PERSONAL[2]}}}]}}

@tool(kind="read")
def broken(who: str) -> str:
    """Ask the shop."""
    raise ConnectionError(f"cannot reach postgres://app:c4n4ry-pw-81@db/shop for {{who}}, {ENVIRONMENT}")

@tool(kind="write", target="who", approve=True, confirm=lambda who: who in done)
def erase(who: str, why: str) -> str:
    """Erase somebody."""
    done.append(who)
    return "erased"

tools = [look, broken, erase]
told = says("I told {PERSONAL[0]} that {ENVIRONMENT} and {KEY} are known.")
looks = calls(("look", {{"who": "{PERSONAL[0]}"}}), text="I look for {PERSONAL[0]} with {ENVIRONMENT}.")
breaks = calls(("broken", {{"who": "{PERSONAL[0]}"}}))
asks = calls(("erase", {{"who": "W-81", "why": "{PERSONAL[0]} wants it, {ENVIRONMENT}"}}))
agent = Agent("canary", ScriptedModel(looks, breaks, told), tools, "Serve {ENVIRONMENT}.", role="talking")
asking = Agent("asking", ScriptedModel(asks, told), tools)
'''
TASK = f"I am {PERSONAL[0]}, card {PERSONAL[2]}, and I know {ENVIRONMENT} and {KEY}"

ANSWERS = ("run", "resume", "worker", "fork", "inbox answer")
"""These show an answer to the one who asked for it: it keeps what is theirs, and no secrets."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "runs": ("runs", "runs --json"),
    "jobs": ("jobs", "jobs --json"),
    "show": ("show", "show GOOD --json", "show GOOD --follow", "show GOOD --follow --json", "show WAITS --html p.html"),
    "diff": ("diff GOOD WAITS --all", "diff GOOD WAITS --json"),
    "trace": ("trace windmill GOOD", "trace W-81 WAITS --json"),
    "metrics": ("metrics", "metrics --by tool --json", "metrics --prometheus"),
    "spend": ("spend", "spend --by run --json"),
    "accounts": ("accounts",),
    "accounts list": ("accounts list --json",),
    "accounts set": ("accounts set agent canary --tokens 1000000",),
    "accounts unset": ("accounts unset agent canary",),
    "models learned": ("models learned", "models learned --json"),
    "conversations": ("conversations",),
    "conversations list": ("conversations list --json",),
    "conversations show": ("conversations show talk", "conversations show talk --json"),
    "inbox": ("inbox",),
    "inbox list": ("inbox list --json",),
    "inbox show": ("inbox show WAITS", "inbox show WAITS --json"),
    "alerts": ("alerts",),
    "alerts list": ("alerts list --rules rules.toml --json",),
    "alerts metrics": ("alerts metrics",),
    "alerts check": ("alerts check --rules rules.toml --mail m.txt --webhook HOOK --state s.json",),
    "alerts test": ("alerts test --rules rules.toml --mail m.txt --webhook HOOK --json",),
    "diagnose": ("diagnose log.db chat.json --html d.html", "diagnose log.db chat.json --json"),
    "tune": ("tune chat.json --html t.html", "tune chat.json --json"),
    "guards score": ("guards score cases.json",),
    "policy show": ("policy show",),
    "policy check": ("policy check policy.toml",),
    "fork": ("fork GOOD --at 6 --agent canary_shop:agent",),
    "run": ("run canary_shop:agent TASK --html r.html --log-json", "run canary_shop:agent TASK --json"),
    "resume": ("resume WAITS --agent canary_shop:asking",),
    "inbox answer": ("inbox answer WAITS --approve --agent canary_shop:asking",),
    "cancel": ("cancel QUEUED --reason TASK",),
    "worker": ("worker canary_shop:agent --until-idle --log-json",),
    "demo": ("demo --scene pending --html demo.html",),
    "erase": ("erase GOOD",),
    "conversations erase": ("conversations erase talk --yes",),
    "rekey": ("rekey",),
    "serve": (),  # what it shows is searched in tests/web
}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    if path and command.invoke_without_command:
        yield " ".join(path)
    for name in command.list_commands(click.Context(command)):
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


class Hook(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    told: list[bytes]

    def do_POST(self) -> None:
        self.told.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def hook() -> Iterator[tuple[str, list[bytes]]]:
    told: list[bytes] = []
    server = HTTPServer(("127.0.0.1", 0), type("Listening", (Hook,), {"told": told}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", told
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A store with a finished run and one that waits, files in other forms, and a module with agents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDMILL_SECRET", ENVIRONMENT)
    monkeypatch.setenv("CAPATAZ_WEBHOOK_SECRET", "a secret both sides know")
    monkeypatch.setenv("CAPATAZ_STORE", f"sqlite:///{tmp_path}/log.db")
    monkeypatch.delenv("CAPATAZ_KEY", raising=False)
    (tmp_path / "canary_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "canary_shop", raising=False)
    write_files(tmp_path)
    return recorded(str(tmp_path / "log.db"))


def write_files(folder: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"who": PERSONAL[0]})}}
    turn = [
        {"role": "assistant", "content": f"{ENVIRONMENT} again", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f"{PERSONAL[1]} {KEY}"},
    ]
    chat = {"messages": [{"role": "user", "content": TASK}, *(turn * 12)]}
    (folder / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
    case = {
        "id": "one",
        "kind": "healthy",
        "tools": {"look": {"class": "read"}},
        "history": [{"turn": 1, "tool": "look", "args": {"who": TASK}, "result": KEY, "is_error": False}],
        "expected": {"signal": None, "not_before": None, "at_latest": None},
    }
    (folder / "cases.json").write_text(json.dumps([case]), encoding="utf-8")
    (folder / "policy.toml").write_text("", encoding="utf-8")
    (folder / "rules.toml").write_text('[[rules]]\nmetric = "tool_error_rate"\nover = 0.01\n', encoding="utf-8")


def recorded(database: str) -> dict[str, str]:
    async def live() -> dict[str, str]:
        from importlib import import_module

        shop = import_module("canary_shop")
        async with App(f"sqlite:///{database}") as app:
            good = Agent("canary", ScriptedModel(shop.looks, shop.breaks, shop.told), shop.tools, role="talking")
            waits = Agent("asking", ScriptedModel(shop.asks, shop.told), shop.tools)
            first = await good.arun(TASK, app=app, conversation="talk")
            second = await waits.arun(TASK, app=app)
            await good.asubmit(TASK, app=app)
            called_off = await good.asubmit(TASK, app=app)
        return {"GOOD": first.run, "WAITS": second.run, "QUEUED": called_off.run}

    return asyncio.run(live())


def test_the_table_names_every_command() -> None:
    assert set(COMMANDS) == set(leaves(main))


def test_no_command_shows_what_must_not_be_shown(
    names: dict[str, str], hook: tuple[str, list[bytes]], tmp_path: Path
) -> None:
    leaked: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    given = {*tmp_path.iterdir()}
    for command, ways in COMMANDS.items():
        for way in ways:
            words = [names.get(word, {"HOOK": hook[0], "TASK": TASK}.get(word, word)) for word in way.split()]
            key = {"CAPATAZ_KEY": "c4n4ry-key-c4n4ry-key-c4n4ry-key-c4n4ry-key="} if command == "rekey" else {}
            done = CliRunner().invoke(main, words, env=key)
            assert done.exit_code in (0, 1, 3, 4), f"{way}: {done.exit_code} {done.output} {done.exception}"
            said[way] = done.output
            hidden = SECRETS if command in ANSWERS else (*SECRETS, *PERSONAL)
            if found := [value for value in hidden if value in done.output]:
                leaked[way] = found
    written = [path for path in {*tmp_path.iterdir()} - given if path.suffix in (".html", ".txt", ".json")]
    texts = {path.name: path.read_text("utf-8") for path in written} | {"webhook": b"".join(hook[1]).decode()}
    for name, text in texts.items():
        if found := [value for value in (*SECRETS, *PERSONAL) if value in text]:
            leaked[name] = found
    assert leaked == {}
    assert "<EMAIL>" in said["show GOOD --follow"]
    assert {"p.html", "d.html", "t.html", "r.html", "m.txt"} <= texts.keys()
    assert hook[1]
