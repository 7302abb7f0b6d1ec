"""Live progress: a line for each thing worth a look, in words, with nothing a model wrote taken for markup."""

import io

from rich.console import Console

from capataz.cli.progress import Progress
from capataz.events.facts import (
    Call,
    EffectChecked,
    Event,
    Fact,
    ModelCallStarted,
    ModelReplied,
    RunEnded,
    RunStarted,
    TickPassed,
    ToolFinished,
    ToolStarted,
    VerdictGiven,
)

PAY = Call(1, 0, "c1", "pay", {"order": "81"}, "write", "81")


def told(*facts: tuple[str, Fact]) -> list[str]:
    out = io.StringIO()
    progress = Progress(Console(file=out, width=100))
    for seq, (run, fact) in enumerate(facts):
        progress.watch(run, Event(seq, 10.0 + seq, fact))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_run_is_told_as_it_happens() -> None:
    lines = told(
        ("r", RunStarted("r", "clerk", "Pay [red]81[/red]")),
        ("r", ModelCallStarted(1, 0, "m")),
        ("r", TickPassed(11.0, "model")),
        ("r", ModelReplied(1, 0, "", (PAY,))),
        ("r", EffectChecked(1, 0, "before", "no")),
        ("r", ToolStarted(1, 0, "pay")),
        ("r", ToolFinished(PAY, "paid")),
        ("r", EffectChecked(1, 0, "after", "yes")),
        ("r", VerdictGiven("stop", "looping", "identical", "x", (5,), 1, "the same again")),
        ("r", RunEnded("partial", "identical")),
    )
    assert lines == [
        "clerk Pay [red]81[/red]",
        "turn 1",
        '  asks for · pay(order="81")',
        '  pay(order="81") · paid',
        "  read-back after the act: yes",
        "  stopped · looping (identical) · the same again",
    ]


def test_the_runs_of_sub_agents_are_set_in() -> None:
    lines = told(
        ("r", RunStarted("r", "boss", "all of it")),
        ("child", RunStarted("child", "clerk", "a part of it")),
        ("child", ModelReplied(1, 0, "")),
        ("r", ModelReplied(1, 0, "done")),
    )
    assert lines == ["boss all of it", "    clerk a part of it", "      (it said nothing)", "  says · done"]


def test_a_model_cannot_steer_the_terminal() -> None:
    (line,) = told(("r", ModelReplied(1, 0, "\x1b[2Jgone\x07")))
    assert "\x1b" not in line
    assert "gone" in line
