"""The API as data: every operation with what it takes and gives, and the OpenAPI document made of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import cast

from capataz.events.facts import JSON
from capataz.lens.metrics.tally import BY
from capataz.web.figures_pages import WINDOWS
from capataz.web.tokens import Scope
from capataz.web.wanted import BODIES, LARGEST, Answer, Body, Cancel, ForkAsked, Submit

OUTCOMES = ("completed", "answered", "partial", "escalated", "aborted", "running")
_TEXT: dict[str, JSON] = {"type": "string", "minLength": 1, "maxLength": 500}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query."""

    name: str
    schema: Mapping[str, JSON]
    words: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `answers` are the statuses it may give besides its own."""

    id: str
    method: str
    path: str
    summary: str
    scope: Scope = "read"
    status: int = 200
    parameters: tuple[Parameter, ...] = ()
    body: type[Body] | None = None
    answers: tuple[int, ...] = ()
    media: str = "application/json"


def _whole(name: str, low: int, high: int, words: str) -> Parameter:
    return Parameter(name, {"type": "integer", "minimum": low, "maximum": high}, words)


def _among(name: str, values: tuple[str, ...], words: str) -> Parameter:
    return Parameter(name, {"type": "string", "enum": list(values)}, words)


_AGENT = Parameter("agent", _TEXT, "Only runs of this agent.")
_RUN = "/api/v1/runs/{run}"
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "list_runs", "GET", "/api/v1/runs", "List runs, newest first.",
        parameters=(
            _whole("limit", 1, 500, "How many."),
            _AGENT,
            Parameter("task_type", _TEXT, "Only runs of this type."),
            _among("outcome", OUTCOMES, "Only runs that ended so."),
            Parameter("before", {"type": "number"}, "Only runs begun before (seconds since the epoch)."),
            Parameter("before_run", _TEXT, "With `before`: and those begun just then that stand behind this run. "
                      "Both are in `next` of an answer; it is null on the last page."),
        ),
    ),
    Operation("submit_run", "POST", "/api/v1/runs", "Put a task into the queue; repeating it with the same "
              "Idempotency-Key changes nothing.", "operate", 202, body=Submit, answers=(503,)),
    Operation("get_run", "GET", _RUN, "How a run stands.", answers=(404,)),
    Operation(
        "get_trace", "GET", f"{_RUN}/trace", "Turns of a run with their calls.", answers=(404,),
        parameters=(_whole("turn", 0, LARGEST, "Index of the first."), _whole("count", 1, 100, "How many.")),
    ),
    Operation(
        "get_events", "GET", f"{_RUN}/events",
        "Facts of a run; with `Accept: text/event-stream` as they happen, until it is over.", answers=(404,),
        parameters=(_whole("after", -1, LARGEST, "Only later ones."), _whole("limit", 1, 1000, "How many.")),
    ),
    Operation("cancel_run", "POST", f"{_RUN}/cancel", "Call a submitted run off.", "operate", 202,
              body=Cancel, answers=(404, 409)),
    Operation("fork_run", "POST", f"{_RUN}/fork", "Go on from a step of a run, with something edited.", "operate",
              202, body=ForkAsked, answers=(404,)),
    Operation("trace_value", "GET", f"{_RUN}/value", "Where a value comes from.", answers=(404,),
              parameters=(Parameter("v", _TEXT, "The value.", True),)),
    Operation("diff_runs", "GET", "/api/v1/diff", "Two runs side by side.", answers=(404,),
              parameters=(Parameter("a", _TEXT, "A run.", True), Parameter("b", _TEXT, "Another.", True))),
    Operation("list_waiting", "GET", "/api/v1/inbox", "What waits for a person.",
              parameters=(_whole("limit", 1, 500, "How many."),)),
    Operation("get_waiting", "GET", "/api/v1/inbox/{run}", "What one run waits for.", answers=(404,)),
    Operation("answer_run", "POST", "/api/v1/inbox/{run}", "Answer a run that waits.", "operate", body=Answer,
              answers=(404, 409)),
    Operation("get_metrics", "GET", "/api/v1/metrics", "Figures of the runs of a window.",
              parameters=(_among("window", tuple(WINDOWS), "How far back."), _among("by", BY, "Grouping."), _AGENT)),
    Operation("get_alerts", "GET", "/api/v1/alerts", "What each alert rule reads now."),
    Operation("diagnose_records", "POST", "/api/v1/diagnose", "Diagnose recorded runs: the body is one file.",
              "operate", media="application/octet-stream"),
    Operation("get_openapi", "GET", "/api/openapi.json", "This document."),
)  # fmt: skip


@cache
def document() -> dict[str, JSON]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, JSON]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Capataz",
            "version": version("capataz"),
            "description": "Submit, follow, answer and measure runs of agents. Personal data and secrets are masked.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": cast(JSON, paths),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM, **_bodies()},
        },
    }


_PROBLEM: JSON = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def _bodies() -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for kind in BODIES:
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        found.update(schema.pop("$defs", {}))
        found[kind.__name__] = schema
    return found


def _operation(each: Operation) -> JSON:
    statuses = dict.fromkeys((401, 403, 413, 415, 421, 422, 400, *each.answers))
    responses: dict[str, JSON] = {
        str(each.status): {
            "description": "As asked.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    }
    for status in sorted(statuses):
        responses[str(status)] = {
            "description": "A problem.",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    told: dict[str, JSON] = {
        "operationId": each.id,
        "summary": each.summary,
        "description": f"Needs the scope `{each.scope}` where the server has tokens.",
        "parameters": _parameters(each),
        "responses": cast(JSON, responses),
    }
    if each.body is not None:
        reference: JSON = {"$ref": f"#/components/schemas/{each.body.__name__}"}
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    elif each.method == "POST":
        told["requestBody"] = {"required": True, "content": {each.media: {"schema": {}}}}
    return told


def _parameters(each: Operation) -> list[JSON]:
    found: list[JSON] = []
    if "{run}" in each.path:
        schema: JSON = {"type": "string", "minLength": 1, "maxLength": 200}
        found.append({"name": "run", "in": "path", "required": True, "schema": schema})
    if each.id == "submit_run":
        key: JSON = {"type": "string", "minLength": 1, "maxLength": 200}
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    for one in each.parameters:
        found.append(
            {
                "name": one.name,
                "in": "query",
                "required": one.required,
                "description": one.words,
                "schema": dict(one.schema),
            }
        )
    return found
