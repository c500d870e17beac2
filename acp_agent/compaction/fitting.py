"""What there is room for in the context after a compaction, as far as that is known before a model is asked; and after
it was asked, how the messages that stay are made shorter so that its summary can be used.

Knows sizes alone: which strategies there are, and what becomes of one whose result does not fit, is the service's
matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from acp_agent.compaction.assembling import LEAST_CARRIED, assembled, replaced_tokens
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import estimate_message, estimate_messages, estimate_prefix, estimate_text
from acp_agent.compaction.invariants import unanswered_from
from acp_agent.compaction.pinned import RULES_SHARE, rules_size
from acp_agent.compaction.shortening import Rewrite, apply_rewrites, fit
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Carried, Draft, planned_cut
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import UserMessage
from acp_agent.errors import CompactionError, NoRoomError

EXPECTED_SUMMARY = 1_500
"""Tokens of a summary, about, where the recipe sets no other bound."""
LEAST_SUMMARY = 20
"""Tokens below which no summary says anything."""
SHORT_SUMMARY = 400
"""Tokens that a summary is given at least, however little room there is."""
WORDS_PER_TOKEN = 0.6
_PLACEHOLDER = "-"


def target_tokens(state: ConversationState, policy: CompactionPolicy, cut: Cut | None) -> int:
    """What the new context may take: the policy's share of the window. Of what no compaction can take away (the system
    prompt, the running prompt and the steps behind the cut that belong to it) all is allowed, and the share of the
    rest; never more than a request can hold."""
    fixed = _prefix(state)
    if cut is not None and state.turn_from is not None:
        running = (entry.message for entry in cut.kept if entry.seq >= state.turn_from)
        fixed += estimate_messages((*(pin.message for pin in cut.pinned), *running))
    return _target(state, policy, round(fixed * state.calibration))


def check_worth(state: ConversationState, policy: CompactionPolicy, strategy: str) -> Carried | None:
    """Whether the shortest summary could be used: it has to be shorter than what it takes the place of, and what is
    carried over and what stays beside it is known before a model is asked.

    :returns: what is carried over; None where nothing is cut.
    :raises CompactionError: it could not.
    """
    cut = planned_cut(state, policy)
    if cut is None:
        return None
    draft = Draft(cut, _PLACEHOLDER)
    replaced = replaced_tokens(draft)
    shortest = assembled(state, policy, draft, strategy)
    least = _layers(shortest) + LEAST_SUMMARY
    if least >= replaced:
        raise CompactionError(
            f"There is too little to compact: what a summary would replace takes about {replaced:,} tokens, and the "
            f"shortest summary, with what is carried over beside it, about {least:,}.",
            "The history is unchanged; compact when more has been said.",
        )
    carried = Carried(cut, shortest.memory)
    if policy.must_fit:  # then even what the model has not answered is made shorter
        return carried
    stays = _prefix(state) + sum(_must_stay(state, cut))
    target = _target(state, policy, round(stays * state.calibration))
    after = round((stays + least) * state.calibration)
    if after > target:
        raise CompactionError(
            f"What has to stay takes so much that the context would still take {after:,} tokens with the shortest "
            f"summary, more than the {target:,} that it may. {what_stays(state)}",
            "The history is unchanged; choose a model with a larger window, or start a new session.",
        )
    return carried


def check_room(state: ConversationState, policy: CompactionPolicy, strategy: str) -> None:
    """Whether there is room at all for what nothing makes smaller: the system prompt and the tools, what is carried
    over, and of what the model has not answered the least.

    :param policy: as `fitted` returns it.
    :raises NoRoomError: there is not; names what takes the room.
    """
    cut = planned_cut(state, policy)
    if cut is None:
        carried = sum(estimate_message(entry.message) for entry in state.entries if entry.summary)
    else:
        carried = _layers(assembled(state, policy, Draft(cut, _PLACEHOLDER), strategy))
    waiting = _waiting(state)
    unanswered = tuple(entry for entry in state.entries if entry.seq in waiting and not entry.summary)
    shortest = apply_rewrites(unanswered, fit(unanswered, 0, state.turn_from, recall_hint=state.recall))
    least = _tokens(state, _prefix(state) + carried + _estimate(shortest))
    if least > state.budget.most:
        raise no_room(state, least)


def no_room(state: ConversationState, least: int) -> NoRoomError:
    """The error where nothing that is sent would fit.

    :param least: tokens that the shortest context would take.
    """
    may = f"of the model's context window ({state.budget.window:,}) a request may take {state.budget.most:,}"
    if state.guessed:
        may = f"the {state.budget.used:,} or so that it takes now left too little room"
    return NoRoomError(
        f"What has to stay in the conversation takes about {least:,} tokens at the least, and {may}. "
        f"{what_stays(state)}",
        "Nothing was changed; choose a model with a larger window, or start a new session.",
        least=least,
    )


def what_stays(state: ConversationState) -> str:
    """A sentence on what takes the room that no compaction frees, and one on how it is freed."""
    takes = [f"the system prompt and the tools take about {_tokens(state, _prefix(state)):,}"]
    sizes = {pin.number: estimate_text(pin.text) for pin in state.memory.pins}
    if sizes:
        takes.append(f"what is pinned takes about {_tokens(state, sum(sizes.values())):,}")
    if rules := rules_size(state.memory):
        takes.append(f"the rules that the user stated take about {_tokens(state, rules):,}")
    said = f"Of that, {', '.join(takes)}."
    if not sizes:
        return f"{said} A model with a larger window has room for it."
    largest = max(sizes, key=lambda number: sizes[number])
    return (
        f"{said} `/unpin {largest}` takes back the largest pin (about {_tokens(state, sizes[largest]):,} tokens); a "
        "model with a larger window has room for all of it."
    )


def fitted(
    state: ConversationState, policy: CompactionPolicy, strategy: str, *, asks: bool = True
) -> tuple[CompactionPolicy, int]:
    """The policy with which the result comes below the target, as far as that can be known: where there is little room,
    the quotations, the facts and the summary get a part of it each, and the tail what is left.

    :param asks: whether a summary of a length that is not known yet will stand in it.
    :returns: with the tokens, about, that are allowed for the summary.
    """
    cut = planned_cut(state, policy)
    summary = min(policy.summary or EXPECTED_SUMMARY, EXPECTED_SUMMARY) if asks else 0
    if cut is None:
        return policy, summary
    budget, calibration = state.budget, max(1.0, state.calibration)
    requests, ledger = policy.request_tokens(budget), policy.ledger_tokens(budget)
    carried = requests + int(max(requests, budget.tail) * RULES_SHARE) + ledger
    free = target_tokens(state, policy, cut) / calibration - _prefix(state)
    if free >= carried + summary + _size(cut) or free >= _with_layers(state, policy, cut, strategy) + summary:
        return policy, summary
    # From here on a smaller tail has to be allowed for, with fewer steps of the turn that runs.
    prompts, unanswered = _must_stay(state, cut)
    fixed = _prefix(state) + prompts + unanswered
    free = max(0, int(_target(state, policy, round(fixed * calibration)) / calibration) - fixed)
    less = replace(
        policy,
        requests=min(requests, max(LEAST_CARRIED, free // 4)),
        ledger=min(ledger, free // 8),
    )
    if asks and (room := max(SHORT_SUMMARY, free // 3)) < summary:
        summary = room
        words = int(summary * WORDS_PER_TOKEN) // 50 * 50
        less = replace(less, prompt=f"{less.prompt}\n\nThere is little room: the summary has at most {words} words.")
    tail = policy.tail_tokens(budget) / calibration
    for _ in range(2):  # what is not in the tail any more is carried over in part
        layers = _with_layers(state, less, cut, strategy) - _size(cut)
        tail = min(tail, max(0, unanswered + free - summary - layers))
        less = replace(less, tail=int(tail * calibration))
        cut = planned_cut(state, less) or cut
    return less, summary


def tail_room(state: ConversationState, policy: CompactionPolicy, cut: Cut, result: CompactedState) -> int:
    """Tokens of the tail with which a result would come below its target: of what stays, the running prompt and what is
    not answered count as given.

    :param result: with this cut.
    """
    prompts, unanswered = _must_stay(state, cut)
    target = _target(state, policy, _tokens(state, _prefix(state) + prompts + unanswered))
    room = _room(state, target) - _prefix(state) - _layers(result) - prompts
    return int(max(0, room) * max(1.0, state.calibration))


def shortened(
    state: ConversationState, policy: CompactionPolicy, result: CompactedState, target: int
) -> tuple[Rewrite, ...]:
    """The messages that stay, the longest of them shorter, so that a result comes below its target.

    :param result: without them.
    """
    stays = tuple(entry for entry in result.entries if not entry.summary)
    return shorter(state, policy, stays, target, beside=result.tokens_after - _tokens(state, _estimate(stays)))


def shorter(
    state: ConversationState, policy: CompactionPolicy, stays: tuple[Entry, ...], target: int, *, beside: int
) -> tuple[Rewrite, ...]:
    """The least shortening of messages that stay. What the model has answered is made as short as the target wants;
    the running prompt and what is not answered yet only where the request cannot be sent otherwise, and then only as
    far as the window demands, with room for an answer.

    :param target: provider's tokens that the whole context should take.
    :param beside: of those what the context holds beside these messages.
    """
    waiting = _waiting(state)
    answered = tuple(entry for entry in stays if entry.seq not in waiting)
    rest = tuple(entry for entry in stays if entry.seq in waiting)
    room = _room(state, target - beside) - _estimate(rest)
    less = fit(answered, max(0, room), None, recall_hint=state.recall)
    if not policy.must_fit:
        return less
    size = _estimate(apply_rewrites(answered, less))
    if size + _estimate(rest) <= _room(state, state.budget.limit - beside):
        return less
    room = _room(state, state.budget.roomy - beside) - size
    return (*less, *fit(rest, max(0, room), state.turn_from, recall_hint=state.recall))


def _target(state: ConversationState, policy: CompactionPolicy, fixed: int) -> int:
    budget = state.budget
    target = max(int(budget.window * policy.target), fixed + int(max(0, budget.usable - fixed) * policy.target))
    return min(target, budget.limit)


def _room(state: ConversationState, tokens: int) -> int:
    """Estimated tokens in so many of the provider's; one less, since each is rounded."""
    return int(tokens / max(0.01, state.calibration)) - 1


def _tokens(state: ConversationState, estimate: int) -> int:
    return round(estimate * state.calibration)


def _estimate(entries: Iterable[Entry]) -> int:
    return estimate_messages(entry.message for entry in entries)


def _waiting(state: ConversationState) -> set[int]:
    """Numbers of the running prompt and of what the model has not answered yet."""
    waiting = {entry.seq for entry in state.entries[unanswered_from(state.entries, state.turn_from) :]}
    return waiting if state.turn_from is None else waiting | {state.turn_from}


def _prefix(state: ConversationState) -> int:
    return estimate_prefix(state.request.system, state.request.tools)


def _size(cut: Cut) -> int:
    return estimate_messages((*(pin.message for pin in cut.pinned), *(entry.message for entry in cut.kept)))


def _must_stay(state: ConversationState, cut: Cut) -> tuple[int, int]:
    """Sizes of the running prompt before the cut, and of what the model has not answered behind it."""
    first = unanswered_from(state.entries, state.turn_from)
    waiting = {entry.seq for entry in state.entries[first:]}
    prompts = estimate_messages(pin.message for pin in cut.pinned)
    return prompts, estimate_messages(entry.message for entry in cut.kept if entry.seq in waiting)


def _layers(result: CompactedState) -> int:
    return estimate_message(UserMessage("", result.sent))


def _with_layers(state: ConversationState, policy: CompactionPolicy, cut: Cut, strategy: str) -> int:
    """Size of what stays and what stands beside a summary."""
    return _size(cut) + _layers(assembled(state, policy, Draft(cut, _PLACEHOLDER), strategy))
