"""The seams: what the runtime needs from the world, as small protocols anyone may implement.

A port says what must be promised, never how. The conformance suites in `capataz.testing` turn each promise into a
test, so that a third-party store or model can prove it keeps them. Nothing here may do anything.
"""

from __future__ import annotations

from capataz.ports.accounts import (
    Accounts as Accounts,
)
from capataz.ports.engines import (
    Driven as Driven,
    Driver as Driver,
    Engine as Engine,
)
from capataz.ports.models import (
    Deadlines as Deadlines,
    Model as Model,
    ModelRequest as ModelRequest,
    RawCall as RawCall,
    Reply as Reply,
    ToolSpec as ToolSpec,
)
from capataz.ports.queues import (
    Claim as Claim,
    Crashes as Crashes,
    Job as Job,
    JobRow as JobRow,
    JobState as JobState,
    Orders as Orders,
    Queue as Queue,
    TurnBeat as TurnBeat,
    WorkerBeat as WorkerBeat,
    WorkerRow as WorkerRow,
)
from capataz.ports.stores import (
    KeptSpan as KeptSpan,
    Lease as Lease,
    RecordStore as RecordStore,
    RunRow as RunRow,
    SpanBook as SpanBook,
    Store as Store,
)
from capataz.ports.world import (
    Chance as Chance,
    Clock as Clock,
    Observer as Observer,
)
