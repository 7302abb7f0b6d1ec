"""An Agent: a worker described. What it may use, what it is for, how far it may go, and when its work counts as done.

An Agent is a value. It holds no connection and no state; every run of it is a log in an App's store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from capataz.agent.budget import Budget as Budget
from capataz.agent.offered import AgentTool
from capataz.events.facts import JSON, Event, Kind, Role
from capataz.mistakes import Misuse
from capataz.outcome import Answered, Completed, Outcome
from capataz.policy.policy import Policy
from capataz.ports import Deadlines, Model
from capataz.runtime import described
from capataz.runtime.blocking import blocking

if TYPE_CHECKING:
    from capataz.app import App
    from capataz.checks import Check
    from capataz.guards.base import Guard
    from capataz.runtime.handle import Handle
    from capataz.runtime.supervise import Supervisor
    from capataz.runtime.yard import Spec
    from capataz.tools.define import Tool


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
        if app is not None:
            described.check_app(app)
            return app.run(self, task, task_type=task_type, conversation=conversation, tenant=tenant, user=user)
        work = self.arun(task, task_type=task_type, conversation=conversation, tenant=tenant, user=user)
        return blocking(work, "await agent.arun(...)")

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
        described.check_app(app)
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
        (-1,000 to 1,000) goes first. `delay` is the seconds before which it is not begun. `key` makes submitting
        harmless to repeat: a second task with the same key is the first one, also when that is over. Raises `Misuse`
        where that is another tenant's, user's or agent's, or another task, type, conversation or priority.
        """
        from capataz.memory.conversation import Arrived
        from capataz.ports import Job
        from capataz.runtime.conversing import conversations_of, named

        described.check_app(app)
        described.check_task(self.name, task)
        described.check_texts({"task": task, "task_type": task_type, "tenant": tenant, "user": user, "key": key})
        described.check_place(priority, delay, key)
        around = app.yard().around
        due = around.clock.now() + float(delay) if delay else 0.0
        talk = None if conversation is None else named(conversation)
        job = Job(around.chance.identity(), self.name, task, task_type, talk, tenant, priority, due, key, user)
        run = await app.engine.submit(job)
        if run != job.run:
            described.check_same(job, await app.engine.look(run))
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
        work = self.asubmit(
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
        return blocking(work, "await agent.asubmit(...)")

    def handle(self, run: str, *, app: App) -> Handle:
        """The handle of a run that was submitted earlier, from whatever process."""
        from capataz.runtime.handle import Handle

        described.check_app(app)
        described.check_texts({"run": run})
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
        from capataz.agent.preparing import prepared

        return prepared(self, app, {})

    def read(self, outcome: Outcome) -> Outcome:
        """The outcome with its typed `value`, where the agent's answers have a type."""
        if self.answer is None or not isinstance(outcome, (Completed, Answered)):
            return outcome
        from capataz.runtime.typed import TypedAnswer

        return replace(outcome, value=TypedAnswer(self.answer).value(outcome.answer))
