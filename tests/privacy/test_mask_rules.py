"""Rule by rule: what is found, what is left, and public failures of other redactors that must not happen here."""

from __future__ import annotations

import html
import json
import random
import string
from urllib.parse import quote

import pytest
from stdnum.iso7064 import mod_97_10

from capataz.privacy import ids, phones
from capataz.privacy.found import Found
from capataz.privacy.mask import Mask, Pattern
from capataz.privacy.pseudonyms import Pseudonyms


def kinds(mask: Mask, text: str) -> list[str]:
    return [hit.kind for hit in mask.find(text)]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Write to ana.pujol@example.com.", "Write to <EMAIL>."),
        ("a@x.es,b@y.fr;c@z.de", "<EMAIL>,<EMAIL>;<EMAIL>"),
        ("Name <ana@example.com>", "Name <<EMAIL>>"),
        ("ana [at] example [dot] com", "<EMAIL>"),
        ("mailto:ana%40example.com?x=1", "mailto:<EMAIL>?x=1"),
        ("tel +34 612 345 678 / 93 123 45 67", "tel <PHONE> / <PHONE>"),
        ("ＴＥＬ： ＋３４ ６１２ ３４５ ６７８", "ＴＥＬ： <PHONE>"),
        ("Ruf an: 030/1234567 oder 0171-2345678", "Ruf an: <PHONE> oder <PHONE>"),
        ("06.12.34.56.78", "<PHONE>"),
        ("https://wa.me/34612345678?text=hola", "https://wa.me/<PHONE>?text=hola"),
        ("https://x.es/?tel=%2B34612345678&a=1", "https://x.es/?tel=<PHONE>&a=1"),
        ("IBAN ES91 2100 0418 4502 0005 1332 gracias", "IBAN <IBAN> gracias"),
        ("GB82 WEST 1234 5698 7654 32 words follow", "<IBAN> words follow"),
        ("iban:es9121000418450200051332", "iban:<IBAN>"),
        ("01000 0000 010000000", "<PHONE> <PHONE>"),
        ("4111-1111-1111-1111 12/27 123", "<CARD> 12/27 123"),
        ("378282246310005", "<CARD>"),
        ("DNI 12.345.678-Z, NIE X-1234567-L y CIF B-58818501", "DNI <ID>, NIE <ID> y CIF <ID>"),
        ("rssmra85t10a562s", "<ID>"),
        ("NIR 1 85 05 78 006 084 91", "NIR <ID>"),
        ("NIF PT501964843", "NIF <ID>"),
        ("NINO AB 12 34 56 C", "NINO <ID>"),
        ("postgres://u:p@ss-w0rd@db:5432/x", "postgres://u:<PASSWORD>@db:5432/x"),
        ("Authorization: Bearer abc.def-123_x", "Authorization: Bearer <TOKEN>"),
        ("the Bearer abc123def456 header", "the Bearer <TOKEN> header"),
        ('aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"', 'aws_secret_access_key = "<API_KEY>"'),
        ("<password>s3cr3t!x</password>", "<password><PASSWORD></password>"),
        ("docker run -e API_TOKEN=abcd1234efgh img", "docker run -e API_TOKEN=<TOKEN> img"),
        (r"{\"password\": \"hunter22\"}", r"{\"password\": \"<PASSWORD>\"}"),
        ("DB_PASS=hunter22 smtp_pass: hunter22", "DB_PASS=<PASSWORD> smtp_pass: <PASSWORD>"),
        (r'log: {"contrase\u00f1a": "Gat0Negre"}', r'log: {"contrase\u00f1a": "<PASSWORD>"}'),
        (r"log: to m\u00fcller@b\u00fccher.de, sent", "log: to <EMAIL>, sent"),
        (r'"{\"tel\\u00e8fon\": 612345678}"', r'"{\"tel\\u00e8fon\": \"<PHONE>\"}"'),
        (
            r"log: Ana \u003cana@example.com\u003e ?a=1\u0026tel=612345678",
            r"log: Ana \u003c<EMAIL>\u003e ?a=1\u0026tel=<PHONE>",
        ),
        ("contrase%C3%B1a=Gat0Negre&tel%c3%a8fon=612345678", "contrase%C3%B1a=<PASSWORD>&tel%c3%a8fon=<PHONE>"),
        ("?iban=ES91%202100%200418%204502%200005%201332", "?iban=<IBAN>"),
        ("?iban=ES91+2100+0418+4502+0005+1332&card=4111+1111+1111+1111", "?iban=<IBAN>&card=<CARD>"),
        ("tel=%2B34+612+345+678&x=1", "tel=<PHONE>&x=1"),
        ("total = 612+345+678; a=612+345+678", "total = 612+345+678; a=612+345+678"),
    ],
)
def test_what_is_found(mask: Mask, text: str, masked: str) -> None:
    assert mask.text(text) == masked


@pytest.mark.parametrize(
    "number",
    [
        "+33 6 12 34 56 78",
        "01 23 45 67 89",
        "+31 6 12345678",
        "+377 93 10 12 34",
        "+356 2123 4567",
        "+44 (0)20 7946 0958",
    ],
)
def test_countries_whose_phones_others_lost(mask: Mask, number: str) -> None:
    assert kinds(mask, f"Mon numéro : {number}.") == ["phone"]


def test_an_iban_is_valid_in_every_country_of_the_table(mask: Mask) -> None:
    rng = random.Random(7)
    for country, length in ids.IBAN_LENGTHS.items():
        account = "".join(rng.choice(string.digits) for _ in range(length - 4))
        iban = f"{country}{mod_97_10.calc_check_digits(account + country)}{account}"
        assert mask.text(f"to {iban} please and thanks") == "to <IBAN> please and thanks", country


def test_plans_agree_with_the_parser_of_the_library() -> None:
    import phonenumbers

    rng = random.Random(9)
    agreed = 0
    for _ in range(2_000):
        digits = rng.choice(["34", "33", "49", "351", "39", "44", "1", "52", "41"]) + "".join(
            rng.choice(string.digits) for _ in range(rng.randint(8, 10))
        )
        parsed = phonenumbers.parse(f"+{digits}")
        agreed += phonenumbers.is_valid_number(parsed) == phones.international(digits)
    assert agreed >= 1_980


def test_configured_secrets_are_found_in_every_form() -> None:
    import base64
    from urllib.parse import quote

    import orjson

    secret = 'p@ss "wörd"/x+1'
    mask = Mask(secrets=[secret, "", "  "])
    for form in (
        secret,
        quote(secret, safe=""),
        quote(secret, safe="").lower(),
        orjson.dumps(secret).decode()[1:-1],
        *(base64.b64encode(b"ab"[:shift] + secret.encode() + b"cd").decode() for shift in range(3)),
        base64.urlsafe_b64encode(b":" + secret.encode()).decode(),
    ):
        assert "<SECRET>" in mask.text(f"x={form};"), form
    assert "wörd" not in repr(mask)


@pytest.mark.parametrize("secret", ["pässwörd-más", "a&b<c>'d\"e/f", "clau\\de\nña"])
def test_a_configured_secret_is_found_however_a_program_writes_it(secret: str) -> None:
    mask = Mask([secret])
    ascii_only = json.dumps(secret)
    for text in (
        f"x{secret}x",
        ascii_only,
        json.dumps(ascii_only),
        ascii_only.replace("/", "\\/"),
        ascii_only.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        json.dumps(secret, ensure_ascii=False),
        html.escape(secret),
        html.escape(secret, quote=False),
        repr(secret),
        quote(secret),
    ):
        assert mask.text(text).strip("\"'x\\") == "<SECRET>", text


def test_json_in_ascii_comes_back_as_what_it_says(mask: Mask) -> None:
    known = Pseudonyms()
    text = json.dumps({"correu electrònic": "núria@bücher.de", "més": "sí"})
    shown = mask.text(text, known, foreign=True)
    assert json.loads(shown) == {"correu electrònic": "<EMAIL_1>", "més": "sí"}
    assert known.restore_value("<EMAIL_1>") == "núria@bücher.de"
    glued = r"\u003cEMAIL_1\u003eana@example.com"
    assert known.restore(mask.text(glued, known, foreign=True)) == glued


def test_a_short_secret_counts_as_a_whole_word_only() -> None:
    mask = Mask(secrets=["abc"])
    assert mask.text("abc abcd xabc (abc)") == "<SECRET> abcd xabc (<SECRET>)"


def test_a_configured_secret_is_never_partly_shown() -> None:
    mask = Mask(secrets=["sk-test-LEAK-0001", "LEAK"])
    assert mask.text("?key=sk-test-LEAK-0001&x=1") == "?key=<SECRET>&x=1"


def test_zero_width_characters_do_not_hide_a_value_and_offsets_are_those_of_the_source(mask: Mask) -> None:
    text = "é \u200bcard 41\u200b11 1111 1111\u2060 1111!"
    (hit,) = mask.find(text)
    assert (text[hit.start : hit.end], hit.kind) == ("41\u200b11 1111 1111\u2060 1111", "card")


def test_classes_narrow_what_is_looked_for() -> None:
    mask = Mask(classes=["email"])
    assert mask.text("ana@example.com 4111111111111111 ghp_abcdefghijklmnopqrstuvwxyz0123456789").startswith(
        "<EMAIL> 4111"
    )
    assert kinds(mask, "ghp_abcdefghijklmnopqrstuvwxyz0123456789 password=hunter22") == []


def test_patterns_and_finders_of_the_user() -> None:
    def names(text: str) -> list[Found]:
        at = text.find("Ana Pujol")
        return [Found(at, at + 9, "name")] if at >= 0 else []

    mask = Mask(
        extra=[Pattern("employee", r"EMP-(?P<value>\d{6})"), Pattern("door", r"#\d{4}#", secret=True)], finders=[names]
    )
    assert mask.text("Ana Pujol, EMP-123456, #1234#") == "<NAME>, EMP-<EMPLOYEE>, <DOOR>"
    assert mask.text(mask.text("Ana Pujol, EMP-123456")) == "<NAME>, EMP-<EMPLOYEE>"


def test_a_name_is_not_found_without_a_finder(mask: Mask) -> None:
    assert mask.text("Ana Pujol lives at Carrer Major 12") == "Ana Pujol lives at Carrer Major 12"


def test_value_masks_keys_numbers_and_what_a_key_says(mask: Mask) -> None:
    assert mask.value(
        {
            "ana@example.com": 1,
            "joan@example.com": 2,
            "card": 4111111111111111,
            "order_id": 612345678,
            "phone": 612345678,
            "headers": {"authorization": "Bearer tok-LEAK-0002", "x-api-key": "abc"},
            "password": "correct horse",
            "door": {"password": 87654321, "password_length": 8, "passwords": [1]},
            "config": ["--token", None, True, 1.5, b"ana@example.com"],
            "next_page_token": "CAUQAA12345678",
        }
    ) == {
        "<EMAIL>": 1,
        "<EMAIL> (2)": 2,
        "card": "<CARD>",
        "order_id": 612345678,
        "phone": "<PHONE>",
        "headers": {"authorization": "<TOKEN>", "x-api-key": "abc"},
        "password": "correct horse",
        "door": {"password": "<PASSWORD>", "password_length": 8, "passwords": [1]},
        "config": ["--token", None, True, 1.5, "<EMAIL>"],
        "next_page_token": "CAUQAA12345678",
    }


def test_json_in_a_text_stays_json(mask: Mask) -> None:
    import orjson

    text = (
        '{"card": 4111111111111111, "n": [612345678, "x"], "s": "{\\"card\\": 4111111111111111}", "m": "a\\nana@x.com"}'
    )
    loaded = orjson.loads(mask.text(text))
    assert loaded["card"] == "<CARD>"
    assert orjson.loads(loaded["s"]) == {"card": "<CARD>"}
    assert loaded["m"] == "a\n<EMAIL>"


def test_nesting_beyond_all_reason_does_not_raise(mask: Mask) -> None:
    value: object = "ana@example.com"
    for _ in range(600):
        value = [value]
    assert "TOO_DEEP" in str(mask.value(value))


def test_scrub_covers_causes_contexts_notes_and_groups() -> None:
    mask = Mask(secrets=["sk-test-LEAK-0001"])
    try:
        try:
            raise ConnectionError("GET https://api.example/?key=sk-test-LEAK-0001 failed")
        except ConnectionError as first:
            first.add_note("authorization: Bearer tok-LEAK-0002")
            raise RuntimeError("postgres://u:pw-LEAK-0003@h/db") from first
    except RuntimeError as error:
        told = mask.scrub(ExceptionGroup("several", [error, ValueError("to ana@example.com")]))
    assert "LEAK" not in told
    assert "ana@" not in told
    assert told.splitlines()[0].startswith("ExceptionGroup: several")
    assert "caused by: ConnectionError: GET https://api.example/?key=<SECRET> failed" in told


def test_scrub_survives_an_error_that_cannot_say_what_it_is(mask: Mask) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    error = Mute()
    error.__cause__ = error
    assert mask.scrub(error) == "Mute: (cannot say what it is)"


def test_a_text_without_anything_comes_back_itself(mask: Mask) -> None:
    text = "Nothing to see here, 12 times."
    assert mask.text(text) is text


def test_a_failed_attempt_carries_nothing_out_even_when_no_secret_is_configured(mask: Mask) -> None:
    """The record of a failed attempt: URL with the key, headers as text and as values, a connection string, notes."""
    record = {
        "config": {"api_key": "sk-test-LEAK-0001", "extra_header": {"authorization": "Bearer tok-LEAK-0002"}},
        "error": "400 for https://api.example/v1?key=sk-test-LEAK-0001: {'authorization': 'Bearer tok-LEAK-0002'}",
        "raw_headers": [["authorization", "Bearer tok-LEAK-0002"]],
        "tool": "could not connect to postgres://u:pw-LEAK-0003@h/db",
    }
    assert "LEAK" not in str(mask.value(record))
    assert "LEAK" not in mask.text(str(record))
    error = ConnectionError(record["error"])
    error.add_note(str(record))
    error.__cause__ = OSError(record["tool"])
    assert "LEAK" not in mask.scrub(error)


def test_a_summary_written_before_masking_was_on_is_masked_when_it_leaves(mask: Mask) -> None:
    token = "ghp_" + "aB3dE6gH9j" * 3 + "kLmN12"
    assert mask.text(f"Deployed with token {token}") == "Deployed with token <API_KEY>"
    assert mask.text(f"Deployed with token {token[:30]}") == "Deployed with token <API_KEY>"


@pytest.mark.parametrize(
    "unit",
    [
        "1 ",
        "6 1",
        "(1)",
        "12-",
        "a@",
        "a.",
        "key=",
        "password=",
        "sk-",
        "eyJ",
        "8Q~",
        "://a:",
        "[at]",
        "<EMAIL_1",
        "\u200b1",
    ],
)
def test_no_text_is_slow(mask: Mask, unit: str) -> None:
    """No rule tries everything at every place: what took minutes would have to take two seconds."""
    import time

    def spent(size: int) -> float:
        text = (unit * size)[:size]
        start = time.process_time()
        mask.text(text)
        return time.process_time() - start

    spent(100)
    assert spent(40_000) < 2.0


def test_keys_of_different_marks_are_all_found(mask: Mask) -> None:
    text = (
        "sk-abcdefgh12345678 x hf_abcdefghijklmnopqrst1234 y sk-bbbbbbbb12345678 z SG.aaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbb"
    )
    assert mask.text(text) == "<API_KEY> x <API_KEY> y <API_KEY> z <API_KEY>"


def test_of_two_secrets_that_overlap_nothing_is_left(mask: Mask) -> None:
    masked = mask.text("BEARER PASSW=0?PASSW=0000")
    assert masked == "BEARER <TOKEN><PASSWORD>"
    assert mask.text(masked) == masked
