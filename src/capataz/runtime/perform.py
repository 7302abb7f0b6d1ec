"""Doing what the kernel asked for, and writing down what came of it.

Each command becomes facts, whatever happens on the way: an exception of a tool, a model that hangs, a check that
cannot be asked. The only things that leave this module as exceptions are a lost lease and a store that cannot write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from capataz.checks import CheckContext, ConfirmedEffect, evaluate
from capataz.events.facts import (
    AnswerRead,
    Call,
    CeilingReached,
    CheckEvaluated,
    EffectChecked,
    Fault,
    ToolAnsweredLate,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    WaitEnded,
    WaitStarted,
)
from capataz.kernel.commands import (
    AskSupervisor,
    CallModel,
    Command,
    Compress,
    ConfirmEffect,
    DrawWait,
    EvaluateChecks,
    ReadAnswer,
    Record,
    Sleep,
    UseTool,
)
from capataz.kernel.room import lesser, seconds_left
from capataz.kernel.state import State
from capataz.kernel.toolfaults import settle_try
from capataz.memory.message import Message
from capataz.mistakes import CapatazError
from capataz.models.gateway import Ask
from capataz.models.masking import Masking
from capataz.ports import ModelRequest
from capataz.runtime.breaking import left_alone, noticed
from capataz.runtime.heartbeat import OWN_SILENCE, Pulse
from capataz.runtime.journal import Journal
from capataz.runtime.summarise import summarise
from capataz.runtime.worker import ChildResult, Delegate, Surroundings, Worker, payer_of, within
from capataz.tools.call import Used, use
from capataz.tools.define import ToolContext
from capataz.tools.effects import CONFIRM_SECONDS, confirm

LEAST_SECONDS = 0.5
"""A question that was begun when the time ran out still gets this long."""

CLOSING_WORDS = (
    "The run is being closed and no more tools can be used. Say in a few sentences, for the person who asked, what "
    "was done, what was found and what was not done. Do not claim anything the results above do not show."
)
_NO_READBACK = "the agent has this tool no longer: another version of it has taken the run up"
_NO_CHECK = "the agent has this check no longer: another version of it has taken the run up"
SUPERVISING = 3600.0
"""Seconds a supervisor may be silent. A callable has a time limit of its own, an agent has its budget."""


class Performer:
    """Performs the commands of one run."""

    def __init__(
        self,
        journal: Journal,
        worker: Worker,
        around: Surroundings,
        delegates: Mapping[str, Delegate],
        pulse: Pulse | None = None,
    ) -> None:
        self._journal, self._worker, self._around = journal, worker, around
        self._delegates, self._pulse = delegates, pulse or Pulse("")
        self._masking: Masking | None = None
        self._memos: dict[int, dict[str, Any]] = {}
        self._how: Mapping[type, Callable[[Any], Awaitable[None]]] = {
            Record: self._record,
            CallModel: self._call_model,
            UseTool: self._use_tool,
            ConfirmEffect: self._confirm,
            EvaluateChecks: self._evaluate,
            DrawWait: self._draw,
            Sleep: self._sleep,
            Compress: self._compress,
            ReadAnswer: self._read_answer,
            AskSupervisor: self._supervise,
        }

    async def perform(self, commands: Sequence[Command]) -> None:
        """All commands of one decision; side by side where there are several, since then they are all reads."""
        if len(commands) == 1:
            await self._one(commands[0])
            return
        if all(isinstance(command, Record) for command in commands):
            for command in commands:
                await self._one(command)
            return
        task = asyncio.current_task()
        name = task.get_name() if task is not None else None
        try:
            async with asyncio.TaskGroup() as group:
                for command in commands:
                    group.create_task(self._one(command), name=name)
        except* CapatazError as lost:
            raise lost.exceptions[0] from None

    async def _one(self, command: Command) -> None:
        self._pulse.beat()
        await self._how[type(command)](command)

    async def _record(self, command: Record) -> None:
        self._journal.record(command.fact)

    async def _sleep(self, command: Sleep) -> None:
        seconds = max(0.0, command.until - self._around.clock.now())
        with self._pulse.waiting("own", "a pause", seconds + OWN_SILENCE):
            await self._around.clock.sleep(seconds)
        self._journal.record(WaitEnded(command.turn))

    async def _read_answer(self, command: ReadAnswer) -> None:
        read = self._worker.read_answer
        self._journal.record(AnswerRead(command.turn, read(command.text) if read is not None else ""))

    # ── the model ────────────────────────────────────────────────────────────────────────────────────────

    async def _call_model(self, command: CallModel) -> None:
        self._pulse.check()
        worker, closing = self._worker, command.purpose == "closing"
        voice = worker.voices[min(command.model, len(worker.voices) - 1)]
        history: Sequence[Message] = self._journal.state.transcript.messages
        request = ModelRequest(
            model=voice.name,
            system=worker.system,
            history=[*history, Message("user", CLOSING_WORDS)] if closing else history,
            tools=worker.toolset.specs,
            tool_choice="none" if closing else "auto",
            max_output=lesser(worker.max_output, command.max_output),
            temperature=worker.temperature,
            extra=worker.extra,
            deadlines=within(worker.deadlines, command.seconds),
            memo=self._memos.setdefault(command.model, {}),
        )
        ask = Ask(
            voice.model,
            voice.priced_as,
            request,
            command.turn,
            command.attempt,
            command.purpose,
            command.prompt_bound,
            command.money,
            voice.endpoint,
            self._journal.state.rules.policy.breaker_of(provider=voice.provider),
            self._mask(),
            payer_of(self._journal.state.started),
            worker.source,
        )
        with self._pulse.waiting("model", str(voice), request.deadlines.total) as beat:
            await self._around.gateway.call(ask, self._journal, worker.toolset.read, beat)

    def _mask(self) -> Masking | None:
        """What stands between this run and its providers; made when the run is known."""
        privacy = self._around.privacy
        if self._masking is None and privacy is not None:
            self._masking = privacy.masking(self._journal.state.started, self._worker.toolset.sealed)
        return self._masking

    async def _compress(self, command: Compress) -> None:
        self._pulse.check()
        with self._pulse.waiting("model", "the summary", self._worker.deadlines.total) as beat:
            await summarise(command, self._worker, self._around, self._journal, beat)

    async def _supervise(self, command: AskSupervisor) -> None:
        """Ask whoever stands above; without an answer a person has to decide."""
        supervise, escalation = self._worker.supervise, command.escalation
        with self._pulse.waiting("tool", "the supervisor", SUPERVISING):
            answer = await supervise(escalation, self._journal) if supervise is not None else None
        self._journal.record(answer if answer is not None else replace(escalation, to="human"))
        await self._journal.durable()

    async def _draw(self, command: DrawWait) -> None:
        seconds = command.rule.wait(command.attempt, command.hint, self._around.chance.fraction())
        state = self._journal.state
        if command.longest is not None and seconds >= command.longest:
            limit = state.ceilings.seconds or 0.0
            self._journal.record(CeilingReached("seconds", limit, state.spend.seconds))
            return
        self._journal.record(WaitStarted(seconds, command.reason, command.turn))

    # ── the tools ────────────────────────────────────────────────────────────────────────────────────────

    async def _use_tool(self, command: UseTool) -> None:
        call, journal, clock = command.call, self._journal, self._around.clock
        self._pulse.check()
        if call.tool not in self._delegates and call.tool not in self._worker.toolset:
            journal.record(_gone(call, journal.state, self._worker.toolset.unknown(call.tool)))
            return
        journal.record(ToolStarted(call.turn, call.position, call.tool, command.key))
        if call.acting:
            await journal.durable()
            self._pulse.check()
        started = clock.now()
        delegate = self._delegates.get(call.tool)
        if delegate is not None:
            with self._pulse.waiting("tool", call.tool, float("inf")):  # the child has waits of its own inside
                child = await delegate(call, journal, command.key)
            finished = _from_child(call, child, journal)
        else:
            finished = await self._run_tool(command)
        journal.record(settle_try(journal.state, replace(finished, seconds=clock.now() - started)))
        if call.acting:
            await journal.durable()

    async def _run_tool(self, command: UseTool) -> ToolFinished:
        call, tool = command.call, self._worker.toolset.get(command.call.tool)
        assert tool is not None, "a call of a tool that is gone is not begun"
        if (resting := left_alone(call, tool, self._around)) is not None:
            return resting
        started = self._around.clock.now()
        with self._pulse.waiting("tool", call.tool, tool.timeout) as beat:
            context = ToolContext(self._run(), call.turn, command.key, lambda _: beat())
            used = await use(
                tool,
                call,
                context,
                seconds=command.seconds,
                threads=self._around.threads,
                faults=self._around.faults,
                silence=self._journal.state.rules.policy.thresholds.tool(call.tool).silence,
                late=lambda answer: self._answered_late(call, answer, started),
            )
        privacy = self._around.privacy if used.error else None
        finished = ToolFinished(
            call,
            used.result if privacy is None else privacy.kept(used.result),
            error=used.error,
            fault=used.fault if privacy is None else privacy.fault(used.fault),
            state_changed=used.state_changed,
            in_doubt=used.in_doubt,
            full=used.full,
        )
        for fact in noticed(finished, tool, self._around, self._journal.state.rules.policy):
            self._journal.record(fact)
        return finished

    def _answered_late(self, call: Call, answer: Used, started: float) -> None:
        """What was given up on has answered: that belongs to the call it was asked for, and to no other."""
        if self._journal.state.ended is not None or not call.acting:
            return
        seconds = self._around.clock.now() - started
        self._journal.record(
            ToolAnsweredLate(call.turn, call.position, call.tool, answer.result, answer.error, answer.in_doubt, seconds)
        )
        self._journal.flush()

    async def _confirm(self, command: ConfirmEffect) -> None:
        call = command.call
        tool = self._worker.toolset.get(call.tool)
        if tool is None:
            self._journal.record(EffectChecked(call.turn, call.position, command.phase, "unknown", _NO_READBACK))
            return
        with self._pulse.waiting("tool", f"the read-back of {call.tool}", CONFIRM_SECONDS):
            answer, detail = await confirm(
                tool,
                call,
                command.result,
                command.key,
                phase=command.phase,
                threads=self._around.threads,
                seconds=self._at_most(CONFIRM_SECONDS),
            )
        self._journal.record(EffectChecked(call.turn, call.position, command.phase, answer, self._kept(detail)))
        await self._journal.durable()

    async def _evaluate(self, command: EvaluateChecks) -> None:
        effects = tuple(
            ConfirmedEffect(act.call.tool, act.call.target, act.call.arguments)
            for act in self._journal.state.ledger.acts.values()
            if act.standing == "confirmed"
        )
        context = CheckContext(self._run(), command.answer, effects, self._journal.state.started_at)
        checks = {name: self._worker.checks[name] for name in command.names if name in self._worker.checks}
        left = self._at_most(OWN_SILENCE)
        asked = (evaluate(check, context, threads=self._around.threads, seconds=left) for check in checks.values())
        with self._pulse.waiting("tool", "checks", OWN_SILENCE):
            answers = dict(zip(checks, await asyncio.gather(*asked), strict=True))
        for name in command.names:
            passed, detail = answers.get(name, (False, _NO_CHECK))
            self._journal.record(CheckEvaluated(name, passed, self._kept(detail)))

    def _at_most(self, seconds: float) -> float:
        """Seconds a question to user code may take: never past the end of the run, but long enough to be asked."""
        left = seconds_left(self._journal.state, closing=True)
        return seconds if left is None else min(seconds, max(left, LEAST_SECONDS))

    def _kept(self, words: str) -> str:
        """Words out of user code, without the secrets an exception likes to tell."""
        privacy = self._around.privacy
        return words if privacy is None else privacy.words(words)

    def _run(self) -> str:
        return self._journal.state.started.run


def _gone(call: Call, state: State, words: str) -> ToolRefused | ToolFinished:
    """The call of a tool that another version of the agent had. One that was begun there may have taken effect."""
    if (call.turn, call.position) in state.ledger.acts:
        told = f"interrupted; outcome unknown, and it cannot be done again here: {words}"
        return ToolFinished(call, {"error": told}, error=True, in_doubt=True)
    fault = Fault("contract", "unknown-tool", words, origin="model")
    return ToolRefused(call, "unknown-tool", f"not run: {words}", fault)


def _from_child(call: Call, child: ChildResult, journal: Journal) -> ToolFinished:
    if child.ended is None:
        return ToolFinished(call, child.result, error=True, state_changed=False)
    journal.record(child.ended)
    failed = child.ended.outcome not in ("completed", "answered")
    return ToolFinished(call, child.result, error=failed, child=child.ended.run)
