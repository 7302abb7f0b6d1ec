"""The one object through which everything passes that leaves: requests, spans, logs, pages, messages, errors.

    mask = Mask(secrets=[os.environ["SHOP_KEY"]])
    mask.text("Write to ana@example.com")                 # 'Write to <EMAIL>'
    mask.text("Write to ana@example.com", pseudonyms)     # 'Write to <EMAIL_1>', and it can be undone

It finds what has a shape, a checksum or a telling place: see `docs/privacy.md` for the list. It does **not** find
names or street addresses; give it a finder for those. Mask a text before shortening it: half a key has no shape.
This module must never raise over what a text contains, keep a value it has seen, or show a secret in its `repr`.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, quote_plus

import orjson

from capataz.events.facts import JSON
from capataz.privacy import ids, keys, secrets
from capataz.privacy.emails import emails, veiled
from capataz.privacy.errors import told
from capataz.privacy.found import KINDS, PERSONAL, SECRETS, Finder, Found, label, places
from capataz.privacy.numbers import numbers
from capataz.privacy.phones import REGIONS
from capataz.privacy.plain import covered, lowered, plain, unquoted
from capataz.privacy.pseudonyms import Pseudonyms, replaced

DEEPEST = 200
"""Levels of nesting that are looked at; what lies deeper is replaced as a whole."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of the user's: `kind` is the word of its placeholder; a group called `value` narrows what is masked.

    >>> Pattern("employee", r"EMP-(?P<value>[0-9]{6})")
    Pattern(kind='employee', regex='EMP-(?P<value>[0-9]{6})', secret=False)
    """

    kind: str
    regex: str
    secret: bool = False
    """One-way: never given back."""


class _Sheet:
    """A text being worked on. What was found is covered, so that the next rule sees what will be sent."""

    __slots__ = ("_low", "found", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Found] = []
        self._low: str | None = None

    @property
    def low(self) -> str:
        if self._low is None:
            self._low = lowered(self.text)
        return self._low

    def add(self, hits: Iterable[Found]) -> None:
        """Take what a rule found; of two that overlap the one that begins first, or is longer, stays.

        What another secret has beyond it goes too: it would be found as soon as the first is covered.
        """
        ordered = sorted(hits, key=lambda hit: (hit.start, -hit.end))
        kept: list[Found] = []
        last = 0
        for hit in ordered:
            if hit.start < last < hit.end and hit.kind in SECRETS:
                hit = hit._replace(start=last)
            if hit.start >= last and hit.end > hit.start:
                kept.append(hit)
                last = hit.end
        if kept:
            self.text = covered(self.text, [(hit.start, hit.end) for hit in kept])
            self.found.extend(kept)
            self._low = None


class Mask:
    """What must not leave, and how it is taken out. Immutable, safe to share between threads.

    `secrets` are values known to be secret: found first, by exact match, also percent-encoded, JSON-escaped and
    inside base64. `classes` narrows what is looked for (see `KINDS`). `regions` are the countries whose telephone
    numbers are known without a country code. `extra` are patterns, `finders` callables, for what only you know.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        *,
        classes: Iterable[str] = KINDS,
        extra: Sequence[Pattern] = (),
        finders: Sequence[Finder] = (),
        regions: Sequence[str] = REGIONS,
    ) -> None:
        self.kinds = frozenset(classes)
        self.regions = tuple(regions)
        self.one_way = SECRETS | {pattern.kind for pattern in extra if pattern.secret}
        self._forms = _forms(secrets) if "secret" in self.kinds else ()
        self._extra = tuple((pattern.kind, re.compile(pattern.regex)) for pattern in extra)
        self._finders = tuple(finders)

    def __repr__(self) -> str:
        return f"Mask({len(self.kinds)} kinds, {len(self._forms)} forms of secrets, {len(self._extra)} extra)"

    def find(self, text: str) -> list[Found]:
        """What must not leave, in order, without overlaps, in offsets of the text."""
        return self._find(text, "")

    def text(self, text: str, pseudonyms: Pseudonyms | None = None, *, foreign: bool = False) -> str:
        """The text as it may leave. With `pseudonyms`, personal data becomes placeholders that can be undone.

        `foreign` says that the text was written outside (by a person, by a tool) and has not been masked yet: what
        looks like an issued placeholder in it is then itself disguised, and comes back as it was written.
        """
        return self._text(text, pseudonyms, foreign, "")

    def value(self, value: Any, pseudonyms: Pseudonyms | None = None, *, foreign: bool = False) -> JSON:
        """The same for any JSON, keys and values. Other objects are taken by what `str` says of them."""
        return self._value(value, pseudonyms, foreign, "", 0)

    def scrub(self, error: BaseException) -> str:
        """The text of an exception with its notes, causes and contexts, as it may be shown."""
        return self._text(told(error), None, False, "")

    def _find(self, text: str, key: str) -> list[Found]:
        copy = plain(text)
        sheet = _Sheet(copy.text)
        self._configured(sheet)
        self._secret(sheet)
        self._personal(sheet, key)
        found = sorted(sheet.found)
        if copy.moved:
            found = [Found(*copy.source(hit.start, hit.end), hit.kind, hit.rule) for hit in found]
        return self._given(text, found) if self._finders else found

    def _configured(self, sheet: _Sheet) -> None:
        for form, whole in self._forms:
            if form in sheet.text:
                sheet.add(
                    Found(start, start + len(form), "secret", "configured") for start in _at(sheet.text, form, whole)
                )
        for kind, pattern in self._extra:
            group = "value" if "value" in pattern.groupindex else 0
            sheet.add(Found(*match.span(group), kind, "extra") for match in pattern.finditer(sheet.text))

    def _secret(self, sheet: _Sheet) -> None:
        kinds = self.kinds
        if "private-key" in kinds and "PRIVATE KEY" in sheet.text:
            sheet.add(Found(*match.span(), "private-key", "pem") for match in keys.PEM.finditer(sheet.text))
        if "jwt" in kinds and "eyJ" in sheet.text:
            sheet.add(Found(*match.span(), "jwt", "jwt") for match in keys.JWT.finditer(sheet.text))
        if "key" in kinds:
            sheet.add([*keys.api_keys(sheet.text), *keys.aws_secrets(sheet.text)])
        if "password" in kinds:
            sheet.add(secrets.in_addresses(sheet.text))
        if not kinds.isdisjoint(("password", "token", "key")):
            sheet.add(hit for hit in secrets.after_names(sheet.text, sheet.low) if hit.kind in kinds)

    def _personal(self, sheet: _Sheet, key: str) -> None:
        kinds = self.kinds & PERSONAL
        sheet.text = unquoted(sheet.text)
        if "email" in kinds:
            sheet.add(emails(sheet.text))
            sheet.add(veiled(sheet.text))
        if kinds - {"email"}:
            if "id" in kinds and ("2A" in sheet.text or "2B" in sheet.text):
                sheet.add(ids.corsican(sheet.text))
            sheet.found.extend(numbers(sheet.text, kinds, self.regions, key))  # the last: nothing needs it covered

    def _given(self, text: str, found: list[Found]) -> list[Found]:
        """What the finders say, where nothing else was found."""
        sheet = _Sheet(text)
        sheet.add(found)
        for finder in self._finders:
            sheet.add(hit for hit in finder(sheet.text) if "<" not in sheet.text[hit.start : hit.end])
        return sorted(sheet.found)

    def _text(self, text: str, pseudonyms: Pseudonyms | None, foreign: bool, key: str) -> str:
        found = self._find(text, key)
        escaped = any("\\u" in text[hit.start : hit.end] for hit in found)
        out = text if escaped and _is_json(text) else self._put(text, found, pseudonyms, foreign)
        if found and _is_json(text) and (escaped or not _is_json(out)):
            # told by what it says, not by how it is written: a value that comes back has to be the value
            masked = self._value(orjson.loads(text), pseudonyms, foreign, key, 0)
            return orjson.dumps(masked).decode()
        return out

    def _put(self, text: str, found: list[Found], pseudonyms: Pseudonyms | None, foreign: bool) -> str:
        if pseudonyms is None:
            return replaced(text, found) if found else text
        out, anew = pseudonyms.cover(text, found, self.one_way, foreign=foreign)
        while anew:
            out, anew = pseudonyms.cover(out, self._find(out, ""), self.one_way, foreign=False)
        return out

    def _value(self, value: Any, pseudonyms: Pseudonyms | None, foreign: bool, key: str, depth: int) -> JSON:
        def go(inner: Any, name: str) -> JSON:
            return self._value(inner, pseudonyms, foreign, name, depth + 1)

        if isinstance(value, str):
            return self._leaf(value, pseudonyms, foreign, key)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, pseudonyms, key)
        if depth >= DEEPEST:
            return "<TOO_DEEP>"
        if isinstance(value, dict):
            return self._members(value, pseudonyms, foreign, go)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list | tuple | set | frozenset):
            return [go(item, key) for item in cast("list[Any]", value)]
        if isinstance(value, bytes | bytearray):
            return self._leaf(value.decode("utf-8", "replace"), pseudonyms, foreign, key)
        return self._leaf(str(value), pseudonyms, foreign, key)

    def _members(
        self, value: dict[Any, Any], pseudonyms: Pseudonyms | None, foreign: bool, go: Callable[[Any, str], JSON]
    ) -> JSON:
        out: dict[str, JSON] = {}
        for name, inner in value.items():
            shown = self._text(str(name), pseudonyms, foreign, "")
            free, count = shown, 2
            while free in out:
                free, count = f"{shown} ({count})", count + 1
            out[free] = go(inner, str(name))
        return out

    def _leaf(self, text: str, pseudonyms: Pseudonyms | None, foreign: bool, key: str) -> str:
        kind, strength = secrets.secret_name(key) if key else ("", "")
        if kind in self.kinds and secrets.looks_secret(text, strength, quoted=True):
            return self._put(text, [Found(0, len(text), kind, "named")], pseudonyms, foreign)
        return self._text(text, pseudonyms, foreign, key)

    def _number(self, value: float, pseudonyms: Pseudonyms | None, key: str) -> JSON:
        kind, strength = secrets.secret_name(key) if key else ("", "")
        if kind in self.kinds and strength == "strong" and secrets.looks_secret(str(value), quoted=True):
            return f"<{label(kind)}>"
        if not 1_000_000 <= value < 10**20 or int(value) != value:
            return value
        text = str(int(value))
        found = self._find(text, key)
        if len(found) == 1 and (found[0].start, found[0].end) == (0, len(text)):
            if pseudonyms is None or found[0].kind in self.one_way:
                return replaced(text, found)
            return pseudonyms.token(found[0].kind, value)
        return value


def _at(text: str, form: str, whole: bool) -> Iterator[int]:
    for start in places(text, form):
        end = start + len(form)
        flanked = (start and text[start - 1].isalnum()) or (end < len(text) and text[end].isalnum())
        if not (whole and flanked):
            yield start


def _forms(values: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """The ways each secret may be written, longest first; a short one counts only as a whole word."""
    forms: dict[str, bool] = {}
    for value in values:
        stripped = value.strip()
        if not stripped:
            continue
        escaped = orjson.dumps(stripped.encode("utf-8", "replace").decode()).decode()[1:-1]
        percent = quote(stripped, safe="", errors="replace")
        written = {stripped, escaped, percent, quote_plus(stripped, errors="replace"), percent.replace("%2F", "/")}
        written |= {escaped.replace("/", "\\/"), orjson.dumps(escaped).decode()[1:-1], repr(stripped)[1:-1]}
        written |= {html.escape(stripped), html.escape(stripped, quote=False)}
        written |= {re.sub("[&<>]", lambda match: f"\\u{ord(match.group()):04x}", escaped)}
        written |= {re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), form) for form in written}
        written |= {plain(form).text for form in written}
        for form in written:
            forms[form] = len(form) < 6
        for form in _encoded(stripped):
            forms.setdefault(form, False)
    return tuple(sorted(forms.items(), key=lambda item: (-len(item[0]), item[0])))


def _encoded(value: str) -> set[str]:
    """What base64 makes of a secret at each of its three alignments, without the characters its neighbours share."""
    raw = value.encode("utf-8", "replace")
    out: set[str] = set()
    for shift in range(3):
        first = (0, 2, 3)[shift]
        last = (len(raw) + shift) * 8 // 6
        form = b64encode(b"\0" * shift + raw).decode()[first:last]
        if len(form) >= 8:
            out |= {form, form.replace("+", "-").replace("/", "_")}
    return out


def _is_json(text: str) -> bool:
    if not (text and text[0] in '{[ \n\t"' and text.lstrip()[:1] in ("{", "[")):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
