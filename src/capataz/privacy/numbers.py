"""Long numbers: what each one is, or that it is nobody's business.

One pass finds every run of digits with the separators people put between them. A run may be a date, several numbers
in a row, or a row of a table, so it is read in windows of whole groups, longest first. Checksums decide for cards
and ids; for telephones the numbering plans, the way it is written and the words before it decide together. This
module must never mask what merely has the length of a telephone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from capataz.privacy import ids, phones
from capataz.privacy.context import Meaning, counted, meaning
from capataz.privacy.found import Found

_CANDIDATE = re.compile(
    r"[0-9](?:(?:[ .\-/()·]{0,3}[0-9]){5,}|"
    r"[0-9](?:(?<=[A-Za-z][0-9]{2})(?=[ -]?(?:[0-9]|[A-Za-z]{4}|[A-Za-z] ?[0-9]{2}))|"
    r"(?=[A-Za-z][0-9]{2} ?[A-Za-z][0-9]{3})))"
)
"""A run of six digits and more, or two behind or before letters where an IBAN or an Italian fiscal code may be."""
_GROUP = re.compile(r"[0-9]+")
_DATE = re.compile(
    r"(?<!\d)(?:(?:19|20)\d\d([-/.])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])|"
    r"(?:0?[1-9]|[12]\d|3[01])([-/.])(?:0?[1-9]|[12]\d|3[01])\2(?:19|20)\d\d)(?!\d)"
)
_ADDRESS = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)")
_EXTENSION = re.compile(
    r"(?:\s?[;,])?\s?(?:ext|extn|extension|extensió|extensión|int|poste|durchwahl|x)[. :=]{0,2}\d{1,6}\b", re.I
)
_BARE = re.compile(r"0\d{8,11}|[26-9]\d{8}|3\d{9}")
"""What is a telephone without a word and without a separator: not the ten digits of America, which are anything."""
_BARE_ABROAD = re.compile(r"34[67]\d{8}|33[67]\d{8}|447\d{9}|3519\d{8}|393\d{9}|491[5-7]\d{8,9}")
_BOOK = re.compile(r"97[89]\d{10}")
_WRITTEN = re.compile(r"\d{1,5}(?:\D{1,4}\d{2,8}){1,6}")
_CODED = re.compile(r"^\d{3}-\d\d-\d{4}$|^0-")
_AMERICAN = re.compile(r"(?:1\D)?\d{3}\D{1,2}\d{3}\D\d{4}")

_CUT = frozenset("-_.#=+@:/\\(")
"""Before a number, these tie it to the word before them: `ORD-612345678`."""

Span = tuple[int, int]


class Run(NamedTuple):
    """Groups of digits that stand beside each other: those from `low` to `high`."""

    groups: list[Span]
    low: int
    high: int


def numbers(text: str, kinds: frozenset[str], regions: tuple[str, ...], key: str = "") -> list[Found]:
    """IBANs, cards, ids, telephones, in order."""
    reader = _Reader(text, kinds, regions, key)
    for match in _CANDIDATE.finditer(text):
        start, end = match.span()
        if start < reader.floor:
            if end - reader.floor < 7:
                continue
            start = reader.floor
        reader.candidate(start, end)
    return reader.found


class _Reader:
    """One reading of one text. `floor` is where the last thing found ended: nothing looks back beyond it."""

    __slots__ = ("_kinds", "_meant", "_meant_at", "_regions", "floor", "found", "key", "text")

    def __init__(self, text: str, kinds: frozenset[str], regions: tuple[str, ...], key: str) -> None:
        self.text = text
        self.key = key
        self.floor = 0
        self.found: list[Found] = []
        self._kinds = kinds
        self._regions = regions
        self._meant: Meaning = ""
        self._meant_at = -1

    def candidate(self, start: int, end: int) -> None:
        """Read one candidate: letters and digits, a single number, or a run with dates and several numbers in it."""
        text = self.text
        before = text[start - 1] if start else " "
        if ids.may_have_letters(text, start, before):
            hit = ids.lettered(text, start, self._kinds)
            if hit is not None and hit.start >= self.floor:
                self._keep(hit)
                for again in _CANDIDATE.finditer(text, hit.end, end):
                    self.candidate(*again.span())
                return
        size = end - start
        if size < 7 or (before.isalnum() and size < 9):
            return
        written = text[start:end]
        if written.isdecimal():
            if size < 20 and (hit := self._window(Run([(start, end)], 0, 1), 0, 1, written)) is not None:
                self._keep(hit)
        else:
            self._run(start, end)

    def _keep(self, hit: Found) -> None:
        self.found.append(hit)
        self.floor = hit.end

    def _means(self, start: int) -> Meaning:
        if start != self._meant_at:
            self._meant = meaning(self.text, start, self.floor, self.key)
            self._meant_at = start
        return self._meant

    def _run(self, start: int, end: int) -> None:
        written = self.text[start:end]
        date = _DATE.search(self.text, start, end) if "20" in written or "19" in written else None
        if date is not None and date.end() - date.start() == end - start:
            return
        groups = [match.span() for match in _GROUP.finditer(self.text, start, end)]
        if date is not None:
            self._windows([group for group in groups if group[1] <= date.start()])
            self._windows([group for group in groups if group[0] >= date.end()])
        else:
            self._windows(groups)

    def _windows(self, groups: list[Span]) -> None:
        """Read a run. What is left on either side of something found is a run of its own, as it will be when masked."""
        waiting = [(Run(groups, 0, len(groups)), self.floor)]
        furthest = self.floor
        while waiting:
            run, self.floor = waiting.pop()
            floor = self.floor
            for first in range(run.low, run.high):
                if last := self._longest(run, first):
                    furthest = max(furthest, self.floor)
                    if first > run.low:
                        waiting.append((Run(groups, run.low, first), floor))
                    if last < run.high:
                        waiting.append((Run(groups, last, run.high), self.floor))
                    break
        self.floor = furthest

    def _longest(self, run: Run, first: int) -> int:
        """Keep the longest window of whole groups that is something; say where it ends, or 0 where nothing is."""
        groups = run.groups
        start = groups[first][0]
        for last in range(min(run.high, first + 8), first, -1):
            end = groups[last - 1][1]
            if end - start < 7:
                break
            if end - start <= 30 and (hit := self._window(run, first, last, self.text[start:end])) is not None:
                self._keep(hit)
                return last
        return 0

    def _window(self, run: Run, first: int, last: int, written: str) -> Found | None:
        start, end = run.groups[first][0], run.groups[last - 1][1]
        digits = written if last - first == 1 else ids.compact(written)
        count = len(digits)
        if not 7 <= count <= 19:
            return None
        plus = not first and _has_plus(self.text, start)
        tied = _tied(self.text, run, first, last, self.floor)
        whole = last - first == run.high - run.low
        if tied != FAST and not plus and (hit := self._checked(start, end, written, digits, whole=whole)) is not None:
            return hit
        if count > 16 or (tied and not (plus and tied == LEFT)) or "phone" not in self._kinds:
            return None
        if not whole and not plus and not _own_line(self.text, run, first, last):
            return None
        return self._phone(start, end, written, digits, plus=plus, whole=whole)

    def _checked(self, start: int, end: int, written: str, digits: str, *, whole: bool) -> Found | None:
        """A card or an id, by its sum."""
        text, count = self.text, len(digits)
        if count > (11 if whole else 13) and "card" in self._kinds and ids.is_card(written, digits):
            if end < len(text) and text[end].isalnum():
                return None
            return Found(start, end, "card", "luhn")
        if "id" not in self._kinds or count not in ids.LENGTHS:
            return None
        if count < 10 and (hit := ids.with_letter(text, start, end, digits)) is not None:
            return hit
        if end < len(text) and text[end].isalnum():
            return None
        rule = ids.by_shape(written, digits)
        if (
            rule
            and self._means(start) not in ("business", "phone")
            and (rule != "gb.nhs" or self._means(start) == "id")
        ):
            return Found(start, end, "id", rule)
        if self._means(start) == "id" and (rule := ids.by_words(digits)):
            return Found(start, end, "id", rule)
        return None

    def _phone(self, start: int, end: int, written: str, digits: str, *, plus: bool, whole: bool) -> Found | None:
        if "(0)" in written:
            digits = ids.compact(written.replace("(0)", ""))
        sort = self._sort(start, end, written, digits, plus=plus)
        if not sort or (sort == "told" and not whole):
            return None
        text, begin = self.text, start
        opening = "+(\0" if ")" in written else "+\0"
        while begin > self.floor and text[begin - 1] in opening:
            begin -= 1
        extension = _EXTENSION.match(text, end) if text[end : end + 1] in " ;,xei" else None
        return Found(begin, extension.end() if extension else end, "phone", sort)

    def _sort(self, start: int, end: int, written: str, digits: str, *, plus: bool) -> str:
        """Which rule takes it: "international", "national", "named", "told" (by words alone), or none."""
        if plus or (digits.startswith("00") and len(digits) > 9):
            if phones.international(digits if plus else digits[2:]):
                return "international"
            return "told" if 8 <= len(digits) <= 15 and self._means(start) == "phone" else ""
        meant = self._means(start)
        if meant == "business" or meant == "id" or counted(self.text, end):
            return ""
        if meant == "phone":
            regions = phones.WIDER if self._regions == phones.REGIONS else self._regions + phones.WIDER
            if phones.national(digits, regions) or phones.international(digits):
                return "named"
            return "told" if len(digits) <= 15 and "." not in written else ""
        return _unnamed(self._regions, written, digits)


def _has_plus(text: str, start: int) -> bool:
    return start > 0 and (text[start - 1] == "+" or (text[start - 1] == "(" and text[start - 2 : start - 1] == "+"))


FREE, LEFT, LOOSE, FAST = range(4)


def _tied(text: str, run: Run, first: int, last: int, floor: int) -> int:
    """Whether the window is part of something: FAST for good; LEFT, LOOSE: an id or a card may be, a telephone not."""
    groups = run.groups
    start, end = groups[first][0], groups[last - 1][1]
    if first > run.low and not _apart(text[groups[first - 1][1] : start]):
        return FAST
    if last < run.high and not _apart(text[end : groups[last][0]]):
        return FAST
    before = text[start - 1] if start else " "
    if before.isalnum():
        return FAST
    if end < len(text) and (text[end].isalnum() or text[end] == "_"):
        tail = text[end : end + 4]
        word = len(tail) == 4 and tail.isalnum()
        return FAST if word and last - first == 1 else LOOSE
    if text[end : end + 1] == "-" and text[end + 1 : end + 2].isalpha() and not text[end + 2 : end + 3].isalnum():
        return LOOSE
    return LEFT if before in _CUT and start - 2 >= floor and _tied_by(text, start, before) else FREE


def _apart(separator: str) -> bool:
    return " " in separator or "/" in separator or "(" in separator


def _tied_by(text: str, start: int, before: str) -> bool:
    word = text[start - 2 : start - 1]
    if before in ":=/":
        return before == ":" and word.isdigit()
    if before in "+(":
        return word.isalnum()
    return before in "#@_" or word.isalnum() or word in (")", "]", "_")


def _own_line(text: str, run: Run, first: int, last: int) -> bool:
    """Whether a part of a run may stand alone: set apart by more than its own groups are, or all parts alike."""
    groups = run.groups
    if last - first == 1:
        return groups[first][1] - groups[first][0] >= 9
    inner = {text[groups[index][1] : groups[index + 1][0]] for index in range(first, last - 1)}
    edges = [index for index in (first - 1, last - 1) if run.low <= index < run.high - 1]
    if inner.isdisjoint(text[groups[index][1] : groups[index + 1][0]] for index in edges):
        return True
    return (run.high - run.low) % (last - first) == 0 and (first - run.low) % (last - first) == 0


def _unnamed(regions: tuple[str, ...], written: str, digits: str) -> str:
    """Which rule takes a number for a telephone that nothing before it explains."""
    if len(digits) < 9 or _BOOK.fullmatch(digits):
        return ""
    if written == digits:
        if (_BARE.fullmatch(digits) or regions != phones.REGIONS) and phones.national(digits, regions):
            return "national"
        return "international" if _BARE_ABROAD.fullmatch(digits) and phones.international(digits) else ""
    if _WRITTEN.fullmatch(written) is None or not _plausible(written, digits):
        return ""
    short = len(digits) < 11 or digits[0] == "0" or _AMERICAN.fullmatch(written) is not None
    if short and phones.national(digits, regions):
        return "national"
    code = written.split(" ", 1)[0].strip("()")
    return "international" if code in ("34", "33", "49", "351", "39", "44") and phones.international(digits) else ""


def _plausible(written: str, digits: str) -> bool:
    """Whether a person would write a telephone like this: not a decimal, not a book, not a code in parts."""
    groups = _GROUP.findall(written)
    if ("." in written and len(groups) < 3) or _ADDRESS.fullmatch(written):
        return False
    if (len(groups[0]) == 1 and groups[0] not in "01") or _CODED.search(written):
        return False
    if digits[0] not in "01" and len(digits) == 10 and not (_AMERICAN.fullmatch(written) or len(groups) == 2):
        return False
    return "/" not in written or digits[0] == "0"
