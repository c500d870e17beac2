"""`chunked`: the model writes the summary piece by piece, where the conversation no longer fits one request.

Each request holds the summary so far and the next part of the conversation as plain text, and asks for the summary of
both. What a part may hold follows from the window; where that would take too many requests, the longest tool results
are shortened first, since their full text stays in the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN, estimate_text
from acp_agent.compaction.framing import entry_table
from acp_agent.compaction.strategies.summary import whole_text
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.compaction.verifying import verify
from acp_agent.conversation.context import Entry
from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Resource,
    ResourceLink,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    new_id,
)
from acp_agent.errors import CompactionError, SummaryOverflowError
from acp_agent.llm.provider import ModelRequest

MAX_CHUNKS = 6
FILL = 0.7
"""Of the window, at most, for one request: its tokens are estimated, and the summary needs room, too."""
MIN_CHUNK_TOKENS = 500
SHORTEST_SUMMARY = 256
"""Tokens that a summary may have at least."""
SHORTEST_RESULT = 400
"""Characters to which the results of tools are cut at the worst."""
_SYSTEM = "You keep the record of a long working session. You are given it part by part and write its summary."


class ChunkedStrategy:
    """A summary in the model's words, written over several requests."""

    name = "chunked"

    async def draft(self, task: Task) -> Draft | None:
        """Ask the model, part by part; where a part is refused as too large, once more with parts of half the size.

        :raises CompactionError: the window is too small even for that, or a part's summary was not whole.
        :raises ModelError: the model could not be asked.
        """
        cut = task.cut()
        if cut is None:
            return None
        # As large as our own estimate of it: the provider may count more than we do, or have less room than is known.
        window = int(task.window / max(1.0, task.state.calibration))
        try:
            return await _draft(task, cut, window)
        except SummaryOverflowError:
            return await _draft(task, cut, window // 2)


async def _draft(task: Task, cut: Cut, window: int) -> Draft:
    """Write the summary.

    :param window: estimated tokens that a request and its answer may take together.
    """
    limit = min(task.max_output_tokens, max(SHORTEST_SUMMARY, window // 5))
    if task.policy.summary is not None:
        limit = min(limit, task.policy.summary)
    prompt = task.policy.prompt
    table = f"\n\nEntries, by number:\n{entry_table(cut.summarised)}"
    if estimate_text(table) < window // 10:
        prompt += table
    # The summary so far is in each request, too.
    room = int(window * FILL) - estimate_text(prompt) - estimate_text(_SYSTEM) - 2 * limit
    if room < MIN_CHUNK_TOKENS:
        raise CompactionError(
            "The model's window is too small to summarise the conversation even in parts: beside the recipe and the "
            "summary so far there is no room for the conversation.",
            "The history is unchanged; choose a model with a larger window.",
        )
    request = replace(
        task.state.request,
        model=task.writer.model if task.writer else task.state.request.model,
        system=_SYSTEM,
        tools=(),
        max_output_tokens=limit,
        # Nothing of this is in the provider's cache, and thoughts would take the room that the summary needs.
        thought_level="off",
    )
    parts, left_out = _parts(cut.summarised, room, max(1, min(MAX_CHUNKS, task.calls.left)))
    summary = ""

    async def write() -> str:
        nonlocal summary
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            # A model may write more than it was allowed to; the parts before must not be made worthless by that.
            so_far = _middle_out(summary, limit * CHARACTERS_PER_TOKEN)
            summary = await _ask(task, request, _part_prompt(prompt, so_far, part, number, len(parts)), shown=last)
        return summary

    async def mend(correction: str) -> str:
        return await _ask(task, request, f"{prompt}\n\n# The summary\n\n{summary}\n\n{correction}", shown=False)

    verified = await verify(task.state, task.policy, write, mend)
    notes = [f"summarised in {len(parts)} parts"]
    if left_out:
        notes.append("the oldest part was too long for a summary and is in the facts alone")
    return Draft(cut, verified.text, unverified=verified.unverified, missing=verified.missing, notes=tuple(notes))


async def _ask(task: Task, request: ModelRequest, text: str, *, shown: bool) -> str:
    message = UserMessage(new_id("msg"), (Text(text),))
    answer = await task.calls.ask(replace(request, messages=(message,)), shown=shown)
    return whole_text(AssistantMessage("", answer.parts, request.model, answer.stop_reason))


def _part_prompt(prompt: str, summary: str, part: str, number: int, total: int) -> str:
    so_far = f"\n\n# The summary of everything before this part\n\n{summary}" if summary else ""
    return (
        f"{prompt}\n\nThe conversation is too long for one message, so it comes in {total} parts as text; this is part "
        f"{number}. Write the one summary of all parts up to this one, as asked for above.{so_far}\n\n"
        f"# Part {number} of {total}\n\n{part}"
    )


def _parts(entries: Sequence[Entry], room: int, most: int) -> tuple[list[str], bool]:
    """The conversation as text, in as many parts of `room` tokens as are needed.

    :param most: parts that there may be.
    :returns: the parts, and whether the oldest were left out.
    """
    limit = 1 << 40
    while True:
        texts = [rendered(entry, limit) for entry in entries]
        parts = _packed(texts, room)
        if len(parts) <= most:
            return parts, False
        longest = max(map(len, texts))
        if limit <= SHORTEST_RESULT:
            # Thousands of short messages: the oldest give way, and the facts of them are in the ledger.
            return parts[-most:], True
        limit = max(SHORTEST_RESULT, min(limit, longest) // 2)


def _packed(texts: Sequence[str], room: int) -> list[str]:
    """The texts in order, in parts of at most `room` tokens; one that does not fit the rest of a part is split."""
    parts: list[str] = []
    current: list[str] = []
    free = room
    for text in texts:
        rest = text
        while rest:
            fits = max(0, free - 1) * CHARACTERS_PER_TOKEN
            if len(rest) > fits and free < room // 4:
                parts.append("\n\n".join(current))
                current, free = [], room
                continue
            piece, rest = rest[:fits], rest[fits:]
            current.append(piece)
            free -= estimate_text(piece) + 1
    if current:
        parts.append("\n\n".join(current))
    return parts


def rendered(entry: Entry, limit: int) -> str:
    """A message as text.

    :param limit: characters of each of its parts; what is longer is cut in the middle.
    """
    lines: list[str] = []
    for role, parts in _said(entry):
        lines.append(f"[#{entry.seq}] {role}:")
        lines.extend(_middle_out(_part_text(part), limit) for part in parts)
    return "\n".join(line for line in lines if line)


def _said(entry: Entry) -> Iterator[tuple[str, Sequence[object]]]:
    """Who says what in a message: what a recipe has put in the place of what the user typed is not the user's."""
    if isinstance(entry.message, RecipePrompt) and not entry.summary and not entry.note:
        yield "user", entry.typed
        yield "text of a recipe that the user ran so, not the user's words", entry.message.parts
    else:
        yield _role(entry), entry.message.parts


def _role(entry: Entry) -> str:
    message: Message = entry.message
    if entry.summary:
        return "summary of what came before"
    if isinstance(message, ToolResult):
        return "result (failed)" if message.is_error else "result"
    if isinstance(message, AssistantMessage):
        return "assistant"
    return "note of the program" if entry.note else "user"


def _part_text(part: object) -> str:
    match part:
        case Text(text):
            return text
        case ToolCall():
            return f"calls {part.name} {part.invalid or json.dumps(part.arguments, ensure_ascii=False)}"
        case Resource():
            return f"{part.uri}\n{part.text or ''}"
        case ResourceLink():
            return part.uri
        case _:
            return ""


def _middle_out(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters …]\n{text[-tail:]}"
