"""How much room a compaction has, and why there is too little where there is."""

from __future__ import annotations

from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import estimate_messages, estimate_prefix, estimate_text
from acp_agent.compaction.excerpts import ExcerptIndex
from acp_agent.compaction.layers import fill, replaced_tokens, unanswered
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.errors import CompactionError, NoRoomError

LEAST_SIZE = 250
"""Tokens besides the pins, below which a compaction would keep nothing that is worth reading."""
LEAST_SUMMARY = 20
"""Tokens below which no summary says anything."""
HALF = 0.5
"""Of what a request may fill: as far as masking old results has to come to do without a summary."""


def size_of(state: ConversationState, policy: CompactionPolicy) -> int:
    """Return the tokens, estimated, that the new context takes beside what stands beside every size.

    It is what the policy says, or less where the window has no room for that.

    :raises NoRoomError: nothing would fit; says what takes the room.
    """
    budget = state.budget
    wanted = int(policy.size_tokens(budget) / _rate(state))
    free = int((budget.roomy if policy.must_fit else budget.limit) / _rate(state)) - _fixed(state)
    least = LEAST_SIZE + sum(estimate_text(pin.text) for pin in state.memory.pins)
    if free >= least:
        return min(max(wanted, least), free)
    if policy.must_fit and _prefix(state) + least <= budget.most / _rate(state):
        return least  # the running prompt and its steps are shortened
    bound = budget.most if policy.must_fit else budget.limit
    raise no_room(state, round((_fixed(state) + least) * _rate(state)), bound)


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
    usable = int(state.budget.usable / _rate(state))
    return fixed + int(max(0, usable - fixed) * HALF) - _prefix(state)


def no_room(state: ConversationState, least: int, bound: int) -> NoRoomError:
    """Return the error for a conversation of which nothing that could be sent would fit.

    :param least: tokens that the shortest context would take.
    :param bound: tokens that a request may take.
    """
    may = f"of the model's context window ({state.budget.window:,}) a request may take {bound:,}"
    if state.guessed:
        may = f"the {state.budget.used:,} or so that it takes now left too little room"
    takes = [f"the system prompt and the tools take about {round(_prefix(state) * _rate(state)):,}"]
    sizes = {pin.number: round(estimate_text(pin.text) * _rate(state)) for pin in state.memory.pins}
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


def _prefix(state: ConversationState) -> int:
    return estimate_prefix(state.request.system, state.request.tools)


def _fixed(state: ConversationState) -> int:
    """Return the tokens of what stands beside every size: system prompt, tools, running prompt, unanswered steps."""
    return _prefix(state) + estimate_messages(entry.message for entry in unanswered(state))


def _rate(state: ConversationState) -> float:
    """Return the provider's tokens for each of our estimate; never less than one, so that nothing is too large."""
    return max(1.0, state.calibration)
