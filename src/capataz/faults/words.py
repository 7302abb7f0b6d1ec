"""Error texts made fit to be shown: short, one line, without stack trace and without anybody's credentials.

Whatever an error says may have quoted the request, with its keys. Everything a fault carries goes through here. The
shared redactor of the privacy layer still runs over what leaves; this is the first of two nets, not the only one.
"""

from __future__ import annotations

import re

LONGEST = 400
MASK = "***"

_CREDENTIALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), into)
    for pattern, into in (
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", MASK),
        (r"\b([a-z][a-z0-9+.-]*://)[^\s/@\"']*:[^\s/\"']*@", rf"\1{MASK}@"),
        (r"\b([a-z][a-z0-9+.-]*://)[^\s/@:\"']{8,}@", rf"\1{MASK}@"),
        (r"\b(bearer|basic|aws4-hmac-sha256)(\s+)[a-z0-9._~+/=-]{6,}", rf"\1\2{MASK}"),
        (r"\b(token)(\s+)(?=[^\s\d]*\d)[a-z0-9._~+/=-]{8,}", rf"\1\2{MASK}"),
        (
            r"([\w-]*(?:api[_-]?key|apikey|authorization|secret|passw(?:or)?d|pwd|access[_-]?token|refresh[_-]?token"
            r"|auth[_-]?token|id[_-]?token|x-goog-api-key|client[_-]?secret|session[_-]?key|private[_-]?key"
            r"|credentials?|signature)[\w-]*[\"']?\s*(?:=|:|%3d)\s*[\"']?)(?!\*\*\*|bearer\b|basic\b)[^\s\"',;&)}\]]+",
            rf"\1{MASK}",
        ),
        (r"([?&](?:key|token|sig|auth|code|apikey)=)[^\s&\"'#]+", rf"\1{MASK}"),
        (r"\b(?:sk|pk|rk|gsk|xai|pplx|tok|ak|key|pat|hf|r8|nvapi|csk|fw|tgp)[-_][a-z0-9_*-]{8,}", MASK),
        (r"\b(?:ghp|gho|ghu|ghs|ghr|glpat|github_pat|xox[abpors])[-_][a-z0-9_-]{8,}", MASK),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}", MASK),
        (r"\bAIza[a-z0-9_-]{20,}", MASK),
        (r"\beyJ[a-z0-9_-]{6,}\.[a-z0-9_-]{4,}(?:\.[a-z0-9_-]*)?", MASK),
    )
)
_HINT = re.compile(
    r"://|key|token|secret|passw|pwd|bearer|basic|auth|sig|credential|[-_][A-Za-z0-9_*-]{8}|AKIA|ASIA|AIza|eyJ|BEGIN",
    re.IGNORECASE,
)
_TRACE = re.compile(r"Traceback \(most recent call last\):")
_FRAME = re.compile(r'^\s*(?:File ".*", line \d+.*|at .+\(.*:\d+(?::\d+)?\).*|\^+|~+\^*~*)$')


def masked(text: str) -> str:
    """The text without keys, tokens and passwords.

    >>> masked("postgres://app:hunter2@db/x refused, header was Bearer abcdef123")
    'postgres://***@db/x refused, header was Bearer ***'
    """
    if not _HINT.search(text):
        return text
    for pattern, into in _CREDENTIALS:
        text = pattern.sub(into, text)
    return text


def shown(text: str) -> str:
    """One masked line of at most 400 characters; of a stack trace only its last line, the error itself."""
    text = text[: LONGEST * 40]
    if _TRACE.search(text):
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
        text = lines[-1] if lines else ""
    elif "\n" in text:
        text = "\n".join(line for line in text.splitlines() if not _FRAME.match(line))
    line = masked(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
