"""One server: what it shows, who may come in, and what it works with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection

from capataz.agent import Agent
from capataz.app import App
from capataz.lens.alerts.rules import Rule, default_rules
from capataz.mistakes import Misuse
from capataz.ports import Clock, Engine, JobRow, Queue, Store
from capataz.privacy.mask import Mask
from capataz.runtime.handle import engine_of, queue_of
from capataz.runtime.world import RealClock
from capataz.web.books import Books
from capataz.web.gate import Gate
from capataz.web.shown import Shower
from capataz.web.tokens import Caller, Tokens

if TYPE_CHECKING:
    from capataz.web.receiver import Receiver


@dataclass(slots=True, eq=False)
class Site:
    """Everything behind the pages. Made by `site_for`."""

    app: App
    agents: dict[str, Agent]
    gate: Gate
    books: Books
    shower: Shower
    clock: Clock
    queue: Queue | None
    engine: Engine | None
    receiver: Receiver | None
    rules: tuple[Rule, ...]
    """What the page of alerts holds the runs against."""
    url: str = ""
    """Where it is reached, for links in alerts."""
    patience: float = 3600.0
    """Seconds a page that watches a run is served before it has to ask again."""
    pace: float = 0.5
    """Seconds between two looks at a run that is watched."""
    closes: bool = False
    """Whether the App is closed with the server."""
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    @property
    def store(self) -> Store:
        return self.app.store

    async def has_workers(self) -> bool:
        """Whether somebody is there who drives what is in the queue."""
        if self.queue is None:
            return False
        now = self.clock.now()
        return any(worker.until > now for worker in await self.queue.workers())

    async def job(self, run: str, caller: Caller) -> JobRow | None:
        """What the queue says of a run; None where it knows none, or none of the caller's."""
        row = await self.queue.look(run) if self.queue is not None else None
        return row if row is not None and await self.books.may_see(caller, run, None) else None

    def work(self, job: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Do something beside the requests; it is ended with the server."""
        task = asyncio.get_running_loop().create_task(job, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def site_for(
    app: App,
    agents: tuple[Agent, ...] = (),
    *,
    tokens: Tokens = Tokens(),  # noqa: B008 - frozen
    hosts: tuple[str, ...] = (),
    rules: tuple[Rule, ...] | None = None,
    mask: Mask | None = None,
    masked: bool = True,
    clock: Clock | None = None,
) -> Site:
    """A server for this App. `masked=False` shows originals; without a `mask` the App's own is used, without `rules`
    the built-in ones."""
    from capataz.web.receiver import receiver_for

    clock = clock or RealClock()
    queue, engine = _dispatch(app.store)
    known = {agent.name: agent for agent in (*app.agents, *agents)}
    gate = Gate(tokens, clock, tuple(name.lower() for name in hosts))
    shower = Shower((mask or _mask_of(app)) if masked else None)
    return Site(
        app,
        known,
        gate,
        Books(app.store, queue, clock),
        shower,
        clock,
        queue,
        engine,
        receiver_for(app.store, clock),
        default_rules() if rules is None else rules,
    )


def _mask_of(app: App) -> Mask:
    """What must not leave the App must not be shown either; an App without a mask still has the default one here."""
    privacy = app.yard().around.privacy
    return privacy.mask if privacy is not None else Mask()


def _dispatch(store: Store) -> tuple[Queue | None, Engine | None]:
    """The queue and the engine of a store that has them."""
    try:
        return queue_of(store), engine_of(store)
    except Misuse:
        return None, None


def site_of(connection: HTTPConnection) -> Site:
    """The server a request came to."""
    found = connection.app.state.site
    assert isinstance(found, Site)
    return found
