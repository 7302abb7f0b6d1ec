"""Bytes of an OTLP export request as spans: protobuf or JSON, packed with gzip or not.

Both come out in the shape of OTLP/JSON, ids in hexadecimal, so that one reader serves both. What is no request, is
packed wrongly or grows beyond bounds raises `Unusable`, whose words may be shown to the sender.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import orjson

from capataz.events.facts import JSON
from capataz.events.plain import shallow
from capataz.ingest.shape import TOO_DEEP, unread

MOST_BYTES = 128 << 20
"""Of a request once it is unpacked."""
_DEEPEST = 40
"""Levels of values in values that are read."""


class Unusable(ValueError):
    """These bytes are no export request."""


def unpacked(body: bytes, encoding: str) -> bytes:
    """The bytes without their packing."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            return _inflated(body, 31)
        case "deflate":
            return _inflated(body, 47)
        case other:
            raise Unusable(f"content-encoding {other[:40]!r} is not one of gzip, deflate, identity")


def _inflated(body: bytes, window: int) -> bytes:
    unpacker = zlib.decompressobj(window)
    try:
        found = unpacker.decompress(body, MOST_BYTES)
    except zlib.error as error:
        raise Unusable(f"the body is not packed as its header says: {error}") from error
    if unpacker.unconsumed_tail:
        raise Unusable(f"the body is larger than {MOST_BYTES >> 20} MB when unpacked: send smaller batches")
    if not unpacker.eof:
        raise Unusable("the packed body is cut off")
    return found


def from_json(body: bytes) -> JSON:
    """A request in OTLP/JSON."""
    try:
        value: JSON = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise Unusable(f"the body is {unread(error)}") from error
    if not isinstance(value, dict) or not isinstance(value.get("resourceSpans", []), list):
        raise Unusable("the body is no ExportTraceServiceRequest: it has no list resourceSpans")
    if not shallow(value):
        raise Unusable(f"the body is {TOO_DEEP}")
    return value


def from_protobuf(body: bytes) -> JSON:
    """A request in protobuf, as OTLP/JSON says it."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise Unusable(f"the body is no ExportTraceServiceRequest in protobuf: {error}") from error
    return {"resourceSpans": [_batch(batch) for batch in request.resource_spans]}


def answer(protobuf: bool, refused: int, why: str) -> bytes:
    """The response to a request that was taken, and how many of its spans were not."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    if not protobuf:
        told: JSON = {"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": why}} if refused else {}
        return orjson.dumps(told)
    response = ExportTraceServiceResponse()
    if refused:
        response.partial_success.rejected_spans = refused
        response.partial_success.error_message = why
    return response.SerializeToString()


def _batch(batch: Any) -> JSON:
    return {
        "resource": {"attributes": _pairs(batch.resource.attributes)},
        "scopeSpans": [{"spans": [_span(span) for span in scope.spans]} for scope in batch.scope_spans],
    }


def _span(span: Any) -> JSON:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _pairs(span.attributes),
        "events": [
            {"name": event.name, "timeUnixNano": str(event.time_unix_nano), "attributes": _pairs(event.attributes)}
            for event in span.events
        ],
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _pairs(pairs: Any) -> list[JSON]:
    return [{"key": pair.key, "value": _value(pair.value, 0)} for pair in pairs]


def _value(value: Any, depth: int) -> JSON:
    kind = value.WhichOneof("value")
    if kind is None or depth > _DEEPEST:
        return {}
    if kind == "array_value":
        return {"arrayValue": {"values": [_value(item, depth + 1) for item in value.array_value.values]}}
    if kind == "kvlist_value":
        return {"kvlistValue": {"values": list(_inner(value.kvlist_value.values, depth))}}
    if kind == "bytes_value":
        return {"bytesValue": value.bytes_value.hex()}
    names = {"string_value": "stringValue", "bool_value": "boolValue", "int_value": "intValue"}
    found: JSON = getattr(value, kind)
    return {names.get(kind, "doubleValue"): found}


def _inner(pairs: Any, depth: int) -> Iterator[JSON]:
    for pair in pairs:
        yield {"key": pair.key, "value": _value(pair.value, depth + 1)}
