"""What counts as the same call, the same result, the same error, and nothing found."""

from __future__ import annotations

import json

import pytest

from capataz.events.facts import JSON, Kind
from capataz.guards.canon import argument_bytes, error_words, result_bytes, same_words
from capataz.guards.shape import is_empty


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"n": 100}, {"n": 100.0}),
        ({"path": "./src/app/main.py"}, {"path": "src\\app\\main.py"}),
        ({"path": "src//app/"}, {"path": "src/app"}),
        ({"q": "x", "request_id": "81f"}, {"q": "x", "request_id": "77a"}),
        ({"q": "x", "reason": "to be sure"}, {"q": "x", "reason": "once more"}),
        ({"command": "ls", "description": "List"}, {"command": "ls", "description": "Look again"}),
        ({"command": "grep x a; grep x a"}, {"command": "grep x a"}),
    ],
)
def test_spelling_is_no_difference(one: dict[str, JSON], other: dict[str, JSON]) -> None:
    assert argument_bytes(one) == argument_bytes(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"code": "  x = 1"}, {"code": "x = 1"}),
        ({"file": "chunk_001.bin"}, {"file": "chunk_002.bin"}),
        ({"title": "First"}, {"title": "Second"}),
        ({"at": "2025-01-01T00:00:00Z"}, {"at": "2025-01-02T00:00:00Z"}),
        ({"n": 1}, {"n": "1"}),
        ({"url": "https://x.example/a"}, {"url": "https://x.example//a"}),
        ({"id": "81fa02c4d7e19b"}, {"id": "77a0c1d2e3f4a5"}),
    ],
)
def test_meaning_is_a_difference(one: dict[str, JSON], other: dict[str, JSON]) -> None:
    assert argument_bytes(one) != argument_bytes(other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("read", {"v": 1, "ts": 1764500000}, {"v": 1, "ts": 1764500060}),
        ("read", {"v": 1, "trace": "eabcd86b86b98f7e"}, {"v": 1, "trace": "84468d0d6fc2b282"}),
        ("read", {"v": 1, "served_by": "n2"}, {"v": 1, "served_by": "n1"}),
        ("read", {"rows": [{"v": 1, "fetched_at": "a"}]}, {"rows": [{"v": 1, "fetched_at": "b"}]}),
        ("exec", "3 passed in 0.41s", "3 passed in 1.07s"),
        ("exec", "done at 2025-11-30T09:10:00Z", "done at 2025-11-30T09:11:01Z"),
        ("exec", "done at 09:10:00", "done at 09:11:01"),
        ("exec", "failed (request 5cd07c7817c5)", "failed (request 6eee47bb0363)"),
        ("exec", "failed (session 19469)", "failed (session 57262)"),
        ("exec", {"started": True, "bg_id": "8df909d3"}, {"started": True, "bg_id": "721313dd"}),
        ("write", {"ok": True, "id": "8df909d3"}, {"ok": True, "id": "721313dd"}),
        ("write", "saved as 8df909d3 (rev 40)", "saved as 721313dd (rev 41)"),
        ("message", {"sent": True, "message_id": 17}, {"sent": True, "message_id": 18}),
        ("read", '{"v": 1, "server_time": "a7"}', '{"v": 1, "server_time": "b9"}'),
        ("read", '[{"v": 1, "request_id": "q"}]', '[{"v": 1, "request_id": "r"}]'),
        ("read", [{"text": '{"v": 1, "uptime": 5}'}], [{"text": '{"v": 1, "uptime": 9}'}]),
        ("read", {"rate": 60.0}, {"rate": 60}),
        ("poll", "En cola desde hace 3 minutos", "En cola desde hace 12 minutos"),
        ("poll", "En cua des de fa 40 segons", "En cua des de fa 50 segons"),
        ("poll", "En attente depuis 3 minutes", "En attente depuis 4 minutes"),
        ("poll", "Wartet seit 30 Sekunden", "Wartet seit 60 Sekunden"),
    ],
)
def test_clocks_and_receipts_are_noise(kind: Kind, one: JSON, other: JSON) -> None:
    assert result_bytes(one, kind) == result_bytes(other, kind)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("read", {"latency_ms": 41}, {"latency_ms": 39}),
        ("read", "9 failed", "7 failed"),
        ("read", {"id": 3}, {"id": 4}),
        ("read", {"sha": "aa11"}, {"sha": "bb22"}),
        ("read", {"uri": "0bedcd97"}, {"uri": "d3ac73b4"}),
        ("exec", {"job": "df8bc87a"}, {"job": "1319c0d2"}),
        ("exec", {"page": "88407a"}, {"page": "fee77f"}),
        ("write", {"open": 41.71}, {"open": 5.91}),
        ("write", {"slot": "10:00"}, {"slot": "11:00"}),
        ("read", "chunk_001", "chunk_002"),
        ("poll", "Faltan 12 minutos", "Faltan 3 minutos"),
        ("poll", "Noch 12 Minuten", "Noch 3 Minuten"),
    ],
)
def test_plain_figures_and_content_are_news(kind: Kind, one: JSON, other: JSON) -> None:
    assert result_bytes(one, kind) != result_bytes(other, kind)


def test_a_text_that_only_looks_like_json_is_kept() -> None:
    assert result_bytes("{not json", "read") == b"{not json"
    assert result_bytes('{"v": 1}', "read") != result_bytes('{"v": 2}', "read")


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}"), ('[{"ts": 1, "a":', "}]")])
@pytest.mark.parametrize("levels", [60, 300, 1_000, 5_000])
def test_however_deep_an_answer_nests_it_is_compared(open_: str, close: str, levels: int) -> None:
    deep = open_ * levels + "1" + close * levels
    kinds: tuple[Kind, ...] = ("read", "write")
    for kind in kinds:
        assert result_bytes(deep, kind) != result_bytes(deep.replace("1" + close, "2" + close), kind)
    assert isinstance(error_words(deep, {}, "look"), frozenset)


def test_json_in_json_in_json_is_compared() -> None:
    deep = '{"v": 1, "ts": 5}'
    for _ in range(8):
        deep = json.dumps({"n": {"text": deep}})
    assert len(deep) < 16_384
    assert result_bytes(deep, "read") == result_bytes(deep.replace("5", "6"), "read")


def test_a_long_result_is_cleaned_at_both_ends_only() -> None:
    middle = "x" * 5_000
    assert result_bytes(f"in 1.2s {middle} in 3.4s", "exec") == result_bytes(f"in 5.6s {middle} in 7.8s", "exec")
    assert result_bytes(f"{middle} a {middle}", "exec") != result_bytes(f"{middle} b {middle}", "exec")


def test_values_json_cannot_say_are_still_compared() -> None:
    huge: JSON = {"n": 2**80}
    assert argument_bytes({"n": 2**80}) == argument_bytes({"n": 2**80})
    assert result_bytes(huge, "read") != result_bytes({"n": 2**81}, "read")
    assert result_bytes("\ud800", "read") != result_bytes("\ud801", "read")


def test_an_error_is_known_without_what_it_echoes() -> None:
    one = error_words("permission denied: '/root/k' (session 19469)", {"path": "/root/k"}, "read")
    other = error_words("permission denied: '/etc/shadow' (session 5)", {"path": "/etc/shadow"}, "read")
    assert same_words(one, other)
    assert not same_words(one, error_words("no space left on device", {}, "read"))


def test_two_wordings_of_one_complaint_are_one_error() -> None:
    one = error_words("Validation failed: 'revision' missing (field required)", {}, "t")
    other = error_words("validation failed: field 'revision' is required", {}, "t")
    assert same_words(one, other)


@pytest.mark.parametrize(
    "result",
    [
        None, [], {}, "", "  ", "[]", "null", "No results.", "nothing found", "0 matches", "(core memory is empty)",
        "Sorry, your search for this person did not match any contact (ref 24).", "No s'ha trobat cap resultat.",
        "No se encontraron resultados", "Keine Treffer", "Aucun résultat", "Nessun risultato", "Nenhum resultado",
        {"items": []}, {"data": {"hits": []}, "took_ms": 4}, {"data": {"offers": [], "total": 0}, "meta": {"took": 1}},
        {"count": 0}, {"results": None}, {"found": False}, [[]],
    ],
)  # fmt: skip
def test_nothing_found_has_many_shapes(result: JSON) -> None:
    assert is_empty(result)


@pytest.mark.parametrize(
    "result",
    [
        0, 7, True, "0", "src/a.c:10:foo", ["B-1"], {"results": ["F-88"]}, {"ok": True}, {"items": [], "data": [1]},
        {"count": 3}, {"data": {"hits": [{"id": 1}]}}, {"in_stock": False}, {"status": "none"},
        "There is no results section in this document, but the text says a lot about the method that was used, " * 3,
    ],
)  # fmt: skip
def test_an_answer_is_not_nothing(result: JSON) -> None:
    assert not is_empty(result)
