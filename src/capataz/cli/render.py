"""How runs look in a terminal. What is shown is put into words by `capataz.lens.words`; here it only gets colour."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
from rich.text import Text
from rich.tree import Tree

from capataz.events.facts import JSON, Event, RunEnded, RunEscalated, VerdictGiven, WaitEnded
from capataz.lens.trace.fold import CallView, Trace, TurnView
from capataz.lens.words import Line, Tone, called, duration, harmless, line, said, short, spent, tone_of

if TYPE_CHECKING:
    from rich.console import Console

STYLES: Mapping[Tone, str] = {"good": "green", "bad": "red", "warn": "yellow", "plain": "default", "quiet": "dim"}
_CALL: Mapping[str, tuple[str, Tone]] = {
    "asked": ("·", "quiet"),
    "running": ("…", "quiet"),
    "done": ("→", "plain"),
    "failed": ("✗", "bad"),
    "refused": ("⊘", "warn"),
    "in-doubt": ("?", "bad"),
}


_UNBOUND = 120
"""Columns where nobody says how wide it is: a file, a pipe."""
_USUAL = 80
"""Columns of a terminal that says it has none."""


def console(*, stderr: bool = False) -> Console:
    """A console on stdout; colours only where a person looks."""
    from rich.console import Console

    class Screen(Console):
        """Lets a reader that went away be seen by whoever prints: it is theirs to say with what status it ends."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    made = Screen(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _UNBOUND
    elif made.width < 1:
        made.width = _USUAL
    return made


def print_json(value: JSON) -> None:
    """One JSON value on stdout. ASCII only, so that no terminal and no odd text can break it."""
    click.echo(json.dumps(value, indent=2))


def styled(text: str, tone: Tone = "plain", *, bold: bool = False) -> Text:
    """Plain text with the colour of a tone. Never markup: what a model wrote cannot colour anything."""
    style = STYLES[tone]
    shown = text.encode("utf-8", "replace").decode()
    return Text(harmless(shown).replace("\r", "�"), style=f"bold {style}" if bold else style)


def fact_text(said_of: Line, *, bold: bool = False) -> Text:
    """A fact in words: what it is in its colour, then the rest."""
    head = styled(said_of.head, said_of.tone, bold=bold)
    return head + styled(f" · {said_of.text}") if said_of.text else head


def join(*parts: Text) -> Text:
    return Text(" ").join(part for part in parts if part.plain)


def run_tree(tree: Trace, width: int) -> Tree:
    """The whole trace, as a tree."""
    run = tree.run
    root = Tree(styled(f"{run.agent}: {short(run.task, 400)}" if run else "a log without its beginning", bold=True))
    if run is not None:
        model = f" · {run.model}" if run.model else ""
        source = f" · recorded by {run.source}" if run.source != "capataz" else ""
        root.add(styled(f"{run.run}{model}{source}", "quiet"))
    for mark in tree.opening:
        root.add(_mark(tree, mark))
    for turn in tree.turns:
        _add_turn(root, tree, turn, width)
    _add_ending(root, tree)
    return root


def _add_turn(root: Tree, tree: Trace, turn: TurnView, width: int) -> None:
    names = {
        "loop": f"turn {turn.number}",
        "closing": "closing call",
        "compressing": "compressing",
        "judging": "judging",
    }
    details: list[str] = [f"+{duration(max(0.0, turn.started_at - tree.started_at))}"]
    if turn.reply is not None:
        details.append(f"{turn.reply.usage.input} → {turn.reply.usage.output} tokens")
        details.append(duration(turn.reply.seconds))
    if turn.tries > 1:
        details.append(f"{turn.tries} tries")
    branch = root.add(join(styled(names[turn.purpose], bold=True), styled(" · ".join(details), "quiet")))
    entries: list[tuple[tuple[int, int], Text]] = [
        ((mark.seq, 0), _mark(tree, mark))
        for mark in turn.marks
        if not isinstance(mark.fact, RunEnded | RunEscalated | WaitEnded)
    ]
    if turn.reply is not None and turn.reply_seq is not None and (turn.reply.text.strip() or not turn.reply.calls):
        words = styled(f"“{short(turn.reply.text, 4 * width)}”" if turn.reply.text.strip() else "(it said nothing)")
        entries.append(((turn.reply_seq, -1), words))
    entries += [((view.seqs[0], view.call.position), call_text(view, width)) for view in turn.calls]
    for _, text in sorted(entries, key=lambda entry: entry[0]):
        branch.add(text)


def call_text(view: CallView, width: int) -> Text:
    """A call on one or two lines: what was asked, its class, what came back, what its read-back said."""
    sign, tone = _CALL[view.state]
    head = join(styled(called(view.call, max(60, width)), bold=True), styled(f"[{view.call.kind}]", "quiet"))
    back = "" if view.result is None else short(said(view.result), 2 * width)
    if view.refusal:
        back = f"refused ({view.refusal}): {back}"
    result = join(styled(sign, tone), styled(back or view.state, tone))
    if view.seconds is not None:
        result = join(result, styled(duration(view.seconds), "quiet"))
    text = Text("\n").join([head, result])
    for effect in view.effects:
        said_of = line(effect)
        text = Text("\n").join([text, fact_text(said_of)])
    if view.child:
        text = Text("\n").join([text, styled(f"run {view.child} {view.child_outcome or ''}".strip(), "quiet")])
    return text


def _mark(tree: Trace, mark: Event) -> Text:
    said_of = line(mark.fact)
    text = fact_text(said_of, bold=isinstance(mark.fact, VerdictGiven))
    if said_of.evidence:
        places = ", ".join(dict.fromkeys(tree.label(seq) for seq in said_of.evidence))
        text = Text("\n").join([text, styled(f"evidence: {places}", "quiet")])
    return text


def _add_ending(root: Tree, tree: Trace) -> None:
    ending = tree.ending
    if ending is None:
        root.add(styled(f"still running · {spent(tree.spend)}", "quiet"))
        return
    branch = root.add(ending_text(tree))
    for proof in ending.evidence:
        branch.add(join(styled("✓", "good"), styled(f"{proof.name}: {proof.detail} ({tree.label(proof.seq)})")))
    for item in ending.missing:
        branch.add(join(styled("✗", "bad"), styled(item)))
    if ending.answer:
        branch.add(styled(f"“{ending.answer}”"))
    for warning in tree.warnings:
        branch.add(styled(warning, "warn"))
    for signal in tree.signals.found.values():
        branch.add(styled(f"{signal.line.head} (first in {tree.label(signal.first)})", "warn"))
    branch.add(styled(spent(tree.spend), "quiet"))


def ending_text(tree: Trace) -> Text:
    """Outcome, reason and one sentence."""
    ending, outcome = tree.ending, tree.outcome
    if ending is None or outcome is None:
        return styled("still running", "quiet")
    head = styled(f"{outcome.upper()} · {ending.reason}", tone_of(outcome, ending.reason), bold=True)
    return join(head, styled(ending.detail))
