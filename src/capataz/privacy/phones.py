"""Whether digits are a telephone number, by the numbering plans of `phonenumbers`.

Only the plans are used, not the parser: one compiled pattern per way of writing answers in a microsecond, where
parsing takes a hundred, and this question is asked of every long number that leaves. The plans are loaded when the
first candidate appears. This module must never decide by the digits alone whether a *bare* number is a telephone:
that needs the words around it, and they are `numbers`' business.
"""

from __future__ import annotations

import re
from functools import cache

REGIONS: tuple[str, ...] = ("ES", "FR", "DE", "PT", "IT", "GB", "US", "AD", "AT", "BE", "CH", "IE", "NL")
"""Where a number without a country code is taken to be from, when nothing around it says that it is a telephone."""

WIDER: tuple[str, ...] = (
    *REGIONS,
    *("AR", "AU", "BR", "CA", "CL", "CO", "CZ", "DK", "EC", "FI", "GR", "HU", "IN", "JP", "LU", "MA", "MX", "NO", "NZ"),
    *("PE", "PL", "RO", "SE", "TR", "UA", "UY", "VE", "ZA"),
)
"""The same, where something around it does."""

_SORTS = (
    "fixed_line",
    "mobile",
    "toll_free",
    "premium_rate",
    "shared_cost",
    "personal_number",
    "voip",
    "pager",
    "uan",
    "voicemail",
)
_TRUNK_KEPT = frozenset({"IT", "SM", "VA"})


@cache
def _plan(region: str) -> tuple[str, tuple[tuple[tuple[int, ...], str], ...]]:
    """The prefix dialled inside the country, and the lengths and patterns of its numbers without it."""
    from phonenumbers import PhoneMetadata

    plan = PhoneMetadata.metadata_for_region(region)
    if plan is None:
        return "", ()
    usual = tuple(plan.general_desc.possible_length) if plan.general_desc is not None else ()
    rows: list[tuple[tuple[int, ...], str]] = []
    for sort in _SORTS:
        desc = getattr(plan, sort)
        if desc is not None and desc.national_number_pattern:
            rows.append((tuple(desc.possible_length) or usual, str(desc.national_number_pattern)))
    prefix = str(plan.national_prefix or "")
    return ("" if region in _TRUNK_KEPT else prefix), tuple(rows)


def _of_length(region: str, length: int) -> str:
    """A pattern of the region's numbers of one length; empty where it has none."""
    return "|".join(pattern for lengths, pattern in _plan(region)[1] if length in lengths)


@cache
def _national(regions: tuple[str, ...], length: int) -> re.Pattern[str]:
    ways: list[str] = []
    for region in regions:
        prefix = _plan(region)[0]
        if prefix != "0" and (numbers := _of_length(region, length)):
            ways.append(f"(?:{numbers})")
        if prefix.isdecimal() and (numbers := _of_length(region, length - len(prefix))):
            ways.append(f"{prefix}(?:{numbers})")
    return re.compile("|".join(ways) or "(?!)")


@cache
def _country(code: int, length: int) -> re.Pattern[str] | None:
    from phonenumbers import COUNTRY_CODE_TO_REGION_CODE

    regions = COUNTRY_CODE_TO_REGION_CODE.get(code)
    if not regions:
        return None
    if regions == ("001",):
        return re.compile(r"\d{6,12}")
    ways = filter(None, (_of_length(region, length) for region in regions))
    return re.compile("|".join(ways) or "(?!)")


def national(digits: str, regions: tuple[str, ...]) -> bool:
    """Whether these digits, as dialled inside one of the regions, are a number there."""
    return _national(regions, len(digits)).fullmatch(digits) is not None


def international(digits: str) -> bool:
    """Whether these digits, country code first and without `+` or `00`, are a number somewhere.

    >>> international("34612345678"), international("34112345678")
    (True, False)
    """
    for length in (1, 2, 3):
        code, rest = digits[:length], digits[length:]
        if code.isdecimal() and code[0] != "0" and (pattern := _country(int(code), len(rest))) is not None:
            if pattern.fullmatch(rest):
                return True
            if rest[:1] != "0" or code == "39":
                return False
            shorter = _country(int(code), len(rest) - 1)
            return shorter is not None and shorter.fullmatch(rest[1:]) is not None
    return False
