"""`serve`, `diff`, `fork`, `trace` and `show --follow`: the twins of the pages, for a terminal and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from capataz import Agent, App, tool
from capataz.cli.main import main
from capataz.testing.scripted import ScriptedModel, calls, says

MODULE = '''
from pathlib import Path

from capataz import Agent, tool
from capataz.testing.scripted import ScriptedModel, calls, says

@tool(kind="read")
def find_order(order: str) -> dict:
    """Look."""
    return {"order": order, "total": 93.5, "mail": "ana@example.com"}

@tool(kind="write", target="order", confirm=lambda order, **_: Path("acted").exists())
def refund(order: str, cents: int) -> str:
    """Pay."""
    open("acted", "w").close()
    return "ok"

model = ScriptedModel(calls(("refund", {"order": "81", "cents": 1})), says("Done."))
agent = Agent("support", model, [find_order, refund])
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two runs that part at the amount."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPATAZ_STORE", f"sqlite:///{tmp_path}/log.db")
    (tmp_path / "seeing_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "seeing_shop", raising=False)
    done: list[str] = []

    @tool(kind="read")
    def find_order(order: str) -> dict[str, object]:
        """Look."""
        return {"order": order, "total": 93.5, "mail": "ana@example.com"}

    @tool(kind="write", target="order", confirm=lambda order, **_: order in done)
    def refund(order: str, cents: int) -> str:
        """Pay."""
        done.append(order)
        return "ok"

    def run(cents: int) -> str:
        done.clear()
        model = ScriptedModel(
            calls(("find_order", {"order": "81"})), calls(("refund", {"order": "81", "cents": cents})), says("Done.")
        )
        return App().run(Agent("support", model, [find_order, refund]), "Refund 81").run

    return run(9350), run(3950)


def call(*words: str) -> tuple[int, str]:
    got = CliRunner().invoke(main, list(words), catch_exceptions=False)
    return got.exit_code, got.output


def test_diff_names_the_first_divergence(shop: tuple[str, str]) -> None:
    status, said = call("diff", *shop)
    assert status == 1
    assert said.index("first divergence") < said.index("cents=3950")
    status, said = call("diff", *shop, "--json")
    found = json.loads(said)
    assert found["rows"][found["divergence"]]["sign"] == "differs"
    assert call("diff", shop[0], shop[0])[0] == 0


def test_trace_says_where_a_value_comes_from_and_masks_it(shop: tuple[str, str]) -> None:
    assert call("trace", "93.5", shop[0])[0] == 0
    status, said = call("trace", "3950", shop[1])
    assert status == 1
    assert "no source" in said
    status, said = call("trace", "ana@example.com", shop[0], "--json")
    assert status == 0
    assert "ana@" not in said
    assert json.loads(said)["mentions"][0]["where"] == "find_order"
    assert "ana@" in call("trace", "ana@example.com", shop[0], "--no-mask")[1]


def test_fork_offers_steps_and_goes_on_without_acting(shop: tuple[str, str], tmp_path: Path) -> None:
    steps = json.loads(call("fork", shop[0], "--json")[1])
    step = next(each["step"] for each in steps if "find_order" in each["what"])
    words = ("--at", str(step), "--agent", "seeing_shop:agent", "--result", '{"state": "unpaid"}', "--json")
    status, said = call("fork", shop[0], *words)
    told = json.loads(said)
    assert status != 0, "a fork without permission to act is never completed"
    assert told["run_id"] != shop[0]
    assert not (tmp_path / "acted").exists()
    assert "forked" not in call("show", shop[0])[1]
    assert call("fork", shop[0], "--at", str(step))[0] == 2
    assert call("fork", shop[0], "--at", "9999", "--agent", "seeing_shop:agent")[0] == 2
    assert call("fork", shop[0], "--at", "1", "--agent", "seeing_shop:agent", "--result", "{")[0] == 2


def test_fork_acts_where_it_is_allowed(shop: tuple[str, str], tmp_path: Path) -> None:
    steps = json.loads(call("fork", shop[0], "--json")[1])
    step = next(each["step"] for each in steps if "find_order" in each["what"])
    call("fork", shop[0], "--at", str(step), "--agent", "seeing_shop:agent", "--allow-acts", "--json")
    assert (tmp_path / "acted").exists()


def test_follow_ends_with_the_run_and_masks(shop: tuple[str, str]) -> None:
    status, said = call("show", shop[0], "--follow")
    assert status == 0
    assert "completed" in said
    assert "ana@" not in said
    lines = [json.loads(line) for line in call("show", shop[0], "--follow", "--json")[1].splitlines()]
    assert lines[0]["fact"]["t"] == "RunStarted"
    assert lines[-1]["fact"]["t"] == "RunEnded"


def test_serve_does_not_open_itself_to_others_without_a_token() -> None:
    status, said = call("serve", "--host", "0.0.0.0")
    assert status == 2
    assert "--token-file" in said


def test_serve_refuses_alert_rules_that_mean_nothing(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nmetric = "loop_rat"\nover = 0.1\n', encoding="utf-8")
    status, said = call("serve", "--rules", str(rules))
    assert status == 2
    assert "did you mean 'loop_rate'?" in said


def test_serve_says_how_to_install_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, said = call("serve")
    assert status == 2
    assert 'pip install "capataz[web]"' in said
