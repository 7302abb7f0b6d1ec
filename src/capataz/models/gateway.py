"""The one door out: every model call of Capataz goes through here, whoever makes it (the loop, the closing call, a
compressor, a judge).

On the way out it holds back what the run may not afford; on the way back it turns whatever happened into exactly one
fact, classified. It decides nothing: whether to try again, to wait or to stop is the kernel's, from that fact. No
other module may call a model; a test proves it.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Protocol

from capataz.events.facts import (
    BreakerClosed,
    BreakerOpened,
    Call,
    CapabilityLearned,
    Event,
    Fact,
    Fault,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Purpose,
    Usage,
)
from capataz.mistakes import ModelRefused
from capataz.models.dialects.params import asked_for
from capataz.models.dialects.textcalls import calls_in_text
from capataz.models.masking import Masking
from capataz.models.prices import price
from capataz.models.purse import Purse
from capataz.money.accounts import Limit, Payer, Refusal, Reservation, Source
from capataz.policy.breaker import DEFAULT_BREAKER, BreakerRule, Breakers
from capataz.policy.table import PASSING
from capataz.ports import Clock, Model, ModelRequest, RawCall, Reply

MOST_TOKENS = 10**9
"""A provider that reports more for one call, or less than nothing, has reported nothing."""
GUESSED_OUTPUT = 4096
"""Output assumed for the bound of a call's cost when nothing limits it."""
GRACE = 60.0
"""Seconds after its last deadline that a call's end may take to be written."""


class Journal(Protocol):
    """What the gateway writes to: the log of the run on whose behalf it calls."""

    def record(self, fact: Fact) -> Event: ...
    def flush(self) -> None: ...
    def reserve(self, wanted: Reservation, limits: Sequence[Limit]) -> Future[Refusal | None]: ...
    async def settled(self, ack: Future[Refusal | None]) -> Refusal | None: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One call to make: which model, for what, and what it may cost at most."""

    model: Model
    provider: str
    request: ModelRequest
    turn: int
    attempt: int
    purpose: Purpose
    prompt_bound: int
    money: Decimal | None = None
    """Dollars; the call is not made if it could cost more. None: no limit."""
    endpoint: str = ""
    """What fails together: a provider, or one server. The breaker guards it; what follows a "#" is not shown."""
    breaker: BreakerRule = DEFAULT_BREAKER
    masking: Masking | None = None
    """What must not leave; None only where the user has switched masking off."""
    payer: Payer | None = None
    """Whose accounts pay for it; None: nobody's."""
    source: Source = "loop"


@dataclass(frozen=True, slots=True)
class Gateway:
    """Makes model calls and records each as two facts: that it started, and how it ended."""

    clock: Clock
    prices: Mapping[str, tuple[Decimal, Decimal]] = field(default_factory=dict[str, tuple[Decimal, Decimal]])
    """Own prices by model name: dollars per million input and output tokens. They win over the library's."""
    breakers: Breakers = field(default_factory=Breakers)
    """Of the providers; of this process only."""
    purse: Purse | None = None
    """What accounts may spend; None where the store keeps none."""

    async def call(
        self,
        ask: Ask,
        journal: Journal,
        read: Callable[[Sequence[RawCall], int], tuple[Call, ...]],
        beat: Callable[[], None],
    ) -> None:
        """Make one call. What came of it is in the journal; nothing is raised but cancellation."""
        request = ask.request
        largest = request.max_output or GUESSED_OUTPUT
        bound = ask.prompt_bound + largest
        journal.record(
            ModelCallStarted(
                *(ask.turn, ask.attempt, request.model, ask.purpose, bound, ask.endpoint.partition("#")[0]),
                settings=asked_for(request),
            )
        )
        fault = self._unaffordable(ask, largest) or self._left_alone(ask)
        if (fault := fault or await self._reserve(ask, journal, largest)) is not None:
            journal.record(ModelCallFailed(ask.turn, ask.attempt, fault, request.model, ask.purpose))
            return
        journal.flush()
        heard = False

        def hear() -> None:
            nonlocal heard
            heard = True
            beat()

        started = self.clock.now()
        outcome = await self._ask(ask, hear, largest)
        seconds = self.clock.now() - started
        for fact in self._noticed(ask, outcome):
            journal.record(fact)
        if isinstance(outcome, Fault):
            billed = heard and outcome.status is None
            journal.record(ModelCallFailed(ask.turn, ask.attempt, outcome, request.model, ask.purpose, seconds, billed))
            return
        journal.record(self._replied(ask, outcome, read(outcome.calls, ask.turn), seconds))

    async def _reserve(self, ask: Ask, journal: Journal, largest: int) -> Fault | None:
        """Hold the most the call can use, with its start; a refusal is an outcome, and nothing leaves."""
        if ask.payer is None or self.purse is None:
            return None
        most = price(ask.request.model, ask.provider, Usage(ask.prompt_bound, largest), self.prices)
        now = self.clock.now()
        until = now + ask.request.deadlines.total + GRACE
        tokens = ask.prompt_bound + largest
        held = journal.reserve(Reservation(ask.payer, ask.source, tokens, most, now, until), self.purse.own)
        if not await self.purse.limited(ask.payer):
            return None  # nothing to wait for: it is written with whatever comes next
        refused = await journal.settled(held)
        return None if refused is None else refused.fault()

    async def _ask(self, ask: Ask, beat: Callable[[], None], largest: int) -> Reply | Fault:
        """The broad catch of the model call: whatever a model does wrong becomes a classified fault."""
        limit = ask.request.deadlines.total
        masking = ask.masking
        request = ask.request if masking is None else await masking.leaving(ask.request)
        if self.purse is not None and ask.payer is not None and self.purse.binding(ask.payer):
            request = replace(request, max_output=largest)  # else the reservation would be no upper bound
        try:
            async with asyncio.timeout(limit):
                reply = await ask.model.complete(request, beat)
            return reply if masking is None else masking.incoming(reply)
        except ModelRefused as refused:
            return refused.fault if masking is None else masking.fault(refused.fault)
        except TimeoutError:
            return Fault("transient", "timeout", f"the model did not answer within {limit:g} s")
        except Exception as error:  # noqa: BLE001 - one of the three places: a model is not ours
            return Fault(
                "contract", "adapter", f"the model object raised {type(error).__name__}", retries=0, origin="ours"
            )

    def _left_alone(self, ask: Ask) -> Fault | None:
        """The breaker holds the call back: nothing leaves, and the wait it needs is the fault's hint."""
        held = self.breakers.held(ask.endpoint, self.clock.now())
        if held is None:
            return None
        words = f"{_shown(ask)} has failed too often in a row and is left alone for another {held:.0f} s"
        return Fault("transient", "breaker-open", words, wait=held, origin="ours")

    def _noticed(self, ask: Ask, outcome: Reply | Fault) -> Iterator[Fact]:
        """What a call says beside how it ended: of the provider's health, and of what the model does not take."""
        passing = isinstance(outcome, Fault) and outcome.row in PASSING
        if not passing and self.breakers.answered(ask.endpoint):
            yield BreakerClosed("provider", _shown(ask))
        if isinstance(outcome, Fault):
            rule = ask.breaker
            if passing and self.breakers.failed(ask.endpoint, self.clock.now(), rule):
                yield BreakerOpened("provider", _shown(ask), rule.failures, rule.rest, outcome.reason)
            if outcome.reason == "unsupported-parameter" and (learned := _learned(ask.request.model, outcome)):
                yield learned

    def _replied(self, ask: Ask, reply: Reply, calls: tuple[Call, ...], seconds: float) -> ModelReplied:
        return ModelReplied(
            turn=ask.turn,
            attempt=ask.attempt,
            text=reply.text,
            calls=calls if ask.purpose == "loop" else (),
            stop=reply.stop,
            usage=self._priced(ask, reply),
            model=reply.model or ask.request.model,
            purpose=ask.purpose,
            thinking=reply.thinking,
            opaque=reply.opaque,
            seconds=seconds,
            first_byte=reply.first_byte,
            written=_written(ask, reply),
            response=reply.id,
        )

    def _priced(self, ask: Ask, reply: Reply) -> Usage:
        """The provider's own figures with their price; an estimate by length where it said nothing."""
        usage = reply.usage
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        nothing = usage.tokens == 0 and bool(reply.text or reply.calls)
        if not usage.reported or nothing or not all(0 <= count <= MOST_TOKENS for count in counts):
            usage = Usage(reported=False)
            said = len(reply.text) + sum(len(call.arguments) for call in reply.calls)
            usage = replace(usage, input=ask.prompt_bound // 4, output=max(1, said // 4))
        return replace(usage, money=price(ask.request.model, ask.provider, usage, self.prices))

    def _unaffordable(self, ask: Ask, largest: int) -> Fault | None:
        if ask.money is None:
            return None
        most = price(ask.request.model, ask.provider, Usage(ask.prompt_bound, largest), self.prices)
        if most is None:
            words = f"no price is known for {ask.request.model}, and the run has a ceiling of money"
            return Fault("ours", "price-unknown", words, retries=0, origin="ours")
        if most > ask.money:
            words = f"the call could cost ${most:.4f}; ${ask.money:.4f} is left"
            return Fault("ours", "money", words, retries=0, origin="ours")
        return None


def _shown(ask: Ask) -> str:
    return ask.endpoint.partition("#")[0] or "the provider"


def _learned(model: str, fault: Fault) -> CapabilityLearned | None:
    """A refusal that names a parameter, as a line for the capability table. It is offered, never applied."""
    from capataz.models.capabilities import offered_entry

    entry = offered_entry(model, fault)
    if entry is None:
        return None
    return CapabilityLearned(model, entry.splitlines()[-1].partition(" =")[0], entry)


def _written(ask: Ask, reply: Reply) -> tuple[str, ...]:
    """Tools whose calls stand in the text of a reply that asked for none: small models do that. Never run."""
    if reply.calls or not ask.request.tools:
        return ()
    names = [tool.name for tool in ask.request.tools]
    return tuple(call.name or "a tool" for call in calls_in_text(reply.text, names))
