"""Builds the compacted conversation from a strategy's draft, and checks that it is
worth using.
"""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import estimate_messages, estimate_text
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.frame import frame_since, layer_of
from acp_agent.compaction.layers import (
    Layers,
    fill,
    masked_target,
    no_room,
    replaced_tokens,
    size_of,
    unanswered,
)
from acp_agent.compaction.shortening import Rewrite, apply_rewrites, fewer_images, fit
from acp_agent.compaction.since import since
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.compaction.strategy import Draft
from acp_agent.conversation.messages import (
    Amendment,
    CompactedBlock,
    Entry,
    Text,
    UserMessage,
    UserPart,
    new_id,
)
from acp_agent.conversation.swaps import Receipt, Rewritten
from acp_agent.errors import CompactionError

_RUNNING = "The request that you are working on, word for word:"
LEAST_GAIN = 0.05
"""Share of the window. An automatic compaction that frees less is not worth losing the
provider's cache.
"""


def accepted(
    state: ConversationState,
    policy: CompactionPolicy,
    draft: Draft,
    strategy: str,
    size: int,
    index: ExcerptIndex | None,
) -> CompactedState | None:
    """Return the compacted conversation, or None if it would free too little.

    :param size: see `size_of`.
    :raises CompactionError: if the draft cannot be used, with the reason.
    """
    if draft.cut is None:
        return _rewritten(state, policy, draft, strategy)
    layers = fill(
        state,
        draft.cut,
        size,
        summary=draft.summary if draft.in_context else "",
        body=draft.body,
        index=index,
    )
    result = _swapped(state, policy, draft, strategy, layers, size)
    budget = state.budget
    after = result.tokens_after
    limits_exceeded = policy.limits.exceeded(state.request.messages)
    if not layers.parts:
        raise CompactionError(
            f"Too little to compact: the strategy {strategy!r} removes messages, but puts nothing in their place.",
            "The history is unchanged.",
        )
    replaced = replaced_tokens(draft.cut)
    # If the request must fit, the running prompt may be shortened instead.
    if layers.tokens >= replaced and (draft.in_context or not policy.must_fit):
        what = "summary" if draft.in_context else "new context"
        raise CompactionError(
            f"The {what} (about {layers.tokens:,} tokens with the text that is kept word for word) is not smaller than "
            f"the messages that it would replace (about {replaced:,} tokens), so it was not used.",
            "The history is unchanged; try again when the conversation is longer.",
        )
    if policy.must_fit and after > budget.most:
        raise no_room(state, after, budget.most)
    if not policy.manual and draft.in_context and estimate_text(draft.summary) > size:
        raise CompactionError(
            f"The summary (about {estimate_text(draft.summary):,} tokens) is longer than the maximum size of the new "
            f"context ({size:,} tokens), so it was not used.",
            "The history is unchanged.",
        )
    # If the request could be sent unchanged, the gain must be worth losing the
    # provider's cache, or make room for an answer.
    least = (
        budget.least_answer
        if policy.must_fit
        else budget.window * (0 if policy.idle else LEAST_GAIN)
    )
    is_required = policy.manual or (
        policy.must_fit and (budget.used > budget.limit or limits_exceeded)
    )
    if (
        is_required
        or budget.used - after >= least
        or (limits_exceeded and not policy.limits.exceeded(result.messages))
    ):
        return result
    return None


def refreshed(
    result: CompactedState,
    state: ConversationState,
    policy: CompactionPolicy,
    index: ExcerptIndex | None,
    before: ConversationState | None = None,
) -> CompactedState:
    """Update a prepared result with the messages that have arrived since it was made.

    The newer messages are appended, and excerpts are dropped to make room for them. A
    list of what has happened since is added after the summary.

    :param before: the conversation from which the result was made; None to omit the
        list.
    :raises CompactionError: if the result can no longer be used, with the reason.
    """
    cut: Cut | None = None
    if result.sent:
        removed = tuple(
            entry
            for entry in state.entries
            if entry.summary or entry.seq <= result.boundary
        )
        kept = tuple(
            entry
            for entry in state.entries
            if not entry.summary and entry.seq > result.boundary
        )
        cut = Cut(removed, result.pinned, kept)
    body = tuple(part for part in result.sent if layer_of(part) == "summary")
    if body and before is not None:
        body = (*body, *frame_since(since(before, state, result.summary)))
    receipt = result.receipt
    draft = Draft(
        cut,
        result.summary,
        in_context=bool(body),
        body=body,
        rewritten=result.rewritten,
        unverified=receipt.unverified,
        missing=receipt.missing,
        notes=receipt.notes,
    )
    again = accepted(
        state, policy, draft, result.strategy, size_of(state, policy), index
    )
    if again is None:
        raise CompactionError(
            "The prepared summary was not used: with the newer messages it would save too little.",
            "The history is unchanged.",
        )
    spent = replace(
        again.receipt,
        requests=receipt.requests,
        cached=receipt.cached,
        seconds=receipt.seconds,
    )
    return replace(again, receipt=spent, usage=result.usage)


def _swapped(
    state: ConversationState,
    policy: CompactionPolicy,
    draft: Draft,
    strategy: str,
    layers: Layers,
    size: int,
) -> CompactedState:
    """Return the conversation with the messages before the cut replaced by these
    layers.
    """
    assert draft.cut is not None
    cut = draft.cut
    recall = state.recall
    retained = cut.retained
    rewritten = list(draft.rewritten)
    blocks = [part for part in layers.parts if isinstance(part, CompactedBlock)]
    stays_untouched = any(block.at is not None for block in blocks)

    def shorten(among: set[int], room: int) -> None:
        """Shorten these entries to at most `room` tokens in total."""
        entries = tuple(
            entry for entry in apply_rewrites(retained, rewritten) if entry.seq in among
        )
        rewritten.extend(
            fit(entries, max(0, room), state.turn_from, recall_hint=recall)
        )

    def tokens(among: set[int]) -> int:
        return estimate_messages(
            entry.message
            for entry in apply_rewrites(retained, rewritten)
            if entry.seq in among
        )

    if policy.limits.exceeded([entry.message for entry in retained]):
        rewritten.extend(
            fewer_images(apply_rewrites(retained, rewritten), policy, recall=recall)
        )
    exempt = {entry.seq for entry in unanswered(state)}
    tail = {entry.seq for entry in retained} - exempt
    over = layers.tokens + tokens(tail) - size
    # Shorten the tail rather than the summary, since the log still has the tail.
    if over > 0 and not stays_untouched:
        shorten(tail, tokens(tail) - over)
    others = state.prefix + layers.tokens + tokens(tail)
    if policy.must_fit and (others + tokens(exempt)) * state.rate > state.budget.limit:
        shorten(exempt, int(state.budget.target / state.rate) - others)
    boundary = cut.summarised[-1].seq
    sent = layers.parts
    behind = tuple[UserPart, ...]()
    if blocks:
        # A provider's own compaction has to come first. The provider keeps the
        # reasoning only of messages that follow it directly.
        sent = tuple(blocks)
        running = () if policy.keeps_prompts else _running_request(state, cut)
        behind = (*(part for part in layers.parts if part not in blocks), *running)
    summary = Entry(boundary, UserMessage(new_id("msg"), sent), summary=True)
    entries = (summary, *apply_rewrites(retained, rewritten))
    if behind:
        entries = (
            *entries,
            Entry(boundary, Amendment(new_id("msg"), behind), note=True),
        )
    result = _result(state, draft, strategy, entries, tuple(rewritten))
    return replace(
        result, sent=sent, behind=behind, boundary=boundary, pinned=cut.pinned
    )


def _running_request(state: ConversationState, cut: Cut) -> tuple[UserPart, ...]:
    """Return the prompt of the running turn, if it is among the removed messages."""
    for entry in cut.summarised:
        if entry.seq == state.turn_from and not entry.summary:
            return (
                Text(_RUNNING),
                *(part for part in entry.message.parts if isinstance(part, UserPart)),
            )
    return ()


def _rewritten(
    state: ConversationState, policy: CompactionPolicy, draft: Draft, strategy: str
) -> CompactedState | None:
    """Return the conversation with some messages shortened in place, if that is enough."""
    entries = apply_rewrites(state.entries, draft.rewritten)
    result = _result(state, draft, strategy, entries, draft.rewritten)
    after = result.tokens_after
    if policy.must_fit and strategy != "mask" and after > state.budget.most:
        raise no_room(state, after, state.budget.most)
    meets_limits = policy.limits.exceeded(
        state.request.messages
    ) and not policy.limits.exceeded(result.messages)
    tokens = estimate_messages(entry.message for entry in entries)
    masked_enough = tokens <= masked_target(state)
    budget = state.budget
    if policy.must_fit:
        frees_enough = (
            budget.used > budget.limit or budget.used - after >= budget.least_answer
        )
        is_enough = masked_enough if strategy == "mask" else frees_enough
        return result if is_enough and after <= budget.most else None
    is_worthwhile = (
        policy.manual or masked_enough or (meets_limits and after <= budget.usable)
    )
    is_smaller = after < budget.used or meets_limits
    return result if is_worthwhile and is_smaller else None


def _result(
    state: ConversationState,
    draft: Draft,
    strategy: str,
    entries: tuple[Entry, ...],
    rewrites: tuple[Rewrite, ...],
) -> CompactedState:
    rewritten = tuple(
        {each.seq: Rewritten(each.seq, each.message) for each in rewrites}.values()
    )
    after = state.prefix + estimate_messages(entry.message for entry in entries)
    cut = draft.cut or Cut((), (), state.entries)
    return CompactedState(
        entries=entries,
        strategy=strategy,
        summary=draft.summary,
        rewritten=rewritten,
        memory=state.memory,
        tokens_before=state.budget.used,
        tokens_after=round(after * state.calibration),
        receipt=Receipt(
            summarised=len(cut.summarised) - len(cut.pinned),
            kept=len(cut.kept) + len(cut.pinned) - len(rewritten),
            rewritten=len(rewritten),
            unverified=draft.unverified,
            missing=draft.missing,
            notes=draft.notes,
        ),
        source=state.originals,
    )
