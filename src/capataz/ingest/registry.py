"""All formats, in the order they are asked. The more particular ones come first; the chat is the last resort."""

from __future__ import annotations

from capataz.events.facts import JSON
from capataz.ingest.formats import (
    chat,
    claude_code,
    codex,
    inspect_log,
    intercode,
    langchain,
    openhands,
    own,
    pi,
    spans,
    swe_agent,
    tau,
    transcripts,
)
from capataz.ingest.formats.base import DocumentFormat, SessionFormat

DOCUMENTS: tuple[DocumentFormat, ...] = (
    intercode.FORMAT,
    langchain.FORMAT,
    tau.FORMAT,
    inspect_log.FORMAT,
    swe_agent.FORMAT,
    claude_code.WRAPPED,
    transcripts.ATIF,
    transcripts.STEPS,
    swe_agent.MINI_FORMAT,
    openhands.FORMAT,
    chat.FORMAT,
    transcripts.TALK,
)

SESSIONS: tuple[SessionFormat, ...] = (own.FORMAT, pi.FORMAT, codex.FORMAT, spans.FORMAT, claude_code.FORMAT)


def document_format(value: JSON) -> DocumentFormat | None:
    """The format of a value that holds whole runs; None where no one knows it."""
    return next((format for format in DOCUMENTS if format.looks(value)), None)


def session_format(value: JSON) -> SessionFormat | None:
    """The format of a file that has this line; None where it is not such a line."""
    return next((format for format in SESSIONS if format.looks(value)), None)
