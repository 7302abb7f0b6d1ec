"""Writes the positive half of the published redaction set: tests/data/privacy/positives.jsonl.

Values are fakes made here, valid by their checksums, with a fixed seed: the same files come out every time. The
sentences around them are hand-written in seven languages, with JSON, URLs, code and logs beside prose.
The hard negatives (negatives.jsonl) are hand-written there.

    python scripts/make_privacy_set.py
"""

from __future__ import annotations

import base64
import json
import random
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

FRAMES: dict[str, dict[str, list[str]]] = {
    "ca": {
        "email": ["Escriu-me a {}, si us plau.", "El correu de la clienta és {}", "Ho envio tot a «{}» avui mateix."],
        "phone": ["Truca'm al {} a la tarda.", "El meu telèfon és {}.", "Mòbil: {}", "Em trobaràs al {} fins les 8."],
        "iban": ["Feu el pagament al compte {} aquesta setmana", "IBAN: {}", "La devolució, a {} gràcies."],
        "card": ["He pagat amb la targeta {} ahir", "Número de targeta: {}", "Em surt rebutjada la {}."],
        "id": ["El meu DNI és {}.", "Document d'identitat {}", "NIF {} a la factura"],
    },
    "es": {
        "email": ["Escríbeme a {}, por favor.", "Correo de contacto: {}", "Mándalo a ({}) hoy."],
        "phone": [
            "Llámame al {} por la tarde.",
            "Mi teléfono es {}.",
            "Tel. {}",
            "Puede localizarme en el {} hasta las 8.",
        ],
        "iban": ["Haced la transferencia a {} esta semana", "IBAN: {}", "La devolución a {} gracias."],
        "card": ["Pagué con la tarjeta {} ayer", "Número de tarjeta: {}", "Me rechazan la {}."],
        "id": ["Mi DNI es {}.", "Documento de identidad {}", "NIF/NIE: {}"],
    },
    "en": {
        "email": ["Write to {} please.", "Her address is {}", "cc: <{}>, thanks"],
        "phone": [
            "Call me on {} after five.",
            "My phone number is {}.",
            "Mobile: {}",
            "You can reach me at {} until 8.",
        ],
        "iban": ["Please refund to {} this week", "IBAN: {}", "Send the money to {} thanks."],
        "card": ["I paid with card {} yesterday", "Card number: {}", "They decline {}."],
        "id": ["My social security number is {}.", "National ID {}", "Tax ID: {}"],
    },
    "fr": {
        "email": ["Écrivez-moi à {}, merci.", "Son courriel : {}", "À envoyer à « {} » aujourd'hui."],
        "phone": [
            "Appelez-moi au {} cet après-midi.",
            "Mon téléphone est le {}.",
            "Tél. : {}",
            "Je suis au {} jusqu'à 8 h.",
        ],
        "iban": ["Virement sur {} cette semaine", "IBAN : {}", "Le remboursement sur {} merci."],
        "card": ["J'ai payé avec la carte {} hier", "Numéro de carte : {}", "On refuse la {}."],
        "id": ["Mon numéro de sécurité sociale est {}.", "Numéro INSEE {}", "NIR : {}"],
    },
    "de": {
        "email": ["Schreiben Sie an {}, bitte.", "Ihre Adresse lautet {}", "Bitte an „{}“ senden."],
        "phone": [
            "Rufen Sie mich unter {} an.",
            "Meine Telefonnummer ist {}.",
            "Handy: {}",
            "Ich bin unter {} bis 8 Uhr da.",
        ],
        "iban": ["Bitte überweisen auf {} diese Woche", "IBAN: {}", "Erstattung an {} danke."],
        "card": ["Ich habe mit der Karte {} bezahlt", "Kartennummer: {}", "Die {} wird abgelehnt."],
        "id": ["Meine Steuer-ID ist {}.", "Steuerliche Identifikationsnummer {}", "IdNr.: {}"],
    },
    "pt": {
        "email": ["Escreva para {}, por favor.", "O e-mail dela é {}", "Envie para ({}) hoje."],
        "phone": ["Ligue para o {} à tarde.", "O meu telefone é {}.", "Telemóvel: {}", "Estou no {} até às 8."],
        "iban": ["Faça a transferência para {} esta semana", "IBAN: {}", "O reembolso para {} obrigado."],
        "card": ["Paguei com o cartão {} ontem", "Número do cartão: {}", "Recusam o {}."],
        "id": ["O meu NIF é {}.", "Contribuinte n.º {}", "NIF: {}"],
    },
    "it": {
        "email": ["Scrivimi a {}, per favore.", "La sua mail è {}", "Da inviare a «{}» oggi."],
        "phone": ["Chiamami al {} nel pomeriggio.", "Il mio telefono è {}.", "Cell. {}", "Mi trova al {} fino alle 8."],
        "iban": ["Bonifico su {} questa settimana", "IBAN: {}", "Il rimborso su {} grazie."],
        "card": ["Ho pagato con la carta {} ieri", "Numero della carta: {}", "Mi rifiutano la {}."],
        "id": ["Il mio codice fiscale è {}.", "Codice fiscale: {}", "C.F. {}"],
    },
}
MACHINE: dict[str, list[str]] = {
    "email": [
        '{{"user": {{"email": "{}"}}, "ok": true}}',
        "https://shop.example/u?email={}&page=2",
        'notify("{}", retries=3)',
        "2024-05-01T12:30:45Z INFO login user={} ip=10.0.0.7",
        "mailto:{}?subject=hi",
        "name;mail\\nAna;{}\\n",
    ],
    "phone": [
        '{{"phone": "{}", "plan": 3}}',
        "https://shop.example/call?tel={}",
        'dial("{}")',
        "2024-05-01 12:30:45,120 WARN sms to={} failed",
        "Ana,{},Barcelona",
    ],
    "iban": [
        '{{"iban": "{}", "amount": 12.5}}',
        "https://bank.example/pay?iban={}",
        'pay(iban="{}", cents=1200)',
        "12:30:45 INFO refund iban={} ok",
        "payee\t{}\t120.00",
    ],
    "card": [
        '{{"card": "{}", "exp": "12/29"}}',
        "https://pay.example/v1?pan={}",
        'charge("{}", 1200)',
        "12:30:45 ERROR declined pan={} code=51",
        "Ana,{},12/29",
    ],
    "id": [
        '{{"national_id": "{}", "ok": true}}',
        "https://gov.example/p?nif={}",
        'check_id("{}")',
        "12:30:45 INFO kyc tax_id={} passed",
        "Ana,nif {},Barcelona",
    ],
    "secret": [
        '{{"env": {{"X": "{}"}}}}',
        "export X={}",
        'client = Client("{}")',
        "12:30:45 ERROR refused with {} twice",
        "https://api.example/v1?x={}",
        "La clau és {} i prou",
        "Use `{}` for staging.",
        "curl -H 'X: {}' https://a.example",
    ],
}


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


def keys(rng: random.Random) -> Iterator[tuple[str, str]]:
    def word(size: int) -> str:
        return pick(rng, ALNUM, size - 1) + rng.choice(string.digits)

    low = string.digits + "abcdef"
    made = [
        f"sk-{word(48)}",
        f"sk-proj-{word(40)}_{word(20)}",
        f"sk-ant-api03-{word(60)}-{word(20)}AA",
        f"sk-or-v1-{pick(rng, low, 64)}",
        f"xai-{word(80)}",
        f"gsk_{word(52)}",
        f"hf_{word(34)}",
        f"r8_{word(37)}",
        f"pplx-{word(48)}",
        f"nvapi-{word(60)}",
        f"tvly-{word(32)}",
        f"AIza{word(35)}",
        f"ya29.{word(60)}",
        f"GOCSPX-{word(28)}",
        f"AKIA{pick(rng, string.ascii_uppercase + string.digits, 16)}",
        f"ASIA4{pick(rng, string.ascii_uppercase + string.digits, 15)}",
        f"ghp_{word(36)}",
        f"gho_{word(36)}",
        f"ghs_{word(36)}",
        f"github_pat_{word(22)}_{word(59)}",
        f"glpat-{word(20)}",
        f"glrt-{word(20)}",
        f"npm_{word(36)}",
        f"pypi-AgEIcHlwaS5vcmc{word(80)}",
        f"dckr_pat_{word(27)}",
        f"xoxb-{pick(rng, string.digits, 12)}-{pick(rng, string.digits, 12)}-{word(24)}",
        f"xoxp-{pick(rng, string.digits, 11)}-{word(24)}",
        f"xapp-1-A0{word(8)}-{word(40)}",
        f"SG.{word(22)}.{word(43)}",
        f"xkeysib-{pick(rng, low, 64)}-{word(16)}",
        f"key-{pick(rng, low, 32)}",
        f"SK{pick(rng, low, 32)}",
        f"AC{pick(rng, low, 32)}",
        f"{pick(rng, string.digits, 10)}:AA{word(33)}",
        f"sk_live_{word(24)}",
        f"rk_test_{word(24)}",
        f"pk_live_{word(24)}",
        f"whsec_{word(32)}",
        f"shpat_{pick(rng, low, 32)}",
        f"lin_api_{word(40)}",
        f"ntn_{word(46)}",
        f"figd_{word(40)}",
        f"dop_v1_{pick(rng, low, 64)}",
        f"dapi{pick(rng, low, 32)}",
        f"hvs.{word(90)}",
        f"glsa_{word(32)}_{pick(rng, low, 8)}",
        f"NRAK-{word(27)}",
        f"sq0atp-{word(22)}",
        f"https://hooks.slack.com/services/T{word(8)}/B{word(10)}/{word(24)}",
        f"lsv2_pt_{pick(rng, low, 32)}_{pick(rng, low, 10)}",
    ]
    for key in made:
        yield "key", key.removeprefix("https://")


def placed(rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """(kind, value, text) for secrets that only their place gives away."""

    def word(size: int) -> str:
        return pick(rng, ALNUM, size - 1) + rng.choice(string.digits)

    aws = pick(rng, ALNUM + "/+", 38) + "aZ"
    frames = [
        ("password", word(12), "postgres://app:{}@db.example:5432/shop"),
        ("password", word(12), "redis://:{}@cache.example:6379/0"),
        ("password", word(12), "mongodb+srv://app:{}@c0.example/test?w=majority"),
        ("password", word(12), "amqp://svc:{}@mq.example//"),
        ("password", word(12), "Server=db;Database=shop;User Id=sa;Password={};Encrypt=yes"),
        ("password", word(12), "DB_PASSWORD={}"),
        ("password", word(12), 'password: "{}"'),
        ("password", word(12), '{{"password": "{}"}}'),
        ("password", word(12), "mysql --password={} -h db"),
        ("password", word(12), "La contraseña es {} y no funciona"),
        ("password", word(12), "La contrasenya és {}."),
        ("password", word(12), "Mein Passwort ist {}"),
        ("password", word(12), "my password is {}, sorry"),
        ("password", word(12), "Le mot de passe est {}"),
        ("password", word(12), "A senha é {}"),
        ("password", word(12), "La password è {}"),
        ("password", word(12), "root:{}@tcp(127.0.0.1:3306)/shop"),
        ("password", word(12), "curl -u ana:{} https://a.example"),
        ("token", word(40), "Authorization: Bearer {}"),
        ("token", word(24), "curl -H 'authorization: bearer {}' https://a.example"),
        ("token", base64.b64encode(f"ana:{word(10)}".encode()).decode(), "Authorization: Basic {}"),
        ("token", word(30), '{{"headers": {{"Authorization": "Bearer {}"}}}}'),
        ("token", word(30), "x-api-key: {}"),
        ("token", word(30), "https://a.example/cb?access_token={}&state=1"),
        ("token", word(30), "GET /v1?key={} HTTP/1.1"),
        ("password", aws, 'aws_secret_access_key = "{}"'),
        ("password", aws, '"SecretAccessKey": "{}"'),
        ("password", aws, "AWS_SECRET_ACCESS_KEY='{}'"),
        ("password", word(40), "client_secret={}"),
        ("password", word(32), 'API_KEY: "{}"'),
        ("password", word(32), "apiKey='{}'"),
        ("password", word(44), "AccountKey={}=="),
        ("password", word(32), 'api_key = "{}"'),
        ("password", word(32), "refresh_token: {}"),
        ("password", word(28), "--api-key {} --verbose"),
    ]
    for kind, value, frame in frames:
        yield kind, value, frame.format(value)
    for _ in range(4):
        parts = [
            base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "n": rng.random()}).encode()).decode().rstrip("=")
            for _ in range(2)
        ]
        token = f"{parts[0]}.{parts[1]}.{word(43)}"
        for frame in rng.sample(MACHINE["secret"], 4):
            yield "jwt", token, frame.format(token)
    for sort in ("RSA ", "EC ", "", "OPENSSH "):
        body = "\n".join(pick(rng, ALNUM + "+/", 64) for _ in range(3))
        pem = f"-----BEGIN {sort}PRIVATE KEY-----\n{body}\n-----END {sort}PRIVATE KEY-----"
        yield "private-key", body, f"here:\n{pem}\nthanks"
        yield "private-key", body.replace("\n", "\\n"), json.dumps({"key": pem})


def rows() -> Iterator[dict[str, object]]:
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
    for kind, value in keys(rng):
        yield row(kind, "en", rng.choice(MACHINE["secret"]), value)
    for kind, value, text in placed(rng):
        yield {"kind": kind, "lang": "en", "text": text, "value": value}


def row(kind: str, language: str, frame: str, value: str) -> dict[str, object]:
    return {"kind": kind, "lang": language, "text": frame.format(value), "value": value}


def main() -> None:
    HERE.mkdir(parents=True, exist_ok=True)
    with (HERE / "positives.jsonl").open("w", encoding="utf-8") as file:
        for line in rows():
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
