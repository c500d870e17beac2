"""`mask`, `ledger` and `truncate`: strategies that ask no model, cost nothing and cannot fail for want of one."""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.compaction.assembling import assembled
from acp_agent.compaction.estimate import count_images, estimate_messages, estimate_prefix, request_bytes
from acp_agent.compaction.fitting import shortened, shorter, tail_room, target_tokens
from acp_agent.compaction.masking import mask_images, plan_mask
from acp_agent.compaction.shortening import Rewrite, apply_rewrites
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.compaction.triggers import LIMIT_SHARE, since_prompt
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import ToolResult

CLEAR_SHARE = 0.1
"""Of the window: masking less is not worth the provider's cache, which it breaks."""
LEDGER_SUMMARY = (
    "No summary was written: this part of the conversation was left out whole. What the user said is quoted, what was "
    "done is recorded as facts, and every entry stays in the record word for word."
)
TRUNCATED_SUMMARY = (
    "The earlier part of the conversation was left out without a summary. Every entry of it stays in the record word "
    "for word."
)

_SHORTENED = "The longest messages were shortened in the middle. The whole of them stays in the record."


class MaskStrategy:
    """Old results of tools give way to one line each; all that was said stays."""

    name = "mask"

    async def draft(self, task: Task) -> Draft | None:
        """Propose; None where too little would be gained."""
        state, policy = task.state, task.policy
        calibration = max(1.0, state.calibration)
        rewrites = plan_mask(
            state.entries,
            turn_from=state.turn_from,
            keep_tail_tokens=int(policy.tail_tokens(state.budget) / calibration),
            clear_at_least=int(state.budget.window * CLEAR_SHARE / calibration),
            # Somebody who asks by hand wants a short context, however full this one is.
            target_tokens=None if policy.by_hand else _free(state, policy),
            recall_hint=state.recall,
        )
        images = fewer_images(apply_rewrites(state.entries, rewrites), policy, recall=state.recall)
        rewrites = (*rewrites, *images)
        if not rewrites:
            return None
        before = estimate_messages(entry.message for entry in state.entries)
        after = estimate_messages(entry.message for entry in apply_rewrites(state.entries, rewrites))
        saved = round((before - after) * state.calibration)
        return Draft(None, _left_out(rewrites, saved), rewritten=rewrites)


def _left_out(rewrites: tuple[Rewrite, ...], saved: int) -> str:
    results = sum(isinstance(rewrite.message, ToolResult) for rewrite in rewrites)
    said = len(rewrites) - results
    what = [f"{results} old results of tools"] if results else []
    if said:
        what.append(f"images in {said} of the messages")
    return (
        f"Left out of the context: {' and '.join(what)} (about {saved:,} tokens). No word that was said was changed; "
        "all of it stays in the session's record."
    )


class LedgerStrategy:
    """Facts, the user's own words and a tail: the step that fits whatever happens."""

    name = "ledger"

    async def draft(self, task: Task) -> Draft | None:
        """Propose, with as much of the tail as has room."""
        return _cut_only(task, LEDGER_SUMMARY, self.name)


class TruncateStrategy:
    """A tail, and what is pinned; for conversations whose past does not matter."""

    name = "truncate"

    async def draft(self, task: Task) -> Draft | None:
        """Propose, with as much of the tail as has room."""
        return _cut_only(task, TRUNCATED_SUMMARY, self.name)


def _cut_only(task: Task, summary: str, name: str) -> Draft | None:
    state = task.state
    policy, cut = task.policy, task.cut()
    if cut is None:
        # Nothing but the running prompt and steps that the model has not answered; one of them may be a giant.
        prefix = estimate_prefix(state.request.system, state.request.tools)
        beside = round(prefix * state.calibration)
        rewritten = shorter(state, policy, state.entries, target_tokens(state, policy, None), beside=beside)
        return Draft(None, _SHORTENED, rewritten=rewritten) if rewritten else None
    result = assembled(state, policy, Draft(cut, summary), name)
    if result.tokens_after > target_tokens(state, policy, cut):
        # A tail with fewer messages, by what the layers really take, is worth more than one with shortened ones.
        cut = task.cut(tail_room(state, policy, cut, result)) or cut
        result = assembled(state, policy, Draft(cut, summary), name)
    target = target_tokens(state, policy, cut)
    return Draft(cut, summary, rewritten=shortened(state, policy, result, target))


def _free(state: ConversationState, policy: CompactionPolicy) -> int:
    """Estimated tokens that all messages may take together; below zero where the system prompt alone takes too much."""
    prefix = estimate_prefix(state.request.system, state.request.tools)
    return int(target_tokens(state, policy, None) / max(1.0, state.calibration)) - prefix


def fewer_images(entries: Sequence[Entry], policy: CompactionPolicy, *, recall: bool) -> tuple[Rewrite, ...]:
    """The oldest images as a line of text each, where a request may hold no more of them; half of the limit is left, so
    that the next ones have room. Those since the newest prompt stay, where a request may hold them all.

    :param recall: whether the model has the `recall` tool.
    """
    messages = [entry.message for entry in entries]
    images = count_images(messages)
    if not images or not policy.limits.exceeded(messages):
        return ()
    most, newest = images, count_images(since_prompt(messages))
    if policy.max_images is not None:
        if newest > policy.max_images:
            newest = 0
        if images > policy.max_images * LIMIT_SHARE:
            most = max(policy.max_images // 2, newest)
    rewrites = mask_images(entries, most, recall_hint=recall)
    if policy.max_bytes is None or request_bytes(messages, policy.sent) <= policy.max_bytes * LIMIT_SHARE:
        return rewrites
    # Images are what makes a request large; the newest are worth most.
    while most and _bytes_after(entries, rewrites, policy) > policy.max_bytes * (0.5 if most > newest else LIMIT_SHARE):
        most = max(most // 2, newest) if most > newest else most // 2
        rewrites = mask_images(entries, most, recall_hint=recall)
    return rewrites


def _bytes_after(entries: Sequence[Entry], rewrites: tuple[Rewrite, ...], policy: CompactionPolicy) -> int:
    return request_bytes((entry.message for entry in apply_rewrites(entries, rewrites)), policy.sent)
