"""One door out: whatever wants an answer of a model goes through the gateway, and nobody else knows the way."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contracts.walk import Source, dotted, imports, listed, sources

REACHING_OUT = {
    "aiohttp",
    "http",
    "httpx",
    "httpx2",
    "requests",
    "urllib",
    "urllib3",
    "socket",
    "ssl",
    "ftplib",
    "smtplib",
}
SDKS = {"openai", "anthropic", "google", "mistralai", "litellm", "cohere", "groq", "ollama"}

DOORS = {
    "src/capataz/models/http.py": "the wire to a provider",
    "src/capataz/models/gateway.py": "the one door",
}
NOT_TO_A_PROVIDER = {
    "src/capataz/stores/postgres/server.py": "the user's own database",
    "src/capataz/checks.py": "the check that an address of the user's answers",
    "src/capataz/testing/": "servers and models that tests talk to",
    "src/capataz/runtime/webhook.py": "the word to a person's own system that a run waits",
    "src/capataz/demo/": "the demonstration's own server, and the naive loop it is compared with",
}
HARMLESS = {"urllib.parse", "http.HTTPStatus", "http", "google.protobuf.message"}
"""Parsing an address, naming a status or reading protobuf reaches nothing."""

WIRE_PATHS = ("chat/completions", "v1/messages", "/responses", "api.openai.com", "api.anthropic.com")


def elsewhere(source: Source) -> bool:
    return source.name not in DOORS and not source.name.startswith(tuple(NOT_TO_A_PROVIDER))


def only_names_errors(source: Source) -> bool:
    """Whether `socket` serves only to recognise its exceptions."""
    used = {
        node.attr
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and dotted(node.value) == "socket"
    }
    return used <= {"gaierror", "herror"}


def reaching(source: Source) -> Iterator[str]:
    for node, module, _ in imports(source.tree):
        top = module.split(".")[0]
        if top in SDKS and module not in HARMLESS:
            yield f"{source.at(node)} imports {module}: vendor SDKs are used by tests only"
        if top in REACHING_OUT and module not in HARMLESS and not (module == "socket" and only_names_errors(source)):
            yield f"{source.at(node)} imports {module}"


def test_only_the_door_reaches_out() -> None:
    problems = [problem for source in sources() if elsewhere(source) for problem in reaching(source)]
    assert not problems, listed(problems)


def test_nobody_asks_a_model_around_the_gateway() -> None:
    problems = [
        f"{source.at(node)} calls {dotted(node.func)}"
        for source in sources()
        if elsewhere(source)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "complete"
        and (node.args or node.keywords)
    ]
    assert not problems, listed(problems)


def test_nobody_else_knows_a_provider_s_address() -> None:
    problems = [
        f"{source.at(node)} {node.value!r}"
        for source in sources()
        if elsewhere(source) and source.layer != "models"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "\n" not in node.value
        and any(path in node.value for path in WIRE_PATHS)
    ]
    assert not problems, listed(problems)
