"""Write the set anew: `python -m tests.guards.made.write`. What it writes is committed and never edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from tests.guards.made.again import AGAIN
from tests.guards.made.gates import GATED
from tests.guards.made.harder_healthy import HARDER_HEALTHY
from tests.guards.made.harder_loops import HARDER_LOOPS
from tests.guards.made.healthy import HEALTHY
from tests.guards.made.long import LONG
from tests.guards.made.loops import LOOPS
from tests.guards.made.making import Tale, Telling
from tests.guards.made.vain import VAIN

SETS: dict[str, tuple[Telling, ...]] = {
    "made_short.json": (*LOOPS, *VAIN, *HEALTHY, *GATED, *HARDER_LOOPS, *HARDER_HEALTHY),
    "made_long.json": (*LONG, *AGAIN),
}
CASES = Path(__file__).parents[2] / "data" / "cases"


def told(name: str) -> Iterator[Tale]:
    for tell in SETS[name]:
        yield from tell()


def text(name: str) -> bytes:
    """A file of the set: a case a line, so that a change of one shows as one."""
    return b"[\n" + b",\n".join(orjson.dumps(tale.raw()) for tale in told(name)) + b"\n]\n"


def main() -> None:
    for name in SETS:
        (CASES / name).write_bytes(text(name))


if __name__ == "__main__":
    main()
