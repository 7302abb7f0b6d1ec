"""Keys that say whose they are: the prefixes providers give them.

Each row is a literal that must be in the text and what follows it, so that a text without any costs a few substring
searches. The rows are facts about formats, gathered widely; a key without a prefix is found by the name it is
assigned to (`secrets`), or by its exact value where it is configured. Lengths are lower bounds, never exact: a
provider that lengthens its keys must not escape. This module must never judge by entropy: ordinary ids look random.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from capataz.privacy.found import Found, places

_W = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_H = r"[0-9a-f]"
_DIGIT = rf"(?={_W}{{0,200}}\d)"

FAMILIES: tuple[tuple[str, str], ...] = (
    # models
    ("sk-", rf"{_DIGIT}{_W}{{14,}}"),
    ("sk_", rf"(?:live|test|prod)_{_W}{{10,}}|(?=\w{{0,99}}\d)\w{{24,}}"),
    ("pk_", rf"(?:live|test|prod)_{_W}{{10,}}"),
    ("rk_", rf"(?:live|test|prod)_{_W}{{10,}}"),
    ("pk-lf-", rf"{_W}{{16,}}"),
    ("sess-", rf"{_DIGIT}{_W}{{24,}}"),
    ("xai-", rf"{_W}{{20,}}"),
    ("gsk_", rf"{_A}{{20,}}"),
    ("csk-", rf"{_A}{{20,}}"),
    ("pplx-", rf"{_A}{{20,}}"),
    ("hf_", rf"{_A}{{20,}}"),
    ("api_org_", rf"{_A}{{20,}}"),
    ("r8_", rf"{_A}{{20,}}"),
    ("fw_", rf"(?={_A}{{0,99}}\d){_A}{{20,}}"),
    ("tvly-", rf"{_W}{{16,}}"),
    ("nvapi-", rf"{_W}{{20,}}"),
    ("pcsk_", rf"{_W}{{20,}}"),
    ("lsv2_", rf"(?:pt|sk)_{_W}{{20,}}"),
    ("jina_", rf"{_W}{{20,}}"),
    ("tgp_v1_", rf"{_W}{{20,}}"),
    ("fc-", rf"{_H}{{30,}}"),
    ("pa-", rf"(?={_W}{{0,99}}\d)(?={_W}{{0,99}}[A-Z]){_W}{{30,}}"),
    # clouds
    ("AKIA", r"[A-Z0-9]{12,}"),
    ("ASIA", r"(?=[A-Z]{0,99}\d)[A-Z0-9]{12,}"),
    ("ABIA", r"[A-Z0-9]{16}"),
    ("ACCA", r"[A-Z0-9]{16}"),
    ("ABSK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    ("bedrock-api-key-", r"[A-Za-z0-9+/=_-]{20,}"),
    ("AIza", rf"{_W}{{25,}}"),
    ("ya29.", rf"{_W}{{16,}}"),
    ("GOCSPX-", rf"{_W}{{16,}}"),
    ("1//0", rf"{_W}{{20,}}"),
    ("AQ.Ab", rf"{_W}{{20,}}"),
    ("LTAI", rf"(?={_A}{{0,99}}\d){_A}{{16,}}"),
    ("AKID", rf"(?={_A}{{0,99}}\d){_A}{{28,}}"),
    ("AQVN", rf"{_W}{{30,}}"),
    ("dop_v1_", rf"{_H}{{32,}}"),
    ("doo_v1_", rf"{_H}{{32,}}"),
    ("dor_v1_", rf"{_H}{{32,}}"),
    ("sbp_", rf"{_A}{{30,}}"),
    ("sb_secret_", rf"{_W}{{16,}}"),
    ("nfp_", rf"{_A}{{30,}}"),
    ("fo1_", rf"{_W}{{30,}}"),
    ("fm2_", r"[A-Za-z0-9+/=_-]{30,}"),
    ("rnd_", rf"{_A}{{24,}}"),
    ("HRKU-", rf"{_W}{{30,}}"),
    ("dapi", rf"{_H}{{30,}}(?:-\d)?"),
    ("dp.", rf"(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]+\.)?{_A}{{30,}}"),
    ("hvs.", rf"{_W}{{20,}}"),
    ("hvb.", rf"{_W}{{20,}}"),
    ("pul-", rf"{_H}{{30,}}"),
    ("pscale_", r"(?:tkn|pw|oauth|pat)_[\w.=-]{20,}"),
    ("dt0c01.", rf"{_A}{{16,}}\.{_A}{{32,}}"),
    # code
    ("ghp_", rf"{_A}{{20,}}"),
    ("gho_", rf"{_A}{{20,}}"),
    ("ghu_", rf"{_A}{{20,}}"),
    ("ghs_", rf"{_W}{{20,}}"),
    ("ghr_", rf"{_A}{{20,}}"),
    ("github_pat_", r"\w{20,}"),
    ("glpat-", r"[\w.-]{16,}"),
    ("gldt-", rf"{_W}{{16,}}"),
    ("glrt-", r"[\w.-]{16,}"),
    ("glrtr-", rf"{_W}{{16,}}"),
    ("glcbt-", rf"{_W}{{16,}}"),
    ("glptt-", rf"{_W}{{16,}}"),
    ("glft-", rf"{_W}{{16,}}"),
    ("glimt-", rf"{_W}{{16,}}"),
    ("glagent-", rf"{_W}{{16,}}"),
    ("gloas-", rf"{_W}{{16,}}"),
    ("glsoat-", rf"{_W}{{16,}}"),
    ("glffct-", rf"{_W}{{16,}}"),
    ("GR1348941", rf"{_W}{{16,}}"),
    ("npm_", rf"{_A}{{30,}}"),
    ("pypi-", rf"AgE{_W}{{20,}}"),
    ("rubygems_", rf"{_H}{{40,}}"),
    ("dckr_", rf"(?:pat|oat)_{_W}{{20,}}"),
    ("ATATT3", r"[\w=-]{20,}"),
    ("ATBB", rf"(?={_A}{{0,99}}\d){_A}{{24,}}"),
    ("CLOJARS_", rf"{_A}{{40,}}"),
    ("CCIPAT_", rf"{_W}{{20,}}"),
    ("bkua_", rf"{_A}{{30,}}"),
    ("sntrys_", r"[\w+/=-]{20,}"),
    ("sntryu_", rf"{_H}{{30,}}"),
    ("NRAK-", rf"{_A}{{20,}}"),
    ("NRII-", rf"{_W}{{20,}}"),
    ("glc_", r"[A-Za-z0-9+/=_-]{20,}"),
    ("glsa_", rf"{_W}{{20,}}"),
    ("PMAK-", rf"{_W}{{24,}}"),
    ("phc_", rf"{_A}{{30,}}"),
    ("phx_", rf"{_A}{{30,}}"),
    # messages, mail, calls
    ("xox", rf"[abeoprsc](?:\.xox[bp])?-{_W}{{10,}}"),
    ("xapp-", rf"{_W}{{16,}}"),
    ("hooks.slack.com/", r"(?:services|workflows|triggers)/[\w/-]{16,}"),
    ("SG.", rf"{_W}{{12,}}\.{_W}{{16,}}"),
    ("xkeysib-", rf"{_W}{{30,}}"),
    ("xsmtpsib-", rf"{_W}{{30,}}"),
    ("key-", rf"{_H}{{32}}"),
    ("SK", rf"{_H}{{32}}"),
    ("AC", rf"{_H}{{32}}"),
    ("re_", r"(?=\w{{0,99}}\d)(?=\w{{0,99}}[A-Z])\w{20,}"),
    ("discord.com/api/webhooks/", r"\d+/[\w-]{20,}"),
    ("discordapp.com/api/webhooks/", r"\d+/[\w-]{20,}"),
    # business
    ("whsec_", r"[A-Za-z0-9+/=]{16,}"),
    ("shp", rf"(?:at|ca|pa|ss)_{_A}{{20,}}"),
    ("sq0", rf"[a-z]{{3}}-{_W}{{20,}}"),
    ("EAAA", rf"(?={_W}{{0,99}}\d){_W}{{40,}}"),
    ("EAAC", rf"{_A}{{30,}}"),
    ("rzp_", rf"(?:live|test)_{_A}{{10,}}"),
    ("shippo_", rf"(?:live|test)_{_H}{{30,}}"),
    ("FLWSECK", rf"(?:_TEST)?-{_W}{{12,}}"),
    ("EZ", rf"[AT]K{_A}{{40,}}"),
    ("access-", rf"(?:sandbox|development|production)-{_H}{{8}}-{_W}{{20,}}"),
    ("pat-", rf"(?:na|eu)\d-{_H}{{8}}-{_W}{{20,}}"),
    ("lin_", rf"(?:api|oauth)_{_A}{{20,}}"),
    ("ntn_", rf"{_A}{{30,}}"),
    ("secret_", rf"(?={_A}{{0,99}}\d)(?={_A}{{0,99}}[A-Z]){_A}{{30,}}"),
    ("figd_", rf"{_W}{{20,}}"),
    ("CFPAT-", rf"{_W}{{30,}}"),
    ("tfp_", r"[\w.-]{30,}"),
    ("rdme_", rf"{_A}{{40,}}"),
    ("pnu_", rf"{_A}{{30,}}"),
    ("pat", rf"{_A}{{14}}\.{_H}{{40,}}"),
    ("pk.", r"eyJ[\w.-]{20,}"),
    ("sk.", r"eyJ[\w.-]{20,}"),
    ("AKCp", rf"{_A}{{20,}}"),
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]{30,}"),
    ("ops_", rf"eyJ{_W}{{40,}}"),
    ("oauth2:", rf"{_W}{{24,}}"),
)
"""(what a key begins with, what follows it)"""

SHAPES: tuple[tuple[str, str, str], ...] = (
    (":AA", r"(?<!\w)\d{6,12}\Z", r"[\w-]{28,}"),
    ("-us", r"(?<!\w)[0-9a-f]{32}\Z", r"\d{1,2}(?!\w)"),
    (".atlasv1.", r"\w{8,}\Z", r"[\w-]{20,}"),
    ("8Q~", r"[\w.~-]{3}\Z", r"[\w.~-]{30,}"),
    ("AAAAAAAAAAAAAAAAAA", r"(?<![\w/+])\Z", r"[\w%-]{30,}"),
)
"""(a mark inside a key, what stands before it, what follows it)"""

_DISCORD = re.compile(r"(?<![\w-])[MNO][\w-]{22,28}\.[\w-]{5,7}\.[\w-]{25,}")
JWT = re.compile(r"eyJ(?<![A-Za-z0-9_-]eyJ)[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*){0,3}")
PEM = re.compile(
    r"-----BEGIN (?P<sort>[A-Z0-9 ]{0,24})PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?s:.{0,20000}?)-----END (?P=sort)PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s:,-]|\\[nr])*)"
)
_FORTY = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![\w/+=])")


_HEAD = re.compile(r"[A-Za-z0-9]+[_.-]")
_BACK = re.compile(r"[A-Za-z0-9]{0,13}")


@cache
def _marks() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """For each mark that ends a first word, a pattern of the places where it ends a known one."""
    return tuple(
        (mark, re.compile(rf"{re.escape(mark)}(?=[\w+/=.-]{{8}})(?:{'|'.join(_ends(mark))})")) for mark in "_-."
    )


def _ends(mark: str) -> list[str]:
    """Looks back at the known words before a mark; those of one length share a class of last letters."""
    heads = sorted({head for head in _by_head() if head.endswith(mark)}, key=len)
    by_length: dict[int, list[str]] = {}
    for head in heads:
        by_length.setdefault(len(head), []).append(re.escape(head))
    return [rf"(?<={'|'.join(same)})" for same in by_length.values()]


@cache
def _by_head() -> dict[str, tuple[tuple[str, re.Pattern[str]], ...]]:
    """The rows by their first word and the mark behind it: `ghp_`, `sk-`, `SG.`."""
    rows: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for literal, rest in FAMILIES:
        head = _HEAD.match(literal)
        if head is not None and "/" not in literal:
            rows.setdefault(head.group(), []).append((literal, re.compile(rf"{re.escape(literal)}(?:{rest})")))
    return {head: tuple(patterns) for head, patterns in rows.items()}


@cache
def _by_letter() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The rows without a mark, one pattern for each first character, so that the search for it runs in C."""
    rows: dict[str, list[str]] = {}
    for literal, rest in FAMILIES:
        if "/" in literal or _HEAD.match(literal) is None:
            rows.setdefault(literal[0], []).append(rf"{re.escape(literal[1:])}(?:{rest})")
    return tuple((first, re.compile(rf"{re.escape(first)}(?:{'|'.join(ways)})")) for first, ways in rows.items())


@cache
def _shapes() -> tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((mark, re.compile(before), re.compile(after)) for mark, before, after in SHAPES)


def api_keys(text: str) -> list[Found]:
    """Keys with a provider's prefix. What is told may overlap."""
    found: list[Found] = []
    for mark, known in _marks():
        if mark in text:
            done = 0
            for match in known.finditer(text):
                if match.start() >= done:
                    done = _add_marked(text, match.start(), found)
    for first, pattern in _by_letter():
        if first in text:
            found.extend(
                Found(*match.span(), "key", match.group()[:4])
                for match in pattern.finditer(text)
                if not match.start() or not text[match.start() - 1].isalnum()
            )
    for mark, before, after in _shapes():
        if mark in text:
            found.extend(_around(text, mark, before, after))
    if "discord" in text or "Bot " in text:
        found.extend(Found(*match.span(), "key", "discord") for match in _DISCORD.finditer(text))
    return found


def aws_secrets(text: str) -> list[Found]:
    """The other half of an AWS key, which has no prefix: looked for near the first half only."""
    return [
        Found(*match.span(), "key", "aws-secret")
        for mark in ("AKIA", "ASIA")
        for at in places(text, mark)
        for match in _FORTY.finditer(text, max(0, at - 400), at + 400)
        if not (match.group().islower() or match.group().isupper() or match.group().isdecimal())
    ]


def _around(text: str, mark: str, before: re.Pattern[str], after: re.Pattern[str]) -> Iterator[Found]:
    done = 0
    for at in places(text, mark):
        right = after.match(text, at + len(mark)) if at >= done else None
        if right is not None:
            done = right.end()
            begin = max(0, at - 64)
            left = before.search(text[begin:at])
            if left is not None:
                yield Found(begin + left.start(), right.end(), "key", mark)


def _add_marked(text: str, at: int, found: list[Found]) -> int:
    """Add the keys whose first word ends at a mark; say where they end."""
    end = 0
    back = _BACK.match(text[max(0, at - 14) : at][::-1])
    size = back.end() if back else 0
    for literal, pattern in _by_head().get(text[at - size : at + 1], ()):
        match = pattern.match(text, at - size)
        if match is not None:
            found.append(Found(*match.span(), "key", literal))
            end = max(end, match.end())
    return end
