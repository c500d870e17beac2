"""What an editor shows of a session, on a terminal: messages, tool calls, diffs, questions, plan, meter, summaries.

Knows the protocol's updates and a screen. Decides nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from acp_agent.commands.demo.screen import INDENT, Screen
from acp_agent.protocol import JsonValue
from acp_agent.protocol.v1 import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    ContentBlock,
    Diff,
    Notice,
    PermissionOption,
    Plan,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallProgress,
    ToolCallUpdate,
)

METER_CELLS = 40
MAX_DIFF_LINES = 24
MAX_OUTPUT_LINES = 4
_PLAN_MARKS = {"completed": "✓", "in_progress": "▸"}


class _Call:
    """A tool call with everything that was said of it so far."""

    def __init__(self) -> None:
        self.title = ""
        self.kind = "other"
        self.status = "pending"
        self.places: Sequence[str] = ()
        self.diffs: list[Diff] = []
        self.text = ""
        self.raw_output: JsonValue = None
        self.diff_shown = False

    def merge(self, update: ToolCall | ToolCallUpdate, folder: Path) -> None:
        """What an update leaves out stays; a list replaces the whole list."""
        self.title = update.title or self.title
        self.kind = update.kind or self.kind
        self.status = update.status or self.status
        if update.locations:
            self.places = [
                _shown(place.path, folder) + (f":{place.line}" if place.line else "") for place in update.locations
            ]
        if update.content:
            self.diffs = [item for item in update.content if isinstance(item, Diff)]
            self.text = "".join(_text(item.content) for item in update.content if isinstance(item, Content))
        self.raw_output = update.raw_output or self.raw_output


class View:
    """Shows one session.

    :param folder: the session's; paths below it are shown without it.
    """

    def __init__(self, screen: Screen, folder: Path) -> None:
        self._screen = screen
        self._folder = folder
        self._calls: dict[str, _Call] = {}

    # --- what the user does ---

    def prompt(self, text: str) -> None:
        """What the user typed."""
        self._screen.line()
        self._screen.line(f"› {text}", "bold")
        self._screen.line()

    def permission(
        self, tool_call: ToolCallUpdate, options: Sequence[PermissionOption], chosen: PermissionOption
    ) -> None:
        """A question of the agent's, with its answer."""
        call = self._merged(tool_call)
        screen = self._screen
        screen.line()
        screen.sides(f"{INDENT}? Allow this? {call.title}", f"{call.kind} · {call.status}", "yellow")
        self._diffs(call)
        buttons = "  ".join(f"[{option.name}]" for option in options)
        screen.line(f"{INDENT}{INDENT}{buttons}", "dim")
        screen.line(f"{INDENT}{INDENT}→ {chosen.name}", "bold")

    def meter(self, usage: tuple[int, int] | None, label: str = "Context") -> None:
        """How full the window is.

        :param usage: tokens used, and tokens of the window.
        """
        if usage is None:
            return
        used, size = usage
        share = used / size if size else 0.0
        filled = min(METER_CELLS, round(share * METER_CELLS))
        bar = self._screen.styled("█" * filled, "cyan") + self._screen.styled("░" * (METER_CELLS - filled), "dim")
        self._screen.line(f"{INDENT}{label:8} [{bar}] {used:,} / {size:,} tokens ({share:.0%})")

    # --- what the agent says ---

    def update(self, update: SessionUpdate) -> None:
        """Show one update of the session."""
        screen = self._screen
        match update:
            case AgentMessageChunk():
                screen.stream(update.message_id or "message", _text(update.content))
            case AgentThoughtChunk():
                screen.stream(update.message_id or "thought", _text(update.content), "dim")
            case ToolCall() | ToolCallProgress():
                call = self._merged(update)
                if update.status in ("completed", "failed"):
                    self._finished(call)
            case Plan():
                for entry in update.entries:
                    mark = _PLAN_MARKS.get(entry.status, "○")
                    style = {"completed": "green", "in_progress": "bold"}.get(entry.status, "dim")
                    screen.line(f"{INDENT * 3}{mark} {entry.content}", style)
            case CompactionUpdate():
                self._compaction(update)
            case CompactionSummaryChunk():
                screen.stream(update.compaction_id, _text(update.content), margin=f"{INDENT}│ ")
            case Notice():
                screen.line(f"{INDENT}! {update.title}", "yellow")
            case _:
                pass  # commands, modes, options, the title and the usage: an editor shows them in its frame

    def _merged(self, update: ToolCall | ToolCallUpdate) -> _Call:
        call = self._calls.setdefault(update.tool_call_id, _Call())
        call.merge(update, self._folder)
        return call

    def _finished(self, call: _Call) -> None:
        screen = self._screen
        done = call.status == "completed"
        if call.kind == "think":
            screen.line()
        exit_code = call.raw_output.get("exitCode") if isinstance(call.raw_output, dict) else None
        ending = [f"exit {exit_code}"] if exit_code is not None else []
        places = [place for place in call.places if place != "."]
        screen.sides(
            f"{INDENT}{'✓' if done else '✗'} {call.title}",
            " · ".join([*places, call.kind, *ending, call.status]),
            "green" if done else "red",
        )
        self._diffs(call)
        if call.kind in ("execute", "search") or not done:
            for line in _gist(call):
                room = screen.width - 3 * len(INDENT)
                screen.line(f"{INDENT * 3}{line if len(line) <= room else f'{line[: room - 1]}…'}", "dim")

    def _diffs(self, call: _Call) -> None:
        if call.diff_shown:
            return
        for diff in call.diffs:
            call.diff_shown = True
            name = _shown(diff.path, self._folder)
            before, after = (diff.old_text or "").splitlines(), diff.new_text.splitlines()
            lines = list(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=1, lineterm=""))
            for line in lines[:MAX_DIFF_LINES]:
                style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
                self._screen.line(f"{INDENT * 3}{line}".rstrip(), style)
            if len(lines) > MAX_DIFF_LINES:
                self._screen.line(f"{INDENT * 3}… {len(lines) - MAX_DIFF_LINES} more lines", "dim")

    def _compaction(self, update: CompactionUpdate) -> None:
        screen = self._screen
        screen.line()
        match update.status:
            case "in_progress":
                screen.line(f"{INDENT}⟳ Compaction in progress, the summary streams:", "yellow")
            case "completed":
                screen.line(f"{INDENT}✓ Compaction completed", "green")
            case _:
                screen.line(f"{INDENT}✗ Compaction {update.status}: {update.error or 'no reason given'}", "red")


def _text(block: ContentBlock) -> str:
    return block.text if isinstance(block, TextContent) else f"[{block.type}]"


def _shown(path: str, folder: Path) -> str:
    found = Path(path)
    return str(found.relative_to(folder)) if found.is_relative_to(folder) else path


def _gist(call: _Call) -> list[str]:
    """The end of what a command printed; the beginning of anything else's text."""
    output = call.raw_output
    if isinstance(output, dict):
        printed = "\n".join(str(output.get(stream) or "") for stream in ("stdout", "stderr"))
        lines = [line.strip() for line in printed.splitlines() if line.strip(" -=.F")]
        return lines[-MAX_OUTPUT_LINES:]
    lines = [line for line in call.text.splitlines() if line.strip() and not line.startswith("```")]
    more = len(lines) - MAX_OUTPUT_LINES
    return lines if more <= 1 else [*lines[:MAX_OUTPUT_LINES], f"… {more} more lines"]
