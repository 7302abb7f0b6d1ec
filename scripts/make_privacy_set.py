"""Writes the positive half of the published redaction set: tests/data/privacy/positives.jsonl.

Values are fakes made here, valid by their checksums, with a fixed seed: the same files come out every time. The
sentences around them are hand-written in seven languages, with JSON, URLs, code and logs beside prose (frames.json),
and so are the hard negatives (negatives.jsonl).

    python scripts/make_privacy_set.py
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path

from stdnum import luhn
from stdnum.de import idnr
from stdnum.es import cif, dni, nie
from stdnum.fr import nir
from stdnum.iso7064 import mod_97_10
from stdnum.it import codicefiscale
from stdnum.pt import nif

HERE = Path(__file__).resolve().parent.parent / "tests" / "data" / "privacy"
SEED = 20_240_229
ALNUM = string.ascii_letters + string.digits

WRITTEN = json.loads((HERE / "frames.json").read_text("utf-8"))
FRAMES: dict[str, dict[str, list[str]]] = WRITTEN["prose"]
MACHINE: dict[str, list[str]] = WRITTEN["machine"]
HEX = string.digits + "abcdef"


def pick(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(size))


def emails(rng: random.Random) -> Iterator[str]:
    people = [
        "ana.pujol",
        "joan_serra",
        "m.garcia+shop",
        "lea-d",
        "j.o'neill",
        "x1",
        "núria.vidal",
        "KARL.WEISS",
        "rita%ext",
    ]
    hosts = [
        "example.com",
        "correu.example.cat",
        "mail.example.co.uk",
        "exämple.de",
        "xn--bcher-kva.example",
        "sub.a.example.org",
    ]
    for person in people:
        for host in rng.sample(hosts, 3):
            yield f"{person}@{host}"
    yield "ana [at] example [dot] com"
    yield "ana(at)example.com"
    yield "ana arroba example punto com"
    yield "ana.pujol%40example.com"
    yield "ana\uff20example.com"


def _spell(rng: random.Random, digits: str, sizes: tuple[int, ...]) -> str:
    parts: list[str] = []
    at = 0
    for size in sizes:
        parts.append(digits[at : at + size])
        at += size
    return rng.choice([" ", "-", ".", "\u00a0", " "]).join(part for part in parts if part)


def phones(rng: random.Random) -> Iterator[str]:
    plans: list[tuple[str, str, tuple[int, ...]]] = [
        ("34", "6########", (3, 3, 3)),
        ("34", "6########", (3, 2, 2, 2)),
        ("34", "93#######", (2, 3, 2, 2)),
        ("34", "91#######", (3, 3, 3)),
        ("33", "6########", (1, 2, 2, 2, 2)),
        ("33", "1########", (1, 2, 2, 2, 2)),
        ("351", "91#######", (3, 3, 3)),
        ("351", "21#######", (3, 3, 3)),
        ("39", "347#######", (3, 7)),
        ("39", "06########", (2, 4, 4)),
        ("44", "7911######", (4, 6)),
        ("1", "212#######", (3, 3, 4)),
        ("376", "3#####", (3, 3)),
        ("41", "79#######", (2, 3, 2, 2)),
        ("52", "55########", (2, 4, 4)),
        ("55", "119########", (2, 5, 4)),
        ("49", "171#######", (3, 7)),
        ("31", "6########", (1, 8)),
    ]
    import phonenumbers

    for code, shape, sizes in plans:
        done = 0
        while done < 4:
            number = "".join(rng.choice(string.digits) if char == "#" else char for char in shape)
            parsed = phonenumbers.parse(f"+{code}{number}")
            if not phonenumbers.is_valid_number(parsed):
                continue
            done += 1
            spelled = _spell(rng, number, sizes)
            yield rng.choice([f"+{code}{number}", f"+{code} {spelled}", f"00{code} {spelled}", f"(+{code}) {spelled}"])
            if code in ("34", "351", "39"):
                yield rng.choice([number, spelled])
            elif code in ("33", "44", "49"):
                yield rng.choice([f"0{number}", f"0{spelled}", f"+{code} (0){spelled}"])
            elif code == "1":
                yield rng.choice(
                    [f"({number[:3]}) {number[3:6]}-{number[6:]}", "-".join((number[:3], number[3:6], number[6:]))]
                )


def ibans(rng: random.Random) -> Iterator[str]:
    shapes = {
        "ES": "#" * 20,
        "FR": "##########%%%%%%%%%%%##",
        "DE": "#" * 18,
        "PT": "#" * 21,
        "IT": "A##########%%%%%%%%%%%%",
        "GB": "AAAA##############",
        "NL": "AAAA##########",
        "AD": "########%%%%%%%%%%%%",
        "BE": "#" * 12,
        "CH": "#####%%%%%%%%%%%%",
        "IE": "AAAA##############",
        "MT": "AAAA#####%%%%%%%%%%%%%%%%%%",
        "SE": "#" * 20,
        "NO": "#" * 11,
        "PL": "#" * 24,
        "LU": "###%%%%%%%%%%%%%",
        "AT": "#" * 16,
        "GR": "#######%%%%%%%%%%%%%%%%",
        "SC": "AAAA####################AAA",
        "LC": "AAAA%%%%%%%%%%%%%%%%%%%%%%%%",
    }
    table = {"#": string.digits, "A": string.ascii_uppercase, "%": string.digits}
    for country, shape in shapes.items():
        bban = "".join(rng.choice(table[char]) for char in shape)
        check = mod_97_10.calc_check_digits(bban + country)
        number = f"{country}{check}{bban}"
        spaced = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
        yield number
        yield spaced
        yield rng.choice([number.lower(), spaced.replace(" ", "-"), spaced.replace(" ", "\u00a0")])


def cards(rng: random.Random) -> Iterator[str]:
    for begin, size in (
        ("4", 16),
        ("51", 16),
        ("2221", 16),
        ("34", 15),
        ("37", 15),
        ("6011", 16),
        ("36", 14),
        ("3530", 16),
        ("62", 16),
        ("55", 16),
    ):
        for _ in range(2):
            body = begin + pick(rng, string.digits, size - 1 - len(begin))
            number = body + luhn.calc_check_digit(body)
            sizes = (4, 6, 5) if size == 15 else (4, 6, 4) if size == 14 else (4, 4, 4, 4)
            spaced = _spell(rng, number, sizes)
            yield number
            yield spaced
    yield "\uff14\uff11\uff11\uff11 1111 1111 1111"
    yield "4111\u200b1111\u200b1111\u200b1111"


def _es(rng: random.Random) -> Iterator[str]:
    for _ in range(5):
        body = pick(rng, string.digits, 8)
        letter = dni.calc_check_digit(body)
        yield body + letter
        yield rng.choice(
            [
                f"{body}-{letter}",
                f"{body} {letter}",
                f"{body[:2]}.{body[2:5]}.{body[5:]}-{letter}",
                (body + letter).lower(),
            ]
        )
        body = rng.choice("XYZ") + pick(rng, string.digits, 7)
        letter = nie.calc_check_digit(body)
        yield rng.choice([body + letter, f"{body[0]}-{body[1:]}-{letter}", (body + letter).lower()])
        body = rng.choice("ABGJ") + pick(rng, string.digits, 7)
        number = body + cif.calc_check_digits(body)[0]
        yield rng.choice([number, f"{number[0]}-{number[1:]}", f"ES{number}"])


def _us_gb(rng: random.Random) -> Iterator[str]:
    for _ in range(6):
        area = rng.choice([rng.randint(1, 665), rng.randint(667, 899)])
        yield f"{area:03}-{rng.randint(1, 99):02}-{rng.randint(1, 9999):04}"
        pairs = " ".join(pick(rng, string.digits, 2) for _ in range(3))
        yield f"{pick(rng, 'ABCEHJLM', 2)} {pairs} {rng.choice('ABCD')}"


def _fr(rng: random.Random) -> Iterator[str]:
    for _ in range(8):
        born = f"{rng.choice('12')}{rng.randint(0, 99):02}{rng.randint(1, 12):02}"
        body = f"{born}{rng.randint(1, 95):02}{rng.randint(1, 989):03}{rng.randint(1, 999):03}"
        number = body + nir.calc_check_digits(body)
        yield rng.choice(
            [
                number,
                " ".join((number[0], number[1:3], number[3:5], number[5:7], number[7:10], number[10:13], number[13:])),
            ]
        )


def _de(rng: random.Random) -> Iterator[str]:
    done = 0
    while done < 8:
        digits = rng.sample(string.digits, 9)
        digits.insert(rng.randint(0, 9), rng.choice(digits))
        body = "".join(digits)
        number = next((body + last for last in string.digits if idnr.is_valid(body + last)), "")
        if number:
            done += 1
            yield rng.choice([number, f"{number[:2]} {number[2:5]} {number[5:8]} {number[8:]}"])


def _pt(rng: random.Random) -> Iterator[str]:
    for _ in range(8):
        body = rng.choice("1235") + pick(rng, string.digits, 7)
        number = body + nif.calc_check_digit(body)
        yield rng.choice([number, f"{number[:3]} {number[3:6]} {number[6:]}", f"PT{number}"])


def _it(rng: random.Random) -> Iterator[str]:
    consonants = "BCDFGLMNPRSTVZ"
    for _ in range(8):
        born = f"{rng.randint(0, 99):02}{rng.choice('ABCDEHLMPRST')}{rng.randint(1, 28):02}"
        body = f"{pick(rng, consonants, 6)}{born}{rng.choice('ABCDEFGHIL')}{rng.randint(100, 999)}"
        number = body + codicefiscale.calc_check_digit(body)
        yield rng.choice([number, number.lower(), f"{number[:3]} {number[3:6]} {number[6:11]} {number[11:]}"])


IDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "ca": _es,
    "es": _es,
    "en": _us_gb,
    "fr": _fr,
    "de": _de,
    "pt": _pt,
    "it": _it,
}


def word(rng: random.Random, size: int) -> str:
    """Letters and digits, one digit at least."""
    return pick(rng, ALNUM, size - 1) + rng.choice(string.digits)


def filled(rng: random.Random, template: str) -> str:
    """A template with its gaps filled: {W36} letters and digits, {h32} hexadecimal, {d10} digits, {U16} capitals."""

    def fill(match: re.Match[str]) -> str:
        size = int(match[2])
        alphabets = {"h": HEX, "d": string.digits, "U": string.ascii_uppercase + string.digits}
        return word(rng, size) if match[1] == "W" else pick(rng, alphabets[match[1]], size)

    return re.sub(r"\{([WhdU])(\d+)\}", fill, template)


def keys(rng: random.Random) -> Iterator[str]:
    for template in WRITTEN["keys"]:
        yield filled(rng, template).removeprefix("https://")


def placed(rng: random.Random) -> Iterator[dict[str, str]]:
    """Secrets that only their place gives away."""
    for kind, sort, frame in WRITTEN["placed"]:
        if sort == "aws":
            value = pick(rng, ALNUM + "/+", 38) + "aZ"
        elif sort == "basic":
            value = base64.b64encode(f"ana:{word(rng, 10)}".encode()).decode()
        else:
            value = filled(rng, f"{{{sort}}}")
        yield {"kind": kind, "lang": "en", "text": frame.format(value), "value": value}


def jwts(rng: random.Random) -> Iterator[str]:
    for _ in range(16):
        parts = [json.dumps({"alg": "HS256", "n": rng.random()}), json.dumps({"sub": pick(rng, string.digits, 8)})]
        coded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
        yield f"{coded[0]}.{coded[1]}.{word(rng, 43)}"


def pems(rng: random.Random) -> Iterator[dict[str, str]]:
    for sort in ("RSA ", "EC ", "", "OPENSSH "):
        body = "\n".join(pick(rng, ALNUM + "+/", 64) for _ in range(3))
        pem = f"-----BEGIN {sort}PRIVATE KEY-----\n{body}\n-----END {sort}PRIVATE KEY-----"
        shared = {"kind": "private-key", "lang": "en"}
        yield {**shared, "text": f"here:\n{pem}\nthanks", "value": body}
        yield {**shared, "text": json.dumps({"key": pem}), "value": body.replace("\n", "\\n")}


def rows() -> Iterator[dict[str, str]]:
    rng = random.Random(SEED)
    makers: dict[str, Callable[[random.Random], Iterator[str]]] = {
        "email": emails,
        "phone": phones,
        "iban": ibans,
        "card": cards,
    }
    for kind, maker in makers.items():
        for value in maker(rng):
            language = rng.choice(list(FRAMES))
            frame = rng.choice(FRAMES[language][kind] + rng.sample(MACHINE[kind], 2))
            yield row(kind, language, frame, value)
    for language, maker in IDS.items():
        for value in maker(rng):
            yield row("id", language, rng.choice(FRAMES[language]["id"] + rng.sample(MACHINE["id"], 2)), value)
    for value in keys(rng):
        yield row("key", "en", rng.choice(MACHINE["secret"]), value)
    for value in jwts(rng):
        yield row("jwt", "en", rng.choice(MACHINE["secret"]), value)
    yield from placed(rng)
    yield from pems(rng)


def row(kind: str, language: str, frame: str, value: str) -> dict[str, str]:
    return {"kind": kind, "lang": language, "text": frame.format(value), "value": value}


def main() -> None:
    HERE.mkdir(parents=True, exist_ok=True)
    with (HERE / "positives.jsonl").open("w", encoding="utf-8") as file:
        for line in rows():
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
