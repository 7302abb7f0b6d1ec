"""An App: where runs are kept, what every agent in it shares, and who may watch.

Nothing is opened when an App is made; the store and the connections come to life with the first run and are let go
by `close`. There is no global state: two Apps in one process know nothing of each other.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Coroutine, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from capataz.events.facts import Event, Row, Said
from capataz.faults.classify import ToolFaults
from capataz.mistakes import Misuse, PolicyMisuse
from capataz.outcome import Outcome
from capataz.policy.policy import Policy
from capataz.policy.table import PASSING
from capataz.runtime import described
from capataz.runtime.blocking import blocking

if TYPE_CHECKING:
    from capataz.agent import Agent
    from capataz.engines.temporal import TemporalEngine
    from capataz.memory.conversation import Conversations, Thread
    from capataz.money.accounts import Limit, Spent
    from capataz.ports import Accounts, Chance, Clock, Engine, Model, Observer, Store
    from capataz.privacy.mask import Mask
    from capataz.runtime.shift import Shift, Terms
    from capataz.runtime.watchdog import Unfit
    from capataz.runtime.webhook import Webhook
    from capataz.runtime.yard import Spec, Yard
    from capataz.tools.usercode import Threads

T = TypeVar("T")
DEFAULT_STORE = "sqlite:///capataz.db"


class App:
    """Holds the store, the policy and the prices that its runs share.

    `store` is a URL: `sqlite:///file.db` (a file in the current folder), `sqlite:////absolute/file.db`,
    `postgresql://user:password@host/database` (for several machines), or `memory:` for a log that ends with the
    process. Without one, `CAPATAZ_STORE` is used, else `sqlite:///capataz.db`.
    `prices` are dollars per million input and output tokens, by model name; they win over the library's.
    `mask` says what must not leave for a provider: True for the default `capataz.privacy.mask.Mask` (personal data and
    secrets, with the secrets of the environment), a `Mask` of your own, or False for none.
    `policy` is a `Policy` or the path of a policy file. `webhook` is an address that is told when a run waits for a
    person; what is sent there is signed with the secret in `CAPATAZ_WEBHOOK_SECRET`. `faults` says which row of the
    fault table exceptions of your own belong to, when a tool raises them: `{OutOfStock: "invalid_input"}`. `agents` are
    those whose submitted runs its workers drive. `telemetry` watches every run: an `OpenTelemetry`, a `JsonLines`, or
    several of them. `accounts` are limits of what tenants, users and agents may spend, beside those set in the store.
    `key` encrypts what is kept (see `docs/privacy.md`); without it `CAPATAZ_KEY` is used, if it is set.
    `engine` brings submitted runs to the workers: the queue in the store itself where none is given, else a
    `capataz.engines.temporal.TemporalEngine`.

    >>> App("memory:").store_url
    'memory:'
    """

    def __init__(
        self,
        store: str | Store | None = None,
        *,
        policy: Policy | str | Path | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        webhook: str | None = None,
        faults: Mapping[type[BaseException], Row] | None = None,
        agents: Sequence[Agent] = (),
        engine: TemporalEngine | None = None,
        mask: Mask | bool = True,
        accounts: Sequence[Limit] = (),
        key: str | None = None,
        telemetry: Observer | Sequence[Observer] = (),
    ) -> None:
        given = store if store is not None else os.environ.get("CAPATAZ_STORE") or DEFAULT_STORE
        described.check_store(given)
        described.check_prices(prices or {})
        described.check_list("App: agents", agents)
        described.check_agents(agents, "App(agents=[...])")
        self.store_url = shown_url(given) if isinstance(given, str) else type(given).__name__
        self.agents = tuple(agents)
        self._cluster = engine
        self.policy = read_policy(policy) if isinstance(policy, (str, Path)) else policy or Policy()
        self._given = given
        self._store: Store | None = None if isinstance(given, str) else given
        self._clock, self._chance = clock, chance
        self._prices = {
            name: (Decimal(str(first)), Decimal(str(second))) for name, (first, second) in (prices or {}).items()
        }
        self._models: dict[tuple[str, str | None, str | None], tuple[Model, str]] = {}
        self._faults = ToolFaults(_rows(faults or {}))
        self._yard: Yard | None = None
        self.observers: tuple[Observer, ...] = tuple(telemetry) if isinstance(telemetry, Sequence) else (telemetry,)
        """Those who watch every run; fixed once the first run has begun."""
        self._mask = mask
        self._limits = tuple(accounts)
        self.conversations = ConversationBook(self)
        """The conversations in the store: listed, read, erased."""
        self.accounts = AccountBook(self)
        """The balances in the store: limits set and read, spending added up."""
        self._key = key or os.environ.get("CAPATAZ_KEY")
        if key and not isinstance(given, str):
            raise Misuse("a store that is made already has its own key: give it to the store, not to the App")
        self._webhook = self._hook(webhook) if webhook is not None else None

    @property
    def prices(self) -> Mapping[str, tuple[Decimal, Decimal]]:
        return self._prices

    @property
    def store(self) -> Store:
        """The store, opened (but no file touched) on first use."""
        if self._store is None:
            from capataz.stores.open import open_store

            assert isinstance(self._given, str)
            self._store = open_store(self._given, self._key)
        return self._store

    @property
    def engine(self) -> Engine:
        """What brings submitted runs to workers."""
        from capataz.runtime.handle import engine_of

        return engine_of(self.store) if self._cluster is None else self._cluster.over(self.store)

    def model(self, name: str, base_url: str | None, api_key: str | None) -> tuple[Model, str]:
        """The model behind "provider:name", shared by all agents that ask for the same, and its name there."""
        key = (name, base_url, api_key)
        if key not in self._models:
            from capataz.models.providers import resolve

            self._models[key] = resolve(name, base_url=base_url, api_key=api_key)
        return self._models[key]

    async def arun(
        self,
        agent: Agent,
        task: str,
        *,
        task_type: str | None = None,
        conversation: str | None = None,
        tenant: str = "",
        user: str = "",
        on_event: Callable[[str, Event], None] | None = None,
    ) -> Outcome:
        """Run a task to its outcome. `on_event(run, event)` is called with every fact as it happens.

        In a `conversation` the agent is told what was said before, and one run is at work at a time: this one waits for
        its turn. `tenant` and `user` are on whose behalf it works; their accounts pay.
        """
        from dataclasses import replace

        from capataz.runtime.conversing import named
        from capataz.runtime.launch import launch
        from capataz.runtime.yard import Task

        described.check_agent(agent)
        described.check_task(agent.name, task)
        described.check_texts({"task_type": task_type, "tenant": tenant, "user": user})
        yard = self.yard()
        spec = await self._prepare(agent)
        talk = None if conversation is None else named(conversation)
        given = Task(task, task_type, talk, tenant=tenant, user=user)
        outcome = await launch(spec, given, replace(yard, on_event=on_event) if on_event else yard)
        return agent.read(outcome)

    async def aresume(self, agent: Agent, run: str) -> Outcome:
        """Take up a run that was suspended, or whose process died, from its log."""
        from capataz.runtime.launch import resume

        described.check_agent(agent)
        described.check_texts({"run": run})
        return agent.read(await resume(await self._prepare(agent), run, self.yard()))

    def run(
        self,
        agent: Agent,
        task: str,
        *,
        task_type: str | None = None,
        conversation: str | None = None,
        tenant: str = "",
        user: str = "",
    ) -> Outcome:
        """`arun`, for code that is not asynchronous."""
        work = self.arun(agent, task, task_type=task_type, conversation=conversation, tenant=tenant, user=user)
        return self._sync(work, "app.arun")

    def resume(self, agent: Agent, run: str) -> Outcome:
        """`aresume`, for code that is not asynchronous."""
        return self._sync(self.aresume(agent, run), "app.aresume")

    def worker(
        self, *agents: Agent, terms: Terms | None = None, on_unfit: Callable[[Unfit], None] | None = None
    ) -> Shift:
        """A worker for submitted runs of these agents, or of the App's: `await app.worker().work()`.

        `terms` say how many runs at once, and how the worker's signs of life are paced. `on_unfit` is told, in a thread
        of its own, when the worker has to be replaced; with `at_once`, nothing but ending the process helps.
        """
        from capataz.runtime.handle import queue_of
        from capataz.runtime.shift import Shift, Terms

        described.check_agents(agents, "app.worker(...)")
        known = {agent.name: agent for agent in (agents or self.agents)}
        if not known:
            raise Misuse("a worker needs agents: App(agents=[...]) or app.worker(agent, ...)")
        specs = {name: agent.prepare(self) for name, agent in known.items()}
        if (cluster := self._cluster) is None:
            return Shift(specs, queue_of(self.store), self.yard(), terms or Terms(), on_unfit)
        queue = cluster.queue(self.store)
        return Shift(specs, queue, self.yard(), terms or Terms(), on_unfit, fill=cluster.slots(queue))

    async def close(self) -> None:
        """Write what is queued and let go of the store, the connections and the threads."""
        await self._let_go()
        if self._yard is not None:
            self._yard.around.threads.close()
            self._yard = None
        if self._store is not None:
            await self._store.close()
            if isinstance(self._given, str):
                self._store = None

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _prepare(self, agent: Agent) -> Spec:
        """The agent made ready; the price list, where it is needed, is read without holding up the loop."""
        from capataz.models.prices import has_list, load

        if agent.base_url is None and any(has_list(name) for name in (agent.model, *agent.failover)):
            await asyncio.to_thread(load)
        return agent.prepare(self)

    def _share(self, mask: Mask) -> None:
        """One mask at every exit: whoever watches runs and was given none of its own uses this App's."""
        for observer in self.observers:
            use_mask: Callable[[object], None] | None = getattr(observer, "use_mask", None)
            if use_mask is not None:
                use_mask(mask.value)

    def _hook(self, url: str) -> Webhook:
        from capataz.runtime.webhook import Webhook
        from capataz.runtime.world import RealClock

        mask = None if isinstance(self._mask, bool) else self._mask
        return Webhook(url, os.environ.get("CAPATAZ_WEBHOOK_SECRET", ""), self._clock or RealClock(), mask)

    async def _let_go(self) -> None:
        if self._webhook is not None:
            await self._webhook.drain()
        for model, _ in self._models.values():
            await model.close()

    def _sync(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        # Connections belong to the loop, and this loop ends with the call.
        return blocking(work, f"await {instead}(...)", after=self._let_go)

    @property
    def threads(self) -> Threads:
        """The pool that synchronous tools, checks and callbacks run in."""
        return self.yard().around.threads

    def yard(self) -> Yard:
        """Where this App's runs are driven; opened on first use."""
        if self._yard is None:
            from capataz.models.gateway import Gateway
            from capataz.models.purse import Purse
            from capataz.runtime.journal import accounts_of
            from capataz.runtime.privacy import privacy_of
            from capataz.runtime.worker import Surroundings
            from capataz.runtime.world import RealChance, RealClock
            from capataz.runtime.yard import Yard
            from capataz.tools.usercode import Threads

            clock, chance = self._clock or RealClock(), self._chance or RealChance()
            accounts = accounts_of(self.store)
            purse = Purse(accounts, clock, self._limits) if accounts is not None else None
            if purse is None and self._limits:
                raise Misuse(f"{self.store_url} keeps no accounts: leave out App(accounts=...)")
            privacy = privacy_of(self._mask)
            if privacy is not None:
                self._share(privacy.mask)
            gateway = Gateway(clock, self._prices, purse=purse)
            around = Surroundings(gateway, clock, chance, Threads(), privacy=privacy, faults=self._faults)
            owner = f"{platform.node()}-{os.getpid()}-{chance.identity()}"
            hook = self._webhook
            tell = hook.tell if hook is not None else None
            self._yard = Yard(self.store, around, owner, on_escalation=tell, observers=self.observers)
        return self._yard


def _rows(faults: Mapping[type[BaseException], Row]) -> Mapping[type[BaseException], Row]:
    for kind, row in faults.items():
        if row not in PASSING | {"invalid_input", "auth", "contract", "unknown"}:
            raise Misuse(f"App(faults={{{kind.__name__}: {row!r}}}): there is no row {row!r} for errors of tools")
    return dict(faults)


class ConversationBook:
    """What people and agents have said in the conversations of an App's store."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def list(self, limit: int = 50) -> list[Thread]:
        """Those that changed last first."""
        return await self._kept().threads(limit)

    async def read(self, conversation: str) -> tuple[Thread, Sequence[Said]]:
        """One, with its summary and all that was said in it, waiting messages last. Raises `NotFound`."""
        return await self._kept().thread(conversation)

    async def erase(self, conversation: str) -> int:
        """Take out the conversation and its runs, with those of their sub-agents; how many runs.

        What was spent stays in the accounts, without a word of what was said. Raises `Misuse` while a run is at work.
        """
        return await self._kept().erase(conversation)

    def _kept(self) -> Conversations:
        from capataz.runtime.conversing import conversations_of

        return conversations_of(self._app.store, self._app.yard().around.clock.now)


class AccountBook:
    """What may be spent and what was, in the accounts of an App's store."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def limits(self) -> list[Limit]:
        """Those set in the store; an App's own are in its code."""
        return await self._kept().limits()

    async def allow(self, limit: Limit) -> None:
        """Set a limit, in the place of the one there is for this account and period. It counts within seconds."""
        await self._kept().allow(limit)
        if (purse := self._app.yard().around.gateway.purse) is not None:
            purse.forget()

    async def disallow(self, whose: str, name: str, period: str) -> bool:
        """Take a limit away; False where there was none."""
        return await self._kept().disallow(whose, name, period)

    async def spent(self, by: str = "tenant", period: str = "total", limit: int = 100) -> list[Spent]:
        """What each tenant, user, agent, run or source has spent: in "total", in "2026-11", on "2026-11-30"."""
        return await self._kept().spent(by, period, limit)

    def _kept(self) -> Accounts:
        from capataz.runtime.journal import accounts_of

        kept = accounts_of(self._app.store)
        if kept is None:
            raise Misuse(f"{self._app.store_url} keeps no accounts")
        return kept


def shown_url(url: str) -> str:
    """The URL of a store as people may see it: without user and password.

    >>> shown_url("postgresql://ana:secret@db.example:5432/runs?password=secret")
    'postgresql://db.example:5432/runs'
    """
    scheme, mark, rest = url.partition("://")
    if scheme in ("postgres", "postgresql") and mark:
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
    return url


def read_policy(path: str | Path) -> Policy:
    """The policy in a file. `PolicyMisuse` when there is none, or when it does not make sense."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyMisuse(f"the policy file {path} cannot be read: {error}") from error
    return Policy.from_toml(text, str(path))
