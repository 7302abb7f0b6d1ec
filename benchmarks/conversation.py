"""How a conversation of 10,000 messages fares: what a turn costs to put together, and what is summarised.

    python benchmarks/conversation.py [--messages 10000] [--window 32000] [--store sqlite:////tmp/log.db]

Every other message starts a run, with the default guards, a store and a scripted model that writes summaries as well.
What is timed (CPU time) is the runtime's own work before the model is asked: from the log to the decision, and from the
history to the bytes on the wire (the openai dialect). Masking is not in it: see `redaction.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

from capataz import Agent, App
from capataz.events.facts import ConversationRecalled, HistoryCompressed, ModelCallStarted, Usage
from capataz.kernel.decide import decide
from capataz.kernel.evolve import begin, evolve
from capataz.memory.message import Message
from capataz.models.dialects.openai import OpenAIChat
from capataz.models.dialects.profiles import PROFILES
from capataz.ports import ModelRequest, Reply
from capataz.testing.scripted import says


class Chat:
    """Answers, and writes summaries. It builds the wire's bytes as a provider's model would, and takes the time."""

    name = "chat"

    def __init__(self) -> None:
        self.summarised: list[str] = []
        self.first: list[float] = []
        self.next: list[float] = []
        self.largest = 0

    async def complete(self, request: ModelRequest, beat: Callable[[], None]) -> Reply:
        beat()
        text = request.history[-1].text
        if text.startswith("Summary so far:"):
            self.summarised.append(text)
            return says(f"They talked about {len(self.summarised)} things.", Usage(100, 20))
        encoder = OpenAIChat().encoder(PROFILES["openai"])
        first = timed(lambda: encoder.body(request), self.first)
        more = [*request.history, Message("assistant", "I look."), Message("user", "Yes, do.")]
        timed(lambda: encoder.body(replace(request, history=more)), self.next)
        self.largest = max(self.largest, len(first))
        return says(f"Answer to {text[:40]}", Usage(100, 20))

    async def close(self) -> None:
        """Nothing is open."""


def timed(work: Callable[[], bytes], into: list[float]) -> bytes:
    begun = time.thread_time()  # CPU time: what others do on the machine is none of it
    made = work()
    into.append(time.thread_time() - begun)
    return made


def message(number: int) -> str:
    return f"<{number}> " + " ".join(f"word{(number * 7 + place) % 997}" for place in range(20))


async def talk(messages: int, window: int, url: str) -> None:
    chat = Chat()
    agent = Agent("talker", chat, role="talking", window=window, keep_last=8)
    runs = messages // 2
    deciding: list[float] = []
    begun = time.perf_counter()
    async with App(url) as app:
        last = ""
        for number in range(runs):
            last = (await agent.arun(message(number), app=app, conversation="bench")).run
        took = time.perf_counter() - begun
        thread, said = await app.conversations.read("bench")
        spec = agent.prepare(app)
        events = await app.store.read(last)
    for _ in range(50):
        state = begin(spec.rules)
        started = time.thread_time()
        for event in events:
            if isinstance(event.fact, ModelCallStarted):
                break
            evolve(state, event)
        decide(state)
        deciding.append(time.thread_time() - started)
    told = "\n".join(chat.summarised)
    once = [told.count(f"user: <{number}> ") for number in range(runs)]
    summarised = sum(count == 1 for count in once)
    kept = next(event.fact for event in events if isinstance(event.fact, ConversationRecalled))
    same = list(kept.said) == said[thread.summarised : thread.summarised + len(kept.said)]
    each = took / runs * 1e3
    print(f"{len(said):,} messages in {runs:,} runs, window of {window:,} tokens: {took:.1f} s, {each:.2f} ms a run")
    print(
        f"summaries: {len(chat.summarised)}; user messages summarised once: {summarised:,}, twice or more: "
        f"{sum(count > 1 for count in once)}, still remembered one by one: {once.count(0):,}"
    )
    print(
        f"last messages as they were: {same}; largest request {chat.largest / 1000:.0f} kB; "
        f"compressed in the last run: {any(isinstance(event.fact, HistoryCompressed) for event in events)}"
    )
    for name, values in (
        ("log to first decision of a run", deciding),
        ("history to bytes, first turn of a run", chat.first),
        ("history to bytes, next turn", chat.next),
    ):
        worst = sorted(values)[int(len(values) * 0.99)]
        print(f"{name}: median {statistics.median(values) * 1e3:.3f} ms, 99 % within {worst * 1e3:.3f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--store")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(talk(given.messages, given.window, given.store or f"sqlite:///{folder}/log.db"))


if __name__ == "__main__":
    main()
