"""Old tool results give way to one line each: what was called, how much it said, and where to read it again.

Costs no model call, and the log keeps everything. Every change breaks the provider's cache from its place on, so that
results are masked in batches that are worth it; nothing but results changes, and no id, order or error state. The
figures of "The Complexity Trap" (arXiv:2508.21433) are why this comes before any summary.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from acp_agent.compaction.estimate import estimate_message
from acp_agent.compaction.invariants import unanswered_from
from acp_agent.compaction.left_out import LeftOut
from acp_agent.compaction.shortening import Rewrite
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    Resource,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
)
from acp_agent.llm.attached import is_picture

MASKED = "[masked result]"
"""How the line in place of a result begins."""
MAX_PLACEHOLDER = 320
MAX_NAMED = 100
"""Characters of an argument in that line."""

_TELLING = ("command", "pattern", "query", "url", "path", "file_path", "filename")
_READS = frozenset({"read", "read_file", "view"})
_CHANGES = frozenset({"write", "edit", "write_file", "edit_file", "multiedit", "delete"})


def plan_mask(
    entries: tuple[Entry, ...],
    *,
    turn_from: int | None,
    keep_tail_tokens: int,
    recall_hint: bool,
    clear_at_least: int,
    min_result_tokens: int = 200,
    target_tokens: int | None = None,
) -> tuple[Rewrite, ...]:
    """The results to mask; none where that would gain too little.

    What something later has overtaken goes first (a file that was read again or changed, a call that was repeated),
    and then the oldest. The newest messages are left alone, and so is what the model has not answered yet.

    :param turn_from: seq of the prompt of the running turn; None where none runs.
    :param keep_tail_tokens: estimate of the newest messages in which nothing is masked.
    :param clear_at_least: tokens that have to be gained together.
    :param min_result_tokens: results below this stay.
    :param target_tokens: what all entries together should take afterwards. Masking then stops `clear_at_least` below
        it, so that the next steps do not need another batch, and does not begin where they are not above it. None masks
        all that may be.
    :param recall_hint: whether the model is told that the `recall` tool reads the whole.
    """
    sizes = [estimate_message(entry.message) for entry in entries]
    total = sum(sizes)
    if target_tokens is not None and total <= target_tokens:
        return ()
    history = _History.of(entries)
    end = min(_tail_from(sizes, keep_tail_tokens), unanswered_from(entries, turn_from))
    candidates = [
        index
        for index in range(end)
        if sizes[index] >= min_result_tokens
        and isinstance(message := entries[index].message, ToolResult)
        and not is_masked(message)
    ]
    masked: dict[int, ToolResult] = {}
    gained = 0
    for index in sorted(candidates, key=lambda index: (not history.is_overtaken(index), index)):
        if target_tokens is not None and total - gained <= target_tokens - clear_at_least:
            break
        message = entries[index].message
        assert isinstance(message, ToolResult)
        line = _placeholder(message, history.calls.get(message.call_id), sizes[index], entries[index].seq, recall_hint)
        shorter = replace(message, parts=(Text(line),))
        gain = sizes[index] - estimate_message(shorter)
        if gain > 0:
            masked[index] = shorter
            gained += gain
    if gained < clear_at_least:
        return ()
    return tuple(Rewrite(entries[index].seq, masked[index]) for index in sorted(masked))


def mask_images(entries: Sequence[Entry], max_images: int, *, recall_hint: bool) -> tuple[Rewrite, ...]:
    """Replace the oldest images, in users' messages and in results, until at most so many are left.

    :param max_images: images that a request may hold.
    """
    counts = [
        0
        if isinstance(entry.message, AssistantMessage) or entry.summary
        else sum(is_picture(part) for part in entry.message.parts)
        for entry in entries
    ]
    surplus = sum(counts) - max_images
    rewrites: list[Rewrite] = []
    for entry, count in zip(entries, counts, strict=True):
        if surplus <= 0:
            break
        if count and not isinstance(entry.message, AssistantMessage):
            gone = min(count, surplus)
            surplus -= gone
            rewrites.append(Rewrite(entry.seq, _without_images(entry.message, gone, LeftOut(entry.seq, recall_hint))))
    return tuple(rewrites)


def is_masked(result: ToolResult) -> bool:
    """Whether this result is such a line already."""
    return (
        len(result.parts) == 1
        and isinstance(part := result.parts[0], Text)
        and part.text.startswith(MASKED)
        and len(part.text) <= MAX_PLACEHOLDER
        and "\n" not in part.text
    )


@dataclass(slots=True)
class _History:
    """Who called what, and where the same was asked or a file touched for the last time.

    :ivar calls: by id.
    :ivar asked: of each result, what its call asked for, by index.
    :ivar last: index of the last result for the same question.
    :ivar read: index of the last result that holds a whole file, by path.
    :ivar changed: index of the last result of a change, by path.
    :ivar reads: of each result of a read, which file it was.
    """

    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    asked: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    last: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    read: dict[str, int] = field(default_factory=dict[str, int])
    changed: dict[str, int] = field(default_factory=dict[str, int])
    reads: dict[int, str] = field(default_factory=dict[int, str])

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> _History:
        history = cls()
        for index, entry in enumerate(entries):
            message = entry.message
            if isinstance(message, AssistantMessage):
                history.calls |= {call.id: call for call in message.tool_calls}
            elif isinstance(message, ToolResult) and (call := history.calls.get(message.call_id)) is not None:
                history._add(index, call, is_error=message.is_error)
        return history

    def is_overtaken(self, index: int) -> bool:
        """Whether something later says what this result says, or makes it wrong."""
        question = self.asked.get(index)
        path = self.reads.get(index, "")
        return (
            (question is not None and self.last.get(question, 0) > index)
            or self.read.get(path, 0) > index
            or self.changed.get(path, 0) > index
        )

    def _add(self, index: int, call: ToolCall, *, is_error: bool) -> None:
        name = call.name.lower()
        question = (name, json.dumps(call.arguments, sort_keys=True))
        self.asked[index] = question
        path = _path(call)
        if path and name in _READS:
            self.reads[index] = path
        # A command that fails again says what it said before; a file that cannot be read again does not.
        if is_error and name in _READS | _CHANGES:
            return
        self.last[question] = index
        if path and name in _CHANGES:
            self.changed[path] = index
        elif path and name in _READS and not call.arguments.keys() & {"offset", "limit"}:
            self.read[path] = index


def _path(call: ToolCall) -> str:
    for name in ("path", "file_path"):
        if isinstance(path := call.arguments.get(name), str) and path:
            return posixpath.normpath(path)
    return ""


def _tail_from(sizes: Sequence[int], tokens: int) -> int:
    """Index of the first of the newest entries that together take no more than this."""
    for index in range(len(sizes) - 1, -1, -1):
        tokens -= sizes[index]
        if tokens < 0:
            return index + 1
    return 0


def _placeholder(result: ToolResult, call: ToolCall | None, tokens: int, seq: int, recall: bool) -> str:
    text = result.text
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    images = sum(isinstance(part, Image) for part in result.parts)
    counted = [f"{tokens:,} tokens", _counted(lines, "line"), _counted(images, "image")]
    failed = " (failed)" if result.is_error else ""
    size = ", ".join(count for count in counted if count)
    return f"{MASKED} {_named(call)}{failed}: {size} left out{LeftOut(seq, recall).where}"


def _named(call: ToolCall | None) -> str:
    """A call in a few words: its tool, and what says most about what it was for."""
    if call is None:
        return "a tool"
    named = (call.arguments.get(name) for name in (*_TELLING, *call.arguments))
    telling = next((value for value in named if isinstance(value, str) and value.strip()), "")
    line = " ".join(telling[: MAX_NAMED * 4].split())
    shown = line if len(line) <= MAX_NAMED else f"{line[:MAX_NAMED]}..."
    return " ".join(f"{call.name[:64]} {shown}".split()) or "a tool"


def _counted(number: int, noun: str) -> str:
    if not number:
        return ""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _without_images(message: UserMessage | ToolResult, gone: int, left_out: LeftOut) -> UserMessage | ToolResult:
    """The message with a line in place of its first so many images."""

    def line(part: UserPart) -> Text | None:
        nonlocal gone
        if not gone or not isinstance(part, Image | Resource) or not is_picture(part):
            return None
        gone -= 1
        return Text(left_out.image(part))

    if isinstance(message, UserMessage):
        return replace(message, parts=tuple(line(part) or part for part in message.parts))
    return replace(message, parts=tuple(line(part) or part for part in message.parts))
