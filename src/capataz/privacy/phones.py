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
def _plan(region: str) -> tuple[str, str]:
    """The prefix dialled inside the country, and the pattern of all its numbers without it."""
    from phonenumbers import PhoneMetadata

    plan = PhoneMetadata.metadata_for_region(region)
    if plan is None:
        return "", "(?!)"
    patterns: list[str] = []
    for sort in _SORTS:
        desc = getattr(plan, sort)
        if desc is not None and desc.national_number_pattern:
            patterns.append(str(desc.national_number_pattern))
    prefix = str(plan.national_prefix or "")
    return ("" if region in _TRUNK_KEPT else prefix), "|".join(patterns)


@cache
def _national(regions: tuple[str, ...]) -> re.Pattern[str]:
    ways: list[str] = []
    for region in regions:
        prefix, numbers = _plan(region)
        if prefix == "0":
            ways.append(f"0(?:{numbers})")
        else:
            ways.append(f"(?:{prefix})?(?:{numbers})" if prefix.isdecimal() else f"(?:{numbers})")
    return re.compile("|".join(ways) or "(?!)")


@cache
def _country(code: int) -> re.Pattern[str] | None:
    from phonenumbers import COUNTRY_CODE_TO_REGION_CODE

    regions = COUNTRY_CODE_TO_REGION_CODE.get(code)
    if not regions:
        return None
    if regions == ("001",):
        return re.compile(r"\d{6,12}")
    return re.compile("|".join(f"(?:{_plan(region)[1]})" for region in regions))


def national(digits: str, regions: tuple[str, ...]) -> bool:
    """Whether these digits, as dialled inside one of the regions, are a number there."""
    return _national(regions).fullmatch(digits) is not None


def international(digits: str) -> bool:
    """Whether these digits, country code first and without `+` or `00`, are a number somewhere.

    >>> international("34612345678"), international("34112345678")
    (True, False)
    """
    for length in (1, 2, 3):
        code = digits[:length]
        if code.isdecimal() and code[0] != "0" and (pattern := _country(int(code))) is not None:
            rest = digits[length:]
            if pattern.fullmatch(rest):
                return True
            return rest[:1] == "0" and code != "39" and pattern.fullmatch(rest[1:]) is not None
    return False
