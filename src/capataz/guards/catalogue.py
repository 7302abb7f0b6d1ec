"""The guards that watch every run unless told otherwise."""

from __future__ import annotations

from typing import Any

from capataz.guards.base import Guard
from capataz.guards.failing import Failing
from capataz.guards.finishing import Finishing
from capataz.guards.handing import Handing
from capataz.guards.hanging import Hanging
from capataz.guards.limits import DEFAULTS, Thresholds
from capataz.guards.looping import Cycling, Repeating
from capataz.guards.narrating import Chanting, Narrating
from capataz.guards.polling import Polling
from capataz.guards.searching import Searching
from capataz.guards.spending import Spending
from capataz.guards.sweeping import Sweeping
from capataz.guards.unchanging import Rewording, Unchanging


def default_guards(thresholds: Thresholds | None = None) -> tuple[Guard[Any], ...]:
    """All built-in guards with these numbers, in the order in which their signals are reported.

    >>> [guard.name for guard in default_guards()][:3]
    ['repeating', 'failing', 'cycling']
    """
    numbers = DEFAULTS if thresholds is None else thresholds
    return (
        Repeating(numbers),
        Failing(numbers),
        Cycling(numbers),
        Unchanging(numbers),
        Rewording(numbers),
        Sweeping(numbers),
        Searching(numbers),
        Polling(numbers),
        Narrating(numbers),
        Chanting(numbers),
        Finishing(numbers),
        Hanging(numbers),
        Spending(numbers),
        Handing(numbers),
    )


GUARDS: tuple[str, ...] = tuple(guard.name for guard in default_guards())
"""Names of the built-in guards: what a policy may observe, enforce or switch off."""
