"""The strategies that do not call a model. `excerpts` keeps the most valuable lines
word for word. `mask` replaces each old tool result with one line that names the call,
the size of its result, and how to read the result again.

`mask` keeps all text of the user and the model. Each change invalidates the provider's
cache after it, so results are masked in batches. Masking is tried before any summary,
since it performs as well at a lower cost ("The Complexity Trap", arXiv:2508.21433).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate

from anyio import to_thread

from acp_agent.compaction.cuts import unanswered_from
from acp_agent.compaction.estimate import estimate_message, estimate_messages
from acp_agent.compaction.layers import TAIL_SHARE, masked_target, no_room
from acp_agent.compaction.shortening import (
    LeftOut,
    Rewrite,
    apply_rewrites,
    fewer_images,
    fit,
)
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Text,
    ToolCall,
    ToolResult,
)

SUMMARY = (
    "No summary was written. Your messages, the newest messages and excerpts from all others are kept word for word. "
    "The session's log keeps everything."
)
SHORTENED = "The longest messages were shortened in the middle. The session's log keeps them in full."

MASKED = "[masked result]"
"""Beginning of the line that replaces a result."""
LEAST_RESULT = 200
"""Minimum size, in tokens, of a result to mask. The line that replaces the result is
much shorter.
"""
MAX_NAMED = 100
"""Maximum length, in characters, of an argument in the line that replaces a result."""

CLEAR_SHARE = 0.1
"""Minimum share of the window that masking must free. A smaller gain is not worth
losing the provider's cache.
"""


class ExcerptsStrategy:
    """Removes messages without writing a summary, so that excerpts fill the size."""

    name = "excerpts"

    async def draft(self, task: Task) -> Draft | None:
        """Return a draft with only a cut. If nothing may be replaced but the request
        must fit, return one that shortens the longest messages instead.
        """
        if (
            cut := await to_thread.run_sync(task.cut, abandon_on_cancel=True)
        ) is not None:
            return Draft(cut, SUMMARY, in_context=False)
        state = task.state
        if not task.policy.must_fit:
            return None
        room = int(state.budget.target / state.rate) - state.prefix
        before = estimate_messages(entry.message for entry in state.entries)
        if before <= room:
            return None
        shorten = partial(
            fit, state.entries, max(0, room), state.turn_from, recall_hint=state.recall
        )
        rewritten = await to_thread.run_sync(shorten, abandon_on_cancel=True)
        if not rewritten:
            raise no_room(state, state.budget.used, state.budget.most)
        return Draft(None, SHORTENED, rewritten=rewritten)


def _plan_mask(
    entries: tuple[Entry, ...],
    *,
    turn_from: int | None,
    keep_tail_tokens: int,
    recall_hint: bool,
    clear_at_least: int,
    target_tokens: int | None = None,
) -> tuple[Rewrite, ...]:
    """Return rewrites that replace tool results with one line each, or nothing if they
    would free too little.

    The oldest results are masked first. The newest messages, and those that the model
    has not answered yet, are kept.

    :param turn_from: seq of the prompt of the running turn; None if no turn is running.
    :param clear_at_least: minimum tokens that all rewrites together must free.
    :param target_tokens: desired tokens of all entries afterwards. Masking stops
        `clear_at_least` below it, so that the next steps do not need another batch.
        None masks all results that may be masked.
    :param recall_hint: whether the line names the `recall` tool, which reads the
        result.
    """
    sizes = [estimate_message(entry.message) for entry in entries]
    total = sum(sizes)
    if target_tokens is not None and total <= target_tokens:
        return ()
    answers = [
        entry.message
        for entry in entries
        if isinstance(entry.message, AssistantMessage)
    ]
    calls = {call.id: call for answer in answers for call in answer.tool_calls}
    tail = sum(taken <= keep_tail_tokens for taken in accumulate(reversed(sizes)))
    end = min(len(entries) - tail, unanswered_from(entries, turn_from))
    rewrites: list[Rewrite] = []
    gained = 0
    for entry, size in zip(entries[:end], sizes, strict=False):
        if (
            target_tokens is not None
            and total - gained <= target_tokens - clear_at_least
        ):
            break
        message = entry.message
        if isinstance(message, ToolResult) and size >= LEAST_RESULT:
            line = _placeholder(
                message,
                calls.get(message.call_id),
                size,
                LeftOut(entry.seq, recall_hint),
            )
            shorter = replace(message, parts=(Text(line),))
            rewrites.append(Rewrite(entry.seq, shorter))
            gained += size - estimate_message(shorter)
    return tuple(rewrites) if gained >= clear_at_least else ()


def _placeholder(
    result: ToolResult, call: ToolCall | None, tokens: int, left_out: LeftOut
) -> str:
    failed = " (failed)" if result.is_error else ""
    return f"{MASKED} {_described(call)}{failed}: {tokens:,} tokens left out{left_out.where}"


def _described(call: ToolCall | None) -> str:
    """Return the name of a call's tool and the first text among its arguments."""
    if call is None:
        return "a tool"
    texts = (
        value
        for value in call.arguments.values()
        if isinstance(value, str) and value.strip()
    )
    line = " ".join(next(texts, "")[: MAX_NAMED * 4].split())
    shown = line if len(line) <= MAX_NAMED else f"{line[:MAX_NAMED]}..."
    return " ".join(f"{call.name[:64]} {shown}".split()) or "a tool"


class MaskStrategy:
    """Masks old tool results, and images that exceed the limit of a request."""

    name = "mask"

    async def draft(self, task: Task) -> Draft | None:
        """Return a draft that masks old results and surplus images, or None if it would
        free too little.
        """
        # In a thread, since it reads the whole conversation: 40 ms for 750,000 tokens.
        return await to_thread.run_sync(_masked, task, abandon_on_cancel=True)


def _masked(task: Task) -> Draft | None:
    state = task.state
    policy = task.policy
    rewrites = _plan_mask(
        state.entries,
        turn_from=state.turn_from,
        keep_tail_tokens=int(task.size * TAIL_SHARE),
        clear_at_least=int(state.budget.window * CLEAR_SHARE / state.rate),
        # `/compact` shortens the context regardless of how full it is.
        target_tokens=None if policy.manual else masked_target(state),
        recall_hint=state.recall,
    )
    images = fewer_images(
        apply_rewrites(state.entries, rewrites), policy, recall=state.recall
    )
    rewrites = (*rewrites, *images)
    if not rewrites:
        return None
    before = estimate_messages(entry.message for entry in state.entries)
    after = estimate_messages(
        entry.message for entry in apply_rewrites(state.entries, rewrites)
    )
    return Draft(
        None,
        _left_out(rewrites, round((before - after) * state.calibration)),
        rewritten=rewrites,
    )


def _left_out(rewrites: tuple[Rewrite, ...], saved: int) -> str:
    results = sum(isinstance(rewrite.message, ToolResult) for rewrite in rewrites)
    others = len(rewrites) - results
    what: list[str] = []
    if results:
        what.append(f"{results} old tool result{'s' * (results > 1)}")
    if others:
        what.append(f"the images in {others} message{'s' * (others > 1)}")
    return (
        f"Removed from the context: {' and '.join(what)} (about {saved:,} tokens). The text of your messages and the "
        "agent's is unchanged, and the session's log keeps everything."
    )
