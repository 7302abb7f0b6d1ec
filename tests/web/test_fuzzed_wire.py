"""Whatever is sent: no error of ours, no hang, and the server goes on."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from capataz import App
from capataz.web.site import site_for
from tests.web.conftest import ASKING, GOOD, LOOPING, Shop
from tests.web.serving import served
from tests.web.test_received_spans import WHOLE, post, protobuf

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("fuzz") / "log.db"
    app, shop = App(f"sqlite:///{path}"), Shop()
    for steps in (GOOD, LOOPING, ASKING):
        app.run(shop.agent(*steps), "Refund W-8181")
    with served(site_for(app, (shop.agent(*GOOD),))) as address:
        yield address


def test_the_api_keeps_its_document_whatever_is_sent(address: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/api/openapi.json")
    tried = 0
    for each in schema.get_all_operations():
        operation: Any = each.ok()  # type: ignore[union-attr]
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                strategy = operation.as_strategy(generation_mode=mode)
            except Unsatisfiable:
                continue

            @given(case=strategy)
            @settings(
                max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
            )
            def send(case: Any) -> None:
                case.call_and_validate(checks=CHECKS, timeout=20)

            try:
                send()
            except Unsatisfiable:
                continue
            tried += 1
    assert tried >= 16


def broken(chance: random.Random, body: bytes) -> bytes:
    """The bytes with a few of them changed, dropped, doubled or cut off."""
    data = bytearray(body)
    for _ in range(chance.randint(1, 12)):
        place = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                del data[place : place + chance.randint(1, 40)]
            case 2:
                data[place:place] = data[place : place + chance.randint(1, 40)]
            case _:
                del data[max(1, place) :]
        if not data:
            return b"\0"
    return bytes(data)


def twisted(chance: random.Random, value: Any) -> Any:
    """The value with parts of it put to what no exporter should send."""
    if chance.random() < 0.06:
        odd: list[Any] = [None, [], {}, -1, 2**63, "", "x" * 3000, 1e308, True, [[[]]], {"a": {"b": {}}}, "\ud800"[:0]]
        return chance.choice(odd)
    if isinstance(value, dict):
        return {key: twisted(chance, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [twisted(chance, inner) for inner in value]
    return value


def test_the_receiver_survives_whatever_is_sent_and_keeps_what_is_good(address: str) -> None:
    chance, began, statuses = random.Random(7), time.monotonic(), set[int]()
    json_body, proto_body = json.dumps(post(*WHOLE)).encode(), protobuf(*WHOLE)
    with httpx.Client(base_url=address, timeout=20) as client:
        for number in range(200):
            kind = number % 4
            body = (
                broken(chance, json_body) if kind == 0
                else broken(chance, proto_body) if kind == 1
                else json.dumps(twisted(chance, post(*WHOLE))).encode() if kind == 2
                else broken(chance, gzip.compress(json_body))
            )  # fmt: skip
            headers = {"content-type": "application/x-protobuf" if kind == 1 else "application/json"}
            if kind == 3:
                headers["content-encoding"] = "gzip"
            statuses.add(client.post("/v1/traces", content=body, headers=headers).status_code)
        assert statuses <= {200, 400, 415, 422}
        assert client.post("/v1/traces", json=post(*WHOLE)).status_code == 200
        until = time.monotonic() + 20
        while (got := client.get(f"/api/v1/runs/{WHOLE[0]['traceId']}")).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert got.json()["agent"]
        for page in ("/", f"/runs/{WHOLE[0]['traceId']}", f"/runs/{WHOLE[0]['traceId']}/spans", "/metrics"):
            assert client.get(page).status_code == 200
    assert time.monotonic() - began < 60


def test_uploads_survive_whatever_is_sent(address: str) -> None:
    chance = random.Random(11)
    records = [path.read_bytes() for path in sorted((Path(__file__).parent.parent / "data").rglob("*.json*"))[:6]]
    records = [record[:20_000] for record in records] or [json.dumps(post(*WHOLE)).encode()]
    with httpx.Client(base_url=address, timeout=60) as client:
        for number in range(30):
            body = broken(chance, records[number % len(records)])
            got = client.post("/api/v1/diagnose", content=body)
            assert got.status_code == 200, got.text[:300]
        assert client.get("/healthz").text == "ok"


def test_the_official_exporter_is_understood(address: str) -> None:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(f"{address}/v1/traces", compression=Compression.Gzip)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("invoke_agent clerk") as agent:
        agent.set_attribute("gen_ai.operation.name", "invoke_agent")
        agent.set_attribute("gen_ai.agent.name", "clerk")
        with tracer.start_as_current_span("chat m") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
            chat.set_attribute("gen_ai.usage.input_tokens", 5)
    provider.shutdown()
    trace = f"{agent.get_span_context().trace_id:032x}"
    with httpx.Client(base_url=address, timeout=20) as client:
        until = time.monotonic() + 20
        while (got := client.get(f"/api/v1/runs/{trace}")).status_code != 200 or got.json()["status"] != "ended":
            assert time.monotonic() < until, got.text
            time.sleep(0.1)
        assert (got.json()["agent"], got.json()["outcome"]) == ("clerk", "answered")
