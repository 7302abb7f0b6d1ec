"""What the API takes: shapes of bodies and parameters. What does not fit is refused with the place and the reason."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from capataz.events.facts import JSON
from capataz.runtime.described import FURTHEST, LONGEST_DELAY
from capataz.web.gate import Refused
from capataz.web.inbox_pages import Action
from capataz.web.problems import problem

MOST_JSON = 4 << 20
LARGEST = 2**53

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
Words = Annotated[str, StringConstraints(max_length=200_000)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Submit(Body):
    """A task for an agent."""

    agent: Name
    task: Annotated[str, StringConstraints(min_length=1, max_length=200_000, pattern=r"\S")]
    task_type: Name | None = None
    priority: Annotated[int, Field(ge=-FURTHEST, le=FURTHEST)] = 0
    delay: Annotated[float, Field(ge=0, le=LONGEST_DELAY, strict=False)] = 0.0
    """Seconds before which it is not begun."""


class Cancel(Body):
    """Why a run is called off."""

    reason: Annotated[str, StringConstraints(max_length=500)] = ""


class Answer(Body):
    """A person's decision. `text` are words for the model, or why; `arguments` all arguments of a corrected call."""

    action: Action
    text: Words = ""
    arguments: dict[str, JsonValue] | None = None
    digest: Annotated[str, StringConstraints(max_length=200)] = ""
    by: Annotated[str, StringConstraints(max_length=80)] = ""


class ForkAsked(Body):
    """Where to fork, and what to edit. Leave out what stays as it is; `result` may be null, which is a result."""

    step: Annotated[int, Field(ge=0, le=LARGEST)]
    result: JsonValue = None
    instructions: Words | None = None
    policy: Words = ""
    allow_acts: bool = False


BODIES: tuple[type[Body], ...] = (Submit, Cancel, Answer, ForkAsked)
B = TypeVar("B", bound=Body)


class Unfit(Exception):
    """A body that does not fit, with the answer to it."""

    def __init__(self, answer: Response) -> None:
        super().__init__("unfit")
        self.answer = answer


async def body(request: Request, kind: type[B]) -> B:
    """The body of the request, read strictly. Raises `Unfit` or `Refused`."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != "application/json":
        raise Refused(415, "Not a kind of content this address takes", "send application/json")
    raw = await request.body()
    if len(raw) > MOST_JSON:
        raise Refused(413, "Too large", f"a body has at most {MOST_JSON >> 20} MB")
    try:
        value = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise Refused(400, "The body is not JSON", str(error)) from error
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        wrong: list[JSON] = [
            {"path": "/".join(str(part) for part in one["loc"]), "message": one["msg"]} for one in error.errors()[:20]
        ]
        raise Unfit(problem(422, "The body does not fit", wrong_words(wrong), errors=wrong)) from error


def wrong_words(wrong: list[JSON]) -> str:
    """What is wrong first, in one line."""
    first = cast("dict[str, Any]", wrong[0]) if wrong else {"path": "", "message": ""}
    return f"{first['path'] or 'the body'}: {first['message']}"


def integer(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A whole number out of the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    bare = text.removeprefix("-")
    if not (bare.isascii() and bare.isdecimal() and len(bare) < 17) or not low <= int(text) <= high:
        raise Refused(422, "A parameter does not fit", f"{name} is a whole number from {low} to {high}")
    return int(text)


def real(request: Request, name: str) -> float | None:
    """A number out of the query; None where it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e15 or "_" in text or text != text.strip():
        raise Refused(422, "A parameter does not fit", f"{name} is a number")
    return value


def word(request: Request, name: str, among: tuple[str, ...] = ()) -> str:
    """A word out of the query; empty where it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return ""
    if among and text not in among:
        raise Refused(422, "A parameter does not fit", f"{name} is one of {', '.join(among)}")
    if not 0 < len(text) <= 500:
        raise Refused(422, "A parameter does not fit", f"{name} has 1 to 500 characters")
    return text
