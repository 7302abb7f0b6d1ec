"""A run's place in its conversation: its turn, its hold while it is at work, and what it leaves behind.

The turns are the store's to give, so that they hold across processes. A run that was given up while it had the
conversation is fenced first, and what it did is read from its log before anybody goes on: no receipt is lost with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from capataz.events.facts import ConversationRecalled, RunStarted
from capataz.kernel.evolve import fold
from capataz.kernel.state import Rules, State
from capataz.memory.conversation import Arrived, Conversations, Entered, Told
from capataz.mistakes import Misuse, NotFound, StoreError
from capataz.ports import Store
from capataz.runtime.described import check_texts
from capataz.runtime.looks import Looks
from capataz.runtime.yard import Yard

LEASE = 30.0
"""Seconds for which a run has its conversation without another word; a process says one three times as often."""
LONGEST = 3600.0
"""Seconds a caller waits for its turn."""
LONGEST_NAME = 200


def conversations_of(store: Store, clock: Any = None) -> Conversations:
    """The conversations beside a store's logs. Raises `Misuse` for a store that keeps none."""
    make: Any = getattr(store, "conversations", None)
    if make is None:
        raise Misuse(f"{type(store).__name__} keeps no conversations: leave out conversation=...")
    return cast(Conversations, make() if clock is None else make(clock))


def converses(conversation: str | None, parent: str | None) -> bool:
    """Whether a run takes turns in a conversation: the runs of sub-agents belong to the one that began them."""
    return conversation is not None and parent is None


def named(conversation: object) -> str:
    """The name of a conversation, if it can be one. An empty one is a mistake, not the conversation of everybody."""
    if not isinstance(conversation, str):
        raise Misuse(f"conversation={conversation!r}: a name is text")
    check_texts({"conversation": conversation})
    if not conversation.strip() or len(conversation) > LONGEST_NAME:
        raise Misuse(f"conversation={conversation[:40]!r}: a name has 1 to {LONGEST_NAME} characters")
    return conversation


async def turn(yard: Yard, rules: Rules, message: Arrived) -> Entered:
    """Keep the message and wait until it is this run's turn. Raises `TimeoutError` after an hour: the message stays."""
    talks = conversations_of(yard.store, yard.around.clock.now)
    looks = Looks(LONGEST, f"conversation {message.conversation!r} was at work for {LONGEST:g} s: the message is kept")
    await talks.arrive(message)
    while (entered := await enter(yard, rules, message.conversation, message.run)) is None:
        await looks.rest()
        await talks.arrive(message)
    return entered


async def again(yard: Yard, rules: Rules, started: RunStarted) -> Entered:
    """The turn of a run that was begun before."""
    assert started.conversation is not None
    looks = Looks(LONGEST, f"conversation {started.conversation!r} was at work for {LONGEST:g} s")
    while (entered := await enter(yard, rules, started.conversation, started.run)) is None:
        await looks.rest()
    return entered


async def enter(yard: Yard, rules: Rules, conversation: str, run: str) -> Entered | None:
    """The conversation, once what was given up in it is settled; None while it is somebody else's turn."""
    talks = conversations_of(yard.store, yard.around.clock.now)
    while (entered := await talks.enter(conversation, run, LEASE)) is not None and entered.unsettled:
        for other in entered.unsettled:
            await talks.leave(conversation, other, await _left_by(yard, rules, other))
    return entered


async def _left_by(yard: Yard, rules: Rules, run: str) -> Told:
    """What a run that was given up has said and done. It is shut out first: it cannot do more from here on."""
    await yard.store.claim(run, yard.owner)
    try:
        return told_of(fold(rules, await yard.store.read(run)))
    except NotFound:  # it had not begun
        return Told()


def told_of(state: State) -> Told:
    """What a run leaves to its conversation: its answer, the summary it made, the receipts of its effects."""
    transcript, theirs = state.transcript, set(state.started.standing)
    answer = state.ended.answer if state.ended is not None else ""
    standing = tuple(key for key in state.ledger.standing() if key not in theirs)
    return Told(answer, transcript.summary, transcript.summarised, standing)


def recalled(entered: Entered) -> ConversationRecalled | None:
    """What the run is told of the conversation, as a fact; None where nothing was said before."""
    if not entered.summary and not entered.said:
        return None
    return ConversationRecalled(entered.summary, entered.said, entered.upto)


@dataclass(slots=True)
class Hold:
    """A conversation held. `state` is the run's, once there is one."""

    entered: Entered
    state: State | None = None


@asynccontextmanager
async def held(yard: Yard, conversation: str, run: str, entering: Coroutine[Any, Any, Entered]) -> AsyncGenerator[Hold]:
    """Wait for the turn and hold on to the conversation while the run is driven here; then leave it what came of it.

    Where the run has not come to its end, or was given up while it waited, the conversation is let go at once: the next
    run finds out from the log.
    """
    try:
        talks = conversations_of(yard.store, yard.around.clock.now)
    except Misuse:
        entering.close()
        raise
    hold: Hold | None = None
    staying: asyncio.Task[None] | None = None
    try:
        hold = Hold(await entering)
        staying = asyncio.get_running_loop().create_task(_stay(talks, conversation, run), name=f"conversation of {run}")
        yield hold
        if hold.state is not None and hold.state.over:
            await talks.leave(conversation, run, told_of(hold.state))
    finally:
        if staying is not None:
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)
        with suppress(StoreError):
            if hold is None or hold.state is None or not hold.state.over:
                await talks.stay(conversation, run, 0.0)


async def _stay(talks: Conversations, conversation: str, run: str) -> None:
    while True:
        await asyncio.sleep(LEASE / 3)
        with suppress(StoreError):
            if not await talks.stay(conversation, run, LEASE):
                return
