"""ReAct logs in plain text: Thought, Action and Observation lines, numbered, one question after another.

The last action of such a run (`Finish[...]`) is its answer, not a call. What stands behind an action on its own lines
belongs to it until the next marker. Reflexion's logs put runs under headings that say how they went.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from capataz.events.facts import RunEnded
from capataz.ingest.build import Asked, ImportedRun, RunBuilder, finished
from capataz.ingest.formats.base import Context

NAME = "react"
_MARK = re.compile(r"(Question|Thought|Action|Observation|Correct answer)(?: (\d+))?: ?(.*)", re.S)
_ACTION = re.compile(r"\s*([A-Za-z_][\w .-]*?)\s*[\[(](.*)[\])]\s*", re.S)
_TRIAL = re.compile(r"BEGIN TRIAL (\d+)")
_GROUP = re.compile(r"-+ BEGIN (CORRECT|INCORRECT|HALTED) AGENTS")
_EMPTY = ("Could not find", "No Results", "No more results")


def looks(head: str) -> bool:
    """Whether the first lines of a text are such a log."""
    return bool(re.search(r"^Thought(?: \d+)?:", head, re.M) and re.search(r"^Action(?: \d+)?:", head, re.M))


class Log:
    """Fed the lines of a text; gives a run whenever the next one begins."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._builder: RunBuilder | None = None
        self._trial, self._group = "", ""
        self._mark, self._words = "", list[str]()
        self._thought = ""

    def feed(self, line: str, number: int) -> Iterator[ImportedRun]:
        """One line; the run that ended with it, if one did."""
        trial, group = _TRIAL.search(line), _GROUP.search(line)
        found = _MARK.match(line)
        if trial or group or (found and found.group(1) == "Question"):
            yield from self.close()
            if trial:
                self._trial = trial.group(1)
            if group:
                self._group = group.group(1)
        if found is None:
            if self._mark:
                self._words.append(line)
            return
        self._flush()
        if found.group(1) == "Question" or self._builder is None:
            self._builder = self._open(number)
        self._mark, self._words = found.group(1), [found.group(3)]

    def close(self) -> Iterable[ImportedRun]:
        """The run still being told, whole."""
        self._flush()
        self._mark = ""
        builder, self._builder, thought, self._thought = self._builder, None, self._thought, ""
        if builder is None:
            return []
        if thought:
            builder.reply(thought)
        if self._group == "HALTED":
            builder.end(RunEnded("partial", "ceiling", "the log lists it as halted"))
        if self._group:
            builder.label(self._group == "CORRECT", "the log's own heading", self._group.lower())
        return finished(builder)

    def _open(self, number: int) -> RunBuilder:
        builder = self._context.builder("reflexion" if self._group else NAME, number)
        builder.role = "acting"
        return builder

    def _flush(self) -> None:
        builder, said = self._builder, "\n".join(self._words).strip()
        self._words = []
        if builder is None or not self._mark:
            return
        if self._mark == "Question":
            builder.say(said)
            builder.task_key = said
            builder.id = f"trial {self._trial}: {said}" if self._trial else ""
        elif self._mark == "Thought":
            if self._thought:
                builder.reply(self._thought)
            self._thought = said
        elif self._mark == "Action":
            self._act(builder, said)
        elif self._mark == "Observation":
            builder.result(said, error=said.startswith(("Invalid Action", "Error")))

    def _act(self, builder: RunBuilder, said: str) -> None:
        thought, self._thought = self._thought, ""
        found = _ACTION.fullmatch(said)
        tool = found.group(1) if found else said.split("[", 1)[0].split(":", 1)[0].strip() or "action"
        argument = found.group(2) if found else said[len(tool) :].lstrip("[: ")
        if tool.lower() in ("finish", "final answer", "answer"):
            builder.reply(argument, thinking=thought)
            return
        builder.reply(thought, (Asked(tool, {"input": argument}),))
