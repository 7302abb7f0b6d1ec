"""Recorded exchanges of real providers, read by the real functions."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from capataz.events.facts import Fault
from capataz.faults.classify import classify_http
from capataz.models.dialects import DIALECTS, PROFILES
from capataz.ports import Reply

HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
}
PLACES = re.compile(r"chat/completions$|/messages$|/responses$|enerateContent(\?.*)?$|/converse$")


def recorded() -> Path:
    shared = Path(os.environ.get("CAPATAZ_SHARED", Path(__file__).parents[3] / "shared"))
    folder = shared / "traces" / "provider-cassettes"
    if not folder.is_dir():
        pytest.skip("no recorded exchanges beside this checkout (CAPATAZ_SHARED)")
    return folder


@pytest.mark.timeout(240)
def test_real_answers_of_providers_are_read() -> None:
    """Every recorded exchange of a real provider is a reply or a classified fault, and whole ones are replies."""
    yaml = pytest.importorskip("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read_well, unread = 0, []
    for line in (recorded() / "INDEX.jsonl").read_text().splitlines():
        row = orjson.loads(line)
        if not row["file"].endswith(".yaml") or not set(row["hosts"]) & HOSTS.keys() or "background" in row["file"]:
            continue
        document = yaml.load((recorded().parent / row["file"]).read_bytes(), loader)
        for exchange in document["interactions"]:
            found = replayed(exchange)
            if isinstance(found, Reply):
                read_well += 1
            elif found is not None and exchange["response"]["status"]["code"] == 200:
                unread.append((row["file"], found.reason))
            else:
                assert found is None or found.row != "unknown", (row["file"], found)
    assert read_well > 900
    assert len(unread) < 20, unread


def replayed(exchange: dict[str, Any]) -> Reply | Fault | None:
    uri, response = exchange["request"]["uri"], exchange["response"]
    name = HOSTS.get(uri.split("/")[2])
    if name is None or not PLACES.search(uri):
        return None
    profile = PROFILES["openai-responses" if name == "openai" and uri.endswith("/responses") else name]
    headers = {key: value[0] if isinstance(value, list) else value for key, value in response["headers"].items()}
    body = response.get("body")
    text = body.get("string") if isinstance(body, dict) else body
    data = text.encode() if isinstance(text, str) else text or b""
    if "parsed_body" in response:
        data = orjson.dumps(response["parsed_body"], default=str)
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if response["status"]["code"] >= 400:
        return classify_http(response["status"]["code"], headers, data, profile.name, 0.0)
    dialect = DIALECTS[profile.dialect]
    if not data.lstrip().startswith((b"data:", b"event:")):
        return dialect.whole(data, profile)
    reader = dialect.reader(profile)
    for block in data.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n")]
        event = next((value.strip() for field, _, value in lines if field == "event"), "")
        said = [value.strip() for field, _, value in lines if field == "data"]
        if said:
            reader.feed(event, "\n".join(said).encode())
    return reader.finish()
