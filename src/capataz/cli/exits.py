"""Exit statuses: a script can tell how a run ended without reading a word."""

from __future__ import annotations

from collections.abc import Mapping

from capataz.events.facts import OutcomeName

MISUSE = 2
UNFIT = 70
"""A worker that has to be replaced: its process manager should start another."""
INTERRUPTED = 130
"""Ctrl-C. It is no outcome: the run stays open in its log, and can be resumed."""
EXITS: Mapping[OutcomeName, int] = {"completed": 0, "answered": 0, "partial": 3, "escalated": 4, "aborted": 5}
