"""Errors as `application/problem+json` (RFC 9457): what is wrong, and how to mend it. Never a trace."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.responses import Response

from capataz.events.facts import JSON

TITLES: Mapping[int, str] = {
    400: "The request does not make sense",
    403: "Not allowed",
    404: "There is no such thing",
    405: "This address does not take that method",
    409: "It does not fit how things stand",
    413: "Too large",
    415: "Not a kind of content this address takes",
    422: "The request does not fit",
    503: "The store did not answer",
}


def problem(status: int, title: str = "", detail: str = "", **more: JSON) -> Response:
    """A problem as a response."""
    told: dict[str, JSON] = {"type": "about:blank", "title": title or TITLES.get(status, "Error"), "status": status}
    if detail:
        told["detail"] = detail.encode("utf-8", "replace").decode()
    return Response(orjson.dumps({**told, **more}), status, media_type="application/problem+json")
