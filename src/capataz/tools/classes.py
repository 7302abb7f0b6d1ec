"""Which row of the taxonomy an exception of a tool belongs to, and whether the act may have happened all the same."""

from __future__ import annotations

import asyncio
import socket

from capataz.events.facts import Fault, Row


def classify(error: BaseException, words: str) -> Fault:
    """One row for any exception. `words` are what the model is shown."""
    return Fault(_row(error), type(error).__name__, words, origin="tool")


def _row(error: BaseException) -> Row:
    match error:
        case PermissionError():
            return "auth"
        case TimeoutError() | ConnectionError() | socket.gaierror() | asyncio.CancelledError():
            return "transient"
        case ValueError() | LookupError() | FileNotFoundError():
            return "invalid_input"
        case TypeError() | AttributeError() | NotImplementedError() | AssertionError():
            return "contract"
        case _:
            return "unknown"


def connection_lost(error: BaseException, fault: Fault) -> bool:
    """The tool lost touch with what it was acting on: whether the act happened is not known.

    A refused connection or an unknown host is another thing: the request never left.
    """
    return fault.row == "transient" and not isinstance(error, (ConnectionRefusedError, socket.gaierror))
