"""How fast the mask is, beside three plain regexes, in the same run.

    python benchmarks/redaction.py

Three texts. "prose" holds nothing to find but a few numbers and a dash. "mixed" is the published set with a sentence
between any two lines: one value, or one thing that looks like one, in some 120 bytes, as in tickets and logs.
"packed" is the published set alone, one in 45 bytes, the worst that can be met. The three regexes are what a project
starts with: an address, a telephone, a key; the lean ones are the same tuned for speed. They leave most of the values
where they are (the last column). Processor time, best of several runs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

from capataz.privacy.mask import Mask
from capataz.privacy.pseudonyms import Pseudonyms

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "privacy"
THREE = (
    re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"),
    re.compile(r"(?:\+?\d{1,3}[-.\s]?)?\(?\d{3}\)?[-.\s]?\d{3}[-.\s]?\d{4}"),
    re.compile(r"sk-[A-Za-z0-9_-]{20,}"),
)
LEAN = (
    re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b"),
    re.compile(r"\b(?:\+?1[-.\s]?)?\(?\d{3}\)?[-.\s]?\d{3}[-.\s]?\d{4}\b"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{20,}\b"),
)
PROSE = (
    "The committee met again on Tuesday to discuss the budget for the coming year, and nobody was surprised when it "
    "decided to postpone. In 1987 there had been 43 members; today there are 12. La reunió va començar a les deu del "
    "matí, amb l'alcaldessa i tres regidors, i es va allargar fins al vespre. Nobody said anything about the key "
    "questions — the secret of the old mill, its 1,200 workers, or the way in which history repeats itself. "
)
SENTENCES = (
    "The customer wrote again this morning and would like an answer before the weekend. ",
    "La clienta diu que encara no ha rebut res i que ho necessita abans de divendres. ",
    "El paquete llegó abierto y falta una pieza, según cuenta en el segundo mensaje. ",
)


def plain(patterns: tuple[re.Pattern[str], ...]) -> Callable[[str], str]:
    def run(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("<X>", text)
        return text

    return run


def speeds(runs: dict[str, Callable[[str], str]], text: str, times: int) -> dict[str, float]:
    """Megabytes a second of each, in turns, so that what else the machine does is spread over all of them."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(times):
        for what, run in runs.items():
            start = time.process_time()
            run(text)
            best[what] = min(best[what], time.process_time() - start)
    return {what: len(text.encode()) / taken / 1e6 for what, taken in best.items()}


def texts(copies: int) -> tuple[dict[str, str], list[str]]:
    rng = random.Random(1)
    positives = [json.loads(line) for line in (DATA / "positives.jsonl").read_text("utf-8").splitlines()]
    negatives = [json.loads(line)["text"] for line in (DATA / "negatives.jsonl").read_text("utf-8").splitlines()]
    lines = ([row["text"] for row in positives] + negatives) * copies
    rng.shuffle(lines)
    made = {
        "prose": PROSE * (130 * copies),
        "mixed": "\n".join(rng.choice(SENTENCES) + line for line in lines),
        "packed": "\n".join(lines),
    }
    return made, [row["value"] for row in positives]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=12, help="how often the published set is repeated")
    parser.add_argument("--times", type=int, default=5, help="runs of each, of which the best counts")
    options = parser.parse_args()
    mask = Mask(secrets=["a-configured-secret-1", "another/one+2"])
    made, values = texts(options.copies)
    runs: dict[str, Callable[[str], str]] = {
        "mask": mask.text,
        "mask with placeholders": lambda text: mask.text(text, Pseudonyms(), foreign=True),
        "three regexes": plain(THREE),
        "three lean regexes": plain(LEAN),
    }
    print(f"{'text':8} {'MB':>5} {'what':24} {'MB/s':>7} {'of three':>9} {'of lean':>8} {'values left':>12}")
    for name, text in made.items():
        rates = speeds(runs, text, options.times)
        for what, run in runs.items():
            of_three, of_lean = (rates[what] / rates[base] for base in ("three regexes", "three lean regexes"))
            out = run(text)
            left = sum(value in out for value in values) if name != "prose" else 0
            figures = f"{rates[what]:7.1f} {of_three:9.2f} {of_lean:8.2f} {left:8}/{len(values)}"
            print(f"{name:8} {len(text.encode()) / 1e6:5.2f} {what:24} {figures}")


if __name__ == "__main__":
    main()
