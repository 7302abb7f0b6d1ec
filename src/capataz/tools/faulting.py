"""What an exception of a tool means: its row of the taxonomy, and whether the act may have happened all the same."""

from __future__ import annotations

import re

from capataz.events.facts import Fault
from capataz.faults.classify import ToolFaults, classify_exception
from capataz.tools.usercode import Trap

_LOST = frozenset({"connection", "timeout", "server-error", "cancelled", "malformed-answer"})
"""Reasons after which nobody knows whether the request was carried out."""

_NEVER_LEFT = frozenset(
    {
        "ConnectionRefusedError",
        "gaierror",
        "ConnectError",
        "ConnectTimeout",
        "ConnectTimeoutError",
        "PoolTimeout",
        "ClientConnectorError",
        "NewConnectionError",
        "EndpointConnectionError",
    }
)
"""Exceptions raised before a request is sent, in the libraries people use."""

_LOCKED = re.compile(r"lock|busy", re.IGNORECASE)


def fault_of(error: BaseException, words: str, own: ToolFaults | None = None) -> Fault:
    """One row for any exception. `words` are what the model is shown; `own` are the user's own exceptions."""
    with Trap():  # an exception's own properties are user code as well
        return classify_exception(error, "tool", own, words)
    return Fault("unknown", "unknown-exception", words, origin="tool")


def may_have_acted(error: BaseException, fault: Fault) -> bool:
    """The tool lost touch with what it was acting on, so that nobody knows whether the act happened.

    A connection that was never made is another thing, and so is a lock that was never got.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _NEVER_LEFT:
        return False
    if "OperationalError" in names and fault.reason == "busy":
        return not _LOCKED.search(fault.message)
    return fault.reason in _LOST
