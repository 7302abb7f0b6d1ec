"""The scenes of the demo: one for each known way in which a model, or the wire to it, goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

from capataz.demo.shop import Gateway
from capataz.testing.worker_wire import Dialect


@dataclass(frozen=True, slots=True)
class Scene:
    """One way of going wrong. `worker` is the model's name on the wire, `does` what the worker does, in words."""

    title: str
    worker: str
    does: str
    dialect: Dialect = "openai"
    gateway: Gateway = "works"
    catalogue: bool = True


SCENES: tuple[Scene, ...] = (
    Scene("A good day", "worker-well", "looks, refunds, writes, stops"),
    Scene("It repeats a refund", "worker-repeats-refund", "refunds, and refunds, and refunds", "anthropic"),
    Scene("It never ends", "worker-never-ends", "does all of it right in three calls, then all of it again, for ever"),
    Scene("It alternates", "worker-alternates", "looks at one order, then at another, then at the first", "anthropic"),
    Scene(
        "It searches in vain",
        "worker-searches-in-vain",
        "nothing is found; it searches again in other words",
        catalogue=False,
    ),
    Scene(
        "The refund stays pending",
        "worker-repeats-refund",
        "the gateway says 'pending' and pays nothing; it asks again",
        gateway="pending",
    ),
    Scene("It narrates", "worker-narrates", "writes a letter about what it does, and calls no tool", "anthropic"),
    Scene("It claims", "worker-claims", "looks at the order, then claims a refund it never made"),
    Scene(
        "It claims after a failure",
        "worker-claims-after-failure",
        "the refund is declined; it writes 'refunded' to the customer and to us",
        "anthropic",
        gateway="declines",
    ),
    Scene("It says nothing", "worker-says-nothing", "looks at the order, then sends an empty turn"),
    Scene("It hangs", "worker-hangs", "the request is accepted and never answered", "anthropic"),
    Scene("It stalls in mid-stream", "worker-stalls", "falls silent once, in the middle of a call, after the refund"),
    Scene(
        "The stream breaks off", "worker-breaks-off", "a stream ends in mid-sentence, without its end mark", "anthropic"
    ),
    Scene("429, with a wait", "worker-throttled", "too many requests, twice: wait a second"),
    Scene("500, three times", "worker-fails-thrice", "three server errors in a row, after the refund", "anthropic"),
    Scene("401", "worker-locked-out", "the key is refused"),
    Scene("Garbled reply", "worker-garbled", "a chunk of the stream is not JSON, once", "anthropic"),
    Scene("Garbled arguments", "worker-bad-arguments", "writes arguments that are no JSON; right when told"),
    Scene("Unknown tool", "worker-unknown-tool", "calls a tool nobody gave it; the right one when told", "anthropic"),
)
