"""National identity numbers, IBANs and cards, by checksum.

Each rule knows a shape that is cheap to see and asks `python-stdnum` for the arithmetic, or `sums` for what is common;
where a country gave its numbers no checksum, or one that an ordinary number passes too easily, the words beside it must
say what it is. The checkers are loaded when the first candidate appears. This module must never accept by shape alone
what an order number may look like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module

from capataz.privacy.found import Found, places, words
from capataz.privacy.sums import SUMS, luhn, mod_97

IBAN_LENGTHS: dict[str, int] = {
    entry[:2]: int(entry[2:])
    for entry in words(
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
        "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
        "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
        "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
        "YE30"
    )
}
"""How long an IBAN of each country is: it ends there, whatever is written behind it."""

_NIE = re.compile(r"[XYZxyz][ .-]?\d(?:[ .]?\d{3}){2}[ .-]{0,3}[A-Za-z](?![A-Za-z0-9])")
_CIF = re.compile(r"[A-HJ-NP-SU-Wa-hj-np-su-w][ .-]?\d\d[ .]?\d{3}[ .]?\d{2}[ .-]?[0-9A-Ja-j](?![A-Za-z0-9])")
_NINO = re.compile(
    r"(?:(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z])(?:[ -]?\d\d){3}[ -]?[A-D](?![A-Za-z0-9])"
)
_CF_CHAR = "[0-9LMNPQRSTUV]"
_CF = re.compile(
    rf"[A-Z]{{3}} ?[A-Z]{{3}} ?{_CF_CHAR}{{2}} ?[A-EHLMPRST] ?{_CF_CHAR}{{2}} ?"
    rf"[A-Z] ?{_CF_CHAR}{{3}} ?[A-Z](?![A-Za-z0-9])",
    re.IGNORECASE,
)
_CURP = re.compile(r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d(?![A-Za-z0-9])", re.IGNORECASE)
_DNI_LETTER = re.compile(r"[ .-]{0,3}[A-Za-z](?![A-Za-z0-9])")
_CC_REST = re.compile(r" ?[A-Za-z]{2} ?\d(?![A-Za-z0-9])")
_CORSE = re.compile(r"(?<![A-Za-z0-9])[12][ .-]?\d\d[ .-]?\d\d[ .-]?2[ABab](?:[ .-]?\d{3}){2}[ .-]?\d\d(?![A-Za-z0-9])")
_CARD = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|"
    r"(?:6011|64[4-9]\d|65\d\d)\d{12,15}|3(?:0[0-5]|[689]\d)\d{11}(?:\d{2})?|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}|"
    r"(?:50|5[6-8]|6[0-9])\d{10,17}|220[0-4]\d{12}"
)
_CARD_GROUPS = re.compile(
    r"\d{12,19}|(?:\d{4}\D{1,3}){2,4}\d{1,4}|\d{4}\D{1,3}\d{6}\D{1,3}\d{4,5}|\d{8}\D{1,3}\d{8}|\d{6}\D{1,3}\d{10,13}"
)
_NIR_GROUPS = re.compile(r"\d{15}|[12]\D\d\d\D\d\d\D\d\d\D\d{3}\D\d{3}\D{1,3}\d\d|\d{13}\D{1,3}\d\d")


@cache
def _checker(module: str) -> Callable[[str], bool]:
    checker: Callable[[str], bool] = SUMS.get(module) or import_module(f"stdnum.{module}").is_valid
    return checker


def valid(module: str, number: str) -> bool:
    """Whether `python-stdnum` accepts the number, by the name of its module: "es.dni", "fr.nir"."""
    return _checker(module)(number)


@cache
def _iban_shape(length: int) -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z]{{2}}(?:[ .-]{{0,3}}[A-Za-z0-9]){{{length - 2}}}(?![A-Za-z0-9])")


_SEPARATORS = b" .-/()\xb7"


def compact(text: str) -> str:
    """Without the separators people write."""
    return text.encode("latin-1", "replace").translate(None, _SEPARATORS).decode("latin-1")


def _iban(text: str, start: int) -> Found | None:
    length = IBAN_LENGTHS.get(text[start : start + 2].upper())
    if length is None:
        return None
    match = _iban_shape(length).match(text, start)
    if match is None or not mod_97(compact(match.group()).upper()):
        return None
    return Found(start, match.end(), "iban", "iban")


_LETTERS_BACK = re.compile(r"[A-Za-z]{0,9}")
_COUNTS = frozenset({1, 2, 3, 4, 6})


def may_have_letters(text: str, at: int, before: str) -> bool:
    """Whether letters may belong to the digits at `at`, behind `before`; a word of four and more does not."""
    if before.isalpha():
        return True
    return before in " -." and at > 1 and text[at - 2].isalpha() and not (at > 4 and text[at - 5 : at - 1].isalpha())


def lettered(text: str, at: int, kinds: frozenset[str]) -> Found | None:
    """An IBAN or an id that begins with letters, whose first digits are at `at`, behind a letter or a separator."""
    stop = at if text[at - 1].isalpha() else at - 1
    back = _LETTERS_BACK.match(text[max(0, stop - 9) : stop][::-1])
    count = back.end() if back is not None else 0
    begin = stop - count
    if count not in _COUNTS or (stop < at and count > 3) or (begin and text[begin - 1].isalnum()):
        return None
    letters = text[begin:stop].upper()
    if "iban" in kinds and (count == 2 or (count == 6 and letters.startswith("IBAN"))):
        iban = _iban(text, stop - 2)
        if iban is not None:
            return iban
    return _id_at(text, begin, stop, letters) if "id" in kinds else None


def _id_at(text: str, begin: int, stop: int, letters: str) -> Found | None:
    count = len(letters)
    if count == 1 or (count == 3 and letters.startswith("ES")):
        return _shaped(text, begin, stop - 1, _NIE, "es.nie") or _shaped(text, begin, stop - 1, _CIF, "es.cif")
    if count == 2:
        if letters in _VAT:
            return _vat(text, begin, stop, letters)
        match = _NINO.match(text, begin) if letters.isupper() else None
        return Found(begin, match.end(), "id", "gb.nino") if match and text[begin].isupper() else None
    if count == 6:
        return _shaped(text, begin, begin, _CF, "it.codicefiscale")
    if count == 3 and begin >= 4 and text[begin - 1] == " " and (begin == 4 or not text[begin - 5].isalnum()):
        return _shaped(text, begin - 4, begin - 4, _CF, "it.codicefiscale")
    return _shaped(text, begin, begin, _CURP, "mx.curp") if count == 4 else None


def _shaped(text: str, begin: int, start: int, shape: re.Pattern[str], module: str) -> Found | None:
    match = shape.match(text, start)
    if match is None or not valid(module, compact(match.group()).upper()):
        return None
    return Found(begin, match.end(), "id", module)


_VAT: dict[str, tuple[str, re.Pattern[str]]] = {
    "PT": ("pt.nif", re.compile(r"\d{9}(?!\w)")),
    "IT": ("it.iva", re.compile(r"\d{11}(?!\w)")),
    "DE": ("de.vat", re.compile(r"\d{9}(?!\w)")),
    "FR": ("fr.tva", re.compile(r"\d{11}(?!\w)")),
    "BE": ("be.vat", re.compile(r"\d{10}(?!\w)")),
    "ES": ("es.dni", re.compile(r"\d{8}[A-Za-z](?!\w)")),
}


def _vat(text: str, begin: int, stop: int, letters: str) -> Found | None:
    """A tax number behind the letters of its country."""
    module, shape = _VAT[letters]
    match = shape.match(text, stop)
    return Found(begin, match.end(), "id", module) if match and valid(module, match.group().upper()) else None


def corsican(text: str) -> list[Found]:
    """French social security numbers of people born in Corsica: the only ones with a letter."""
    return [
        Found(*match.span(), "id", "fr.nir")
        for mark in ("2A", "2B")
        for at in places(text, mark)
        if (match := _CORSE.search(text, max(0, at - 9), at + 18)) and valid("fr.nir", compact(match.group()).upper())
    ]


def is_card(written: str, digits: str) -> bool:
    """A payment card: a known issuer's range and length, written as cards are, and the Luhn sum."""
    if not 12 <= len(digits) <= 19 or _CARD.fullmatch(digits) is None or _CARD_GROUPS.fullmatch(written) is None:
        return False
    return luhn(digits)


def with_letter(text: str, start: int, end: int, digits: str) -> Found | None:
    """Ids whose digits are followed by letters: the Spanish DNI, the Portuguese citizen card."""
    if len(digits) == 8:
        match = _DNI_LETTER.match(text, end)
        if match and valid("es.dni", digits + text[match.end() - 1].upper()):
            return Found(start, match.end(), "id", "es.dni")
    if len(digits) == 9:
        match = _CC_REST.match(text, end)
        if match and valid("pt.cc", digits + compact(match.group()).upper()):
            return Found(start, match.end(), "id", "pt.cc")
    return None


_BY_SHAPE: tuple[tuple[int, re.Pattern[str], str], ...] = (
    (9, re.compile(r"\d{3}-\d\d-\d{4}"), "us.ssn"),
    (9, re.compile(r"9\d\d-\d\d-\d{4}"), "us.itin"),
    (15, _NIR_GROUPS, "fr.nir"),
    (11, re.compile(r"[1-9]\d[ .]\d{3}[ .]\d{3}[ .]\d{3}|[1-9]\d{10}|[1-9]\d{2}[ ]\d{3}[ ]\d{3}[ ]\d\d"), "de.idnr"),
    (11, re.compile(r"\d{3}\.\d{3}\.\d{3}-\d\d"), "br.cpf"),
    (14, re.compile(r"\d\d\.\d{3}\.\d{3}/\d{4}-\d\d"), "br.cnpj"),
    (13, re.compile(r"756(?:\.\d{4}\.\d{4}\.\d\d|\d{10})"), "ch.ssn"),
    (11, re.compile(r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d"), "be.nn"),
    (10, re.compile(r"\d{3} \d{3} \d{4}"), "gb.nhs"),
)
_BY_WORDS: dict[int, tuple[str, ...]] = {
    9: ("pt.nif", "us.ssn", "us.itin", "nl.bsn", "fr.siren", "us.ein"),
    10: ("gb.nhs", "gb.utr"),
    11: ("de.idnr", "it.iva", "br.cpf", "be.nn", "pl.pesel", "ar.cuit", "de.stnr"),
    12: ("de.stnr",),
    13: ("fr.nir", "de.stnr", "ch.ssn"),
    14: ("fr.siret", "br.cnpj"),
    15: ("fr.nir",),
}


LENGTHS: frozenset[int] = frozenset({8, 9, *(length for length, _, _ in _BY_SHAPE), *_BY_WORDS})
"""How many digits an id may have."""


_SHAPES_OF: dict[int, tuple[tuple[re.Pattern[str], str], ...]] = {
    size: tuple((shape, module) for length, shape, module in _BY_SHAPE if length == size) for size in LENGTHS
}


_BARE = frozenset({11, 13, 15})
"""How many digits those have that are known by their shape without any separator."""


def by_shape(written: str, digits: str) -> str:
    """The rule that knows these digits from the way they are written, or nothing."""
    if len(written) == len(digits) and len(digits) not in _BARE:
        return ""
    for shape, module in _SHAPES_OF.get(len(digits), ()):
        if shape.fullmatch(written) is not None and valid(module, digits):
            return module
    return ""


def by_words(digits: str) -> str:
    """The rule that accepts these digits where the words beside them say that they are somebody's number."""
    for module in _BY_WORDS.get(len(digits), ()):
        if valid(module, digits):
            return module
    return "es.nss" if len(digits) == 12 and _is_nss(digits) else ""


def _is_nss(digits: str) -> bool:
    """The Spanish social security number: province, number, remainder by 97."""
    body = digits[:2] + digits[2:10].lstrip("0") if int(digits[2:10]) < 10_000_000 else digits[:10]
    return int(digits[:10]) % 97 == int(digits[10:]) or int(body) % 97 == int(digits[10:])
