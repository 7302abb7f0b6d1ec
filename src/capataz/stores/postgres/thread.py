"""Threads that each own one connection to PostgreSQL and work through a shared queue of requests.

The writer is one thread: whoever arrives while a commit is under way shares the next one. Readers, and whoever works
with the queue of jobs, share a few more. A connection that breaks is made again, and what had not been committed is
tried again, for as long as a restart of the server may take; what may have been committed is never done twice. No
request stays without an answer: one that takes too long fails, and its connection is cut.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import psycopg

from capataz.mistakes import StoreError
from capataz.stores.asking import Answer, Request, deliver
from capataz.stores.postgres.server import AGAIN, Connection, Place, connect, cut, explain, is_gone, upgrade
from capataz.stores.postgres.tables import Append, append

T = TypeVar("T")
MOST_BYTES = 8 * 1024 * 1024
"""Of payload in one transaction: beyond it the requests of a burst would wait for one another too long."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
Ask: TypeAlias = Request[Connection, Any]


class CommitUnknown(StoreError):
    """The connection broke between asking for the commit and hearing of it."""


@dataclass(frozen=True, slots=True)
class Once:
    """Work that must not be done again when the connection broke before the server said that it was done.

    Everything else may be: what is read, what an append finds written already, and what leaves things as they are the
    second time.
    """

    perform: Callable[[Connection], Any]

    def __call__(self, connection: Connection) -> Any:
        return self.perform(connection)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: until a request without an answer fails, and how long a server may be away before that is an error."""

    answer: float
    away: float


class Hands:
    """The threads. They start with the first request; after `stop` every request is refused."""

    def __init__(self, where: Place, count: int, most: int, patience: Patience) -> None:
        self._where, self._count, self._most, self._patience = where, count, most, patience
        self._queue: SimpleQueue[Ask | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._hands: list[_Hand] = []
        self._stopped = False

    def submit(self, doing: str, perform: Callable[[Connection], T], size: int = 0) -> asyncio.Future[T]:
        """Queue a request of the running loop. `doing` ends the sentence "could not …" together with the place."""
        loop = asyncio.get_running_loop()
        request: Request[Connection, T] = Request(perform, doing, size, loop, loop.create_future())
        with self._lock:
            if self._stopped:
                words = f"could not {doing} {self._where.shown}: the store is closed; open it again"
                request.answer(StoreError(words))
                return request.future
            self._staff()
            self._queue.put(request)
        request.timer = loop.call_later(self._patience.answer, self._give_up, request)
        return request.future

    async def stop(self) -> None:
        """Work through what is queued and let go of the server."""
        with self._lock:
            hands, again = tuple(self._hands), self._stopped
            self._stopped = True
            for _ in () if again else hands:
                self._queue.put(None)
        for hand in hands:
            await asyncio.to_thread(hand.thread.join, self._patience.answer)
            if hand.thread.is_alive():
                raise StoreError(
                    f"could not close {self._where.shown}: no answer for {self._patience.answer:g} s; "
                    "see whether the server can be reached"
                )

    def _staff(self) -> None:
        """One more thread, where there may be one more and those that are idle have enough to do."""
        self._hands = [hand for hand in self._hands if hand.thread.is_alive()]
        idle = sum(not hand.busy for hand in self._hands)
        if len(self._hands) < self._count and idle <= self._queue.qsize():
            hand = _Hand(self._where, self._most, self._patience, self._queue)
            self._hands.append(hand)
            hand.thread.start()

    def _give_up(self, request: Ask) -> None:
        request.abandoned = True
        for hand in self._hands:
            hand.drop(request)
        request.answer(
            StoreError(
                f"could not {request.doing} {self._where.shown}: no answer for {self._patience.answer:g} s. "
                "Whether it was done is not known: claim the run and read it again; look at the server"
            )
        )


@dataclass(eq=False)
class _Hand:
    """One thread with its connection."""

    where: Place
    most: int
    """Requests in one transaction."""
    patience: Patience
    queue: SimpleQueue[Ask | None]
    busy: bool = True
    _connection: Connection | None = None
    _current: tuple[Ask, ...] = ()
    _met: bool = False
    """The server was there once: if it is away now, it may come back."""
    _committing: bool = False
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._serve, name=f"capataz {self.where.shown}", daemon=True)

    def drop(self, request: Ask) -> None:
        """Nobody waits for it any more: if it is what the thread hangs on, free the thread."""
        connection = self._connection
        if connection is not None and request in self._current:
            cut(connection)

    def _serve(self) -> None:
        going_on = True
        while going_on:
            self.busy = False
            group, going_on = self._gather()
            waiting = list(group)
            self._current = tuple(group)
            try:
                self._work(group, waiting)
            finally:
                self._current = ()
                if waiting:  # something nobody thought of: the thread ends, and so must the waiting
                    self._let_go()
                    words = "a thread of the store ended with an unforeseen error; its trace is on stderr"
                    deliver(
                        [(ask, StoreError(f"could not {ask.doing} {self.where.shown}: {words}")) for ask in waiting]
                    )
        self._let_go()

    def _gather(self) -> tuple[list[Ask], bool]:
        """The next requests for one transaction, and whether there is anything to do after them."""
        group: list[Ask] = []
        size = 0
        request = self.queue.get()
        self.busy = True
        while request is not None:
            if not request.abandoned:
                group.append(request)
                size += request.size
            if len(group) >= self.most or size >= MOST_BYTES:
                return group, True
            try:
                request = self.queue.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _work(self, group: Sequence[Ask], waiting: list[Ask]) -> None:
        """Answer every request of the group; those answered leave `waiting`."""
        until, pause = time.monotonic() + self.patience.away, FIRST_PAUSE
        while group := [request for request in group if not request.abandoned]:
            try:
                answers = self._together(group)
            except StoreError as refusal:  # of the server as a whole
                self._let_go()
                answers = [(request, StoreError(str(refusal))) for request in group]
            except UnicodeError as error:
                answers = self._failed(psycopg.DataError(str(error)), group, waiting, again=False)
            except psycopg.Error as error:
                answers = self._failed(error, group, waiting, time.monotonic() < until)
            self._tell(answers, waiting)
            group = [request for request in group if request in waiting]
            if group:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        waiting.clear()

    def _failed(self, error: psycopg.Error, group: Sequence[Ask], waiting: list[Ask], again: bool) -> list[Answer]:
        """What can be said after an error. Requests without an answer are to be tried again."""
        gone, committing = is_gone(error, self._connection), self._committing
        self._let_go()
        lost = explain(error, self.where, group[0].doing)
        if gone:
            unknown = [ask for ask in group if committing and isinstance(ask.perform, Once)]
            answers: list[Answer] = [(ask, self._unknown(ask)) for ask in unknown]
            for ask in group:
                if isinstance(ask.perform, Append):
                    ask.perform.unsure = ask.perform.unsure or committing
            if not (again and self._met):
                answers += [(ask, explain(error, self.where, ask.doing)) for ask in group if ask not in unknown]
            return answers
        if again and (error.sqlstate or "").startswith(AGAIN):
            return []
        if len(group) == 1:
            return [(group[0], lost)]
        for request in group:
            self._work([request], alone := [request])
            assert not alone
            waiting.remove(request)
        return []

    def _unknown(self, ask: Ask) -> StoreError:
        return CommitUnknown(
            f"could not {ask.doing} {self.where.shown}: the connection broke while it was committed. "
            "Whether it was done is not known: look before doing it again"
        )

    def _tell(self, answers: Sequence[Answer], waiting: list[Ask]) -> None:
        deliver(answers)
        for request, _ in answers:
            waiting.remove(request)

    def _together(self, group: Sequence[Ask]) -> list[Answer]:
        """One transaction. What a request refuses (`StoreError`) is its own affair and has changed nothing."""
        self._committing = False
        connection = self._opened()
        if len(group) == 1 and not isinstance(group[0].perform, Append):
            return self._alone(connection, group)
        connection.execute("BEGIN")
        answers: list[Answer] = []
        for appends, run in groupby(group, key=lambda request: isinstance(request.perform, Append)):
            stretch = tuple(run)
            answers += _appended(connection, stretch) if appends else _performed(connection, stretch)
        self._committing = True
        connection.execute("COMMIT")
        self._committing = False
        return answers

    def _alone(self, connection: Connection, group: Sequence[Ask]) -> list[Answer]:
        """Each statement commits by itself, so that no lock waits for a client that froze; see `Once`."""
        if isinstance(group[0].perform, Once):
            connection.execute("SELECT 1")  # a connection that broke long ago is found out here
            self._committing = True
        answers = _performed(connection, group)
        self._committing = False
        return answers

    def _opened(self) -> Connection:
        if self._connection is None:
            connection = connect(self.where)
            try:
                upgrade(connection, self.where)
            except BaseException:
                connection.close()
                raise
            self._connection, self._met = connection, True
        return self._connection

    def _let_go(self) -> None:
        """Close the connection, which undoes what was not committed; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _appended(connection: Connection, stretch: Sequence[Ask]) -> list[Answer]:
    appends = [request.perform for request in stretch if isinstance(request.perform, Append)]
    return list(zip(stretch, append(connection, appends), strict=True))


def _performed(connection: Connection, stretch: Sequence[Ask]) -> list[Answer]:
    answers: list[Answer] = []
    for request in stretch:
        try:
            answers.append((request, request.perform(connection)))
        except StoreError as refusal:
            answers.append((request, refusal))
    return answers
