"""How the demo's model misbehaves: one small function for each known way, chosen by the model's name.

Each is a function of what the model could see, in the way real models were watched doing it: it repeats itself, it
invents, it claims. None of them knows which runtime it is talking to, and none ever mends its ways because of a note.
"""

from __future__ import annotations

from collections.abc import Mapping

from capataz.testing.script import Ask, Behaviour, Seen, Step, Trouble, Turn, say, status, use

ORDER = "81"
CENTS = 1_250
TASK = "Order 81 arrived broken. Look the order up, refund what it cost, then send the customer a message that says so."

_CLAIM = "Done! I have refunded order 81 in full (12.50) and written to the customer. Is there anything else?"
_LETTER = "Dear Iris, we are sorry that your glass lamp arrived broken. We have paid 12.50 back to you."


def well(seen: Seen) -> Step:
    """Looks, refunds, writes, and says so."""
    plan = (
        use("get_order", order_id=ORDER),
        use("refund", order_id=ORDER, cents=CENTS),
        use("send_message", order_id=ORDER, text=_LETTER),
    )
    done = len(seen.did("get_order")[:1]) + len(seen.did("refund")[:1]) + len(seen.did("send_message")[:1])
    return plan[done] if done < len(plan) else say("Order 81 is refunded (12.50) and the customer knows.")


def repeats_refund(seen: Seen) -> Step:
    """Looks once, then refunds, and refunds, and refunds."""
    return use("refund", order_id=ORDER, cents=CENTS) if seen.did("get_order") else well(seen)


def alternates(seen: Seen) -> Step:
    """Looks at two orders in turn and never decides."""
    return use("get_order", order_id=ORDER if seen.turns % 2 == 0 else "82")


_QUERIES = ("order 81", "broken lamp", "#81", "order number 81", "Iris lamp", "lamp broken on arrival", "81 refund")


def searches_in_vain(seen: Seen) -> Step:
    """Searches again in other words, however often nothing is found."""
    round_, which = divmod(seen.turns, len(_QUERIES))
    return use("find_orders", query=_QUERIES[which] + (f" (try {round_ + 1})" if round_ else ""))


def hangs(seen: Seen) -> Step:
    """Accepts the request and never answers."""
    return Trouble("hang")


def stalls(seen: Seen) -> Step:
    """Falls silent in the middle of a reply, once, after the refund was made."""
    if seen.did("refund") and not seen.did("send_message") and not _failed_before(seen):
        return Trouble("stall", turn=use("send_message", order_id=ORDER, text=_LETTER))
    return well(seen)


def breaks_off(seen: Seen) -> Step:
    """The stream ends in the middle of a sentence, without its end mark, once."""
    half = say("Let me see. Order 81 is a glass lamp that was reported broken, so the refund of 12.50 has been")
    return Trouble("cut", turn=half) if seen.turns == 1 and not _failed_before(seen) else well(seen)


def narrates(seen: Seen) -> Step:
    """Writes a letter about what it does, and does nothing."""
    return say(f"I look up order 81. I issue the refund. I write to the customer:\n\n{_LETTER}\n\n{_CLAIM}")


def claims(seen: Seen) -> Step:
    """Looks at the order, then claims a refund it never made."""
    return say(_CLAIM) if seen.did("get_order") else use("get_order", order_id=ORDER)


def claims_after_failure(seen: Seen) -> Step:
    """The refund fails; it tells the customer and us that it was made."""
    return say(_CLAIM) if seen.did("send_message") else well(seen)


def throttled(seen: Seen) -> Step:
    """Too many requests, twice, with the seconds to wait; then it works."""
    return status(429, wait=1) if seen.asked in (1, 2) else well(seen)


def fails_thrice(seen: Seen) -> Step:
    """Server errors, three in a row, after the refund was made; then it works."""
    return status(500) if 2 <= seen.asked < 5 else well(seen)


def locked_out(seen: Seen) -> Step:
    """The key is refused."""
    return status(401)


def garbled(seen: Seen) -> Step:
    """A chunk of the reply is not JSON, once."""
    return Trouble("malformed") if seen.asked == 1 else well(seen)


def bad_arguments(seen: Seen) -> Step:
    """Writes arguments that are no JSON, is told, and writes them again properly."""
    if seen.did("get_order") and not seen.did("refund"):
        return Turn(calls=(Ask("refund", '{"order_id": "81", "cents": 12.50 EUR'),))
    refunds = seen.did("refund")
    if len(refunds) == 1 and not seen.did("send_message"):
        return use("refund", order_id=ORDER, cents=CENTS)
    return well(seen)


def unknown_tool(seen: Seen) -> Step:
    """Asks for a tool nobody gave it, is told, and takes the right one."""
    if seen.did("get_order") and not seen.did("issue_refund") and not seen.did("refund"):
        return use("issue_refund", order=ORDER)
    return well(seen)


def never_ends(seen: Seen) -> Step:
    """Does everything right in three calls, then does it all again, for ever."""
    return (
        use("get_order", order_id=ORDER),
        use("refund", order_id=ORDER, cents=CENTS),
        use("send_message", order_id=ORDER, text=_LETTER),
    )[seen.turns % 3]


def says_nothing(seen: Seen) -> Step:
    """Looks at the order, then answers with nothing at all."""
    return say("") if seen.did("get_order") else use("get_order", order_id=ORDER)


def _failed_before(seen: Seen) -> bool:
    """Whether a request of this run was already lost on the way: more were made than turns came of them."""
    return seen.asked > seen.turns


def _closing(behaviour: Behaviour) -> Behaviour:
    """Without tools on offer the model is only asked what it knows: it tells the last thing it read, or its claim."""

    def step(seen: Seen) -> Step:
        if seen.tools or behaviour in (hangs, locked_out):
            return behaviour(seen)
        read = [result.text for result in seen.results if not result.error]
        return say(f"The last thing I saw is this: {read[-1].splitlines()[0][:200]}" if read else _CLAIM)

    return step


BEHAVIOURS: Mapping[str, Behaviour] = {
    f"worker-{name}": _closing(behaviour)
    for name, behaviour in {
        "well": well,
        "repeats-refund": repeats_refund,
        "never-ends": never_ends,
        "alternates": alternates,
        "searches-in-vain": searches_in_vain,
        "narrates": narrates,
        "claims": claims,
        "claims-after-failure": claims_after_failure,
        "says-nothing": says_nothing,
        "hangs": hangs,
        "stalls": stalls,
        "breaks-off": breaks_off,
        "throttled": throttled,
        "fails-thrice": fails_thrice,
        "locked-out": locked_out,
        "garbled": garbled,
        "bad-arguments": bad_arguments,
        "unknown-tool": unknown_tool,
    }.items()
}
"""Every model of the unreliable worker, by its name on the wire."""
