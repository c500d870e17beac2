"""The layers of a compacted conversation, which together use up one size.

In this order each takes what it needs: the newest messages, up to `TAIL_SHARE`; pins; the rules of the user, up to
`RULES_SHARE`; the summary; the first request and the newest ones, up to `REQUESTS_SHARE`; the list of files and
commands. The excerpts take exactly what is left. The prompt of a running turn and the steps that the model has not
answered yet stand beside the size.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.compaction.cuts import Cut, plan_cut
from acp_agent.compaction.estimate import (
    MESSAGE_TOKENS,
    estimate_message,
    estimate_messages,
    estimate_part,
    estimate_text,
)
from acp_agent.compaction.excerpts import ExcerptIndex, choose, render
from acp_agent.compaction.frame import frame_excerpts, frame_quotes, frame_summary
from acp_agent.compaction.invariants import unanswered_from
from acp_agent.compaction.inventory import inventory
from acp_agent.compaction.inventory import render as render_inventory
from acp_agent.compaction.passages import passages
from acp_agent.compaction.quotes import render_quotes, requests_of, rules_of
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.context import Entry
from acp_agent.conversation.memory import Quote
from acp_agent.conversation.messages import Message, Text, UserPart
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
