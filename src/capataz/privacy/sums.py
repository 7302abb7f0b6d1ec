"""The sums of the numbers that are met most, without the cleaning that `python-stdnum` begins with.

A text full of numbers asks for a sum every few dozen characters, and cleaning a number that is clean already takes ten
times as long as adding it up. Each function here must accept exactly what `python-stdnum` accepts (the tests compare
the two); a sum that is asked for rarely has no business here. Numbers come without separators, letters as capitals.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import mul

_CHECK_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_COMPANY_LETTERS = "JABCDEFGHI"
_COMPANIES = frozenset("ABCDEFGHJNPQRSUVW")
_PERSONS = {"X": "0", "Y": "1", "Z": "2"}
_ONCE = bytes(max(0, min(9, byte - 48)) for byte in range(256))
_TWICE = bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)[digit] for digit in _ONCE)
_LETTERS = {code: str(code - 55) for code in range(65, 91)}
_FALLING = {size: tuple(range(size, 0, -1)) for size in (9, 10)}


def _digits(number: str, size: int) -> bool:
    return len(number) == size and number.isdecimal() and number.isascii()


def luhn(digits: str) -> bool:
    """The sum of cards, as `stdnum.luhn`."""
    raw = digits.encode()
    return (sum(raw[-1::-2].translate(_ONCE)) + sum(raw[-2::-2].translate(_TWICE))) % 10 == 0


def mod_97(number: str) -> bool:
    """ISO 7064 mod 97-10 with the first four characters last, as an IBAN has it: `stdnum.iso7064.mod_97_10`."""
    rest = number[4:]
    turned = (rest if rest.isdecimal() else rest.translate(_LETTERS)) + number[:4].translate(_LETTERS)
    return turned.isdecimal() and int(turned) % 97 == 1


def _weighed(digits: str) -> int:
    return sum(map(mul, _FALLING[len(digits)], digits.encode().translate(_ONCE)))


def _dni(number: str) -> bool:
    return _digits(number[:-1], 8) and number[8] == _CHECK_LETTERS[int(number[:8]) % 23]


def _nie(number: str) -> bool:
    return number[:1] in _PERSONS and _dni(_PERSONS[number[0]] + number[1:])


def _cif(number: str) -> bool:
    if len(number) != 9 or number[0] not in _COMPANIES or not _digits(number[1:8], 7):
        return False
    raw = number[1:8].encode()
    check = -(sum(raw[1::2].translate(_ONCE)) + sum(raw[0::2].translate(_TWICE))) % 10
    return number[8] in (str(check), _COMPANY_LETTERS[check])


def _nir(number: str) -> bool:
    return _digits(number, 15) and 97 - int(number[:13]) % 97 == int(number[13:])


def _nif(number: str) -> bool:
    if not _digits(number, 9) or number[0] == "0":
        return False
    last = int(number[8])
    return (11 - _weighed(number) + last) % 11 % 10 == last


def _nhs(number: str) -> bool:
    return _digits(number, 10) and _weighed(number) % 11 == 0


def _siren(number: str) -> bool:
    return _digits(number, 9) and luhn(number)


def _idnr(number: str) -> bool:
    if not _digits(number, 11) or number[0] == "0":
        return False
    first = number[:10]
    different = len(set(first))
    if different != 9 and not (different == 8 and any(first.count(digit) == 3 for digit in set(first))):
        return False
    check = 5
    for digit in number.encode().translate(_ONCE):
        check = (((check or 10) * 2) % 11 + digit) % 10
    return check == 1


SUMS: dict[str, Callable[[str], bool]] = {
    "es.dni": _dni,
    "es.nie": _nie,
    "es.cif": _cif,
    "fr.nir": _nir,
    "fr.siren": _siren,
    "pt.nif": _nif,
    "gb.nhs": _nhs,
    "de.idnr": _idnr,
}
"""By the name of the module of `stdnum` that says the same."""
