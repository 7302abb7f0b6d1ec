"""Loops that are easy to miss: receipts in prose, errors without a flag, echoes, rings with a failing step."""

from __future__ import annotations

from collections.abc import Iterator

from capataz.events.facts import JSON
from tests.guards.made.making import Tale, Telling, Tool, tool


def _tale(name: str, kind: str, why: str, **tools: Tool) -> Tale:
    return Tale(name, kind, why, tools)


def xid_receipt_prose() -> Iterator[Tale]:
    t = _tale(
        "xid-receipt-prose",
        "identical",
        "one refund again and again, each with a receipt in prose",
        refund=tool("write", "order"),
    )
    for _ in range(8):
        t.call(
            "refund",
            {"order": "A-9", "cents": 4200},
            f"Refund issued, receipt rf_{t.hex(10)}, {t.stamp()}",
            True,
            loop=True,
        )
    yield t.cut(3, 6)


def xid_ticket_numbers() -> Iterator[Tale]:
    t = _tale(
        "xid-ticket-numbers",
        "identical",
        "a ticket opened again and again, each with a number of its own",
        ticket=tool("write"),
    )
    for n in range(8):
        t.call("ticket", {"title": "Printer broken", "floor": 3}, f"Created ticket #{4411 + n}", True, loop=True)
    yield t.cut(3, 6)


def xid_json_text() -> Iterator[Tale]:
    t = _tale(
        "xid-json-text",
        "identical",
        "a read whose answer is JSON in a text, with a clock in it",
        get=tool("read", "id"),
    )
    for n in range(12):
        t.call(
            "get",
            {"id": 4},
            f'{{"id": 4, "state": "open", "elapsed_ms": {31 + n * 7}, "request_id": "{t.hex(12)}"}}',
            loop=True,
        )
    yield t.cut(3, 10)


def xid_keyed_send() -> Iterator[Tale]:
    t = _tale("xid-keyed-send", "identical", "one message under fresh idempotency keys", mail=tool("message", "to"))
    for _ in range(8):
        t.call(
            "mail",
            {"to": "ana@x.example", "body": "Your parcel is late.", "idempotency_key": t.hex(16)},
            {"status": "queued", "messageId": t.hex(20)},
            True,
            loop=True,
        )
    yield t.cut(3, 6)


def xtg_echo() -> Iterator[Tale]:
    t = _tale(
        "xtg-echo", "target", "the answer echoes what was asked and shows that nothing took", valve=tool("write", "id")
    )
    for n in range(9):
        t.call(
            "valve",
            {"id": "V7", "percent": 10 * n + 5},
            {"id": "V7", "requested": 10 * n + 5, "actual": 0},
            False,
            loop=True,
        )
    yield t.cut(3, 7, ("no-progress",))


def xtg_rejected_text() -> Iterator[Tale]:
    t = _tale(
        "xtg-rejected-text",
        "target",
        "a price that is not taken, told in words that echo it",
        price=tool("write", "sku"),
    )
    for n in range(9):
        t.call(
            "price",
            {"sku": "L1", "cents": 900 + n * 5},
            f"Price of L1 not changed to {900 + n * 5}: still 1200",
            False,
            loop=True,
        )
    yield t.cut(3, 7, ("no-progress",))


def xer_no_flag() -> Iterator[Tale]:
    t = _tale(
        "xer-no-flag",
        "error-repeat",
        "the same refusal without an error flag, whatever is sent",
        create=tool("write", "name"),
    )
    for n in range(9):
        t.call(
            "create",
            {"name": f"N{n}", "plan": "basic"},
            {"success": False, "error": "field 'vat' is required"},
            False,
            loop=True,
        )
    yield t.cut(4, 8, ("target", "no-progress"))


def xer_shell_code() -> Iterator[Tale]:
    t = _tale("xer-shell-code", "error-repeat", "a program that is not there, run in many ways", bash=tool("exec"))
    for c in (
        "jq .a f.json",
        "cat f.json | jq .",
        "jq -r .a f.json",
        "jq '.a' < f.json",
        "which jq; jq . f.json",
        "/usr/bin/jq . f.json",
        "sudo jq . f.json",
        "jq --version",
        "env jq .",
        "jq . g.json",
    ):
        t.call("bash", {"command": c}, "bash: jq: command not found", error=True, loop=True)
    yield t.cut(4, 9)


def xer_two_tools() -> Iterator[Tale]:
    t = _tale(
        "xer-two-tools",
        "error-repeat",
        "one expired session, met by every tool",
        a=tool("read", "id"),
        b=tool("write", "id"),
        c=tool("search"),
    )
    for n in range(9):
        t.call(
            "abc"[n % 3],
            {"id": n} if n % 3 < 2 else {"q": f"word{n}"},
            {"code": "SESSION_EXPIRED", "message": "Session expired, please sign in", "trace": t.hex(12)},
            error=True,
            loop=True,
        )
    yield t.cut(4, 8)


def xcy_broken_member() -> Iterator[Tale]:
    t = _tale(
        "xcy-broken-member",
        "cycle-n",
        "a ring of three in which one step fails every time",
        build=tool("exec"),
        log=tool("read", "f"),
        fix=tool("write", "f"),
    )
    for n in range(7):
        t.call("build", {}, f"error: linker failed (took {n + 2}.{n}s)", error=True, loop=True)
        t.call("log", {"f": "ld.log"}, "undefined symbol: foo", loop=True)
        t.call("fix", {"f": "ld.conf", "set": "-lfoo"}, {"ok": True, "rev": n}, True, loop=True)
    yield t.cut(6, 15, ("error-repeat", "identical", "target", "no-progress"))


def xcy_fresh_args() -> Iterator[Tale]:
    t = _tale(
        "xcy-fresh-args",
        "cycle-n",
        "a ring of four whose calls carry fresh request ids",
        **{n: tool("read", "x") for n in "abcd"},
    )
    for _ in range(6):
        for n in "abcd":
            t.call(n, {"x": 1, "request_id": t.hex(12)}, {"v": f"{n}{n}", "ts": t.stamp()}, loop=True)
    yield t.cut(8, 20, ("no-progress", "identical"))


def xal_clock_text() -> Iterator[Tale]:
    t = _tale(
        "xal-clock-text",
        "alternating",
        "status and restart in turn, with clocks in the words",
        status=tool("read", "s"),
        restart=tool("exec", "s"),
    )
    for _ in range(7):
        t.call("status", {"s": "web"}, f"{t.stamp()} web: down (pid {t.draw.randint(200, 900)})", loop=True)
        t.call("restart", {"s": "web"}, f"restarted at {t.stamp()}", True, loop=True)
    yield t.cut(4, 12, ("identical", "target", "no-progress"))


def xnp_peeking() -> Iterator[Tale]:
    t = _tale(
        "xnp-peeking",
        "no-progress",
        "one red test, and another file looked at each time, nothing edited",
        test=tool("exec"),
        view=tool("read", "path"),
    )
    for n in range(11):
        t.call("test", {}, "E assert 3 == 4\n1 failed", error=True, loop=True)
        t.call("view", {"path": f"lib/u{n}.py"}, f"def u{n}(): return {t.hex(6)}")
    yield t.cut(4, 8, ("error-repeat", "identical"))


def xnp_question() -> Iterator[Tale]:
    t = _tale("xnp-question", "no-progress", "a person is asked the same in other words", ask=tool("message"))
    for q in (
        "Which date should I book?",
        "Could you tell me the date to book?",
        "What date do you want me to book?",
        "Please give me the booking date.",
        "Which date is the booking for?",
        "On which date should I book?",
        "The date for the booking, please?",
    ):
        t.call("ask", {"question": q}, {"delivered": True, "answer": None}, False, loop=True)
    yield t.cut(3, 7, ("target", "identical", "empty-search"))


def xes_class_words() -> Iterator[Tale]:
    t = _tale(
        "xes-class-words",
        "empty-search",
        "nothing, said in a polite sentence with what was asked",
        kb=tool("search", "q"),
    )
    for q in (
        "reset router",
        "router reset",
        "how to reset the router",
        "resetting a router",
        "reset the home router",
        "router factory reset",
        "reset router help",
    ):
        t.call("kb", {"q": q}, f"Sorry, I couldn't find any articles about '{q}'.", loop=True)
    yield t.cut(3, 7)


def xes_score_zero() -> Iterator[Tale]:
    t = _tale(
        "xes-score-zero", "empty-search", "a count of nought inside an envelope with suggestions", find=tool("search")
    )
    for n, q in enumerate(
        ("blue vase", "vase blue", "azure vase", "blue ceramic vase", "cobalt vase", "vase, blue", "navy vase")
    ):
        t.call(
            "find",
            {"text": q},
            {
                "status": 200,
                "payload": {"total_count": 0, "products": [], "suggestions": ["lamp", "table"]},
                "timing": {"ms": n},
            },
            loop=True,
        )
    yield t.cut(3, 7)


def xid_booking_codes() -> Iterator[Tale]:
    t = _tale("xid-booking-codes", "identical", "one seat booked again and again", book=tool("write", "flight"))
    for n in range(8):
        code = "".join(t.draw.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(5)) + str(n)
        t.call("book", {"flight": "VY-88", "seat": "14C"}, {"pnr": code, "status": "booked"}, True, loop=True)
    yield t.cut(3, 6)


def xid_issue_links() -> Iterator[Tale]:
    t = _tale("xid-issue-links", "identical", "the same issue opened eight times", open_issue=tool("write", "repo"))
    for n in range(8):
        url = f"https://git.example/shop/issues/{1207 + n}"
        t.call(
            "open_issue", {"repo": "shop", "title": "Login is broken"}, {"url": url, "state": "open"}, True, loop=True
        )
    yield t.cut(3, 6)


def xid_sms_words() -> Iterator[Tale]:
    t = _tale("xid-sms-words", "identical", "an SMS sent once more each time", sms=tool("message", "to"))
    for n in range(8):
        t.say("Probablemente no ha llegado; lo envío otra vez.")
        t.call(
            "sms",
            {"to": "+34600", "text": "Su pedido está listo"},
            f"Enviado. Seguimiento SM{88120 + n * 17}",
            True,
            loop=True,
        )
    yield t.cut(3, 6)


def xnp_pages_again() -> Iterator[Tale]:
    t = _tale("xnp-pages-again", "no-progress", "twelve pages, and then the same twelve again", page=tool("read", "n"))
    for lap in range(2):
        for n in range(12):
            t.call("page", {"n": n}, f"page {n}: {n * 31} lines of the report", loop=lap > 0)
    yield t.cut(3, 10, ("identical", "cycle-n"))


def xnp_restart_ways() -> Iterator[Tale]:
    t = _tale(
        "xnp-restart-ways", "no-progress", "one service, started in every way, always as dead", svc=tool("exec", "name")
    )
    for how in ("start", "restart", "reload", "force-start", "kick", "enable", "bounce", "up", "wake"):
        t.call("svc", {"name": "web", "do": how}, "web.service: Active: failed (Result: exit-code)", False, loop=True)
    yield t.cut(3, 8, ("target", "identical"))


def xes_refined() -> Iterator[Tale]:
    t = _tale(
        "xes-refined", "empty-search", "one flight, sought with ever other filters", flights=tool("search", "route")
    )
    for n, by in enumerate(("price", "time", "stops", "price", "carrier", "time", "stops", "price")):
        asked: dict[str, JSON] = {"route": "GRO-BGO", "sort": by, "max": 200 + (n % 3) * 50}
        t.call("flights", asked, {"offers": [], "searchId": t.hex(12), "took": f"{n}.{n}s"}, loop=True)
    yield t.cut(3, 8)


HARDER_LOOPS: tuple[Telling, ...] = (
    xid_booking_codes,
    xid_issue_links,
    xid_sms_words,
    xnp_pages_again,
    xnp_restart_ways,
    xes_refined,
    xid_receipt_prose,
    xid_ticket_numbers,
    xid_json_text,
    xid_keyed_send,
    xtg_echo,
    xtg_rejected_text,
    xer_no_flag,
    xer_shell_code,
    xer_two_tools,
    xcy_broken_member,
    xcy_fresh_args,
    xal_clock_text,
    xnp_peeking,
    xnp_question,
    xes_class_words,
    xes_score_zero,
)
