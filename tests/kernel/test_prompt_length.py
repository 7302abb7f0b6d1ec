"""How long the next prompt is: whatever the model is shown counts, whoever said it."""

from __future__ import annotations

import pytest

from capataz.events.facts import (
    Call,
    ConversationRecalled,
    EscalationAnswered,
    Fact,
    MessageReceived,
    ModelReplied,
    RunStarted,
    Said,
    ToolFinished,
    ToolRefused,
    Usage,
    VerdictGiven,
)
from capataz.kernel.evolve import fold
from capataz.kernel.state import State
from capataz.policy.policy import Policy
from capataz.runtime.guarding import rules_of
from capataz.testing.scripted import given

TEXT = "x" * 400
CALL = Call(1, 0, "c", "look", {}, "read")
COUNTED = (RunStarted("r", "a", "t", root="r"), ModelReplied(1, 0, "", (CALL,), "calls", Usage(900, 100)))


def after(*facts: Fact) -> State:
    return fold(rules_of(Policy()), given(*COUNTED, *facts))


@pytest.mark.parametrize(
    "fact",
    [
        MessageReceived("user", TEXT),
        MessageReceived("runtime", TEXT),
        ToolFinished(CALL, TEXT),
        ToolRefused(CALL, "ledger", TEXT),
        VerdictGiven("nudge", "repeating", "identical", "i", (1,), 1, "words", TEXT),
        EscalationAnswered("answer", "ana", TEXT),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_everything_the_model_is_shown_counts(fact: Fact) -> None:
    before, now = after().prompt, after(fact).prompt
    assert (before.tokens, now.tokens) == (1000, 1100)
    assert now.bound - before.bound >= len(TEXT)


def test_what_was_said_in_the_conversation_counts_from_the_start() -> None:
    began = fold(rules_of(Policy()), given(COUNTED[0])).prompt
    told = fold(rules_of(Policy()), given(COUNTED[0], ConversationRecalled(TEXT, (Said("user", TEXT),)))).prompt
    assert told.tokens - began.tokens == 200


def test_a_reply_that_is_counted_says_how_long_the_history_is() -> None:
    again = after(MessageReceived("user", TEXT), ModelReplied(2, 0, "ok", usage=Usage(1300, 5)))
    assert again.prompt.tokens == 1305


def test_a_summary_or_a_judgement_is_no_part_of_the_history() -> None:
    written = after(ModelReplied(1, 0, TEXT, purpose="compressing", usage=Usage(50, 50)))
    assert written.prompt == after().prompt
