"""Strict checks of request bodies: what a real provider would refuse, said without asking one.

Mock servers answer 200 to nearly anything. These stand in front of them in the tests: a malformed request fails the
test, not the customer. Each check takes a body as bytes, text or object and gives back sentences; none is good.

    from capataz.testing.wire import check_anthropic
    assert check_anthropic(body) == []
"""

from __future__ import annotations

from capataz.testing.wire.anthropic import check_anthropic
from capataz.testing.wire.bedrock import check_bedrock
from capataz.testing.wire.gemini import check_gemini
from capataz.testing.wire.openai_chat import check_openai_chat
from capataz.testing.wire.responses import check_responses

__all__ = ["check_anthropic", "check_bedrock", "check_gemini", "check_openai_chat", "check_responses"]
