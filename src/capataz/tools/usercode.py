"""The one place where code of the user's runs: tools, their read-backs, checks and callbacks.

Whatever such code does (raise anything, call `sys.exit`, hang, ignore being cancelled), the caller gets a value back
within the limit and the loop goes on. `Trap` is the only broad catch of this layer; nothing else may have one.

What cannot be promised: a synchronous function runs in a thread, and a thread cannot be killed. At the limit it is
left behind and counted in `Threads.leaked`; it may still do what it was asked to do.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeAlias, cast

from capataz.mistakes import Misuse


class Trap:
    """Context manager that keeps whatever user code raises in `error` instead of letting it out.

    Our own cancellation and the person's Ctrl-C pass through; `SystemExit` does not: a tool may not end the process.
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Trap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)):
            return False
        self.error = error
        return True


@dataclass(frozen=True, slots=True)
class Returned:
    """The code came to its end and this is what it gave back."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The code raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No end within `limit` seconds. `started` is False when no thread was free, so that nothing was done at all."""

    limit: float
    started: bool = True


Ending: TypeAlias = Returned | Raised | TimedOut
Late: TypeAlias = Callable[[Returned | Raised], None]
"""Is told how code ended that was given up on, in the loop that gave up."""


class _Job:
    """A synchronous function on its way through a thread. Whoever takes `claim` first decides whether it runs."""

    __slots__ = ("abandoned", "claim", "context", "done", "finished", "late", "loop", "work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop, late: Late | None = None) -> None:
        self.work = work
        self.late = late
        self.loop = loop
        self.done: asyncio.Future[Returned | Raised | None] = loop.create_future()
        self.context: Context = copy_context()
        self.claim = threading.Lock()
        self.abandoned = False
        self.finished = False

    def run(self) -> None:
        # A cancellation or Ctrl-C raised inside a thread is nobody's but the function's own.
        try:
            ending = self._end()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit) as error:
            ending = Raised(error)
        try:
            self.loop.call_soon_threadsafe(self._deliver, ending)
        except RuntimeError:  # the loop closed while an abandoned function was still at work
            return

    def _end(self) -> Returned | Raised:
        with Trap() as trap:
            return Returned(self.context.run(self.work))
        return Raised(cast("BaseException", trap.error))

    def _deliver(self, ending: Returned | Raised) -> None:
        if not self.done.done():
            self.done.set_result(ending)
        elif self.late is not None:
            self.late(ending)


class Threads:
    """A bounded pool for synchronous user code, of daemon threads: a hung tool must not keep the process alive.

    `size` is the largest number of threads, `grace` the seconds an asynchronous function that is being cancelled
    gets to clean up. Threads are started as needed. A pool whose threads leak away gets smaller: whoever owns it
    reads `leaked` and `free`, stops taking work and lets the process be replaced.
    """

    def __init__(self, size: int = 32, *, grace: float = 0.5) -> None:
        if size < 1:
            raise Misuse(f"Threads(size={size}): a pool needs at least one thread")
        self.size = size
        self.grace = grace
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._leaked = 0
        self._stray: set[asyncio.Task[Any]] = set()

    @property
    def leaked(self) -> int:
        """Threads held by functions that were given up on and have not ended yet."""
        return self._leaked

    @property
    def leaked_tasks(self) -> int:
        """Asynchronous functions that were cancelled, ignored it, and have not ended yet."""
        return len(self._stray)

    @property
    def free(self) -> int:
        """Threads that are not leaked."""
        return self.size - self._leaked

    def close(self) -> None:
        """Let idle threads end. Does not wait: a function at work ends its thread when it comes back."""
        with self._lock:
            for _ in range(self._threads):
                self._queue.put(None)

    def submit(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop, late: Late | None = None) -> _Job:
        job = _Job(work, loop, late)
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self.size:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"capataz-tool-{self._threads}", daemon=True).start()
        self._queue.put(job)
        return job

    def abandon(self, job: _Job) -> bool:
        """Give up on a job. True when it had already started, and is now counted as leaked until it ends."""
        if job.claim.acquire(blocking=False):
            return False
        with self._lock:
            if not job.finished:
                job.abandoned = True
                self._leaked += 1
        return True

    def stray(self, task: asyncio.Task[Any]) -> None:
        """Count (and hold on to) a task that ignores being cancelled, until it ends."""
        self._stray.add(task)
        task.add_done_callback(self._stray.discard)

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            if job.claim.acquire(blocking=False):
                job.run()
            with self._lock:
                self._idle += 1
                job.finished = True
                if job.abandoned:
                    self._leaked -= 1
            del job  # an idle thread must not keep the last arguments alive
        with self._lock:
            self._threads -= 1


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives something to await, as far as can be told without calling it."""
    plain = inspect.unwrap(function)
    while hasattr(plain, "func"):  # functools.partial, one or many
        plain = plain.func
    if inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(function):
        return True
    return not inspect.isroutine(plain) and inspect.iscoroutinefunction(type(plain).__call__)


async def run_user_code(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    asynchronous: bool,
    limit: float,
    threads: Threads,
    late: Late | None = None,
) -> Ending:
    """Call `function(**arguments)` and come back within `limit` seconds (plus the pool's grace), whatever it does.

    Never raises, except for the cancellation of the caller, which is passed on to an asynchronous function first.
    `late` is told when code that was given up on comes to its end after all.
    """
    if not limit > 0 or math.isnan(limit):
        return TimedOut(max(limit, 0.0), started=False)
    if asynchronous:
        return await _await_within(_coroutine(function, arguments), limit, threads, late)
    loop = asyncio.get_running_loop()
    started = loop.time()
    job = threads.submit(partial(function, **arguments), loop, late)
    timer = loop.call_later(limit, _give_up, job.done)
    try:
        ending = await job.done
    except asyncio.CancelledError:
        threads.abandon(job)
        raise
    finally:
        timer.cancel()
    if ending is None:
        return TimedOut(limit, started=threads.abandon(job))
    if isinstance(ending, Returned) and inspect.isawaitable(ending.value):
        # A decorator hid that the function is asynchronous: its real work has not begun yet.
        left = limit - (loop.time() - started)
        return await _await_within(_awaited(ending.value), max(left, 0.001), threads, late)
    return ending


def _give_up(waited_for: asyncio.Future[Any]) -> None:
    if not waited_for.done():
        waited_for.set_result(None)


async def _coroutine(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Returned | Raised:
    with Trap() as trap:
        return Returned(await function(**arguments))
    return Raised(cast("BaseException", trap.error))


async def _awaited(value: Awaitable[Any]) -> Returned | Raised:
    with Trap() as trap:
        return Returned(await value)
    return Raised(cast("BaseException", trap.error))


async def _await_within(coroutine: Any, limit: float, threads: Threads, late: Late | None) -> Ending:
    loop, caller = asyncio.get_running_loop(), asyncio.current_task()
    waiter: asyncio.Future[None] = loop.create_future()
    # It keeps the caller's name, so that whoever finds the loop blocked can say by which run.
    name = caller.get_name() if caller is not None else None
    task: asyncio.Task[Returned | Raised] = loop.create_task(coroutine, name=name)
    task.add_done_callback(lambda _: _give_up(waiter))
    timer = loop.call_later(limit, _give_up, waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        await _cancel(task, threads, late)
        raise
    finally:
        timer.cancel()
    if task.done():
        return Raised(asyncio.CancelledError("it cancelled itself")) if task.cancelled() else task.result()
    await _cancel(task, threads, late)
    return TimedOut(limit)


async def _cancel(task: asyncio.Task[Any], threads: Threads, late: Late | None) -> None:
    """Ask the task to end, give it the grace to do so, and leave it behind if it will not."""
    if late is not None:
        task.add_done_callback(lambda ended: None if ended.cancelled() else late(ended.result()))
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=threads.grace)
    finally:
        if not task.done():
            threads.stray(task)
