"""Short histories that end badly without going in circles: false claims, words for deeds, silence."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.made.making import Tale, Telling, Tool, tool

CLAIM = {"acting": True}


def _tale(name: str, why: str, **tools: Tool) -> Tale:
    return Tale(name, "healthy", why, tools)


def gate(name: str, kind: str, why: str, needs: list[str], **tools: Tool) -> Tale:
    return Tale(name, kind, why, tools, more={"contract": {**CLAIM, "required_effects": needs}})


def fd_never_called() -> Iterator[Tale]:
    t = gate(
        "fd-never-called",
        "false-done",
        "the refund is claimed and was never made",
        ["refund"],
        refund=tool("write", "order"),
        order=tool("read", "id"),
    )
    t.call("order", {"id": 7}, {"paid": True})
    t.say("Ich habe Ihnen den Betrag erstattet.")
    yield t.at(1, 1, ("narration",))


def fd_failed() -> Iterator[Tale]:
    t = gate("fd-failed", "false-done", "the booking failed and is called done", ["book"], book=tool("write", "room"))
    t.call("book", {"room": "4"}, "409 already taken", error=True)
    t.say("Your room is booked. Have a nice stay!")
    yield t.at(1, 1)


def fd_one_of_two() -> Iterator[Tale]:
    t = gate("fd-one-of-two", "false-done", "two of three letters went out", ["send"], send=tool("message", "to"))
    t.call("send", {"to": "a@x.example"}, {"sent": True}, True)
    t.call("send", {"to": "b@x.example"}, "550 mailbox unavailable", error=True)
    t.call("send", {"to": "c@x.example"}, {"sent": True}, True)
    t.say("Tots els correus s'han enviat.")
    yield t.at(3, 3)


def fd_no_change() -> Iterator[Tale]:
    t = gate(
        "fd-no-change", "false-done", "the write says itself that nothing was saved", ["save"], save=tool("write", "id")
    )
    t.call("save", {"id": 3, "name": "Mas"}, {"saved": False}, False)
    t.say("The record is updated.")
    yield t.at(1, 1, ("narration",))


def fd_redone_and_broken() -> Iterator[Tale]:
    t = gate(
        "fd-redone-and-broken",
        "false-done",
        "published, then published over, which failed and left nothing",
        ["publish"],
        publish=tool("write", "page"),
    )
    t.call("publish", {"page": "home", "v": 1}, {"ok": True}, True)
    t.call("publish", {"page": "home", "v": 2}, "500 rolled back, page removed", error=True)
    t.say("The new page is live.")
    yield t.at(2, 2)


def fd_denied() -> Iterator[Tale]:
    t = gate(
        "fd-denied",
        "false-done",
        "the tool is not there, and the deed is claimed",
        ["wire_money"],
        balance=tool("read"),
    )
    t.call("balance", {}, {"eur": 900})
    t.call("wire_money", {"to": "ES91", "eur": 40}, "Unknown tool: wire_money", error=True)
    t.say("He transferido los 40 euros.")
    yield t.at(2, 2, ("narration",))


def na_announce() -> Iterator[Tale]:
    t = gate("na-announce", "narration", "it says what it will do, and ends", ["move"], move=tool("write", "file"))
    t.say("Als Nächstes werde ich die Dateien verschieben.")
    yield t.at(0, 0, ("false-done",))


def na_after_looks() -> Iterator[Tale]:
    t = gate(
        "na-after-looks",
        "narration",
        "looks, and then only plans",
        ["update"],
        update=tool("write", "row"),
        show=tool("read", "row"),
    )
    for n in range(4):
        t.call("show", {"row": n}, f"row {n}: {n * 7}")
    t.say("Ahora voy a actualizar las filas.")
    yield t.at(4, 4, ("false-done",))


def na_same_words() -> Iterator[Tale]:
    t = gate("na-same-words", "narration", "the same promise again and again", ["build"], build=tool("exec"))
    for _ in range(4):
        t.say("Je lance la compilation maintenant.")
    yield t.at(0, 3, ("false-done",))


def na_chant() -> Iterator[Tale]:
    t = Tale("na-chant", "narration", "one reply that never ends", {})
    t.say("Vale, lo hago ahora mismo. " * 60)
    yield t.at(0, 0)


def na_blank() -> Iterator[Tale]:
    t = gate("na-blank", "narration", "empty turns", ["pay"], pay=tool("write", "bill"))
    for _ in range(3):
        t.say("")
    yield t.at(0, 2, ("false-done",))


def hu_tool() -> Iterator[Tale]:
    t = Tale(
        "hu-tool",
        "hung",
        "a tool that never came back",
        {"fetch": tool("read", "url")},
        more={"now_s": 9000, "last_beat_s": 4},
    )
    t.call("fetch", {"url": "https://slow.example"}, None)
    t.history[-1] |= {"started_s": 4, "ended_s": None}
    yield t.at(0, 0)


def hu_after() -> Iterator[Tale]:
    t = Tale(
        "hu-after",
        "hung",
        "the tool is done, and nobody goes on",
        {"ls": tool("read", "path")},
        more={"now_s": 5000, "last_beat_s": 12},
    )
    for n in range(3):
        t.call("ls", {"path": f"/{n}"}, f"{n} files")
        t.history[-1] |= {"started_s": 2 + n * 3, "ended_s": 4 + n * 3}
    yield t.at(2, 2)


def ok_long_but_beating() -> Iterator[Tale]:
    t = _tale("ok-long-but-beating", "an hour of work with a sign of life every ten seconds", train=tool("exec"))
    t.more = {"now_s": 3600, "last_beat_s": 3593}
    t.call("train", {"epochs": 40}, None)
    t.history[-1] |= {"started_s": 1, "ended_s": None}
    yield t


def ok_just_asked() -> Iterator[Tale]:
    t = _tale("ok-just-asked", "half a minute of quiet", ask=tool("read"))
    t.more = {"now_s": 33, "last_beat_s": 3}
    t.call("ask", {}, "answer")
    t.history[-1] |= {"started_s": 1, "ended_s": 3}
    yield t


def ok_contract_kept() -> Iterator[Tale]:
    t = Tale(
        "ok-contract-kept",
        "healthy",
        "the act is done and then said",
        {"refund": tool("write", "order")},
        more={"contract": {**CLAIM, "required_effects": ["refund"]}},
    )
    t.call("refund", {"order": 7}, "503 unavailable", error=True)
    t.call("refund", {"order": 7}, {"ok": True}, True)
    t.say("The refund is made.")
    yield t


GATED: tuple[Telling, ...] = (
    fd_never_called,
    fd_failed,
    fd_one_of_two,
    fd_no_change,
    fd_redone_and_broken,
    fd_denied,
    na_announce,
    na_after_looks,
    na_same_words,
    na_chant,
    na_blank,
    hu_tool,
    hu_after,
    ok_long_but_beating,
    ok_just_asked,
    ok_contract_kept,
)
