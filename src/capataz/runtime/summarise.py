"""Asking for a summary of a long history, through the same door as every other model call.

Whatever goes wrong (no budget, no answer, an answer that is empty or too long), the old summary stays.
"""

from __future__ import annotations

from collections.abc import Callable

from capataz.events.facts import CompressionFailed, HistoryCompressed, ModelCallFailed, ModelReplied
from capataz.kernel.commands import Compress
from capataz.kernel.room import money_left, seconds_left
from capataz.memory.compress import INSTRUCTIONS, SUMMARY_SHARE, problem
from capataz.memory.message import Message
from capataz.models.gateway import Ask
from capataz.ports import ModelRequest
from capataz.runtime.journal import Journal
from capataz.runtime.worker import Surroundings, Worker, payer_of, within

SUMMARY_TOKENS = 1500
"""Largest summary that is asked for, whatever the window."""


async def summarise(
    command: Compress, worker: Worker, around: Surroundings, journal: Journal, beat: Callable[[], None]
) -> None:
    """Make the call and record the new summary, or why there is none."""
    state, voice = journal.state, worker.summariser or worker.voices[0]
    window, privacy = state.started.window, around.privacy
    largest = SUMMARY_TOKENS if window is None else min(SUMMARY_TOKENS, window // SUMMARY_SHARE)
    request = ModelRequest(
        model=voice.name,
        system=INSTRUCTIONS.format(words=largest * 3 // 4),
        history=[Message("user", command.plan.text)],
        max_output=largest,
        deadlines=within(worker.deadlines, seconds_left(state)),
    )
    bound, limit = len(command.plan.text.encode()) + len(request.system.encode()), state.ceilings.tokens
    if limit is not None and state.spend.tokens + bound + largest > limit:
        journal.record(CompressionFailed(command.plan.upto, "the budget does not allow it", command.turn))
        return
    ask = Ask(
        voice.model,
        voice.priced_as,
        request,
        state.turn.number,
        0,
        "compressing",
        bound,
        money_left(state),
        voice.endpoint,
        state.rules.policy.breaker_of(provider=voice.provider),
        privacy.masking(state.started, ()) if privacy is not None else None,
        payer_of(state.started),
        "compressor",
    )
    await around.gateway.call(ask, journal, worker.toolset.read, beat)
    journal.record(_came_of_it(command, journal, window))


def _came_of_it(command: Compress, journal: Journal, window: int | None) -> HistoryCompressed | CompressionFailed:
    """The end of the call is what the journal recorded last."""
    fact, upto = journal.newest, command.plan.upto
    if isinstance(fact, ModelCallFailed):
        return CompressionFailed(upto, fact.fault.message, command.turn)
    if not isinstance(fact, ModelReplied):
        return CompressionFailed(upto, "there was no reply", command.turn)
    if wrong := problem(fact.text, window, fact.stop):
        return CompressionFailed(upto, wrong, command.turn)
    return HistoryCompressed(upto, fact.text.strip(), command.turn)
