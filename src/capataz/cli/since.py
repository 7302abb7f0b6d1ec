"""How long ago: "30m", "24h", "7d", as options and rules write it."""

from __future__ import annotations

import click

from capataz.lens.alerts.rules import seconds_of
from capataz.mistakes import Misuse


class Ago(click.ParamType[float]):
    """A stretch of time, in seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return seconds_of(str(value))
        except Misuse as wrong:
            self.fail(str(wrong), param, ctx)
