"""What a dialect is: pure functions between the neutral history and the bytes one family of providers speaks.

A dialect never opens a connection, reads a clock or remembers anything between runs. An `Encoder` lives as long as a
run and keeps what it has already encoded; a `Reader` lives as long as one answer. Everything that differs between
providers of one dialect is data in a `Profile`, everything that differs between models is data in the capability
table: there is no `if provider == ...` in the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from capataz.events.facts import JSON, Fault
from capataz.ports import ModelRequest, Reply

SENT = "sent"
"""Key of `ModelRequest.memo` under which an encoder leaves a `Sent` for the reader of the answer."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One provider or server: where it is, and in what it differs from the others of its dialect.

    To reach a server of your own, take the nearest one: `dataclasses.replace(PROFILES["vllm"], base_url="...")`.
    """

    name: str
    dialect: str
    base_url: str = ""
    """Without a slash at the end. Empty: it has no fixed address and must be given."""
    key_env: str | None = None
    """Environment variable that holds the key; None where none is needed."""
    streams: bool = True
    """Ask for a stream of server-sent events; else for the whole answer at once."""
    stream_usage: bool = True
    """Takes `stream_options.include_usage`."""
    alternates: bool = False
    """Wants user and assistant to take turns, one system message in front, and a user first (strict templates)."""
    nine_letter_ids: bool = False
    user_after_tool: bool = True
    """Takes a user message directly behind a tool message."""
    choice_none: bool = True
    """Knows tool choice "none"; where not, the tools are withheld."""
    strict_tools: bool = False
    """Ask for strict schemas wherever a tool's schema allows it."""
    cache_marks: bool = True
    """Mark the parts worth caching (dialects that have marks)."""
    kept_fields: tuple[str, ...] = ()
    """Fields of an assistant message this provider wants back unchanged (chat completions)."""
    models: tuple[Mapping[str, JSON], ...] = ()
    """Entries laid over the capability table, of the same form: `{"match": "^my-model", "temperature": False}`."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What an encoder says about the body it made last: for the reader of the answer, and for the record."""

    tokens: int
    """Estimate, a quarter of the bytes; 0 where images make it worthless."""
    notes: tuple[str, ...] = ()
    """What was left out or changed because this model would have refused it, one sentence each."""


class Encoder(Protocol):
    """Makes request bodies of one run. Each message is encoded once; a call costs the new ones and a join."""

    def body(self, request: ModelRequest) -> bytes:
        """The body for this request. The same for a fresh encoder, byte for byte. Leaves a `Sent` in the memo."""
        ...


class Reader(Protocol):
    """Reads one streamed answer."""

    def feed(self, event: str, data: bytes) -> None:
        """Take one server-sent event: its name ("" where it has none) and its data ("[DONE]" included)."""
        ...

    @property
    def failed(self) -> bool:
        """What came cannot become an answer any more: the rest need not be waited for."""
        ...

    def finish(self) -> Reply | Fault:
        """The stream has ended. Without its end mark it was cut: a transient fault, "truncated-stream"."""
        ...


class Dialect(Protocol):
    """One wire format. Stateless: one object serves every run."""

    @property
    def name(self) -> str: ...

    def path(self, model: str, streams: bool = True) -> str:
        """What to append to the base URL."""
        ...

    def headers(self, key: str | None) -> dict[str, str]: ...

    def encoder(self, profile: Profile) -> Encoder: ...

    def reader(self, profile: Profile, request: ModelRequest | None = None) -> Reader:
        """With the request, renamed tools get their names back and an answer that filled its cap is known as cut."""
        ...

    def whole(self, body: bytes, profile: Profile, request: ModelRequest | None = None) -> Reply | Fault:
        """Read an answer that was not streamed, errors under status 200 included."""
        ...


@dataclass(slots=True)
class Asked:
    """What a reader needs to know of the request: the names to give back, the cap, the notes, the estimate."""

    names: dict[str, str] = field(default_factory=dict[str, str])
    cap: int | None = None
    sent: Sent = Sent(0)
    model: str = ""
