"""The same ways of looping, and the same healthy habits, in other trades, tools, tongues and shapes of result."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from capataz.lens.cases.read import case_of
from capataz.lens.score import score_case
from tests.guards.test_guard_kinds import CHANGED, FAILED, SAME, Told, drawn, every, story, tool

RED = {"is_error": True, "state_changed": None}


def _repaired(times: int) -> list[Told]:
    """An edit and a build that is still red, again and again."""
    told: list[Told] = []
    for i in range(times):
        told.append(("edit", {"file": "src/a.c", "line": 40 + i, "to": f"x{i}"}, "ok", CHANGED))
        told.append(("make", {}, "error: 1 test failed", RED))
    return told


HEALTHY: dict[str, tuple[Mapping[str, object], list[Told]]] = {
    "a scale read while it fills": (
        {"waage": tool("read")},
        [("waage", {}, {"gramm": 100 + 13 * i, "zeit": f"2031-04-01T10:00:{i:02}Z"}) for i in range(14)],
    ),
    "tickets taken from a desk": (
        {"next_ticket": tool("exec")},
        [("next_ticket", {}, {"ticket": f"T-{500 + i}", "text": "pump leaks"}, CHANGED) for i in range(10)],
    ),
    "one sensor each, all quiet": (
        {"leer_sensor": tool("read", "sensor")},
        [("leer_sensor", {"sensor": f"invernadero-{i}"}, {"estado": "ok"}) for i in range(15)],
    ),
    "a build repaired bit by bit": ({"edit": tool("write", "file"), "make": tool("exec")}, _repaired(6)),
    "letters to many tenants": (
        {"carta": tool("message", "a")},
        [
            ("carta", {"a": f"llogater{i}@casa.cat", "text": "Tall d'aigua dilluns."}, {"enviat": True}, CHANGED)
            for i in range(12)
        ],
    ),
    "free rooms, month after month": (
        {"habitaciones": tool("search")},
        [("habitaciones", {"mes": f"2031-{m:02}"}, "Sin disponibilidad, 0 resultados") for m in range(1, 9)],
    ),
    "a customer without orders": (
        {"cliente": tool("search", "id")},
        [("cliente", {"id": f"C{i}"}, {"cliente": {"id": f"C{i}", "nombre": "x", "pedidos": []}}) for i in range(8)],
    ),
    "paging an archive": (
        {"arxiu": tool("read", "caixa")},
        [("arxiu", {"caixa": "7", "offset": 50 * i, "limit": 50}, f"folis {50 * i} i seguents") for i in range(12)],
    ),
    "two retries, then a success": (
        {"pagar": tool("write", "factura")},
        [
            ("pagar", {"factura": "9"}, "503 service unavailable", FAILED),
            ("pagar", {"factura": "9"}, "503 service unavailable", FAILED),
            ("pagar", {"factura": "9"}, {"pagado": True}, CHANGED),
            ("pagar", {"factura": "10"}, {"pagado": True}, CHANGED),
        ],
    ),
    "a look again after each act": (
        {"stock": tool("read", "sku"), "reserve": tool("write", "sku")},
        [
            part
            for i in range(6)
            for part in (
                ("stock", {"sku": "lamp"}, {"left": 20 - i}),
                ("reserve", {"sku": "lamp", "for": f"order {i}"}, {"ok": True}, CHANGED),
            )
        ],
    ),
    "a file that a shell waits for": (
        {"bash": tool("exec")},
        [
            part
            for i in range(5)
            for part in (
                ("bash", {"command": f"sleep {10 + i}"}, ""),
                ("bash", {"command": "ls out.pdf"}, f"{100 - i} bytes left", {"state_changed": False}),
            )
        ],
    ),
}

LOOPS: dict[str, tuple[str, Mapping[str, object], list[Told]]] = {
    "a valve that is opened again": (
        "identical",
        {"ventil": tool("exec", "id")},
        [("ventil", {"id": "V2", "grad": 40}, {"status": "unverändert", "req": drawn(12)}, SAME)] * 8,
    ),
    "the same order looked up behind new ids": (
        "identical",
        {"comanda": tool("read", "num")},
        [
            ("comanda", {"num": "81", "request_id": drawn(10)}, {"estat": "pagat", "trace_id": drawn(16)})
            for _ in range(9)
        ],
    ),
    "a price set to and fro": (
        "alternating",
        {"preis": tool("write", "artikel")},
        every(
            ("preis", {"artikel": "L1", "cent": 990}, {"cent": 990}, CHANGED),
            ("preis", {"artikel": "L1", "cent": 890}, {"cent": 890}, CHANGED),
            laps=7,
        ),
    ),
    "three desks asked in turn": (
        "cycle-n",
        {"ask": tool("read", "desk")},
        every(*[("ask", {"desk": d}, {"says": f"ask {n}"}) for d, n in (("a", "b"), ("b", "c"), ("c", "a"))], laps=6),
    ),
    "a lock that will not turn": (
        "target",
        {"setze": tool("write", "feld")},
        [("setze", {"feld": "iban", "wert": f"DE{i:02} {i * 37}"}, {"gespeichert": False}, SAME) for i in range(8)],
    ),
    "the wrong key, one form after the other": (
        "error-repeat",
        {"api": tool("read", "ruta")},
        [("api", {"ruta": f"/v2/{p}"}, {"error": "clau d'API no vàlida", "codi": 401}, FAILED) for p in "abcdefgh"],
    ),
    "a form that misses a field": (
        "error-repeat",
        {"alta": tool("write", "dni")},
        [
            ("alta", {"dni": "4", "nom": n}, "falta el camp 'telefon'", FAILED)
            for n in ("A", "B", "C", "D", "E", "F", "G")
        ],
    ),
    "rien trouvé": (
        "empty-search",
        {"chercher": tool("search")},
        [
            ("chercher", {"q": q}, "Aucun résultat")
            for q in ("lampe", "lampe bleue", "luminaire", "éclairage", "abat-jour", "led")
        ],
    ),
    "nichts gefunden, in einem Umschlag": (
        "empty-search",
        {"suche": tool("search")},
        [
            ("suche", {"text": q}, {"antwort": {"treffer": [], "seite": 1}, "dauer_ms": i})
            for i, q in enumerate(("Vertrag Huber", "Huber Vertrag 2019", "Mietvertrag", "Huber", "Kaution", "Pacht"))
        ],
    ),
    "cap resultat, amb JSON en un text": (
        "empty-search",
        {"cerca": tool("search")},
        [
            ("cerca", {"q": q}, '{"resultats": [], "total": 0}')
            for q in ("om", "pi", "roure", "faig", "alzina", "bedoll")
        ],
    ),
    "an inbox that has no news": (
        "no-progress",
        {"inbox": tool("read"), "calendar": tool("read"), "notes": tool("read")},
        [
            (name, {}, f"{name}: as before")
            for name in (
                "inbox",
                "calendar",
                "inbox",
                "notes",
                "calendar",
                "inbox",
                "notes",
                "notes",
                "calendar",
                "inbox",
            )
            for _ in (0,)
        ]
        + [(name, {}, f"{name}: as before") for name in ("calendar", "notes", "inbox", "calendar", "inbox")],
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_habit_is_left_alone(name: str) -> None:
    tools, told = HEALTHY[name]
    scored = score_case(case_of(story("healthy", tools, told)))
    assert scored.verdict == "spared", f"cut at {scored.fired_at} as {scored.signal}"


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_told_and_then_cut(name: str) -> None:
    kind, tools, told = LOOPS[name]
    scored = score_case(case_of(story(kind, tools, told)))
    assert scored.verdict == "caught", name
    assert scored.nudged_at is not None
    assert scored.fired_at is not None
    assert scored.nudged_at < scored.fired_at
    assert scored.fired_at <= 11
