"""The layers of a compacted conversation, and how many tokens each may take.

Layers take tokens in this order; each takes what it needs of what the ones before it left:

| layer | takes at most |
| --- | --- |
| newest messages, as they are | `TAIL_SHARE` of the size |
| summary; pins, mode and plan | what it needs |
| rules that the user stated | `RULES_SHARE` |
| first request of the user and the newest ones | `REQUESTS_SHARE` |
| files and commands | `INVENTORY_SHARE` |
| excerpts | all that is left |

The system prompt, the prompt of a running turn and the steps that the model has not answered yet are exempt: they stay
beside the size, which shrinks where the window has no room for both. All tokens are estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acp_agent.compaction.cuts import Cut, plan_cut, unanswered_from
from acp_agent.compaction.estimate import (
    MESSAGE_TOKENS,
    estimate_message,
    estimate_messages,
    estimate_part,
    estimate_text,
)
from acp_agent.compaction.excerpts.inventory import inventory
from acp_agent.compaction.excerpts.inventory import render as render_inventory
from acp_agent.compaction.excerpts.quotes import render_quotes, requests_of, rules_of
from acp_agent.compaction.excerpts.selection import ExcerptIndex, excerpts_of
from acp_agent.compaction.facts import passages
from acp_agent.compaction.frame import frame_excerpts, frame_quotes, frame_summary
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.conversation.messages import Entry, Message, Text, UserPart
from acp_agent.conversation.swaps import Quote
from acp_agent.errors import CompactionError, NoRoomError
from acp_agent.frozen import frozen

TAIL_SHARE = 0.4
RULES_SHARE = 1 / 3
REQUESTS_SHARE = 0.05
INVENTORY_SHARE = 0.1
MOST_REPLACED = 0.75
"""Largest share of the replaced tokens that the layers may take, so that a short conversation is shortened too."""
LEAST_QUOTED = 250
"""Tokens that rules, and requests, may take however small the size is; a quarter of what leaves at most."""
HEADINGS = 150
"""Tokens of the words around the quotations."""
LEAST_SIZE = 250
"""Tokens besides the pins, below which a compaction would keep nothing that is worth reading."""
LEAST_SUMMARY = 20
"""Tokens below which no summary says anything."""
MASKED_SHARE = 0.5
"""Share of the room left by exempt messages; masking alone is enough if it brings the other messages below it."""


@frozen
class Layers:
    """The content that replaces the messages before the cut.

    :ivar parts: quotations, the summary (framed as history, or a provider's own form of it) and excerpts, in the order
        in which the model reads them; without those for which there is nothing to say.
    """

    parts: tuple[UserPart, ...]

    @property
    def tokens(self) -> int:
        """Estimate of the message that holds them."""
        return MESSAGE_TOKENS + _tokens(self.parts)


def size_of(state: ConversationState, policy: CompactionPolicy) -> int:
    """Return the tokens that the new context may take besides exempt messages: the policy's size, or less to fit.

    :raises NoRoomError: nothing would fit; says what takes the room.
    """
    budget, exempt = state.budget, _exempt_tokens(state)
    wanted = int(policy.size_tokens(state) / state.rate)
    free = int((budget.target if policy.must_fit else budget.limit) / state.rate) - exempt
    least = LEAST_SIZE + sum(estimate_text(pin.text) for pin in state.memory.pins)
    if free >= least:
        return min(max(wanted, least), free)
    if policy.must_fit and state.prefix + least <= budget.most / state.rate:
        return least  # the running prompt and its steps are shortened
    raise no_room(state, round((exempt + least) * state.rate), budget.most if policy.must_fit else budget.limit)


def planned_cut(state: ConversationState, size: int, *, tail: int | None = None, leave_tail: bool = True) -> Cut | None:
    """Return the cut for a new context of this size; None if nothing may be replaced.

    :param tail: tokens of the newest messages that stay; `TAIL_SHARE` of the size where not given.
    :param leave_tail: see `plan_cut`.
    """
    exempt = {id(entry.message) for entry in unanswered(state)}

    def counted(message: Message) -> int:
        return 0 if id(message) in exempt else estimate_message(message)

    most = int(size * TAIL_SHARE) if tail is None else min(tail, size)
    return plan_cut(state.entries, state.turn_from, most, leave_tail=leave_tail, estimate=counted)


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

    :param size: tokens of the layers and of what stays behind the cut.
    :param summary: of what leaves; empty where there is none.
    :param body: what the model reads in place of the framed summary.
    :param index: of the state's original entries; made where not given.
    """
    beside, boundary = unanswered(state), cut.summarised[-1].seq
    exempt, stays = {entry.seq for entry in beside}, {pin.seq for pin in cut.pinned}
    tail = [
        entry for entry in (*(Entry(pin.seq, pin.message) for pin in cut.pinned), *cut.kept) if entry.seq not in exempt
    ]
    stays |= exempt
    gone = [entry for entry in state.originals if entry.seq <= boundary and entry.seq not in stays and not entry.note]
    pins, recall, replaced = state.memory.pins, state.recall, replaced_tokens(cut)
    told = body or frame_summary(summary, recall=recall)

    left = min(size - estimate_messages(entry.message for entry in tail), int(replaced * MOST_REPLACED))
    left -= MESSAGE_TOKENS + _tokens(told)

    def quoted(rules: Sequence[Quote], requests: Sequence[Quote]) -> tuple[Text, ...]:
        return frame_quotes(render_quotes(pins, rules, requests, state.plan, state.mode))

    def most(share: float, taken: tuple[Text, ...]) -> int:
        least = min(LEAST_QUOTED, replaced // 4)
        return int(max(min(size * share, left - HEADINGS - _tokens(taken)), least))

    rules = rules_of(gone, state.memory.rules, most(RULES_SHARE, quoted((), ())))
    requests = requests_of(gone, most(REQUESTS_SHARE, quoted(rules, ())), recall=recall)
    quotes = quoted(rules, requests)

    left -= _tokens((*quotes, *frame_excerpts("", "-", recall=recall)))
    if left <= 0:
        return Layers((*quotes, *told))
    found = inventory(state.originals, state.workspace)
    listed = render_inventory(found, int(min(size * INVENTORY_SHARE, left)), kept=[entry.seq for entry in cut.kept])
    left -= estimate_text(f"{listed}\n\n") if listed else 0

    covered = [text for entry in (*tail, *beside) for _, text in passages(entry)]
    covered += [each.text for each in (*pins, *rules, *requests)]
    named = [listed, *(part.text for part in told if isinstance(part, Text))]
    seqs = {entry.seq for entry in gone}
    index = index or ExcerptIndex.of(state.originals)
    lines = {command for command, seq, _ in found.runs if f"[#{seq}] {command}" in listed}
    excerpts = excerpts_of(index, max(0, left), seqs=seqs, covered=covered, named=named, listed=lines)
    return Layers((*quotes, *told, *frame_excerpts(listed, excerpts, recall=recall)))


def replaced_tokens(cut: Cut) -> int:
    """Return the tokens of the messages that are replaced."""
    return estimate_messages(cut.messages) - estimate_messages(pin.message for pin in cut.pinned)


def unanswered(state: ConversationState) -> tuple[Entry, ...]:
    """Return the prompt of the running turn and what the model has not answered yet."""
    rest = state.entries[unanswered_from(state.entries, state.turn_from) :]
    prompt = (entry for entry in state.entries if entry.seq == state.turn_from and not entry.summary)
    return tuple({entry.seq: entry for entry in (*prompt, *rest)}.values())


def check_worth(state: ConversationState, cut: Cut) -> None:
    """Check, before a model is asked, that the shortest summary would be shorter than what it replaces.

    :raises CompactionError: it would not.
    """
    least = fill(state, cut, 0, summary="-").tokens + LEAST_SUMMARY
    if least >= (replaced := replaced_tokens(cut)):
        raise CompactionError(
            f"There is too little to compact: what a summary would replace takes about {replaced:,} tokens, and the "
            f"shortest summary, with what is carried over word for word, about {least:,}.",
            "The history is unchanged; compact when more has been said.",
        )


def masked_target(state: ConversationState) -> int:
    """Return the tokens of all messages below which masking alone is enough."""
    exempt, usable = _exempt_tokens(state), int(state.budget.usable / state.rate)
    return exempt + int(max(0, usable - exempt) * MASKED_SHARE) - state.prefix


def no_room(state: ConversationState, least: int, bound: int) -> NoRoomError:
    """Return the error for a conversation that does not fit in any form.

    :param least: tokens that the shortest context would take.
    :param bound: tokens that a request may take.
    """
    may = f"of the model's context window ({state.budget.window:,}) a request may take {bound:,}"
    if state.guessed:
        may = f"the {state.budget.used:,} or so that it takes now left too little room"
    takes = [f"the system prompt and the tools take about {round(state.prefix * state.rate):,}"]
    sizes = {pin.number: round(estimate_text(pin.text) * state.rate) for pin in state.memory.pins}
    advice = "A model with a larger window has room for it."
    if sizes:
        largest = max(sizes, key=lambda number: sizes[number])
        takes.append(f"what is pinned takes about {sum(sizes.values()):,}")
        advice = (
            f"`/unpin {largest}` takes back the largest pin (about {sizes[largest]:,} tokens); a model with a larger "
            "window has room for all of it."
        )
    return NoRoomError(
        f"What has to stay in the conversation takes about {least:,} tokens at the least, and {may}. "
        f"Of that, {', '.join(takes)}. {advice}",
        "Nothing was changed; choose a model with a larger window, or start a new session.",
        least=least,
    )


def _exempt_tokens(state: ConversationState) -> int:
    """Return the tokens exempt from the size: system prompt, tools, running prompt and unanswered steps."""
    return state.prefix + estimate_messages(entry.message for entry in unanswered(state))


def _tokens(parts: Iterable[UserPart]) -> int:
    return sum(map(estimate_part, parts))
