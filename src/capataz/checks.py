"""Checks of a task: what must be so in the world before a run may end as completed.

A check looks at the world, never at what the model says of it. Whatever goes wrong while looking (an exception, a
time-out, a missing file) means "not passed", with the reason in words the model can act on. No check may change
anything or wait without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import shlex
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from capataz.events.facts import JSON
from capataz.mistakes import Misuse
from capataz.tools.define import Tool, target_text
from capataz.tools.effects import read_answer
from capataz.tools.signature import plain
from capataz.tools.usercode import Raised, Returned, Threads, is_async, run_user_code
from capataz.tools.wording import short_error

if TYPE_CHECKING:
    from aiohttp import ClientResponse

CHECK_SECONDS = 10.0
_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class ConfirmedEffect:
    """An act of this run that its own read-back confirmed."""

    tool: str
    target: str | None
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a check may know of the run it judges. `started_at` is in seconds since the epoch."""

    run: str
    answer: str = ""
    effects: tuple[ConfirmedEffect, ...] = ()
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `run` gets the context and says yes or no, or (passed, reason); sync or async.

    `timeout` is in seconds. Build one from any function with `as_check`.
    """

    name: str
    run: Callable[[CheckContext], Any] = field(repr=False)
    timeout: float = CHECK_SECONDS


AnyCheck: TypeAlias = Check | Callable[[], Any] | Callable[[CheckContext], Any]


def as_check(check: AnyCheck) -> Check:
    """A check from a function of no argument or of a `CheckContext`, named after it. Raises `Misuse`."""
    if isinstance(check, Check):
        if not check.timeout > 0:
            raise Misuse(f"check {check.name}: timeout={check.timeout!r}: give seconds above 0")
        return check
    if not callable(check):
        raise Misuse(f"done_when: {check!r} is not a check: give a function or one of capataz.checks")
    name = _name_of(check)
    try:
        parameters = inspect.signature(check).parameters.values()
    except (ValueError, TypeError) as error:
        raise Misuse(f"check {name}: its parameters cannot be read ({error}): wrap it in a lambda") from None
    wanted = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(wanted) > 1 or (wanted and wanted[0].kind is inspect.Parameter.KEYWORD_ONLY):
        raise Misuse(f"check {name}: it may take nothing or one CheckContext, not {', '.join(p.name for p in wanted)}")
    if wanted:
        return Check(name, cast("Callable[[CheckContext], Any]", check))
    return Check(name, _without_context(cast("Callable[[], Any]", check)))


async def evaluate(
    check: AnyCheck, context: CheckContext, *, threads: Threads | None = None, seconds: float | None = None
) -> tuple[bool, str]:
    """Whether the check passes and, in words for the model, why not.

    Never raises, except for the caller's own cancellation; comes back within the check's timeout. Synchronous
    checks run in `threads`, or in a thread of their own.
    """
    asked = as_check(check)
    limit = asked.timeout if seconds is None else min(asked.timeout, seconds)
    pool = threads if threads is not None else Threads(1)
    try:
        ending = await run_user_code(
            partial(asked.run, context), {}, asynchronous=is_async(asked.run), limit=limit, threads=pool
        )
    finally:
        if threads is None:
            pool.close()
    match ending:
        case Returned((bool() as passed, str() as reason)):
            return passed, reason or _plainly(asked.name, passed)
        case Returned(bool() as passed):
            return passed, _plainly(asked.name, passed)
        case Returned(value):
            answer, reason = read_answer(value, asked.name)
            return answer == "yes", reason
        case Raised(error):
            return False, f"{asked.name} could not be checked: {short_error(error)}"
        case _:
            return False, f"{asked.name} could not be checked: no answer within {limit:g} s"


def _plainly(name: str, passed: bool) -> str:
    return f"{name} holds" if passed else f"{name} does not hold yet"


def _without_context(check: Callable[[], Any]) -> Callable[[CheckContext], Any]:
    """The same check for callers that hand over a context."""
    if not is_async(check):
        return lambda context: check()

    async def ask(context: CheckContext) -> Any:
        return await check()

    return ask


def _name_of(check: Callable[..., Any]) -> str:
    inner = plain(check)
    name = str(getattr(inner, "__name__", type(check).__name__))
    if name == "__call__":
        return type(check).__name__
    if name == "<lambda>":
        code: CodeType | None = getattr(inner, "__code__", None)
        return "lambda" if code is None else f"lambda of line {code.co_firstlineno}"
    return name


# ── ready ones ───────────────────────────────────────────────────────────────────────────────────────────


def effect_happened(tool: Tool | str, target: JSON = None) -> Check:
    """The run used `tool` (on `target`, when given) and the tool's own `confirm` says the effect is there."""
    name = tool if isinstance(tool, str) else tool.name
    wanted = target_text(target)
    what = name if wanted is None else f"{name} on {wanted}"

    async def run(context: CheckContext) -> tuple[bool, str]:
        happened = any(e.tool == name and wanted in (None, e.target) for e in context.effects)
        return happened, f"{what} is confirmed" if happened else f"no confirmed effect of {what} in this run"

    return Check(f"effect of {what}", run)


def file_exists(path: str | os.PathLike[str], *, min_bytes: int = 1, newer_than_start: bool = False) -> Check:
    """There is a regular file of at least `min_bytes`, written since the run started if `newer_than_start`."""
    place = Path(path)

    def run(context: CheckContext) -> tuple[bool, str]:
        if not place.is_file():
            return False, f"there is no file {path}"
        found = place.stat()
        if found.st_size < min_bytes:
            return False, f"{path} has {found.st_size} bytes, at least {min_bytes} are expected"
        if newer_than_start and (context.started_at is None or found.st_mtime < context.started_at):
            return False, f"{path} was not written in this run"
        return True, f"{path} has {found.st_size} bytes"

    return Check(f"file {path}", run)


def command_succeeds(
    command: str | Sequence[str], cwd: str | os.PathLike[str] | None = None, timeout: float = 60
) -> Check:
    """The command exits with 0 within `timeout` seconds; the reason carries the end of its output.

    A text runs in a shell, a sequence does not. At the limit the whole process group is killed; what the command
    itself left running in the background when it ended is left alone.
    """
    shown = command if isinstance(command, str) else shlex.join(command)

    async def run(context: CheckContext) -> tuple[bool, str]:
        # The output goes to a file: a grandchild that keeps a pipe open would keep us waiting.
        with tempfile.TemporaryFile() as output:
            code = await _exit_code(command, cwd, timeout, output)
            tail = _tail(output)
        if code == 0:
            return True, f"`{shown}` exits with 0"
        how = f"did not end within {timeout:g} s" if code is None else f"exits with {code}"
        return False, f"`{shown}` {how}{tail}"

    return Check(f"command {shown}", run, timeout + 2 * _REAPING)


_REAPING = 1.0
"""Seconds a killed process gets to be gone."""


async def _exit_code(
    command: str | Sequence[str], cwd: str | os.PathLike[str] | None, limit: float, output: IO[bytes]
) -> int | None:
    start = (
        partial(asyncio.create_subprocess_shell, command)
        if isinstance(command, str)
        else partial(asyncio.create_subprocess_exec, *command)
    )
    process = await start(
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            _kill_group(process)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), timeout=_REAPING)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL))
    text = output.read(_TAIL).decode(errors="replace").strip()
    return f": {'…' if size > _TAIL else ''}{text}" if text else ""


def sql_returns_rows(
    database: str | os.PathLike[str] | Callable[[], Any], query: str, params: Sequence[Any] | Mapping[str, Any] = ()
) -> Check:
    """The query gives at least one row. `database` is the path of an SQLite file, which is opened read-only, or a
    function that opens a DB-API connection, which is closed afterwards."""

    def run(context: CheckContext) -> tuple[bool, str]:
        if not callable(database) and not Path(database).is_file():
            return False, f"there is no database {database}"
        connection = database() if callable(database) else _read_only(database)
        with contextlib.closing(connection):
            cursor = connection.cursor()
            cursor.execute(query, params)
            found = cursor.fetchone() is not None
        return found, f"`{query}` {'returns rows' if found else 'returns no row'}"

    return Check(f"sql {query}", run)


def _read_only(path: str | os.PathLike[str]) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=CHECK_SECONDS / 2)


def http_answers(url: str, status: int = 200, contains: str | None = None, timeout: float = 10) -> Check:
    """A GET of `url` answers with `status` within `timeout` seconds, its body (first megabyte) holding `contains`.

    Redirects are an answer like any other and are not followed; proxies of the environment are not used.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misuse(f"http_answers({url!r}): give a whole address, beginning with http:// or https://")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def run(context: CheckContext) -> tuple[bool, str]:
        import aiohttp

        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session,
                session.get(url, allow_redirects=False) as response,
            ):
                return await _judge(response)
        except TimeoutError:
            return False, f"{shown} gave no answer within {timeout:g} s"

    async def _judge(response: ClientResponse) -> tuple[bool, str]:
        if response.status != status:
            return False, f"{shown} answers {response.status}, not {status}"
        if contains is not None and contains not in await _beginning(response):
            return False, f"{shown} answers {status}, but without {contains!r}"
        return True, f"{shown} answers {status}"

    return Check(f"http {shown}", run, timeout + 1)


async def _beginning(response: ClientResponse, most: int = 1_000_000) -> str:
    body = bytearray()
    async for chunk in response.content.iter_chunked(65_536):
        body += chunk
        if len(body) >= most:
            break
    return body.decode(response.charset or "utf-8", errors="replace")
