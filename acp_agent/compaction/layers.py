"""The layers of a compacted conversation, which together use up one size.

In this order each takes what it needs: the newest messages, up to `TAIL_SHARE`; pins; the rules of the user, up to
`RULES_SHARE`; the summary; the first request and the newest ones, up to `REQUESTS_SHARE`; the list of files and
commands. The excerpts take exactly what is left. The prompt of a running turn and the steps that the model has not
answered yet stand beside the size, which is smaller where the window has no room for it.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from acp_agent.compaction.excerpts.selection import ExcerptIndex, choose, render
from acp_agent.compaction.facts import passages
from acp_agent.compaction.frame import frame_excerpts, frame_quotes, frame_summary
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.conversation.context import Entry
from acp_agent.conversation.memory import Quote
from acp_agent.conversation.messages import Message, Text, UserPart
from acp_agent.errors import CompactionError, NoRoomError
from acp_agent.frozen import frozen

TAIL_SHARE = 0.4
RULES_SHARE = 1 / 3
REQUESTS_SHARE = 0.15
INVENTORY_SHARE = 0.1
LEAST_QUOTED = 250
"""Tokens for rules, and for requests, that there are however small the size is; up to a quarter of what leaves."""
HEADINGS = 150
"""Tokens of the words around the quotations."""
LEAST_EXCERPTS = 60
"""Tokens below which excerpts are not worth their frame."""
LEAST_SIZE = 250
"""Tokens besides the pins, below which a compaction would keep nothing that is worth reading."""
LEAST_SUMMARY = 20
"""Tokens below which no summary says anything."""
HALF = 0.5
"""Of what a request may fill: as far as masking old results has to come to do without a summary."""


@frozen
class Layers:
    """What stands in the place of the messages that leave.

    :ivar quotes: pins, rules, requests, mode and plan; empty where there is nothing to quote.
    :ivar summary: the summary, framed as history, or a provider's own form of it.
    :ivar excerpts: lines of what leaves, with the list of files and commands.
    """

    quotes: tuple[Text, ...] = ()
    summary: tuple[UserPart, ...] = ()
    excerpts: tuple[Text, ...] = ()

    @property
    def parts(self) -> tuple[UserPart, ...]:
        """All of them, in the order in which the model reads them."""
        return (*self.quotes, *self.summary, *self.excerpts)

    @property
    def tokens(self) -> int:
        """Estimate of the message that holds them."""
        return MESSAGE_TOKENS + sum(map(estimate_part, self.parts))


def replaced_tokens(cut: Cut) -> int:
    """Return the estimated tokens of what leaves."""
    stays = estimate_messages(pin.message for pin in cut.pinned)
    return estimate_messages(entry.message for entry in cut.summarised) - stays


def planned_cut(state: ConversationState, size: int, *, tail: int | None = None, leave_tail: bool = True) -> Cut | None:
    """Return where the history is cut; None where nothing may be taken away.

    :param size: tokens, estimated, of the new context.
    :param tail: of those, the newest messages; `TAIL_SHARE` where not given.
    :param leave_tail: see `plan_cut`.
    """
    beside = {id(entry.message) for entry in unanswered(state)}

    def inside(message: Message) -> int:
        return 0 if id(message) in beside else estimate_message(message)

    room = int(size * TAIL_SHARE) if tail is None else tail
    return plan_cut(state.entries, state.turn_from, room, leave_tail=leave_tail, estimate=inside)


def unanswered(state: ConversationState) -> tuple[Entry, ...]:
    """Return the prompt of the running turn and what the model has not answered yet."""
    rest = state.entries[unanswered_from(state.entries, state.turn_from) :]
    prompt = (entry for entry in state.entries if entry.seq == state.turn_from and not entry.summary)
    return tuple({entry.seq: entry for entry in (*prompt, *rest)}.values())


def fill(
    state: ConversationState,
    cut: Cut,
    size: int,
    *,
    summary: str = "",
    body: tuple[UserPart, ...] = (),
    index: ExcerptIndex | None = None,
) -> Layers:
    """Return the layers with which a conversation that is cut there takes this size.

    :param size: tokens, estimated, of the layers and of what stays behind the cut.
    :param summary: of what leaves; empty where there is none.
    :param body: what the model reads in place of the framed summary.
    :param index: of the state's original entries; made where not given.
    """
    beside = {entry.seq for entry in unanswered(state)}
    pinned = [Entry(pin.seq, pin.message) for pin in cut.pinned]
    stays = [entry for entry in (*pinned, *cut.kept) if entry.seq not in beside]
    beside |= {entry.seq for entry in pinned}
    begins = min((entry.seq for entry in cut.kept if not entry.summary), default=None)
    gone = [entry for entry in state.originals if entry.seq not in beside and (begins is None or entry.seq < begins)]
    said = [entry for entry in gone if not entry.note]
    recall = state.recall
    room = size - estimate_messages(entry.message for entry in stays) - MESSAGE_TOKENS

    pins = state.memory.pins

    def quoted(rules: Sequence[Quote], requests: Sequence[Quote]) -> tuple[Text, ...]:
        quotations = render_quotes(pins, rules, requests, mode=state.mode, grants=state.allowed, plan=state.plan)
        return frame_quotes(quotations)

    told = body or frame_summary(summary, recall=recall)
    least = sum(map(estimate_part, (*quoted((), ()), *told)))
    floor = min(LEAST_QUOTED, replaced_tokens(cut) // 4)
    rules = rules_of(said, state.memory.rules, int(max(min(size * RULES_SHARE, room - least - HEADINGS), floor)))
    least = sum(map(estimate_part, (*quoted(rules, ()), *told)))
    # In a young session what code carries over must not be as large as what leaves.
    room = min(room, max(least, replaced_tokens(cut) * 3 // 4))
    carried = int(max(min(size * REQUESTS_SHARE, room - least - HEADINGS), floor))
    requests = requests_of(said, carried, recall=recall)
    quotes = quoted(rules, requests)
    room -= sum(map(estimate_part, (*quotes, *told, *frame_excerpts("", "-", recall=recall))))
    if room < LEAST_EXCERPTS:
        return Layers(quotes, told)
    found = inventory(state.originals, state.workspace, state.files)
    listed = render_inventory(found, int(min(size * INVENTORY_SHARE, room)), beside=[entry.seq for entry in cut.kept])
    room -= estimate_text(f"{listed}\n\n") if listed else 0
    covered = [text for entry in (*stays, *unanswered(state)) for _, text in passages(entry)]
    covered += [each.text for each in (*pins, *rules, *requests)]
    named = [listed, *(part.text for part in told if isinstance(part, Text))]
    seqs = {entry.seq for entry in gone if not entry.note}
    chosen = choose(index or ExcerptIndex.of(state.originals), max(0, room), seqs=seqs, covered=covered, named=named)
    return Layers(quotes, told, frame_excerpts(listed, render(chosen), recall=recall))


def size_of(state: ConversationState, policy: CompactionPolicy) -> int:
    """Return the tokens, estimated, that the new context takes beside what stands beside every size.

    It is what the policy says, or less where the window has no room for that.

    :raises NoRoomError: nothing would fit; says what takes the room.
    """
    budget = state.budget
    wanted = int(policy.size_tokens(budget) / state.rate)
    free = int((budget.roomy if policy.must_fit else budget.limit) / state.rate) - _fixed(state)
    least = LEAST_SIZE + sum(estimate_text(pin.text) for pin in state.memory.pins)
    if free >= least:
        return min(max(wanted, least), free)
    if policy.must_fit and state.prefix + least <= budget.most / state.rate:
        return least  # the running prompt and its steps are shortened
    bound = budget.most if policy.must_fit else budget.limit
    raise no_room(state, round((_fixed(state) + least) * state.rate), bound)


def check_worth(state: ConversationState, policy: CompactionPolicy, cut: Cut) -> None:
    """Check, before a model is asked, that the shortest summary would be shorter than what it replaces.

    :raises CompactionError: it would not.
    """
    least = fill(state, cut, 0, summary="-", index=ExcerptIndex()).tokens + LEAST_SUMMARY
    if least >= (replaced := replaced_tokens(cut)):
        raise CompactionError(
            f"There is too little to compact: what a summary would replace takes about {replaced:,} tokens, and the "
            f"shortest summary, with what is carried over beside it, about {least:,}.",
            "The history is unchanged; compact when more has been said.",
        )


def masked_target(state: ConversationState) -> int:
    """Return the tokens of all messages below which masking alone is enough, estimated."""
    fixed = _fixed(state)
    usable = int(state.budget.usable / state.rate)
    return fixed + int(max(0, usable - fixed) * HALF) - state.prefix


def no_room(state: ConversationState, least: int, bound: int) -> NoRoomError:
    """Return the error for a conversation of which nothing that could be sent would fit.

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


def _fixed(state: ConversationState) -> int:
    """Return the tokens of what stands beside every size: system prompt, tools, running prompt, unanswered steps."""
    return state.prefix + estimate_messages(entry.message for entry in unanswered(state))


@frozen
class Preview:
    """What would be replaced, and what would stand in its place."""

    cut: Cut
    layers: Layers
    size: int  # tokens, estimated, of the new context beside the system prompt and the tools


def preview(state: ConversationState, policy: CompactionPolicy) -> Preview | None:
    """Look ahead, as if no model were asked; None where there is nothing to compact."""
    size = size_of(state, policy)
    cut = planned_cut(state, size, tail=policy.tail, leave_tail=not policy.by_hand)
    if cut is None:
        return None
    layers = fill(state, cut, size)
    return Preview(cut, layers, layers.tokens + estimate_messages(entry.message for entry in cut.kept))
