"""The conversations of the embedded stores: the same statements in the file and in the database in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from capataz.events.facts import Said
from capataz.memory.conversation import Arrived, Entered, Thread, Told
from capataz.mistakes import Misuse
from capataz.stores import conversation_tables as tables
from capataz.stores.queue import Perform
from capataz.stores.sealing import Seal

Erase: TypeAlias = Callable[[str, float], Awaitable["list[str] | str"]]
"""Takes a conversation out, with what the store keeps elsewhere of it: its runs, or why that cannot be."""


@dataclass(frozen=True, slots=True)
class SqlConversations:
    """`Conversations` on the tables of `schema/sqlite-003.sql`. `clock` is the time of all workers, in seconds."""

    perform: Perform
    erased: Erase
    seal: Seal
    clock: Callable[[], float]

    async def arrive(self, message: Arrived) -> None:
        work = partial(tables.arrive, seal=self.seal, now=self.clock(), message=message)
        if problem := await self.perform("keep a message in", work):
            raise Misuse(problem)

    async def enter(self, conversation: str, run: str, lease: float) -> Entered | None:
        work = partial(tables.enter, seal=self.seal, now=self.clock(), conversation=conversation, run=run, lease=lease)
        return await self.perform("enter a conversation in", work)

    async def stay(self, conversation: str, run: str, lease: float) -> bool:
        work = partial(tables.stay, now=self.clock(), conversation=conversation, run=run, lease=lease)
        return await self.perform("stay in a conversation of", work)

    async def leave(self, conversation: str, run: str, told: Told) -> None:
        work = partial(tables.leave, seal=self.seal, now=self.clock(), conversation=conversation, run=run, told=told)
        await self.perform("leave a conversation in", work)

    async def threads(self, limit: int = 50) -> list[Thread]:
        return await self.perform("list the conversations of", partial(tables.threads, limit=limit), True)

    async def thread(self, conversation: str) -> tuple[Thread, list[Said]]:
        work = partial(tables.thread, seal=self.seal, conversation=conversation)
        return await self.perform("read a conversation in", work, True)

    async def erase(self, conversation: str) -> int:
        runs = await self.erased(conversation, self.clock())
        if isinstance(runs, str):
            raise Misuse(runs)
        return len(runs)
