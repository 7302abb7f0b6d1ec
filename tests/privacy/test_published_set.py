"""The published set: it proves that nothing got worse. It was tuned on, so it proves nothing about other texts."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest

from capataz.privacy.found import PERSONAL, SECRETS
from capataz.privacy.mask import Mask


def covered(mask: Mask, text: str, value: str) -> bool:
    """Whether every letter and digit of the value lies inside something found."""
    at = text.index(value)
    inside = {index for hit in mask.find(text) for index in range(hit.start, hit.end)}
    return all(index in inside for index in range(at, at + len(value)) if text[index].isalnum())


def test_every_class_is_found_in_at_least_99_of_100(mask: Mask, positives: list[dict[str, str]]) -> None:
    total: Counter[str] = Counter()
    missed: dict[str, list[str]] = {}
    for row in positives:
        total[row["kind"]] += 1
        if not covered(mask, row["text"], row["value"]):
            missed.setdefault(row["kind"], []).append(row["text"])
    assert set(total) == PERSONAL | SECRETS - {"secret"}
    assert {row["lang"] for row in positives} == {"ca", "es", "en", "fr", "de", "pt", "it"}
    assert all(len(missed.get(kind, ())) <= count * 0.01 for kind, count in total.items()), missed


def test_hard_negatives_are_left_alone(mask: Mask, negatives: list[str]) -> None:
    wrong = [(text, mask.find(text)) for text in negatives if mask.find(text)]
    assert len(negatives) >= 300
    assert len(wrong) <= len(negatives) / 100, wrong


def test_the_set_is_found_again_in_one_long_text(
    mask: Mask, positives: list[dict[str, str]], negatives: list[str]
) -> None:
    text = "\n".join([row["text"] for row in positives] + negatives)
    masked = mask.text(text)
    leaked = [row for row in positives if row["value"] in masked]
    assert len(leaked) <= len(positives) / 100, leaked
    assert mask.text(masked) == masked


@pytest.mark.parametrize("place", ['{{"a": {{"b": ["{}"]}}}}', "x <b>{}</b> y", "({})", '"{}"', "«{}»", "a\\n{}\\nb"])
def test_most_values_are_found_whatever_stands_around_them(mask: Mask, made: list[dict[str, str]], place: str) -> None:
    alone = [row for row in made if row["kind"] in ("email", "iban", "card", "key", "jwt")]
    missed = [row for row in alone if not covered(mask, place.format(row["value"]), row["value"])]
    assert len(missed) <= len(alone) / 100, missed


def test_the_set_is_the_one_its_script_makes(made: list[dict[str, str]]) -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "make_privacy_set.py"
    assert list(runpy.run_path(str(script))["rows"]()) == made
