"""Encryption of what people and models have said, below the codec: the store sees bytes it cannot read.

AES-256 in GCM with a fresh nonce for each text, bound to the place it stands in, so that no row can be put in another's
place. The first key writes, all keys read: that is how a key is changed. Without the key nothing is guessed: what is
sealed is refused with `Sealed`, and a list shows that there is something. Ids, times, kinds of facts' rows and figures
stay readable: a queue and a list need them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from capataz.mistakes import Misuse, Sealed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK = b"\xc1\x01"
"""Leads a sealed text; no body of the codec and no UTF-8 begins so. The second byte is the version."""
_ID, _NONCE = 4, 12
_HEAD = len(MARK) + _ID + _NONCE
TEXT_MARK = "sealed:1:"
SHOWN = "(sealed)"
"""What a list shows in the place of a text it has no key for."""
HOW = "make one with: python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'"


class Seal:
    """The keys of a store: base64 of 32 bytes each, the newest first. None at all, or not `writing`: nothing is sealed.

    >>> Seal(()).writes
    False
    """

    def __init__(self, keys: Sequence[str] = (), *, writing: bool = True) -> None:
        self._keys: dict[bytes, AESGCM] = {}
        self._newest: bytes | None = None
        for text in keys:
            raw = _raw(text)
            identity = hashlib.sha256(b"capataz key " + raw).digest()[:_ID]
            self._keys[identity] = _cipher(raw)
            self._newest = self._newest or (identity if writing else None)

    def __repr__(self) -> str:
        return f"Seal({len(self._keys)} keys)"

    @property
    def writes(self) -> bool:
        """Whether what is written now is sealed."""
        return self._newest is not None

    def close(self, body: bytes, place: str) -> bytes:
        """The body as it is stored at this place; itself where there is no key."""
        if self._newest is None:
            return body
        nonce = os.urandom(_NONCE)
        sealed = self._keys[self._newest].encrypt(nonce, body, place.encode(errors="surrogatepass"))
        return MARK + self._newest + nonce + sealed

    def open(self, body: bytes, place: str) -> bytes:
        """What is stored at this place. Raises `Sealed` when the key is missing, or does not fit."""
        if body[:2] != MARK:
            return body
        from cryptography.exceptions import InvalidTag

        identity, nonce = body[2 : 2 + _ID], body[2 + _ID : _HEAD]
        key = self._keys.get(identity)
        if key is None:
            raise Sealed(
                f"{place} is encrypted with key {identity.hex()}, which is not given: set CAPATAZ_KEY or App(key=...), "
                "where several keys stand with commas between them, the newest first"
            )
        try:
            return key.decrypt(nonce, body[_HEAD:], place.encode(errors="surrogatepass"))
        except InvalidTag as error:
            raise Sealed(f"{place} was encrypted with key {identity.hex()} and altered since, or moved here") from error

    def close_text(self, text: str, place: str) -> str:
        """The same for a column of text."""
        if self._newest is None:
            return text
        return TEXT_MARK + base64.b64encode(self.close(text.encode(errors="surrogatepass"), place)).decode()

    def open_text(self, text: str, place: str) -> str:
        if not text.startswith(TEXT_MARK):
            return text
        try:
            body = base64.b64decode(text[len(TEXT_MARK) :], validate=True)
        except binascii.Error:
            return text
        return self.open(body, place).decode(errors="surrogatepass")

    def shown(self, text: str, place: str) -> str:
        """The same, for a list: what there is no key for is shown as sealed."""
        try:
            return self.open_text(text, place)
        except Sealed:
            return SHOWN

    def stale(self, body: bytes) -> bool:
        """Whether this is stored otherwise than it would be now: in the clear, or with an earlier key."""
        if self._newest is None:
            return body[:2] == MARK
        return body[:2] != MARK or body[2 : 2 + _ID] != self._newest

    def stale_text(self, text: str) -> bool:
        """The same for a column of text. An empty one is as good as sealed."""
        if not text.startswith(TEXT_MARK):
            return self.writes and bool(text)
        return self.stale(base64.b64decode(text[len(TEXT_MARK) :]))


OPEN = Seal()
"""No keys: everything is written as it is."""


def seal_of(keys: str | None, *, writing: bool = True) -> Seal:
    """From a setting: keys with commas between them, the newest first."""
    return Seal([key.strip() for key in keys.split(",") if key.strip()], writing=writing) if keys else OPEN


def _raw(text: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32:
        raise Misuse(f"a key is 32 bytes in base64; {HOW}")
    return raw


def _cipher(raw: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise Misuse(f"a key needs the library cryptography: pip install 'capataz[encryption]' ({error})") from error
    return AESGCM(raw)
