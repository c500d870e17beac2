"""The layers of a compacted conversation, and how many tokens each may take.

Tokens are allotted in this order. Each layer takes what it needs from the tokens that
the earlier layers left:

| layer | takes at most |
| --- | --- |
| newest messages, unchanged | `TAIL_SHARE` of the size |
| summary; pins, mode and plan | what it needs |
| text typed by the user | `WORDS_SHARE` |
| files and commands | `INVENTORY_SHARE` |
| excerpts | everything that is left |

The system prompt, the prompt of a running turn and the steps that the model has not
answered yet are exempt: the size does not include them. If the window is too small for
the size and the exempt messages, the size is reduced. All token counts are estimates.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from acp_agent.compaction.cuts import Cut, plan_cut, unanswered_from
from acp_agent.compaction.estimate import (
    MESSAGE_TOKENS,
    estimate_kept,
    estimate_message,
    estimate_messages,
    estimate_part,
    estimate_text,
)
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.excerpts.inventory import read_inventory, render_inventory
from acp_agent.compaction.excerpts.quotes import render_quotes, typed_messages
from acp_agent.compaction.excerpts.selection import excerpts_of
from acp_agent.compaction.excerpts.words import quotes_within
from acp_agent.compaction.facts import names_little, passages
from acp_agent.compaction.frame import frame_excerpts, frame_quotes, frame_summary
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Entry,
    Message,
    Text,
    Thinking,
    UserPart,
)
from acp_agent.conversation.swaps import Quote
from acp_agent.errors import CompactionError, NoRoomError
from acp_agent.frozen import frozen

TAIL_SHARE = 0.2
PROSE_TAIL_SHARE = 0.05
WORDS_SHARE = 0.2
PROSE_WORDS_SHARE = 0.05
"""Shares of the size for the newest messages and for the user's text. The smaller
shares are for conversations without code, in which the user writes half of the text and
the newest text is no more valuable than the rest.
"""
INVENTORY_SHARE = 0.1
REPLACED_SHARE = 0.75
"""Maximum size of the layers, as a share of the messages that they replace. This limit
makes sure that even a short conversation gets shorter.
"""
LEAST_QUOTED = 250
"""Tokens that the user's text may take even if the size is small, up to a quarter of
the replaced tokens.
"""
HEADINGS = 90
"""Tokens of the headings and introductions around the quotations."""
LEAST_SIZE = 250
"""Minimum size of a useful new context in tokens, not counting the pins."""
LEAST_SUMMARY = 20
"""Size of the shortest useful summary in tokens."""
MASKED_SHARE = 0.5
"""Maximum share of the window left for non-exempt messages that these may fill after
masking. If they fill less, masking alone is enough.
"""


@frozen
class Layers:
    """The content that replaces the messages before the cut.

    :ivar parts: quotations, the summary (framed as history, or in a provider's own
        form) and excerpts, in the order in which the model reads them, without empty
        layers.
    """

    parts: tuple[UserPart, ...]

    @property
    def tokens(self) -> int:
        """Return the tokens of a message with these parts."""
        return MESSAGE_TOKENS + _tokens(self.parts)


def size_of(state: ConversationState, policy: CompactionPolicy) -> int:
    """Return the maximum size of the new context in tokens, not counting exempt
    messages: the policy's size, or less if the window is too small.

    :raises NoRoomError: if no new context would fit; the message lists what takes up
        the window.
    """
    budget = state.budget
    exempt = _exempt_tokens(state)
    wanted = int(policy.size_tokens(state) / state.rate)
    free = (
        int((budget.target if policy.must_fit else budget.limit) / state.rate) - exempt
    )
    least = LEAST_SIZE + sum(estimate_text(pin.text) for pin in state.memory.pins)
    if free >= least:
        return min(max(wanted, least), free)
    if policy.must_fit and state.prefix + least <= budget.most / state.rate:
        return least  # the running prompt and its steps are shortened
    raise no_room(
        state,
        round((exempt + least) * state.rate),
        budget.most if policy.must_fit else budget.limit,
    )


def planned_cut(
    state: ConversationState,
    size: int,
    *,
    tail: int | None = None,
    leave_tail: bool = True,
    keep_reasoning: bool = False,
) -> Cut | None:
    """Return the cut for a new context of this size, or None if nothing may be
    replaced.

    :param tail: tokens of the newest messages to keep; None for `TAIL_SHARE` of the
        size.
    :param leave_tail: see `plan_cut`.
    :param keep_reasoning: see `plan_cut`.
    """
    exempt = {id(entry.message) for entry in unanswered(state)}

    def estimate(message: Message) -> int:
        return 0 if id(message) in exempt else estimate_message(message)

    if tail is None:
        # Excerpts can replace messages of a conversation without code, but not the
        # reasoning in them.
        is_short = names_little(state.originals) and not _has_reasoning(state.entries)
        tail = int(size * (PROSE_TAIL_SHARE if is_short else TAIL_SHARE))
    return plan_cut(
        state.entries,
        state.turn_from,
        min(tail, size),
        leave_tail=leave_tail,
        keep_reasoning=keep_reasoning,
        estimate=estimate,
    )


def _has_reasoning(entries: Sequence[Entry]) -> bool:
    answers = (
        entry.message
        for entry in entries
        if isinstance(entry.message, AssistantMessage)
    )
    return any(
        isinstance(part, Thinking) for answer in answers for part in answer.parts
    )


def fill(
    state: ConversationState,
    cut: Cut,
    size: int,
    *,
    summary: str = "",
    body: tuple[UserPart, ...] = (),
    index: ExcerptIndex | None = None,
) -> Layers:
    """Return the layers that bring a conversation with this cut to this size.

    :param size: tokens of the layers and the kept messages together.
    :param summary: the summary of the replaced messages; empty if there is none.
    :param body: parts that the model reads instead of the framed summary.
    :param index: an index of the state's original entries; None to build one.
    """
    recall = state.recall
    replaced = replaced_tokens(cut)
    exempt = unanswered(state)
    exempt_seqs = {entry.seq for entry in exempt}
    boundary = cut.summarised[-1].seq
    kept = [entry for entry in cut.retained if entry.seq not in exempt_seqs]
    kept_seqs = exempt_seqs | {entry.seq for entry in kept}
    before = (entry for entry in state.originals if entry.seq <= boundary)
    removed = [
        entry for entry in before if entry.seq not in kept_seqs and not entry.note
    ]
    summary_parts = body or frame_summary(summary, recall=recall)
    alone = not any(isinstance(part, Text) for part in summary_parts)
    available = min(
        size - _tokens_kept(state, cut, body, exempt_seqs),
        int(replaced * REPLACED_SHARE),
    )
    available -= MESSAGE_TOKENS + _tokens(summary_parts)
    index = index or ExcerptIndex.of(state.originals)
    prose = names_little(state.originals)
    wanted = int(size * (PROSE_WORDS_SHARE if prose else WORDS_SHARE))
    quotations, quoted, outdated = _quote(
        state, removed, wanted, available, min(LEAST_QUOTED, replaced // 4)
    )
    available -= _tokens(
        (*quoted, *frame_excerpts("", "-", recall=recall, alone=alone))
    )
    if available <= 0:
        return Layers((*quoted, *summary_parts))
    inventory = read_inventory(state.originals, state.workspace)
    inventory_text = render_inventory(
        inventory, int(min(size * INVENTORY_SHARE, available)), kept=kept_seqs
    )
    available -= estimate_text(f"{inventory_text}\n\n") if inventory_text else 0
    excerpts = excerpts_of(
        index,
        max(0, available),
        seqs={entry.seq for entry in removed} - outdated,
        verbatim=[
            *quotations,
            *(text for entry in (*kept, *exempt) for _, text in passages(entry)),
        ],
        condensed=[
            inventory_text,
            *(part.text for part in summary_parts if isinstance(part, Text)),
        ],
        excluded={
            command
            for command, seq, _ in inventory.commands
            if f"[#{seq}] {command}" in inventory_text
        },
        prose=prose,
    )
    return Layers(
        (
            *quoted,
            *summary_parts,
            *frame_excerpts(inventory_text, excerpts, recall=recall, alone=alone),
        )
    )


def _tokens_kept(
    state: ConversationState,
    cut: Cut,
    body: tuple[UserPart, ...],
    exempt: Container[int],
) -> int:
    """Return the tokens of the kept messages, not counting exempt messages."""
    if any(isinstance(part, CompactedBlock) and part.at is not None for part in body):
        return estimate_kept(cut.retained, exempt, state.rate)
    return estimate_messages(
        entry.message for entry in cut.retained if entry.seq not in exempt
    )


def _quote(
    state: ConversationState,
    removed: Sequence[Entry],
    wanted: int,
    available: int,
    least: int,
) -> tuple[list[str], tuple[Text, ...], frozenset[int]]:
    """Build the quotations that the new context keeps: the pins, and as much of the
    user's text as fits.

    :param removed: the entries whose user text may be quoted.
    :param wanted: maximum tokens of the user's text.
    :param available: tokens that are left for all quotations. They may reduce `wanted`.
    :param least: tokens that the user's text may take even if fewer are available.
    :returns: the quoted texts, the framed quotations, and the sequence numbers of
        outdated messages, which excerpts must not quote either (see `quotes_within`).
    """
    memory = state.memory

    def framed(said: Sequence[Quote]) -> tuple[Text, ...]:
        return frame_quotes(render_quotes(memory.pins, said, state.plan, state.mode))

    limit = int(max(min(wanted, available - HEADINGS - _tokens(framed(()))), least))
    said, outdated = quotes_within(typed_messages(removed, memory.rules), limit)
    return [quote.text for quote in (*memory.pins, *said)], framed(said), outdated


def replaced_tokens(cut: Cut) -> int:
    """Return the tokens of the messages that are replaced."""
    return estimate_messages(cut.messages) - estimate_messages(
        pin.message for pin in cut.pinned
    )


def unanswered(state: ConversationState) -> tuple[Entry, ...]:
    """Return the prompt of the running turn and the entries that the model has not
    answered yet.
    """
    newest = state.entries[unanswered_from(state.entries, state.turn_from) :]
    prompt = (
        entry
        for entry in state.entries
        if entry.seq == state.turn_from and not entry.summary
    )
    return tuple({entry.seq: entry for entry in (*prompt, *newest)}.values())


def check_worth(state: ConversationState, cut: Cut) -> None:
    """Check that even the shortest summary would save tokens, before asking a model.

    :raises CompactionError: if the summary, with the parts that are kept word for word,
        would not be smaller than the messages that it replaces.
    """
    least = fill(state, cut, 0, summary="-").tokens + LEAST_SUMMARY
    if least >= (replaced := replaced_tokens(cut)):
        raise CompactionError(
            f"There is too little to compact: a summary would replace about {replaced:,} tokens, and the shortest "
            f"summary, with the text that is kept word for word, takes about {least:,}.",
            "The history is unchanged; try again when the conversation is longer.",
        )


def masked_target(state: ConversationState) -> int:
    """Return the total size in tokens to which masking must shorten all messages for
    masking alone to be enough.
    """
    exempt = _exempt_tokens(state)
    usable = int(state.budget.usable / state.rate)
    return exempt + int(max(0, usable - exempt) * MASKED_SHARE) - state.prefix


def no_room(state: ConversationState, least: int, bound: int) -> NoRoomError:
    """Return the error for a conversation that cannot be shortened enough to fit the
    window.

    :param least: tokens of the shortest possible context.
    :param bound: maximum tokens of a request.
    """
    allowed = f"a request may take {bound:,} of the model's context window of {state.budget.window:,} tokens"
    if state.guessed:
        allowed = f"the provider refused a request of about {state.budget.used:,} tokens as too long"
    shares = [
        f"the system prompt and the tools take about {round(state.prefix * state.rate):,}"
    ]
    sizes = {
        pin.number: round(estimate_text(pin.text) * state.rate)
        for pin in state.memory.pins
    }
    advice = "A model with a larger window has room for it."
    if sizes:
        largest = max(sizes, key=sizes.__getitem__)
        shares.append(f"the pins take about {sum(sizes.values()):,}")
        advice = (
            f"`/unpin {largest}` removes the largest pin (about {sizes[largest]:,} tokens); a model with a larger "
            "window has room for all of them."
        )
    return NoRoomError(
        f"What has to stay in the conversation takes at least about {least:,} tokens, and {allowed}. "
        f"Of those, {' and '.join(shares)}. {advice}",
        "Nothing was changed; choose a model with a larger window, or start a new session.",
        least=least,
    )


def _exempt_tokens(state: ConversationState) -> int:
    """Return the tokens that the size does not include: system prompt, tools, running
    prompt and unanswered steps.
    """
    return state.prefix + estimate_messages(
        entry.message for entry in unanswered(state)
    )


def _tokens(parts: Iterable[UserPart]) -> int:
    return sum(map(estimate_part, parts))
