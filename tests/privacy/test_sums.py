"""The sums are taken in a quicker way than `python-stdnum` offers; they must say the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module

import pytest
from stdnum import luhn as slow_luhn
from stdnum.iso7064 import mod_97_10

from capataz.privacy.sums import SUMS, luhn, mod_97

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("0123456789", k=count))


def social(rng: random.Random) -> str:
    body = digits(rng, 13)
    return body + rng.choice([f"{97 - int(body) % 97:02d}", digits(rng, 2)])


def steuer(rng: random.Random) -> str:
    different = rng.sample("0123456789", rng.choice([8, 9]))
    first = [*different, *rng.choices(different, k=10 - len(different))]
    return "".join(first) + digits(rng, 1)


SHAPES: dict[str, Callable[[random.Random], str]] = {
    "es.dni": lambda rng: digits(rng, 8) + rng.choice(LETTERS),
    "es.nie": lambda rng: rng.choice("XYZA") + digits(rng, 7) + rng.choice(LETTERS),
    "es.cif": lambda rng: rng.choice(LETTERS) + digits(rng, 7) + rng.choice("0123456789ABCDEFGHIJK"),
    "fr.nir": social,
    "fr.siren": lambda rng: digits(rng, 9),
    "pt.nif": lambda rng: digits(rng, 9),
    "gb.nhs": lambda rng: digits(rng, 10),
    "de.idnr": steuer,
}


@pytest.mark.parametrize("module", sorted(SUMS))
def test_a_sum_accepts_what_stdnum_accepts(module: str) -> None:
    rng = random.Random(module)
    slow = import_module(f"stdnum.{module}").is_valid
    shaped = [SHAPES[module](rng) for _ in range(3000)]
    odd = [*(number[:-1] for number in shaped[:50]), *(f"{number}1" for number in shaped[:50]), "", "X", "٣" * 9]
    accepted = [number for number in shaped + odd if SUMS[module](number)]
    assert accepted == [number for number in shaped + odd if slow(number)]
    assert len(accepted) > 50


def test_the_sums_of_cards_and_accounts_are_those_of_stdnum() -> None:
    rng = random.Random(7)
    for _ in range(3000):
        card = digits(rng, rng.randint(8, 19))
        assert luhn(card) == slow_luhn.is_valid(card)
        account = "".join(rng.choices(LETTERS + "0123456789", k=rng.randint(8, 30)))
        assert mod_97(account) == mod_97_10.is_valid(account[4:] + account[:4])
