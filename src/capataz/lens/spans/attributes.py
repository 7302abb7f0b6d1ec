"""What the spans of a run say: the attributes of the run, of a model call, of its reply and of a tool.

Only values are made here; when a span begins and ends is `capataz.lens.spans.fold`' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capataz.events.facts import Call, ModelCallStarted, ModelReplied, RunStarted, Usage
from capataz.lens.spans import content as said, names as n
from capataz.lens.spans.marks import Attributes, Masking, Value
from capataz.lens.spans.settings import requested
from capataz.memory.message import Message


@dataclass(frozen=True, slots=True)
class Telling:
    """How much is told, in whose names: content becomes an attribute only with `content`, and through the mask."""

    mask: Masking
    content: bool
    semconv: n.Semconv

    def run(self, run: RunStarted, trace: str, common: Mapping[str, Value]) -> Attributes:
        attributes: Attributes = {n.OPERATION: n.INVOKE_AGENT, **common}
        if self.semconv == "1.41":
            attributes[n.PROVIDER] = n.provider_of(run.model)
        if run.model:
            attributes[n.REQUEST_MODEL] = run.model.partition(":")[2] or run.model
        attributes[n.ROLE], attributes[n.ROOT_ID] = run.role, trace
        versions = ((n.PROMPT_VERSION, run.versions.prompt), (n.TOOLS_VERSION, run.versions.tools))
        for name, value in (*versions, (n.POLICY_VERSION, run.versions.policy), (n.TASK_TYPE, run.task_type)):
            if value:
                attributes[name] = value
        if self.content and run.instructions:
            attributes[n.SYSTEM_INSTRUCTIONS] = said.text_of(said.instructions(run.instructions), self.mask)
        return attributes

    def model_call(self, call: ModelCallStarted, provider: str, common: Mapping[str, Value]) -> Attributes:
        """`provider` is that of the call's model, for calls that do not name their endpoint."""
        named, _, address = call.endpoint.partition(" at ")
        attributes: Attributes = {
            n.OPERATION: n.CHAT,
            n.PROVIDER: n.provider_of(named) if named else provider,
            n.REQUEST_MODEL: call.model,
            **common,
        }
        attributes[n.PURPOSE], attributes[n.ATTEMPT] = call.purpose, call.attempt
        attributes.update(requested(call.settings or {}, self.mask))
        if address:
            host, port = n.server_of(address)
            attributes[n.SERVER_ADDRESS] = host
            if port is not None:
                attributes[n.SERVER_PORT] = port
        return attributes

    def reply(self, reply: ModelReplied, instructions: str, history: Sequence[Message]) -> Attributes:
        """What the reply adds to its call's; `instructions` and `history` are what it was an answer to."""
        attributes = self._usage(reply.usage)
        answered = ((n.RESPONSE_MODEL, reply.model), (n.RESPONSE_ID, reply.response))
        attributes.update({name: value for name, value in answered if value})
        attributes[n.FINISH_REASONS] = (said.finish(reply.stop),)
        if reply.first_byte is not None:
            attributes[n.REQUEST_STREAM], attributes[n.FIRST_CHUNK] = True, float(reply.first_byte)
        if not self.content:
            return attributes
        if reply.purpose in ("loop", "closing"):
            if instructions:
                attributes[n.SYSTEM_INSTRUCTIONS] = said.text_of(said.instructions(instructions), self.mask)
            attributes[n.INPUT_MESSAGES] = said.text_of(said.input_messages(history), self.mask)
        attributes[n.OUTPUT_MESSAGES] = said.text_of(said.output_message(reply), self.mask)
        return attributes

    def _usage(self, usage: Usage) -> Attributes:
        attributes: Attributes = {}
        if usage.money is not None:
            attributes[n.COST] = float(usage.money)
        if not usage.reported:
            attributes[n.ESTIMATED] = True  # a guess of ours must never be read as the provider's figure
            return attributes
        attributes[n.INPUT_TOKENS], attributes[n.OUTPUT_TOKENS] = usage.input, usage.output
        written = n.CACHE_CREATION if self.semconv == "1.41" else n.CACHE_WRITE
        for name, value in (
            (n.CACHE_READ, usage.cache_read),
            (written, usage.cache_write),
            (n.REASONING, usage.reasoning),
        ):
            if value:
                attributes[name] = value
        return attributes

    def tool(self, name: str, attempt: int, call: Call | None, common: Mapping[str, Value]) -> Attributes:
        """`call` is None where only the start of it is known."""
        attributes: Attributes = {n.OPERATION: n.EXECUTE_TOOL, n.TOOL_NAME: name, n.TOOL_TYPE: "function", **common}
        attributes[n.ATTEMPT] = attempt
        if call is None:
            return attributes
        attributes[n.TOOL_KIND] = call.kind
        if call.id:
            attributes[n.TOOL_CALL_ID] = call.id
        if self.content:
            attributes[n.TOOL_ARGUMENTS] = said.text_of(dict(call.arguments), self.mask)
            if call.target is not None:
                attributes[n.TOOL_TARGET] = str(self.mask(call.target))
        return attributes
