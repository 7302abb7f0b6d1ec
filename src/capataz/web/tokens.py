"""Who may do what: tokens with a scope, bound to a tenant where they are one tenant's.

A token is kept as its digest only, compared in constant time, and never shown. Without tokens everybody who can reach
the server is the person at this machine: that is why a server without tokens only listens on loopback.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from capataz.mistakes import Misuse

Scope: TypeAlias = Literal["read", "operate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Each may do what those before it may. read: look. operate: answer, submit, cancel, fork, send spans. admin: also let
acting tools run after a fork."""
SHORTEST = 20
SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `tenant` None sees everybody's runs; else only those of this tenant."""

    name: str
    scope: Scope
    tenant: str | None = None

    def may(self, scope: Scope) -> bool:
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


LOCAL = Caller("local", "admin")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The known tokens by digest. Falsy when there are none."""

    known: tuple[tuple[str, Caller], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known)

    def caller(self, token: str) -> Caller | None:
        """Whose token it is; every known one is looked at, so that time says nothing."""
        digest, found = _digest(token), None
        for known, caller in self.known:
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def read_tokens(text: str, where: str) -> Tokens:
    """Tokens from lines `TOKEN SCOPE [TENANT]`; empty lines and those that begin with # are left out.

    Raises `Misuse` that names the line, never the token.
    """
    known: list[tuple[str, Caller]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{where}, line {number}"
        if len(words) not in (2, 3) or words[1] not in SCOPES:
            raise Misuse(f"{place}: write TOKEN SCOPE [TENANT], with a scope out of {', '.join(SCOPES)}")
        if len(words[0]) < SHORTEST:
            raise Misuse(f"{place}: a token has at least {SHORTEST} characters; make one with `openssl rand -hex 24`")
        if len(words) == 3 and not _plain(words[2]):
            raise Misuse(f"{place}: a tenant is written in letters, digits, - and _, at most 64 of them")
        tenant = words[2] if len(words) == 3 else None
        digest = _digest(words[0])
        known.append((digest, Caller(f"{tenant or 'token'}-{digest[:6]}", words[1], tenant)))
    return Tokens(tuple(known))


def _plain(tenant: str) -> bool:
    return len(tenant) <= 64 and all(char.isascii() and (char.isalnum() or char in "-_") for char in tenant)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@dataclass(slots=True)
class Sessions:
    """Signed-in browsers, in memory: a restart signs everybody out. `secret` also makes the marks of forms."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _open: OrderedDict[str, tuple[Caller, float]] = field(default_factory=OrderedDict[str, tuple[Caller, float]])

    def begin(self, caller: Caller, now: float) -> str:
        key = secrets.token_urlsafe(32)
        self._open[_digest(key)] = (caller, now + SESSION_SECONDS)
        while len(self._open) > MOST_SESSIONS:
            self._open.popitem(last=False)
        return key

    def caller(self, key: str, now: float) -> Caller | None:
        found = self._open.get(_digest(key))
        return found[0] if found is not None and found[1] > now else None

    def end(self, key: str) -> None:
        self._open.pop(_digest(key), None)

    def mark(self, key: str) -> str:
        """What a form has to carry to be believed: it is bound to the browser's own cookie."""
        return hmac.new(self.secret, key.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def marked(self, key: str, mark: str) -> bool:
        return bool(key) and hmac.compare_digest(self.mark(key), mark.encode("ascii", "replace").decode())


def from_environment(environment: Mapping[str, str], files: Sequence[tuple[str, str]]) -> Tokens:
    """The tokens of `CAPATAZ_TOKENS` (lines, or parted by ;) and of token files already read."""
    texts = [("CAPATAZ_TOKENS", environment.get("CAPATAZ_TOKENS", "").replace(";", "\n"))]
    found = [read_tokens(text, where) for where, text in (*texts, *files)]
    return Tokens(tuple(known for tokens in found for known in tokens.known))
