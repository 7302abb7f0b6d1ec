"""All formats, in the order they are asked. The more particular ones come first; the chat is the last resort."""

from __future__ import annotations

from capataz.events.facts import JSON
from capataz.ingest.formats import chat, claude_code, intercode, langchain, swe_agent, tau
from capataz.ingest.formats.base import DocumentFormat, SessionFormat

DOCUMENTS: tuple[DocumentFormat, ...] = (
    intercode.FORMAT,
    langchain.FORMAT,
    tau.FORMAT,
    swe_agent.FORMAT,
    claude_code.WRAPPED,
    swe_agent.MINI_FORMAT,
    chat.FORMAT,
)

SESSIONS: tuple[SessionFormat, ...] = (claude_code.FORMAT,)


def document_format(value: JSON) -> DocumentFormat | None:
    """The format of a value that holds whole runs; None where no one knows it."""
    return next((format for format in DOCUMENTS if format.looks(value)), None)


def session_format(value: JSON) -> SessionFormat | None:
    """The format of a file that has this line; None where it is not such a line."""
    return next((format for format in SESSIONS if format.looks(value)), None)
