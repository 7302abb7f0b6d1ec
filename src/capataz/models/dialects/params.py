"""The settings beside the history: what of them this model takes, and a word on everything that was left out.

Only what the capability table says is refused is changed. Nothing is dropped silently: each change is a note.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence

from capataz.events.facts import JSON
from capataz.models.capabilities import Capabilities, capabilities
from capataz.models.dialects.base import Profile
from capataz.ports import ModelRequest

CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TOLD = ("top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")


def known(request: ModelRequest, profile: Profile) -> Capabilities:
    """What the model of this request accepts, the profile's own entries included."""
    return capabilities(request.model, profile.models)


def settings(request: ModelRequest, history: str) -> dict[str, JSON]:
    """Temperature and the provider's own parameters, in one dict; the cap apart (see `cap`).

    `history` is what the dialect calls the messages: neither they nor the model can be given as a parameter.
    """
    made: dict[str, JSON] = {}
    if request.temperature is not None:
        made["temperature"] = request.temperature
    made.update(request.extra)
    for name in (*CAPS, "model", history):
        made.pop(name, None)
    return made


def cap(request: ModelRequest) -> int | None:
    """The output cap the caller wants, under whichever name."""
    if request.max_output is not None:
        return request.max_output
    given = [request.extra[name] for name in CAPS if name in request.extra]
    return next((value for value in given if isinstance(value, int)), None)


def asked_for(request: ModelRequest) -> dict[str, JSON] | None:
    """What the caller wants of the sampling, under the names of the GenAI conventions; None where it is all usual."""
    stop = request.extra.get("stop", request.extra.get("stop_sequences"))
    wanted: dict[str, JSON] = {
        "temperature": request.temperature,
        "max_tokens": cap(request),
        **{name: request.extra.get(name) for name in _TOLD},
        "stop_sequences": [stop] if isinstance(stop, str) else stop,
    }
    return {name: value for name, value in wanted.items() if value is not None} or None


def sample(made: dict[str, JSON], able: Capabilities, model: str, reasons: bool, notes: MutableSequence[str]) -> None:
    """Take out the samplers this model refuses. `reasons`: reasoning is switched on for this request."""
    for name in ("temperature", "top_p", "top_k"):
        rule = getattr(able, name)
        if name in made and (rule == "never" or (rule == "without-reasoning" and reasons)):
            del made[name]
            notes.append(f"{name} was not sent: {model} refuses it{' while reasoning' if rule != 'never' else ''}")
    if not able.both_samplers and "temperature" in made and "top_p" in made:
        del made["top_p"]
        notes.append(f"top_p was not sent: {model} takes only one of temperature and top_p")


def effort(made: Mapping[str, JSON]) -> bool:
    """Whether the caller asked an OpenAI model to reason; "none" and silence are no."""
    reasoning = made.get("reasoning")
    asked = made.get("reasoning_effort")
    if asked is None and isinstance(reasoning, dict):
        asked = reasoning.get("effort")
    return asked not in (None, "none")
