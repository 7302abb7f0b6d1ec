"""Every wait for the world has an end. This walks the code and proves it; no default is "none".

What each rule asks is written in `RULES`: the call, and where its deadline has to stand. A call may instead stand
inside `async with asyncio.timeout(...)` or be handed straight to `asyncio.wait_for`. An HTTP request inherits the
deadlines of its session, so it is the session that must not be made without them.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from capataz.ports import Deadlines
from tests.contracts.walk import Source, dotted, functions, is_none, keyword, listed, sources

WAITING = ("wait_for", "timeout", "timeout_at")
"""Of asyncio: what puts a deadline around something else."""


@dataclass(frozen=True)
class Rule:
    """`matches` finds the call; `place` is the position its deadline may have, besides the keyword."""

    what: str
    matches: Callable[[str], bool]
    keyword: str = "timeout"
    place: int | None = None
    may_be_wrapped: bool = False


def ends(*tails: str) -> Callable[[str], bool]:
    return lambda name: any(name == tail or name.endswith(f".{tail}") for tail in tails)


RULES = (
    Rule("a session's deadlines", ends("ClientSession")),
    Rule("the deadlines of a request", ends("ClientTimeout"), keyword="total"),
    Rule("waiting for a task", ends("asyncio.wait_for"), place=1),
    Rule("a deadline", ends("asyncio.timeout"), keyword="delay", place=0),
    Rule("waiting for tasks", ends("asyncio.wait"), may_be_wrapped=True),
    Rule("a child process", ends("subprocess.run", "subprocess.call", "subprocess.check_call")),
    Rule("a child process", ends("subprocess.check_output")),
    Rule("a child's output", ends("communicate"), place=1, may_be_wrapped=True),
    Rule("a child's end", ends("process.wait", "child.wait", "proc.wait"), place=0, may_be_wrapped=True),
    Rule("a child's end", ends("process.join", "child.join", "proc.join", "thread.join", "worker.join"), place=0),
    Rule("a database's lock", ends("sqlite3.connect"), place=1),
    Rule("a connection", ends("socket.create_connection"), place=1),
    Rule("a connection", ends("asyncio.open_connection"), keyword="-", may_be_wrapped=True),
    Rule("a page", ends("urlopen"), place=2),
    Rule("a thread's result", ends("run_coroutine_threadsafe"), keyword="-", place=1),
)


def wrapped(source: Source) -> set[ast.AST]:
    """Nodes that stand inside a deadline of asyncio's."""
    inside: set[ast.AST] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncWith):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            if any(dotted(call.func).split(".")[-1] in WAITING for call in calls):
                inside.update(ast.walk(node))
        elif isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "wait_for":
            inside.update(ast.walk(node))
    return inside


def deadline(call: ast.Call, rule: Rule) -> ast.expr | None:
    given = keyword(call, rule.keyword)
    if given is None and rule.place is not None and len(call.args) > rule.place:
        given = call.args[rule.place]
    return None if is_none(given) else given


def unbounded(source: Source) -> Iterator[str]:
    inside = wrapped(source)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        for rule in RULES:
            if not rule.matches(name):
                continue
            if deadline(node, rule) is None and not (rule.may_be_wrapped and node in inside):
                yield f"{source.at(node)} {name}: {rule.what} without a deadline"


def waits_by_default(source: Source) -> Iterator[str]:
    """Arguments and fields named for a deadline whose default is None."""
    named = ("timeout", "deadline", "timeout_seconds")
    for name, function in functions(source.tree):
        spec = function.args
        positional = [*spec.posonlyargs, *spec.args]
        pairs = [*zip(positional[::-1], spec.defaults[::-1], strict=False)]
        pairs += [(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
        yield from (
            f"{source.at(arg)} {name}({arg.arg}=None)" for arg, value in pairs if arg.arg in named and is_none(value)
        )
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AnnAssign) and dotted(node.target) in named and is_none(node.value):
            yield f"{source.at(node)} {dotted(node.target)} = None"
        if isinstance(node, ast.Call) and any(is_none(keyword(node, word)) for word in named):
            yield f"{source.at(node)} {dotted(node.func)}(timeout=None)"


def test_every_wait_for_the_world_has_a_deadline() -> None:
    assert not (problems := [problem for source in sources() for problem in unbounded(source)]), listed(problems)


def test_no_deadline_is_none_by_default() -> None:
    assert not (problems := [problem for source in sources() for problem in waits_by_default(source)]), listed(problems)


def test_a_model_call_is_bounded_in_each_of_its_waits() -> None:
    waits = dataclasses.asdict(Deadlines())
    assert set(waits) == {"connect", "first_byte", "silence", "total"}
    assert all(0 < seconds < 3600 for seconds in waits.values())


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("aiohttp.ClientSession()", True),
        ("aiohttp.ClientSession(timeout=deadlines)", False),
        ("aiohttp.ClientTimeout(sock_read=3)", True),
        ("async def f():\n async with asyncio.timeout(3):\n  await asyncio.wait(tasks)", False),
        ("async def f():\n async with asyncio.timeout(None):\n  await asyncio.wait(tasks)", True),
        ("asyncio.wait_for(child.communicate(), 3)", False),
        ("child.communicate()", True),
        ("sqlite3.connect(path)", True),
        ("subprocess.run(words, timeout=3)", False),
        ("subprocess.run(words)", True),
    ],
)
def test_the_walk_sees_what_it_should(code: str, caught: bool) -> None:
    assert bool([*unbounded(Source("made up", code, ast.parse(code)))]) is caught
