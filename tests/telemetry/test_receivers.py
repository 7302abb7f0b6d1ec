"""Round trips through two independent receivers. Opt-in: they are heavy, and have to be running already.

    PHOENIX=http://127.0.0.1:6006 MLFLOW=http://127.0.0.1:5000 pytest tests/telemetry/test_receivers.py

What is asked of each: every span is there, below its parent, and the tokens of the run are counted once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from capataz import Agent, App, tool
from capataz.events.facts import Usage
from capataz.telemetry.otel import OpenTelemetry
from capataz.testing.scripted import ScriptedModel, calls, says

PATIENCE = 60.0
TOKENS = 2 * 120 + 2 * 240
SPANS = Counter({"invoke_agent above": 1, "invoke_agent below": 1, "capataz.turn": 4, "chat scripted": 4,
                 "execute_tool below": 1, "execute_tool look": 1})  # fmt: skip


def address(name: str) -> str:
    found = os.environ.get(name, "")
    if not found:
        pytest.skip(f"set {name} to the address of a running receiver to try the round trip")
    return found.rstrip("/")


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def until(look: Callable[[], Any]) -> Any:
    """What `look` gives, once it gives something."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, "nothing has arrived"
        time.sleep(0.5)
    return found


@tool(kind="read")
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} is paid"


def send(exporter: OTLPSpanExporter, project: str) -> str:
    """A run with a sub-agent, sent; its id."""
    tracers = TracerProvider(resource=Resource.create({"openinference.project.name": project, "service.name": "shop"}))
    tracers.add_span_processor(BatchSpanProcessor(exporter))
    app = App("memory:", telemetry=OpenTelemetry(tracers, content=True))
    below = Agent("below", ScriptedModel(calls(("look", {"order": "81"}), usage=Usage(200, 40)),
                                         says("paid", Usage(200, 40))), [look], role="talking")  # fmt: skip
    above = ScriptedModel(calls(("below", {"task": "81?"}), usage=Usage(100, 20)), says("It is.", Usage(100, 20)))
    outcome = app.run(Agent("above", above, [below.as_tool()], "Be kind.", role="coordinating"), "Is 81 paid?")
    tracers.shutdown()
    asyncio.run(app.close())
    return outcome.run


def test_phoenix_shows_every_span_below_its_parent_and_counts_tokens_once() -> None:
    url, project = address("PHOENIX"), f"capataz-{uuid.uuid4().hex[:8]}"
    run = send(OTLPSpanExporter(f"{url}/v1/traces", timeout=30), project)

    def arrived() -> list[Any]:
        try:
            spans: list[Any] = ask(f"{url}/v1/projects/{project}/spans?limit=100")["data"]
        except urllib.error.HTTPError:
            return []
        return spans if len(spans) >= SPANS.total() else []

    spans = until(arrived)
    assert Counter(span["name"] for span in spans) == SPANS
    by_id = {span["context"]["span_id"]: span for span in spans}
    roots = [span["name"] for span in spans if span["parent_id"] not in by_id]
    assert roots == ["invoke_agent above"]
    assert (
        by_id[next(s["parent_id"] for s in spans if s["name"] == "invoke_agent below")]["name"] == "execute_tool below"
    )
    assert any(span["attributes"].get("capataz.run.id") == run for span in spans)
    query = "query { projects(first: 1000) { edges { node { name traceCount tokenCountTotal } } } }"
    listed = ask(f"{url}/graphql", {"query": query})["data"]["projects"]["edges"]
    [node] = [edge["node"] for edge in listed if edge["node"]["name"] == project]
    assert (node["traceCount"], node["tokenCountTotal"]) == (1, TOKENS)


def test_mlflow_shows_the_trace_and_counts_tokens_once() -> None:
    url = address("MLFLOW")
    made = ask(f"{url}/api/2.0/mlflow/experiments/create", {"name": f"capataz-{uuid.uuid4().hex[:8]}"})
    experiment = str(made["experiment_id"])
    send(OTLPSpanExporter(f"{url}/v1/traces", headers={"x-mlflow-experiment-id": experiment}, timeout=30), "shop")
    where = {"locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}]}
    found = until(lambda: ask(f"{url}/api/3.0/mlflow/traces/search", where).get("traces"))
    assert len(found) == 1
    metadata = found[0]["trace_metadata"]
    assert json.loads(metadata["mlflow.trace.tokenUsage"])["total_tokens"] == TOKENS
    held = ask(f"{url}/api/3.0/mlflow/traces/get?trace_id={found[0]['trace_id']}&allow_partial=true")["trace"]["spans"]
    assert Counter(span["name"] for span in held) == SPANS
    by_id = {span["span_id"]: span["name"] for span in held}
    above = {span["name"]: by_id.get(span.get("parent_span_id") or "") for span in held}
    assert above["invoke_agent below"] == "execute_tool below"
    assert above["invoke_agent above"] is None
