"""One thread that owns one SQLite connection and works through a queue, many requests to a transaction.

A durable commit costs a trip to the disk, whatever is in it, so whoever arrives while one is under way shares the next
one. The answers go back to the event loops that asked, one wake-up for each loop and commit. A request that SQLite
refuses fails alone: the others of its transaction are tried again by themselves. The thread must never end before it
is told to, must never leave a request without an answer, and answers nobody before the commit.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar

from capataz.mistakes import StoreError
from capataz.stores.asking import Answer, Request, deliver
from capataz.stores.sqlite.file import explain, is_busy

T = TypeVar("T")
MOST_BYTES = 8 * 1024 * 1024
"""Of payload in one transaction: beyond it the requests of a burst would wait for one another too long."""


@dataclass(slots=True, eq=False)
class Hand:
    """The thread. It starts with the first request; after `stop` every request is refused."""

    path: Path
    open: Callable[[], sqlite3.Connection]
    begin: Literal["BEGIN", "BEGIN IMMEDIATE"]
    most: int
    """Requests in one transaction."""
    timeout: float
    """Seconds until a request without an answer fails."""
    busy: float
    """Seconds another process may hold the file."""
    _queue: SimpleQueue[Request[sqlite3.Connection, Any] | None] = field(default_factory=SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _stopped: bool = False
    _connection: sqlite3.Connection | None = None

    def submit(self, doing: str, perform: Callable[[sqlite3.Connection], T], size: int = 0) -> asyncio.Future[T]:
        """Queue a request of the running loop. `doing` ends the sentence "could not …" together with the path."""
        loop = asyncio.get_running_loop()
        request = Request(perform, doing, size, loop, loop.create_future())
        with self._lock:
            if self._stopped:
                request.answer(StoreError(f"could not {doing} {self.path}: the store is closed; open it again"))
                return request.future
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"capataz {self.path.name}", daemon=True)
                self._thread.start()
            self._queue.put(request)
        request.timer = loop.call_later(self.timeout, self._give_up, request)
        return request.future

    async def stop(self) -> None:
        """Work through what is queued and let go of the file."""
        with self._lock:
            thread, again = self._thread, self._stopped
            self._stopped = True
            if thread is not None and not again:
                self._queue.put(None)
        if thread is None:
            return
        await asyncio.to_thread(thread.join, self.timeout)
        if thread.is_alive():
            raise StoreError(f"could not close {self.path}: the disk has not answered for {self.timeout:g} s")

    def _give_up(self, request: Request[sqlite3.Connection, Any]) -> None:
        request.abandoned = True
        request.answer(
            StoreError(
                f"could not {request.doing} {self.path}: no answer for {self.timeout:g} s. "
                "Whether it was done is not known: claim the run and read it again; look at the disk"
            )
        )

    # ── in the thread ────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        going_on = True
        while going_on:
            group, going_on = self._gather()
            waiting = list(group)
            try:
                self._work(group, waiting)
            finally:
                if waiting:  # something nobody thought of: the thread ends, and so must the waiting
                    self._refuse(waiting)
        self._let_go()

    def _gather(self) -> tuple[list[Request[sqlite3.Connection, Any]], bool]:
        """The next requests for one transaction, and whether there is anything to do after them."""
        group: list[Request[sqlite3.Connection, Any]] = []
        size = 0
        request = self._queue.get()
        while request is not None:
            if not request.abandoned:
                group.append(request)
                size += request.size
            if len(group) >= self.most or size >= MOST_BYTES:
                return group, True
            try:
                request = self._queue.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _work(
        self, group: Sequence[Request[sqlite3.Connection, Any]], waiting: list[Request[sqlite3.Connection, Any]]
    ) -> None:
        """Answer every request of the group; those answered leave `waiting`."""
        if not group:
            return
        try:
            answers = self._together(group)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self._let_go()
            if len(group) > 1 and self._only_some(error):
                for request in group:
                    self._work([request], waiting)
                return
            answers = [(request, self._words(error, request)) for request in group]
        except StoreError as error:
            answers = [(request, StoreError(str(error))) for request in group]
        deliver(answers)
        for request, _ in answers:
            waiting.remove(request)

    def _together(self, group: Sequence[Request[sqlite3.Connection, Any]]) -> list[Answer]:
        """One transaction. What a request refuses (`StoreError`) is its own affair and has changed nothing."""
        if self._connection is None:
            self._connection = self.open()
        connection = self._connection
        self._begin(connection)
        answers: list[Answer] = []
        for request in group:
            try:
                answers.append((request, request.perform(connection)))
            except StoreError as refusal:
                answers.append((request, refusal))
        connection.execute("COMMIT")
        return answers

    def _begin(self, connection: sqlite3.Connection) -> None:
        """SQLite waits for other processes by itself, except where it fears that both would wait for ever."""
        until = time.monotonic() + self.busy
        while True:
            try:
                connection.execute(self.begin)
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= until:
                    raise
            time.sleep(0.005)

    def _only_some(self, error: Exception) -> bool:
        """Whether others of the group may fare better: not when the file cannot be had at all."""
        return not (isinstance(error, sqlite3.Error) and is_busy(error))

    def _words(self, error: Exception, request: Request[sqlite3.Connection, Any]) -> StoreError:
        if isinstance(error, sqlite3.Error):
            return explain(error, self.path, request.doing)
        return StoreError(f"could not {request.doing} {self.path}: a value cannot be stored ({error})")

    def _refuse(self, waiting: Sequence[Request[sqlite3.Connection, Any]]) -> None:
        """The thread is about to end with an unforeseen error: the next request starts another one."""
        self._let_go()
        with self._lock:
            self._thread = None
        words = "the store's thread ended with an unforeseen error; its trace is on stderr"
        deliver([(request, StoreError(f"could not {request.doing} {self.path}: {words}")) for request in waiting])

    def _let_go(self) -> None:
        """Close the connection, which undoes what was not committed; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
