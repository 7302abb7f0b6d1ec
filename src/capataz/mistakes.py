"""Mistakes of the developer, raised as exceptions. Mistakes of the agent are values and never come through here.

CapatazError
├── Misuse              the library was called wrongly: the message says what, where and how to mend it
│   ├── ToolMisuse      a function cannot be offered as a tool as it is written
│   └── PolicyMisuse    the policy file or object does not make sense
├── StoreError          the log could not be read or written
│   ├── Fenced          another worker owns the run, or wrote to it first: stop, do nothing more
│   ├── NotFound        no such run
│   ├── Sealed          stored bytes are encrypted with a key that is not given here
│   └── Unreadable      stored bytes are not what this version can read
└── ModelRefused        a model call failed; carries the classified fault (inside the runtime only)
"""

from __future__ import annotations

from capataz.events.facts import Fault


class CapatazError(Exception):
    """Base of everything Capataz raises on purpose. Never raised itself."""


class Misuse(CapatazError):
    """The library was called wrongly."""


class ToolMisuse(Misuse):
    """A function cannot be offered as a tool as it is written."""


class PolicyMisuse(Misuse):
    """The policy does not make sense."""


class StoreError(CapatazError):
    """The log could not be read or written."""


class Fenced(StoreError):
    """Another worker owns this run, or has written to it first."""


class NotFound(StoreError):
    """There is no such run in this store."""


class Sealed(StoreError):
    """The stored bytes are encrypted, and the key is not given here, or does not fit."""


class Unreadable(StoreError):
    """The stored bytes are not what this version of Capataz can read."""


class ModelRefused(CapatazError):
    """A model call failed. `fault` says which row of the taxonomy it is."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault
