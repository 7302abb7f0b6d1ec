"""Conversations over one PostgreSQL database: driven by several workers, and nowhere once they are erased."""

from __future__ import annotations

import psycopg
import pytest

from capataz import Agent, App
from capataz.mistakes import NotFound
from capataz.testing.scripted import ScriptedModel, calls
from tests.memory.test_conversations import driven_one_at_a_time

WORDS = ("HELPER-WORDS", "SUBTASK-WORDS", "ANSWER-WORDS", "TASK-WORDS")


async def test_submitted_messages_are_driven_one_at_a_time_by_several_workers(database: str) -> None:
    await driven_one_at_a_time(database)


def everything(database: str) -> str:
    with psycopg.connect(database, autocommit=True) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'capataz'").fetchall()
        return str([connection.execute(f"SELECT * FROM capataz.{name}".encode()).fetchall() for (name,) in names])


async def test_an_erased_conversation_is_in_no_table(database: str) -> None:
    helper = Agent("helper", ScriptedModel("HELPER-WORDS"), role="talking")
    steps = (calls(("helper", {"task": "SUBTASK-WORDS"})), "ANSWER-WORDS")
    agent = Agent("talker", ScriptedModel(*steps), [helper.as_tool()], role="talking")
    async with App(database) as app:
        await agent.arun("TASK-WORDS", app=app, conversation="c", tenant="acme")
        await Agent("talker", ScriptedModel("OTHER-WORDS"), role="talking").arun("x", app=app, conversation="d")
        before = everything(database)
        assert await app.conversations.erase("c") == 2
        (left,) = await app.conversations.list()
        (run,) = await app.store.runs()
        (row,) = await app.accounts.spent("tenant")
        with pytest.raises(NotFound):
            await app.conversations.read("c")
    after = everything(database)
    for word in WORDS:
        assert word in before
        assert word not in after
    assert "OTHER-WORDS" in after
    assert (left.conversation, run.conversation, row.calls) == ("d", "d", 3)
