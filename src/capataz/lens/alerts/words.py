"""Alerts in words: amounts with their units, and a sentence for each kind of reading."""

from __future__ import annotations

from capataz.lens.alerts.rules import Rule
from capataz.lens.alerts.statistics import Share


def amount(value: float, unit: str) -> str:
    """A number with its unit, as short as it can be read.

    >>> amount(86_400, "seconds"), amount(12_345, "tokens"), amount(0.02, "dollars"), amount(0.051, "share")
    ('24 h', '12,345 tokens', '$0.0200', '5.1 %')
    """
    match unit:
        case "share":
            return f"{value * 100:.1f} %"
        case "tokens":
            return f"{value:,.0f} tokens"
        case "dollars":
            return f"${value:,.4f}"
        case "seconds":
            return _time(value)
        case _:
            return f"{value:,.1f}".removesuffix(".0")


def rule_words(rule: Rule) -> str:
    """What a rule watches for, in one line."""
    filters = (("agent", rule.agent), ("task type", rule.task_type), ("tool", rule.tool))
    about = "".join(f", only {what} {name}" for what, name in filters if name)
    if rule.rises is not None:
        flat = f" while {rule.flat} does not" if rule.flat else ""
        return f"{rule.metric} rises by {amount(rule.rises, 'share')} over the newest {rule.runs} runs{flat}{about}"
    if rule.times is not None:
        limit = f"over {rule.times:g} times the usual at this hour"
    else:
        limit = f"{'over' if rule.over is not None else 'under'} {amount(rule.limit, rule.what.unit)}"
    return f"{rule.metric} {limit} in {amount(rule.window, 'seconds')}{about}"


def share_words(what: str, found: Share, limit: float, upward: bool) -> str:
    """A share, its interval and its limit."""
    side = "over" if (found.value > limit) else "under"
    least = "at most" if upward else "at least"
    return (
        f"{what}: {amount(found.value, 'share')} ({found.part} of {found.whole}; surely between "
        f"{amount(found.low, 'share')} and {amount(found.high, 'share')}), {side} the limit ({least} "
        f"{amount(limit, 'share')})"
    )


def wording(rule: Rule, value: float, limit: float | None = None) -> str:
    """A value and its limit."""
    bound = rule.limit if limit is None else limit
    side = "over" if value > bound else "under" if value < bound else "at"
    return f"{rule.what.help}: {amount(value, rule.what.unit)}, {side} the limit of {amount(bound, rule.what.unit)}"


def _time(seconds: float) -> str:
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size or (seconds >= size and seconds % size == 0):
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.3g} s"
