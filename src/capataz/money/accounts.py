"""What may be spent, by whom and in which period, and whether one more call fits.

Balances live in the store, so that runs of several processes share them; here is only what they mean. An upper bound
is reserved before a call and settled afterwards, both in the transaction that writes the call's own facts. A price
that is not known is never taken for free: where money is limited, such a call is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from math import isfinite
from typing import Literal, TypeAlias, get_args

from capataz.events.facts import Fault
from capataz.mistakes import Misuse

Whose: TypeAlias = Literal["all", "tenant", "user", "agent"]
Period: TypeAlias = Literal["run", "day", "month", "total"]
Source: TypeAlias = Literal["loop", "compressor", "supervisor", "judge"]

EVERYONE = "*"
"""The name in a limit that holds for each one of its kind that has no limit of its own: a plan."""
GRAIN = Decimal("1e-10")
"""The unit money is counted in: one ten-billionth of a dollar, so that sums are exact."""


def _plain(name: str) -> str:
    """The name as a part of an account's, in which a slash parts the tenant from the user."""
    return name.replace("%", "%25").replace("/", "%2F")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and type(value) is not bool and isfinite(value) and value >= 0


@dataclass(frozen=True, slots=True)
class Limit:
    """What one account may spend in a period. Days and months are those of UTC.

    `whose` is "tenant", "user", "agent" or "all" (the whole store); `name` which one, or "*" for each that has no
    limit of its own. The period "run" limits each run, with all its sub-agents. `money` in US dollars.

    >>> Limit("tenant", "acme", "day", money=10)
    Limit(whose='tenant', name='acme', period='day', tokens=None, money=Decimal('10'))
    """

    whose: Whose
    name: str
    period: Period = "total"
    tokens: int | None = None
    money: Decimal | float | None = None

    def __post_init__(self) -> None:
        if self.whose not in get_args(Whose):
            raise Misuse(f"Limit({self.whose!r}): limits are for one of {', '.join(get_args(Whose))}")
        if self.period not in get_args(Period):
            raise Misuse(f"Limit(period={self.period!r}): a period is one of {', '.join(get_args(Period))}")
        if not self.name:
            raise Misuse(f"Limit({self.whose!r}, name=''): name one, or {EVERYONE!r} for each")
        if self.tokens is None and self.money is None:
            raise Misuse("a Limit without tokens and without money limits nothing")
        if self.tokens is not None and (type(self.tokens) is not int or self.tokens < 0):
            raise Misuse(f"Limit(tokens={self.tokens!r}): give a whole number, 0 or more")
        if self.money is not None and not _is_amount(self.money):
            raise Misuse(f"Limit(money={self.money!r}): give a number of dollars, 0 or more")
        if self.money is not None:
            object.__setattr__(self, "money", Decimal(str(self.money)))


@dataclass(frozen=True, slots=True)
class Payer:
    """On whose behalf a call is made. `run` is the run at the top of the lineage."""

    run: str
    agent: str
    tenant: str = ""
    user: str = ""

    @property
    def person(self) -> str:
        """The user's account: users of two tenants are two, whatever they are called.

        >>> Payer("r", "a", "acme", "ana/1").person, Payer("r", "a", "acme/ana", "1").person
        ('acme/ana/1', 'acme%2Fana/1')
        """
        if not self.user:
            return ""
        return f"{_plain(self.tenant)}/{self.user}" if self.tenant else _plain(self.user)

    def accounts(self) -> tuple[tuple[str, str], ...]:
        """(kind, name) of every account this is booked to."""
        named = (("agent", self.agent), ("tenant", self.tenant), ("user", self.person))
        return (("all", EVERYONE), ("run", self.run), *((kind, name) for kind, name in named if name))


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most a call can use. `money` is None where the price of the model is not known."""

    payer: Payer
    source: Source
    tokens: int
    money: Decimal | None
    at: float
    until: float
    """When it counts as spent in full if nothing was heard of the call: its worker is gone."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account has spent in one period, and what is reserved for calls under way."""

    tokens: int = 0
    money: Decimal = Decimal(0)
    held_tokens: int = 0
    held_money: Decimal = Decimal(0)
    unpriced: int = 0
    """Calls whose price is not known: they are in `tokens` and not in `money`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not be made: which limit, and what would help. An outcome, never a provider's error."""

    reason: str
    words: str

    def fault(self) -> Fault:
        return Fault("ours", self.reason, self.words, retries=0, origin="ours")


@dataclass(frozen=True, slots=True)
class Spent:
    """A line of `capataz spend`: tokens as the providers count them, cached and reasoning ones included in the sums.

    `guessed` calls were charged as reserved, because their end or their usage is not known; `over` calls used more than
    was reserved.
    """

    name: str
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    money: Decimal
    unpriced: int
    guessed: int
    over: int

    @property
    def tokens(self) -> int:
        return self.input + self.output


def grains(money: Decimal) -> int:
    """Money in whole grains, rounded up.

    >>> grains(Decimal("0.08"))
    800000000
    """
    return int((money / GRAIN).to_integral_value(ROUND_CEILING))


def dollars(count: int) -> Decimal:
    return count * GRAIN


def buckets(at: float) -> dict[Period, str]:
    """The names of the periods a moment falls into.

    >>> buckets(0.0)
    {'day': '1970-01-01', 'month': '1970-01', 'total': 'total'}
    """
    day = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    return {"day": day, "month": day[:7], "total": "total"}


def begins(period: Period, at: float) -> float:
    """When the period a moment falls into has begun; 0 where it never did."""
    start = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return start.timestamp()
    return start.replace(day=1).timestamp() if period == "month" else 0.0


def resets(period: Period, at: float) -> str:
    """When the period ends, in words; empty where it does not end by itself."""
    start = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        start += timedelta(days=1)
    elif period == "month":
        start = (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        return ""
    return start.strftime("%Y-%m-%d %H:%M UTC")


def account(limit: Limit, payer: Payer, at: float) -> tuple[str, str, str, float]:
    """Where the balance of a limit is kept: kind, name, bucket, and since when reservations count to it."""
    if limit.period == "run":
        return "run", payer.run, "total", 0.0
    name = dict(payer.accounts())[limit.whose]
    return limit.whose, name, buckets(at)[limit.period], begins(limit.period, at)


def applicable(limits: Iterable[Limit], payer: Payer) -> list[Limit]:
    """The limits this payer is under. One with its own name goes before one for everybody; a later one before an
    earlier one."""
    named = dict(payer.accounts())
    found: dict[tuple[str, str, bool], Limit] = {}
    for limit in limits:
        own = limit.name != EVERYONE
        if limit.whose in named and (not own or limit.name == named[limit.whose]):
            found[limit.whose, limit.period, own] = limit
    return [
        limit
        for (whose, period, own), limit in found.items()
        if own or whose == "all" or (whose, period, True) not in found
    ]


def refusal(limit: Limit, balance: Balance, wanted: Reservation) -> Refusal | None:
    """Why the call does not fit under this limit; None where it does."""
    reason = f"budget-{limit.whose}-{limit.period}"
    if limit.tokens is not None and balance.tokens + balance.held_tokens + wanted.tokens > limit.tokens:
        used = _amounts(f"{limit.tokens:,} tokens", f"{balance.tokens:,}", f"{balance.held_tokens:,}")
        return Refusal(
            reason,
            f"{_plan(limit, wanted)} {used}; this call may use {wanted.tokens:,}; "
            f"{_help(limit, wanted, balance.tokens + wanted.tokens <= limit.tokens)}",
        )
    if limit.money is None:
        return None
    if wanted.money is None:
        words = f"{_plan(limit, wanted)} ${limit.money:.2f}, and no price is known for this model: give App(prices=...)"
        return Refusal("budget-price-unknown", words)
    if balance.money + balance.held_money + wanted.money > limit.money:
        used = _amounts(f"${limit.money:.2f}", f"${balance.money:.4f}", f"${balance.held_money:.4f}")
        return Refusal(
            reason,
            f"{_plan(limit, wanted)} {used}; this call may cost ${wanted.money:.4f}; "
            f"{_help(limit, wanted, balance.money + wanted.money <= limit.money)}",
        )
    return None


def _plan(limit: Limit, wanted: Reservation) -> str:
    span = {"run": "a run", "day": "a day", "month": "a month", "total": "in all"}[limit.period]
    if limit.whose == "all":
        return f"the plan of this store allows, {span},"
    name = dict(wanted.payer.accounts())[limit.whose]
    return f"the plan of {limit.whose} {name!r} allows, {span},"


def _amounts(limit: str, used: str, held: str) -> str:
    return f"{limit}: {used} spent, {held} reserved for calls under way"


def _help(limit: Limit, wanted: Reservation, passing: bool) -> str:
    """`passing` says that it is the calls under way that take the room: most of it comes back."""
    first = "try again when they have ended, or " if passing else ""
    end = resets(limit.period, wanted.at)
    if end:
        return f"{first}resets at {end}"
    return first + (
        "a new run begins afresh" if limit.period == "run" else "a higher limit helps (capataz accounts set)"
    )


def merged(first: Sequence[Limit], second: Sequence[Limit]) -> list[Limit]:
    """Both lists; of two limits for the same account and period the second list's stands."""
    found: dict[tuple[str, str, str], Limit] = {(each.whose, each.name, each.period): each for each in first}
    found.update({(each.whose, each.name, each.period): each for each in second})
    return list(found.values())


SOURCES: Mapping[str, Source] = {"compressing": "compressor", "judging": "judge"}
"""Who makes a call of this purpose; the loop makes the others."""
