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
    CeilingReached,
    CheckEvaluated,
    EffectChecked,
    RunStarted,
    ToolFinished,
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
from capataz.kernel.toolfaults import settle_try
from capataz.memory.message import Message
from capataz.mistakes import CapatazError
from capataz.models.gateway import Ask
from capataz.ports import ModelRequest
from capataz.runtime.breaking import left_alone, noticed
from capataz.runtime.journal import Journal
from capataz.runtime.summarise import summarise
from capataz.runtime.worker import Delegate, Surroundings, Worker, within
from capataz.tools.call import use
from capataz.tools.define import ToolContext
from capataz.tools.effects import confirm

CLOSING_WORDS = (
    "The run is being closed and no more tools can be used. Say in a few sentences, for the person who asked, what "
    "was done, what was found and what was not done. Do not claim anything the results above do not show."
)


class Performer:
    """Performs the commands of one run."""

    def __init__(
        self,
        journal: Journal,
        worker: Worker,
        around: Surroundings,
        delegates: Mapping[str, Delegate],
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal, self._worker, self._around = journal, worker, around
        self._delegates, self._beat = delegates, beat
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
        try:
            async with asyncio.TaskGroup() as group:
                for command in commands:
                    group.create_task(self._one(command))
        except* CapatazError as lost:
            raise lost.exceptions[0] from None

    async def _one(self, command: Command) -> None:
        await self._how[type(command)](command)

    async def _record(self, command: Record) -> None:
        self._journal.record(command.fact)

    async def _sleep(self, command: Sleep) -> None:
        await self._around.clock.sleep(max(0.0, command.until - self._around.clock.now()))
        self._journal.record(WaitEnded(command.turn))

    async def _read_answer(self, command: ReadAnswer) -> None:
        read = self._worker.read_answer
        self._journal.record(AnswerRead(command.turn, read(command.text) if read is not None else ""))

    # ── the model ────────────────────────────────────────────────────────────────────────────────────────

    async def _call_model(self, command: CallModel) -> None:
        worker, closing = self._worker, command.purpose == "closing"
        voice = worker.voices[min(command.model, len(worker.voices) - 1)]
        history: Sequence[Message] = self._journal.state.transcript.messages
        request = ModelRequest(
            model=voice.name,
            system=worker.system,
            history=[*history, Message("user", CLOSING_WORDS)] if closing else history,
            tools=worker.toolset.specs,
            tool_choice="none" if closing else "auto",
            max_output=_least(worker.max_output, command.max_output),
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
        )
        await self._around.gateway.call(ask, self._journal, worker.toolset.read, self._beat)

    async def _compress(self, command: Compress) -> None:
        await summarise(command, self._worker, self._around.gateway, self._journal)

    async def _supervise(self, command: AskSupervisor) -> None:
        """Ask whoever stands above; without an answer a person has to decide."""
        supervise, escalation = self._worker.supervise, command.escalation
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
        journal.record(ToolStarted(call.turn, call.position, call.tool, command.key))
        if call.acting:
            await journal.durable()
        started = clock.now()
        delegate = self._delegates.get(call.tool)
        if delegate is not None:
            child = await delegate(call, journal)
            journal.record(child.ended)
            failed = child.ended.outcome not in ("completed", "answered")
            finished = ToolFinished(call, child.result, error=failed, child=child.ended.run)
        else:
            finished = await self._run_tool(command)
        journal.record(settle_try(journal.state, replace(finished, seconds=clock.now() - started)))
        if call.acting:
            await journal.durable()

    async def _run_tool(self, command: UseTool) -> ToolFinished:
        call, tool = command.call, self._worker.toolset[command.call.tool]
        if (resting := left_alone(call, tool, self._around)) is not None:
            return resting
        context = ToolContext(self._run(), call.turn, command.key, lambda _: self._beat())
        used = await use(tool, call, context, seconds=command.seconds, threads=self._around.threads)
        finished = ToolFinished(
            call,
            used.result,
            error=used.error,
            fault=used.fault,
            state_changed=used.state_changed,
            in_doubt=used.in_doubt,
            full=used.full,
        )
        for fact in noticed(finished, tool, self._around, self._journal.state.rules.policy):
            self._journal.record(fact)
        return finished

    async def _confirm(self, command: ConfirmEffect) -> None:
        call = command.call
        tool = self._worker.toolset[call.tool]
        answer, detail = await confirm(
            tool, call, command.result, command.key, phase=command.phase, threads=self._around.threads
        )
        self._journal.record(EffectChecked(call.turn, call.position, command.phase, answer, detail))
        await self._journal.durable()

    async def _evaluate(self, command: EvaluateChecks) -> None:
        effects = tuple(
            ConfirmedEffect(act.call.tool, act.call.target, act.call.arguments)
            for act in self._journal.state.ledger.acts.values()
            if act.standing == "confirmed"
        )
        context = CheckContext(self._run(), command.answer, effects, self._journal.state.started_at)
        checks = [self._worker.checks[name] for name in command.names]
        asked = (evaluate(check, context, threads=self._around.threads) for check in checks)
        for name, (passed, detail) in zip(command.names, await asyncio.gather(*asked), strict=True):
            self._journal.record(CheckEvaluated(name, passed, detail))

    def _run(self) -> str:
        started: RunStarted | None = self._journal.state.started
        return started.run if started is not None else ""


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
