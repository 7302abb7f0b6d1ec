"""The fence of every append, the same words for every store: who may write, and at which position."""

from __future__ import annotations

from collections.abc import Sequence

from capataz.events.facts import Event, RunStarted
from capataz.mistakes import Fenced, Misuse
from capataz.ports import Lease


def check_fence(lease: Lease, first_seq: int, epoch: int, owner: str, events: int) -> None:
    """Compare what an append expects with what the log is: its `epoch`, `owner` and number of `events`.

    Raises `Fenced`, saying what was expected, what is, and what to do.
    """
    if epoch != lease.epoch:
        raise Fenced(
            f"run {lease.run} was taken over by {owner} (epoch {epoch}, this worker holds {lease.epoch}): "
            "stop work on it, write nothing more"
        )
    if first_seq > events:
        raise Fenced(
            f"run {lease.run}: position {first_seq} follows events that were not written (the log holds {events}): "
            "claim the run and read it again"
        )
    if first_seq < events:
        raise Fenced(
            f"run {lease.run}: position {first_seq} is taken (the log holds {events} events): "
            "somebody else wrote with the same lease; claim the run and read it again"
        )


def check_positions(first_seq: int, events: Sequence[Event]) -> None:
    """Raises `Misuse` when the events do not follow one another from `first_seq`."""
    for expected, event in enumerate(events, first_seq):
        if event.seq != expected:
            raise Misuse(f"events of one append follow one another: expected position {expected}, got {event.seq}")


def refuse_own(run: str, events: Sequence[Event]) -> None:
    """Raises `Misuse` for anything but the record of a run that another runtime drove: our own logs are frozen."""
    first = events[0].fact if events else None
    if not isinstance(first, RunStarted) or first.source == "capataz":
        raise Misuse(f"run {run} is no record of another runtime: a log of our own is never told anew")


def refuse_over_own(run: str, first: Event | None) -> None:
    """Raises `Fenced` where a log of our own begins so: it is never told anew."""
    if first is not None and getattr(first.fact, "source", "capataz") == "capataz":
        raise Fenced(f"run {run} is a log of our own: it is never told anew")
