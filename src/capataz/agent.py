"""An Agent: a worker described. What it may use, what it is for, how far it may go, and when its work counts as done.

An Agent is a value. It holds no connection and no state; every run of it is a log in an App's store.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import orjson

from capataz.events.facts import ACTING, JSON, Ceilings, Event, Kind, Role, Versions
from capataz.mistakes import Misuse
from capataz.outcome import Answered, Completed, Outcome
from capataz.policy.policy import Policy
from capataz.ports import Deadlines, Model
from capataz.runtime import described

if TYPE_CHECKING:
    from capataz.app import App
    from capataz.checks import Check
    from capataz.guards.base import Guard
    from capataz.runtime.handle import Handle
    from capataz.runtime.supervise import Supervisor
    from capataz.runtime.worker import Voice
    from capataz.runtime.yard import Spec
    from capataz.tools.define import Tool


@dataclass(frozen=True, slots=True)
class Budget:
    """An allowance: the hard ceilings of one run, with all its sub-agents. None is no limit.

    `money` in US dollars, `seconds` of wall clock. Reaching one ends the run `Partial`, with what it has.
    """

    turns: int | None = 60
    calls: int | None = 100
    tokens: int | None = 1_000_000
    money: float | Decimal | None = None
    seconds: float | None = 3600.0

    def __post_init__(self) -> None:
        for name in ("turns", "calls", "tokens", "money", "seconds"):
            described.check_allowance(name, getattr(self, name), whole=name in ("turns", "calls", "tokens"))

    def ceilings(self) -> Ceilings:
        money = None if self.money is None else Decimal(str(self.money))
        return Ceilings(self.turns, self.calls, self.tokens, money, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent offered to another as a tool: its outcome comes back as data, and only `completed` confirms it."""

    agent: Agent | Callable[[], Agent]
    name: str
    description: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Agent:
    """A worker and the rules it works under.

    `model` is "openai:NAME", "anthropic:NAME" (any compatible server with `base_url`), or an object with the `Model`
    port. `role` is "acting" (it must do something, and `Completed` needs confirmed effects), "talking" or
    "coordinating" (these can only end `Answered`). `done_when` are checks that define done; with them the runtime
    closes the run by itself as soon as all pass.
    """

    name: str
    model: str | Model
    tools: Sequence[Tool | Callable[..., Any] | AgentTool] = ()
    instructions: str = ""
    role: Role = "acting"
    budget: Budget = field(default_factory=Budget)
    done_when: Sequence[Check | Callable[..., Any]] = ()
    policy: Policy | None = None
    guards: Sequence[Guard[Any]] = ()
    """The user's own guards, beside the default ones."""
    deadlines: Deadlines = Deadlines()
    max_output: int | None = None
    temperature: float | None = None
    extra: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    window: int | None = None
    """Tokens the model can see at once. None: looked up for known models, else only a refusal says that it is full."""
    keep_last: int = 8
    """Messages at the end of a history that are never compressed."""
    summary_model: str | Model | None = None
    """Writes the summaries of long histories; the agent's own model where none is given."""
    failover: Sequence[str] = ()
    """Models to hop to, in order, on a rate limit only. Empty: wait instead."""
    supervisor: Agent | Supervisor | None = None
    """Asked before a person when an error's terminal action is "supervisor"."""
    answer: type[Any] | None = None
    """The type the answer must have; what does not validate goes back, then is a contract fault."""

    def __post_init__(self) -> None:
        described.check_name(self.name)
        self._check_kinds(f"agent {self.name!r}:")
        if self.keep_last < 1:
            raise Misuse(f"agent {self.name!r}: keep_last={self.keep_last}: at least the last message is always kept")
        if self.done_when and self.role != "acting":
            raise Misuse(f"agent {self.name!r}: done_when is for acting agents; a {self.role} one can only answer")
        if self.role not in ("acting", "talking", "coordinating"):
            raise Misuse(f"agent {self.name!r}: role {self.role!r} is not one of acting, talking, coordinating")

    def _check_kinds(self, where: str) -> None:
        """Every part is of the kind it has to be."""
        described.check_model(f"{where} model", self.model)
        if self.summary_model is not None:
            described.check_model(f"{where} summary_model", self.summary_model)
        for name in ("tools", "done_when", "guards", "failover"):
            described.check_list(f"{where} {name}", getattr(self, name))
        described.check_guards(where, self.guards)
        described.check_answer(where, self.answer)
        described.check_is(f"{where} instructions", self.instructions, str, "give text, or leave it out")
        described.check_is(f"{where} budget", self.budget, Budget, "give a Budget, as Budget(turns=20)")
        described.check_is(f"{where} deadlines", self.deadlines, Deadlines, "give a Deadlines, or leave it out")
        if self.policy is not None:
            described.check_is(
                f"{where} policy", self.policy, Policy, "give a Policy; App(policy=...) also takes a path"
            )

    def run(
        self,
        task: str,
        *,
        app: App | None = None,
        task_type: str | None = None,
        conversation: str | None = None,
        tenant: str = "",
        user: str = "",
    ) -> Outcome:
        """Run a task to its outcome. Without an `app`, the log goes to the default store.

        In a `conversation` the agent is told what was said before; its runs work one at a time. `tenant` and `user` are
        on whose behalf it works; their accounts pay.
        """

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if app is not None:
                return app.run(self, task, task_type=task_type, conversation=conversation, tenant=tenant, user=user)
            return asyncio.run(
                self.arun(task, task_type=task_type, conversation=conversation, tenant=tenant, user=user)
            )
        raise Misuse("an event loop is already running here: use `await agent.arun(...)`")

    async def arun(
        self,
        task: str,
        *,
        app: App | None = None,
        task_type: str | None = None,
        conversation: str | None = None,
        tenant: str = "",
        user: str = "",
        on_event: Callable[[str, Event], None] | None = None,
    ) -> Outcome:
        """`run`, for asynchronous code. `on_event(run, event)` is called with every fact as it happens."""
        from capataz.app import App

        if app is None:
            async with App() as alone:
                return await alone.arun(
                    self,
                    task,
                    task_type=task_type,
                    conversation=conversation,
                    tenant=tenant,
                    user=user,
                    on_event=on_event,
                )
        return await app.arun(
            self, task, task_type=task_type, conversation=conversation, tenant=tenant, user=user, on_event=on_event
        )

    async def asubmit(
        self,
        task: str,
        *,
        app: App,
        task_type: str | None = None,
        conversation: str | None = None,
        tenant: str = "",
        user: str = "",
        priority: int = 0,
        delay: float = 0.0,
        key: str | None = None,
    ) -> Handle:
        """Put a task into the App's queue, for a worker to run, and return at once.

        In a `conversation` its runs are driven one at a time, in the order of arrival. `tenant` and `user` are on whose
        behalf it is: their accounts pay. Slots are shared out evenly among tenants; within a tenant a higher `priority`
        goes first. `delay` is the seconds before which it is not begun. `key` makes submitting harmless to repeat: a
        second task with the same key is the first one, also when that is over.
        """
        from capataz.memory.conversation import Arrived
        from capataz.ports import Job
        from capataz.runtime.conversing import conversations_of, named

        described.check_task(self.name, task)
        if delay < 0:
            raise Misuse(f"delay={delay!r}: give seconds, 0 or more")
        around = app.yard().around
        due = around.clock.now() + delay if delay else 0.0
        talk = conversation and named(conversation)
        job = Job(around.chance.identity(), self.name, task, task_type, talk, tenant, priority, due, key, user)
        run = await app.engine.submit(job)
        if talk and run == job.run:  # the worker keeps it too: whichever comes first
            talks = conversations_of(app.store, around.clock.now)
            await talks.arrive(Arrived(talk, run, self.name, task, tenant, user))
        return self.handle(run, app=app)

    def submit(
        self,
        task: str,
        *,
        app: App,
        task_type: str | None = None,
        conversation: str | None = None,
        tenant: str = "",
        user: str = "",
        priority: int = 0,
        delay: float = 0.0,
        key: str | None = None,
    ) -> Handle:
        """`asubmit`, for code that is not asynchronous."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(
                self.asubmit(
                    task,
                    app=app,
                    task_type=task_type,
                    conversation=conversation,
                    tenant=tenant,
                    user=user,
                    priority=priority,
                    delay=delay,
                    key=key,
                )
            )
        raise Misuse("an event loop is already running here: use `await agent.asubmit(...)`")

    def handle(self, run: str, *, app: App) -> Handle:
        """The handle of a run that was submitted earlier, from whatever process."""
        from capataz.runtime.handle import Handle

        return Handle(run, app.store, app.engine, self.read)

    def as_tool(self, name: str | None = None, *, description: str = "", kind: Kind | None = None) -> AgentTool:
        """This agent as a tool of another: it takes a task in words and gives back the outcome of its run.

        An acting agent's tool is of kind "exec": the parent's effect is confirmed only if the child completed. A
        talking or coordinating one's is a "read".
        """
        return AgentTool(
            agent=self,
            name=name or self.name.replace("-", "_").replace(" ", "_"),
            description=description or f"Hand a task to the agent {self.name!r}. {self.instructions[:200]}".strip(),
            kind=kind or ("exec" if self.role == "acting" else "read"),
        )

    @staticmethod
    def later(name: str, agent: Callable[[], Agent], *, description: str = "", kind: Kind = "exec") -> AgentTool:
        """An agent that is not made yet, as a tool: for agents that hand work to each other.

        `agent` gives it when a run is prepared. `kind` is "exec" where the agent acts, "read" where it only answers.

        >>> back = Agent.later("developer", lambda: developer)
        >>> reviewer = Agent("reviewer", "openai:gpt-4.1", [back], role="talking")
        >>> developer = Agent("developer", "openai:gpt-4.1", [reviewer.as_tool()])

        How often such agents may hand the work to and fro without changing anything is the business of the guard
        `handing`; more than sixteen runs never stand one inside the other.
        """
        return AgentTool(
            agent=agent, name=name, description=description or f"Hand a task to the agent {name!r}.", kind=kind
        )

    def prepare(self, app: App) -> Spec:
        """Everything resolved and checked, so that a mistake shows before the run begins. Opens nothing."""
        return self._prepared(app, {})

    def _prepared(self, app: App, known: dict[int, Spec]) -> Spec:
        """`known` are the agents that were met on the way, by identity: a ring of agents is prepared once."""
        from capataz.models.prices import context_window
        from capataz.runtime.guarding import rules_of
        from capataz.runtime.typed import TypedAnswer
        from capataz.runtime.worker import Worker
        from capataz.runtime.yard import Spec

        policy = self.policy or app.policy
        children = dict[str, "Spec"]()
        toolset = self._toolset()
        voices = self._voices(app)
        typed = TypedAnswer(self.answer) if self.answer is not None else None
        system = self.instructions if typed is None else f"{self.instructions}\n\n{typed.instruction}".strip()
        declared = sum(len(orjson.dumps(tool.schema)) + len(tool.description.encode()) + 64 for tool in toolset.specs)
        worker = Worker(
            voices=voices,
            system=system.encode("utf-8", "replace").decode(),
            toolset=toolset,
            checks=self._checks(),
            deadlines=self.deadlines,
            max_output=self.max_output,
            temperature=self.temperature,
            extra=self.extra,
            read_answer=typed.problem if typed is not None else None,
            supervise=self._supervise(app),
            summariser=self._voice(app, self.summary_model) if self.summary_model is not None else None,
        )
        spec = known[id(self)] = Spec(
            name=self.name,
            role=self.role,
            instructions=self.instructions,
            worker=worker,
            rules=rules_of(policy, self.guards),
            ceilings=self.budget.ceilings(),
            versions=Versions(_digest(self.instructions), toolset.digest, policy.digest),
            overhead=declared + len(system.encode("utf-8", "replace")),
            children=children,
            window=self.window or context_window(voices[0].name, voices[0].priced_as),
            keep_last=self.keep_last,
        )
        for item in self.tools:
            if isinstance(item, AgentTool):
                other = _behind(item)
                children[item.name] = known.get(id(other)) or other._prepared(app, known)
        return spec

    def read(self, outcome: Outcome) -> Outcome:
        """The outcome with its typed `value`, where the agent's answers have a type."""
        if self.answer is None or not isinstance(outcome, (Completed, Answered)):
            return outcome
        from capataz.runtime.typed import TypedAnswer

        return replace(outcome, value=TypedAnswer(self.answer).value(outcome.answer))

    def _toolset(self) -> Any:
        from capataz.tools.define import Tool, tool
        from capataz.tools.toolset import Toolset

        made: list[Tool[..., Any]] = []
        for item in self.tools:
            if isinstance(item, AgentTool):
                made.append(_agent_tool(item))
            else:
                made.append(cast("Tool[..., Any]", item) if isinstance(item, Tool) else tool(item))
        return Toolset(made)

    def _checks(self) -> dict[str, Check]:
        from capataz.checks import as_check

        checks: dict[str, Check] = {}
        for given in self.done_when:
            check = as_check(given)
            if check.name in checks:
                raise Misuse(f"agent {self.name!r}: two checks are called {check.name!r}; name them apart")
            checks[check.name] = check
        return checks

    def _voices(self, app: App) -> tuple[Voice, ...]:
        """The agent's model and those it may hop to, each resolved once for the whole App."""
        voices = [self._voice(app, self.model, self.base_url, self.api_key)]
        own = self.model.partition(":")[0] if isinstance(self.model, str) else ""
        for name in self.failover:
            # The same provider is reached as the agent's own model is: a private server must not become a public one.
            same = name.partition(":")[0] == own
            voices.append(self._voice(app, name, self.base_url, self.api_key) if same else self._voice(app, name))
        if self.budget.money is not None:
            for voice in voices:
                self._check_price(app, voice.priced_as, voice.name)
        return tuple(voices)

    def _voice(self, app: App, given: str | Model, base_url: str | None = None, api_key: str | None = None) -> Voice:
        from capataz.runtime.worker import Voice

        if not isinstance(given, str):
            kind = type(given).__name__
            return Voice(given, kind, str(getattr(given, "name", kind)), endpoint=f"{kind}#{id(given)}")
        model, name = app.model(given, base_url, api_key)
        provider = given.partition(":")[0]
        endpoint = provider if base_url is None else f"{provider} at {base_url}"
        return Voice(model, provider, name, own_server=base_url is not None, endpoint=endpoint)

    def _supervise(self, app: App) -> Any:
        if self.supervisor is None:
            return None
        from capataz.runtime.supervise import by_agent, by_callable

        if isinstance(self.supervisor, Agent):
            return by_agent(self.supervisor.prepare(app), app.yard())
        return by_callable(self.supervisor, app.threads)

    def _check_price(self, app: App, provider: str, name: str) -> None:
        from capataz.events.facts import Usage
        from capataz.models.prices import price

        if name not in app.prices and price(name, provider, Usage(1, 1)) is None:
            raise Misuse(
                f"agent {self.name!r} has a budget of money, but no price is known for {name!r}: "
                f"give App(prices={{{name!r}: (dollars per million input tokens, output tokens)}})"
            )


def _behind(item: AgentTool) -> Agent:
    """The agent behind a tool, which may have been made after the tool."""
    agent = cast("object", item.agent if isinstance(item.agent, Agent) else item.agent())
    if isinstance(agent, Agent):
        return agent
    raise Misuse(f"Agent.later({item.name!r}, ...) has to give an Agent, not {type(agent).__name__}")


def _agent_tool(item: AgentTool) -> Any:
    from capataz.tools.define import tool

    name = _behind(item).name

    async def delegate(task: str) -> dict[str, JSON]:
        raise Misuse(f"the agent {name!r} can only be run by the runtime, as a child of a run ({task!r})")

    confirm = _child_completed if item.kind in ACTING else None
    # Used again with the same key, it takes the same child up: a crash in the middle does not begin a second one.
    made = tool(name=item.name, description=item.description, kind=item.kind, confirm=confirm, idempotent=True)(
        delegate
    )
    return replace(made, agent=name)


def _child_completed(result: dict[str, JSON] | None, phase: str) -> bool | None:
    """Only a completed child confirms the act of delegating; one that is suspended leaves it open."""
    if result is None:
        return False if phase == "before" else None
    return None if result.get("outcome") == "escalated" else result.get("outcome") == "completed"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
