"""What Temporal replays: one workflow for each run, which sends the run's id to a worker, again and again, until the
run is over.

It knows nothing of the run but its id and how it stands. It must never import anything that touches the world:
Temporal runs it again from its history, wherever a worker is left.
"""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

WORKFLOW = "capataz-run"
DRIVE = "capataz-drive"
OVER = ("done", "dead", "cancelled")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a worker that could not even say how a run stands is followed by the next."""
LOOK_AGAIN = 3600.0
"""Seconds after which a run that waits for a person is looked at although nobody has woken it."""


@dataclass(frozen=True)
class Trip:
    """All that Temporal is told of a run. Times are seconds."""

    run: str
    silence: float
    """Without a heartbeat for so long, its worker counts as dead."""
    longest: float
    """One worker may have it."""


@dataclass(frozen=True)
class Leg:
    """How a run stands after one worker had it."""

    state: str
    pause: float | None = None
    """Seconds before the next one; None: until it is woken."""


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """Drives nothing and decides nothing: retries are counted in the queue, by whoever takes the run next."""

    def __init__(self) -> None:
        self._woken = False
        self._cancelled = False

    @workflow.signal
    def wake(self) -> None:
        """Something happened to the run while it waited."""
        self._woken = True

    @workflow.run
    async def run(self, trip: Trip) -> str:
        failed = 0
        while True:
            self._woken = False
            leg = await self._leg(trip)
            if leg is not None and leg.state in OVER:
                return leg.state
            failed = 0 if leg is not None else failed + 1
            if workflow.info().is_continue_as_new_suggested() and not self._cancelled:
                workflow.continue_as_new(trip)
            if leg is None:
                await self._pause(min(FIRST_PAUSE * 2 ** (failed - 2), LONGEST_PAUSE) if failed > 1 else 0.0)
            else:
                await self._pause(LOOK_AGAIN if leg.pause is None else leg.pause)

    async def _leg(self, trip: Trip) -> Leg | None:
        """One worker's part. None when it died, or failed before it could say anything."""
        try:
            leg: Leg = await workflow.execute_activity(
                DRIVE,
                args=[trip.run, self._cancelled],
                result_type=Leg,
                start_to_close_timeout=timedelta(seconds=trip.longest),
                heartbeat_timeout=timedelta(seconds=trip.silence),
                retry_policy=RetryPolicy(maximum_attempts=1),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            return leg
        except ActivityError as error:
            if is_cancelled_exception(error):
                self._cancelled = True
            return None
        except CancelledError:
            self._cancelled = True
            return None

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the run is woken or cancelled: then it goes to a worker at once."""
        if seconds <= 0 or self._woken or self._cancelled:
            return
        try:
            await workflow.wait_condition(lambda: self._woken, timeout=seconds)
        except TimeoutError:
            return
        except CancelledError:
            self._cancelled = True
