"""The masks of a process: one for what leaves, one for the errors that are kept, and the placeholders of each thread.

The placeholders of a conversation (or of a root task without one) live here, in memory, and nowhere else. They are a
fold over the texts that left: a fresh process that sends the same texts again gives the same placeholders.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from capataz.events.facts import JSON, Fault, RunStarted
from capataz.models.masking import Masking
from capataz.privacy.configured import environment_secrets as environment_secrets
from capataz.privacy.found import SECRETS
from capataz.privacy.mask import Mask
from capataz.privacy.pseudonyms import Pseudonyms

KEPT_THREADS = 1000
"""Conversations whose placeholders are kept in memory; an older one is numbered anew when it comes back."""


@dataclass(frozen=True, slots=True)
class Privacy:
    """One `Mask` for every exit. `secrets` is the part of it that is also applied to errors before they are kept."""

    mask: Mask
    secrets: Mask
    _threads: OrderedDict[str, tuple[Pseudonyms, asyncio.Lock]] = field(
        default_factory=OrderedDict[str, tuple[Pseudonyms, asyncio.Lock]]
    )

    def masking(self, started: RunStarted, sealed: Collection[str]) -> Masking:
        """The masking of one run, with the placeholders of its conversation or root task."""
        pseudonyms, turn = self._thread(started.conversation or started.root or started.run)
        return Masking(self.mask, pseudonyms, sealed, turn)

    def _thread(self, thread: str) -> tuple[Pseudonyms, asyncio.Lock]:
        known = self._threads.get(thread)
        if known is None:
            known = self._threads[thread] = (Pseudonyms(), asyncio.Lock())
            while len(self._threads) > KEPT_THREADS:
                self._threads.popitem(last=False)
        self._threads.move_to_end(thread)
        return known

    def forget(self, conversation: str | None) -> None:
        """A conversation begins: one of the same name that was erased, perhaps somebody else's, is not this one."""
        self._threads.pop(conversation or "", None)

    def kept(self, value: JSON) -> JSON:
        """An error as it may be kept: exception texts are where connection strings and keys turn up."""
        return self.secrets.value(value)

    def words(self, text: str) -> str:
        """The same for words."""
        return self.secrets.text(text)

    def fault(self, fault: Fault | None) -> Fault | None:
        return None if fault is None else replace(fault, message=self.words(fault.message))


def privacy_of(mask: Mask | bool) -> Privacy | None:
    """From what an App was given: a mask of one's own, True for the default one, False for none."""
    if mask is False:
        return None
    known = environment_secrets(os.environ)
    secrets = Mask(known, classes=SECRETS)
    return Privacy(Mask(known) if mask is True else mask, secrets)
