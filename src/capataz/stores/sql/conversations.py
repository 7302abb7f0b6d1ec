"""The conversations of all stores: the same statements in a file, in memory and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from capataz.events.facts import Said
from capataz.memory.conversation import Arrived, Entered, Thread, Told
from capataz.mistakes import Misuse
from capataz.stores.sealing import Seal
from capataz.stores.sql import conversation_tables as tables
from capataz.stores.sql.database import Database, Perform

T = TypeVar("T")
Now: TypeAlias = Callable[[Database], float]
"""The time of all workers, in seconds since the epoch, asked in the middle of a transaction."""
Erase: TypeAlias = Callable[[str, Now], Awaitable["list[str] | str"]]
"""Takes a conversation out, with what the store keeps elsewhere of it: its runs, or why that cannot be."""


@dataclass(frozen=True, slots=True)
class SqlConversations:
    """`Conversations` in any of the stores."""

    perform: Perform
    erased: Erase
    seal: Seal
    now: Now

    async def arrive(self, message: Arrived) -> None:
        work = partial(tables.arrive, seal=self.seal, message=message)
        if problem := await self._timed("keep a message in", message.conversation, work):
            raise Misuse(problem)

    async def enter(self, conversation: str, run: str, lease: float) -> Entered | None:
        work = partial(tables.enter, seal=self.seal, conversation=conversation, run=run, lease=lease)
        return await self._timed("enter a conversation in", conversation, work)

    async def stay(self, conversation: str, run: str, lease: float) -> bool:
        work = partial(tables.stay, conversation=conversation, run=run, lease=lease)
        return await self._timed("stay in a conversation of", conversation, work)

    async def leave(self, conversation: str, run: str, told: Told) -> None:
        work = partial(tables.leave, seal=self.seal, conversation=conversation, run=run, told=told)
        await self._timed("leave a conversation in", conversation, work)

    async def _timed(self, doing: str, conversation: str, work: Callable[..., T]) -> T:
        return await self.perform(
            doing,
            lambda connection: work(connection, now=self.now(connection)),
            alone=(f"conversation {conversation}",),
        )

    async def threads(self, limit: int = 50) -> list[Thread]:
        return await self.perform("list the conversations of", partial(tables.threads, limit=limit), reads=True)

    async def thread(self, conversation: str) -> tuple[Thread, list[Said]]:
        work = partial(tables.thread, seal=self.seal, conversation=conversation)
        alone = (f"conversation {conversation}",)
        return await self.perform("read a conversation in", work, reads=True, alone=alone)

    async def erase(self, conversation: str) -> int:
        runs = await self.erased(conversation, self.now)
        if isinstance(runs, str):
            raise Misuse(runs)
        return len(runs)
