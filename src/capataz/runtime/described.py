"""What an Agent, a Budget and an App are given, looked at before anything is made of it.

A wrong kind of value would otherwise show much later, as a puzzle: in the middle of a run, or never. Nothing is changed
here and nothing is opened; the words say what was given and what to give instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast, get_origin

from capataz.mistakes import Misuse
from capataz.ports import Job, JobRow
from capataz.privacy.erase import MARK as ERASED
from capataz.stores.sealing import SHOWN as SEALED

FURTHEST = 1_000
"""How far up or down a priority goes."""
LONGEST_DELAY = 31_536_000
"""Seconds that a task may be put off."""
_MAY_LACK = ("task_type", "key")
"""Names that a run may go without: None is none. Without a tenant or a user they are the empty text."""
_WHOSE = ("tenant", "user", "agent")
"""Of a job: who asked whom. The words for these do not say whose the other one is."""


def check_allowance(name: str, value: object, *, whole: bool) -> None:
    """A ceiling of a budget: a number above 0, or None for no limit."""
    if value is None:
        return
    number = _number(value, whole=whole)
    if number is None or not number > 0:
        kind = "a whole number" if whole else "a number"
        raise Misuse(f"Budget({name}={value!r}): give {kind} above 0, or None for no limit")


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        given = "" if name == "" else f", as text, not {name!r}"
        raise Misuse(f'an Agent needs a name{given}: it is how its runs are found again. Agent("support", ...)')
    check_texts({"Agent: name": name})


def check_model(where: str, model: object) -> None:
    """A name, or an object with the port `Model`."""
    if isinstance(model, str) and model.strip():
        return
    if isinstance(model, (str, type)) or not callable(getattr(model, "complete", None)):
        raise Misuse(f'{where}={model!r}: give "openai:NAME", "anthropic:NAME" or an object with a method `complete`')


def check_list(where: str, values: object) -> None:
    """A list or a tuple: it is gone through more than once."""
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise Misuse(f"{where}={values!r}: give a list, also of a single one: {where.rpartition(' ')[2]}=[...]")


def check_guards(where: str, guards: Sequence[object]) -> None:
    """The user's own guards: each has the port, and a name that no other has."""
    if not guards:
        return
    from capataz.guards.catalogue import GUARDS

    taken = set(GUARDS)
    for guard in guards:
        name = getattr(guard, "name", None)
        parts = (getattr(guard, part, None) for part in ("start", "step"))
        if isinstance(guard, type) or not isinstance(name, str) or not all(callable(part) for part in parts):
            raise Misuse(
                f"{where} guards=[{guard!r}]: a guard is an object with `name`, `start()` and `step(state, event)`"
            )
        if name in taken:
            whose = "a built-in guard" if name in GUARDS else "another of its guards"
            raise Misuse(f"{where} guards=[...]: {name!r} is the name of {whose}: give this one another name")
        taken.add(name)


def check_answer(where: str, answer: object) -> None:
    """A type: a class, or a form of `typing` such as `list[int]`."""
    if answer is None or isinstance(answer, type) or get_origin(answer) is not None:
        return
    if type(answer).__module__ not in ("typing", "typing_extensions"):
        raise Misuse(
            f"{where} answer={answer!r}: give the type of the answer (int, a dataclass, a pydantic model), no value"
        )


def check_is(where: str, value: object, kind: type, hint: str) -> None:
    """A value of this type."""
    if not isinstance(value, kind):
        raise Misuse(f"{where}={value!r}: {hint}")


def check_task(agent: str, task: object) -> None:
    if not isinstance(task, str):
        raise Misuse(f"agent {agent!r} was given the task {task!r}: say in words, as a str, what it should do")
    if not task.strip():
        raise Misuse(f"agent {agent!r} was given an empty task: say what it should do")


def check_texts(given: Mapping[str, object]) -> None:
    """Names and other words that a store keeps as text, by what they are called; None is none where there may be."""
    for name, text in given.items():
        if text is None and name in _MAY_LACK:
            continue
        if not isinstance(text, str):
            raise Misuse(f"{name}={text!r}: give text" + (", or leave it out" if text is None else ""))
        half = next((char for char in text if "\ud800" <= char <= "\udfff"), None)
        if half is not None:
            raise Misuse(
                f"{name}={text[:40]!r}: {half!r} is half a character, which no store can keep: "
                'bytes that are not UTF-8 become text with .decode(errors="replace")'
            )


def check_app(app: object) -> None:
    """Not the URL of its store: that may hold a password, so only its kind is said."""
    if isinstance(app, type) or not callable(getattr(app, "yard", None)):
        raise Misuse(f'app is {type(app).__name__}: give an App, as App("sqlite:///runs.db")')


def check_agent(agent: object) -> None:
    if isinstance(agent, type) or not callable(getattr(agent, "prepare", None)):
        raise Misuse(f'{agent!r} is no agent: give the Agent itself, as Agent("support", ...)')


def check_seconds(name: str, value: object) -> float:
    """A time to wait: a number, since nothing here waits for ever."""
    number = _number(value)
    if number is None:
        raise Misuse(f"{name}={value!r}: give a number of seconds")
    return float(number)


def check_share(name: str, value: object, *, least: float, whole: bool = False) -> None:
    """What a worker takes on, and its times."""
    number = _number(value, whole=whole)
    if number is None or not least <= number < math.inf:
        raise Misuse(f"{name}={value!r}: give {'a whole number' if whole else 'a number'} of at least {least:g}")


def check_place(priority: object, delay: object, key: object) -> None:
    """Where in the queue a task is put, and under which key: what the HTTP API takes too."""
    number = _number(priority, whole=True)
    if number is None or not -FURTHEST <= number <= FURTHEST:
        raise Misuse(f"priority={priority!r}: give a whole number from -{FURTHEST} to {FURTHEST}; higher goes first")
    seconds = _number(delay)
    if seconds is None or not 0 <= seconds <= LONGEST_DELAY:
        raise Misuse(f"delay={delay!r}: give seconds, from 0 to {LONGEST_DELAY:,} (a year)")
    if isinstance(key, str) and not key.strip():
        raise Misuse(f"key={key!r}: every task with an empty key would be one and the same: name it, or leave it out")


def check_same(asked: Job, found: JobRow | None) -> None:
    """A key is one submission: what is asked under it again is what was asked first, by whom it was asked."""
    other = () if found is None else differing(asked, found.job)
    if any(name in other for name in _WHOSE):
        raise Misuse(
            f"key={asked.key!r} was used for another tenant, user or agent: make the tenant's name part of the key"
        )
    if found is not None and other:
        raise Misuse(
            f"key={asked.key!r} was used for run {found.job.run} with another {', '.join(other)}: a key is for one "
            "submission; repeat that one as it was, or take another key"
        )


def differing(asked: Job, found: Job) -> tuple[str, ...]:
    """What two jobs under one key do not have in common. A delay is counted from when it was said, so it is not
    compared, nor is a task that cannot be read any more: it was erased, or is sealed with a key that is not here."""
    unread = found.task == SEALED or found.task.startswith(ERASED)
    asks = ("conversation", "task_type", "priority") if unread else ("task", "conversation", "task_type", "priority")
    return tuple(name for name in (*_WHOSE, *asks) if getattr(asked, name) != getattr(found, name))


def check_store(store: object) -> None:
    """A URL, or an object with the port `Store`."""
    if isinstance(store, str):
        return
    if isinstance(store, type) or not all(callable(getattr(store, name, None)) for name in ("claim", "append", "read")):
        raise Misuse(f'App({store!r}): give the URL of a store ("sqlite:///runs.db", "memory:") or a Store')


def check_prices(prices: Mapping[str, object]) -> None:
    """Two amounts for each model."""
    for name, pair in prices.items():
        amounts = cast("Sequence[object]", pair) if isinstance(pair, (tuple, list)) else ()
        numbers = [number for number in map(_number, amounts) if number is not None and 0 <= number < math.inf]
        if len(amounts) != 2 or len(numbers) != 2:
            raise Misuse(
                f"App(prices={{{name!r}: {pair!r}}}): give two numbers, 0 or more: dollars per million tokens of "
                f"input and of output, as {{{name!r}: (0.5, 1.5)}}"
            )


def check_agents(agents: Sequence[object], where: str) -> None:
    """Submitted runs find their agent by its name."""
    for agent in agents:
        check_agent(agent)
    names = [str(getattr(agent, "name", "")) for agent in agents]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Misuse(f"{where}: two agents are called {twice[0]!r}: runs find their agent by its name; name them apart")


def _number(value: object, *, whole: bool = False) -> int | float | Decimal | None:
    """The value, where it is a number."""
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float, Decimal)):
        return None
    return None if math.isnan(value) else value
