"""From an Agent as it was described to one that can be run: everything resolved and checked, nothing opened.

What is missing or does not fit shows here, before a run begins: a model nobody knows, two checks of one name, a budget
of money where no price is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import orjson

from capataz.agent import Agent
from capataz.agent.offered import AgentTool
from capataz.checks import Check, as_check
from capataz.events.facts import ACTING, JSON, Usage, Versions
from capataz.mistakes import Misuse
from capataz.models.prices import context_window, price
from capataz.ports import Model
from capataz.runtime.edited import digest
from capataz.runtime.guarding import rules_of
from capataz.runtime.supervise import Supervise, by_agent, by_callable
from capataz.runtime.typed import TypedAnswer
from capataz.runtime.worker import Voice, Worker
from capataz.runtime.yard import Spec
from capataz.tools.define import Tool, tool
from capataz.tools.toolset import Toolset

if TYPE_CHECKING:
    from capataz.app import App


def prepared(agent: Agent, app: App, known: dict[int, Spec]) -> Spec:
    """`known` are the agents that were met on the way, by identity: a ring of agents is prepared once."""
    policy = agent.policy or app.policy
    children = dict[str, Spec]()
    toolset = _toolset(agent)
    voices = _voices(agent, app)
    typed = TypedAnswer(agent.answer) if agent.answer is not None else None
    system = agent.instructions if typed is None else f"{agent.instructions}\n\n{typed.instruction}".strip()
    declared = sum(len(orjson.dumps(tool.schema)) + len(tool.description.encode()) + 64 for tool in toolset.specs)
    worker = Worker(
        voices=voices,
        system=system.encode("utf-8", "replace").decode(),
        toolset=toolset,
        checks=_checks(agent),
        deadlines=agent.deadlines,
        max_output=agent.max_output,
        temperature=agent.temperature,
        extra=agent.extra,
        read_answer=typed.problem if typed is not None else None,
        supervise=_supervise(agent, app),
        summariser=_voice(app, agent.summary_model) if agent.summary_model is not None else None,
    )
    spec = known[id(agent)] = Spec(
        name=agent.name,
        role=agent.role,
        instructions=agent.instructions,
        worker=worker,
        rules=rules_of(policy, agent.guards),
        ceilings=agent.budget.ceilings(),
        versions=Versions(digest(agent.instructions), toolset.digest, policy.digest),
        overhead=declared + len(system.encode("utf-8", "replace")),
        children=children,
        window=agent.window or context_window(voices[0].name, voices[0].priced_as),
        keep_last=agent.keep_last,
        guards=tuple(agent.guards),
    )
    for item in agent.tools:
        if isinstance(item, AgentTool):
            other = _behind(item)
            children[item.name] = known.get(id(other)) or prepared(other, app, known)
    return spec


def _toolset(agent: Agent) -> Toolset:
    made: list[Tool[..., Any]] = []
    for item in agent.tools:
        if isinstance(item, AgentTool):
            made.append(_agent_tool(item))
        else:
            made.append(cast("Tool[..., Any]", item) if isinstance(item, Tool) else tool(item))
    return Toolset(made)


def _checks(agent: Agent) -> dict[str, Check]:
    checks: dict[str, Check] = {}
    for given in agent.done_when:
        check = as_check(given)
        if check.name in checks:
            raise Misuse(f"agent {agent.name!r}: two checks are called {check.name!r}; name them apart")
        checks[check.name] = check
    return checks


def _voices(agent: Agent, app: App) -> tuple[Voice, ...]:
    """The agent's model and those it may hop to, each resolved once for the whole App."""
    voices = [_voice(app, agent.model, agent.base_url, agent.api_key)]
    own = agent.model.partition(":")[0] if isinstance(agent.model, str) else ""
    for name in agent.failover:
        # The same provider is reached as the agent's own model is: a private server must not become a public one.
        same = name.partition(":")[0] == own
        voices.append(_voice(app, name, agent.base_url, agent.api_key) if same else _voice(app, name))
    if agent.budget.money is not None:
        for voice in voices:
            _check_price(agent, app, voice)
    return tuple(voices)


def _voice(app: App, given: str | Model, base_url: str | None = None, api_key: str | None = None) -> Voice:
    if not isinstance(given, str):
        kind = type(given).__name__
        return Voice(given, kind, str(getattr(given, "name", kind)), endpoint=f"{kind}#{id(given)}")
    model, name = app.model(given, base_url, api_key)
    provider = given.partition(":")[0]
    endpoint = provider if base_url is None else f"{provider} at {base_url}"
    return Voice(model, provider, name, own_server=base_url is not None, endpoint=endpoint)


def _check_price(agent: Agent, app: App, voice: Voice) -> None:
    name = voice.name
    if name not in app.prices and price(name, voice.priced_as, Usage(1, 1)) is None:
        raise Misuse(
            f"agent {agent.name!r} has a budget of money, but no price is known for {name!r}: "
            f"give App(prices={{{name!r}: (dollars per million input tokens, output tokens)}})"
        )


def _supervise(agent: Agent, app: App) -> Supervise | None:
    if agent.supervisor is None:
        return None
    if isinstance(agent.supervisor, Agent):
        return by_agent(agent.supervisor.prepare(app), app.yard())
    return by_callable(agent.supervisor, app.threads)


def _behind(item: AgentTool) -> Agent:
    """The agent behind a tool, which may have been made after the tool."""
    agent = cast("object", item.agent if isinstance(item.agent, Agent) else item.agent())
    if isinstance(agent, Agent):
        return agent
    raise Misuse(f"Agent.later({item.name!r}, ...) has to give an Agent, not {type(agent).__name__}")


def _agent_tool(item: AgentTool) -> Tool[..., Any]:
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
