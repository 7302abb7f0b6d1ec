"""Every name of OpenTelemetry's that Capataz uses, and every name of its own: no other module spells one out.

The names are those of the GenAI semantic conventions 1.41. The conventions have moved to a repository of their own and
go on there without a release; what is settled for the next one is here too, and only used where it is asked for
(`semconv="next"`). It adds and never takes away. What the conventions have no word for is named `capataz.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

Semconv = Literal["1.41", "next"]
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"

# ── attributes ───────────────────────────────────────────────────────────────────────────────────────────

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST = "gen_ai.request."
"""What the names of settings begin with: temperature, max_tokens, top_p, ..."""
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
TOKEN_TYPE = "gen_ai.token.type"

# Content: only where the user has asked for it, and only masked.
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
CONTENT = (SYSTEM_INSTRUCTIONS, INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT)

# Of the next conventions.
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
COMPACTED = "gen_ai.conversation.compacted"
TOKEN_MODALITY = "gen_ai.token.modality"

# ── operations ───────────────────────────────────────────────────────────────────────────────────────────

CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"

# ── events ───────────────────────────────────────────────────────────────────────────────────────────────

EVALUATION = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_WHY = "gen_ai.evaluation.explanation"

# ── ours ─────────────────────────────────────────────────────────────────────────────────────────────────

TURN = "capataz.turn"
"""Name of a turn's span; `capataz.turn.*` are its attributes."""
TURN_NUMBER = "capataz.turn.number"
TURN_CALLS = "capataz.turn.tool_calls"
TURN_TOKENS = "capataz.turn.tokens"
TURN_TRIES = "capataz.turn.model_calls"
RUN_ID = "capataz.run.id"
ROOT_ID = "capataz.root.id"
ROLE = "capataz.role"
TASK_TYPE = "capataz.task_type"
OUTCOME = "capataz.outcome"
REASON = "capataz.outcome.reason"
SEGMENT = "capataz.run.segment"
RUN_TURNS = "capataz.run.turns"
RUN_CALLS = "capataz.run.tool_calls"
RUN_INPUT = "capataz.run.input_tokens"
RUN_OUTPUT = "capataz.run.output_tokens"
RUN_MONEY = "capataz.run.cost"
"""US dollars; left out where a price is not known, which is not the same as free."""
PROMPT_VERSION = "capataz.version.prompt"
TOOLS_VERSION = "capataz.version.tools"
POLICY_VERSION = "capataz.version.policy"
PURPOSE = "capataz.model_call.purpose"
ATTEMPT = "capataz.attempt"
COST = "capataz.cost"
ESTIMATED = "capataz.usage.estimated"
ERROR_CLASS = "capataz.error.class"
TOOL_KIND = "capataz.tool.kind"
TOOL_TARGET = "capataz.tool.target"
IN_DOUBT = "capataz.tool.in_doubt"
CHILD_RUN = "capataz.child.run.id"
GUARD = "capataz.guard"
VERDICT = "capataz.verdict.action"
EVIDENCE = "capataz.verdict.evidence"
WAITING_FOR = "capataz.waiting_for"
SECONDS = "capataz.seconds"
DETAIL = "capataz.detail"

HUNG = "hung"
"""`error.type` of a span that never closed by itself: the watchdog or the recovery ended it."""

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "bedrock": "aws.bedrock",
        "gemini": "gcp.gemini",
        "google": "gcp.gemini",
        "vertex": "gcp.vertex_ai",
        "azure": "azure.ai.openai",
        "mistral": "mistral_ai",
        "xai": "x_ai",
        "watsonx": "ibm.watsonx.ai",
    }
)
"""Providers whose well-known name in the conventions differs from ours."""

FINISH: Mapping[str, str] = MappingProxyType(
    {"calls": "tool_call", "refusal": "content_filter", "filter": "content_filter"}
)
"""Reasons to stop whose well-known name differs from ours."""

# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────

TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))
SECOND_BUCKETS = tuple(round(0.01 * 2**power, 2) for power in range(14))
AGENT_BUCKETS = tuple(round(0.1 * 2**power, 1) for power in range(13))

TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
TOOL_DURATION = "gen_ai.execute_tool.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
NEXT_DURATION = "gen_ai.client.inference.duration"
NEXT_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
NEXT_USAGE = "gen_ai.client.inference.usage."
NEXT_INFERENCES = "gen_ai.invoke_agent.inference_calls"
NEXT_TOOL_CALLS = "gen_ai.invoke_agent.tool_calls"

TURNS = "capataz.turns"
EMPTY_TURNS = "capataz.turns.empty"
RETRIES = "capataz.retries"
ESCALATIONS = "capataz.escalations"
LOOPS = "capataz.loops"
KILLS = "capataz.watchdog.kills"
REFUSALS = "capataz.budget.refusals"
CONFIRMED = "capataz.effects.confirmed"
DENIED = "capataz.effects.denied"

COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        TURNS: "Turns of the model's.",
        EMPTY_TURNS: "Turns that were failed for doing nothing: narrated, claimed, chanted.",
        RETRIES: "Tries after a failure, by class of error.",
        ESCALATIONS: "Runs suspended until someone else decides.",
        LOOPS: "Loops a guard has noticed, each counted once.",
        KILLS: "Waits ended from outside because no sign of life came.",
        REFUSALS: "What was not begun because a ceiling of the budget was reached.",
        CONFIRMED: "Acts whose effect a read-back has confirmed.",
        DENIED: "Acts whose effect a read-back has denied.",
    }
)

LOOPING = frozenset(
    (
        "repeating", "failing", "cycling", "unchanging", "rewording", "sweeping", "searching", "polling", "chanting",
        "handing",
    )
)  # fmt: skip
"""The built-in guards that watch for loops."""


def provider_of(named: str) -> str:
    """The conventions' name for our name of a provider, which may be followed by a model.

    >>> provider_of("gemini:gemini-3-flash"), provider_of("openai:gpt-5"), provider_of("")
    ('gcp.gemini', 'openai', 'unknown')
    """
    provider = named.partition(":")[0].strip().lower()
    return PROVIDERS.get(provider, provider) or "unknown"


@lru_cache(maxsize=256)
def server_of(address: str) -> tuple[str, int | None]:
    """Host and port of a server's address; never a user, a password or a path.

    >>> server_of("http://me:secret@127.0.0.1:8080/v1")
    ('127.0.0.1', 8080)
    """
    try:
        parts = urlsplit(address)
        return parts.hostname or "unknown", parts.port
    except ValueError:
        return "unknown", None
