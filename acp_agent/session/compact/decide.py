"""Decides whether to compact a context now, as a pure function of usage, settings,
refusals and earlier attempts.

| level        | reached at                         | action                                                         |
| ------------ | ---------------------------------- | -------------------------------------------------------------- |
| none         | below 70 % of the usable window    | swap in a ready summary if that saves money                    |
| prepare      | 70 %                               | begin a summary in the background                              |
| threshold    | 80 %                               | swap in the summary as soon as it is written                   |
| urgent       | 95 %                               | swap in excerpts, unless the user prefers to wait              |
| request_size | nine tenths of the images or bytes | swap in excerpts, unless the user prefers to wait              |
| full         | the request does not fit           | swap in excerpts, even if automatic compaction is off          |

If the provider refuses a request as too large, the context is shortened at any level.
If the next request is refused too, the turn ends.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.compaction.budget import NEW_INPUT, Pressure
from acp_agent.frozen import frozen

Background: TypeAlias = Literal["none", "running", "ready", "unavailable"]
Action: TypeAlias = Literal[
    "nothing",
    "begin_summary",
    "use_summary",
    "without_model",
    "wait_for_summary",
    "shorten",
    "give_up",
]
"""`begin_summary`: write a summary in the background, unless masking old results is
enough. `use_summary`: swap in the ready summary. `without_model`: mask old results, or
swap in excerpts. `wait_for_summary`: pause the turn until the summary is written.
`shorten`: ask for a shorter answer. `give_up`: end the turn.
"""

GROWTH = 0.02
"""Share of the usable window by which a context must grow before the next background
summary of it begins.
"""


@frozen
class Situation:
    """The input of the decision.

    :ivar auto: whether the user wants automatic compaction.
    :ivar undone: whether the newest compaction was undone.
    :ivar writes: whether the chosen strategy calls a model.
    :ivar prepares: whether summaries are written in the background.
    :ivar wait: whether the user would rather wait for a summary than have excerpts.
    :ivar background: state of the background summary. `unavailable` means that this
        context gets no summary, because it failed or because masking is enough.
    :ivar opens_turn: whether this is the first request since a prompt.
    :ivar grown: growth since the last compaction, or the last attempt at one, as a
        share of the usable window.
    :ivar vetoed: whether a hook has vetoed a compaction since the newest prompt.
    :ivar saves: whether the prepared summary makes the next request cheaper, since the
        provider's prompt cache has expired.
    :ivar used: whether the prepared summary has just been swapped in, or swapping it in
        has just failed.
    :ivar refused: whether the provider refused the last request as too large, or cut
        off its answer because the window was full.
    :ivar shorter_fits: whether the same request fits with a shorter answer, which has
        not been tried yet.
    :ivar made_room: whether the context was already compacted in this turn after a
        refusal. If the last request was refused, this is True only if the model has not
        answered since that compaction. If the last answer was cut off, an answer since
        then makes no difference.
    """

    level: Pressure
    auto: bool = True
    undone: bool = False
    writes: bool = True
    prepares: bool = True
    wait: bool = False
    background: Background = "none"
    opens_turn: bool = False
    grown: float = 1.0
    vetoed: bool = False
    saves: bool = False
    used: bool = False
    refused: bool = False
    shorter_fits: bool = False
    made_room: bool = False


def decide(situation: Situation) -> Action:
    """Return what to do before a request is sent, or after a request was refused."""
    if situation.refused:
        if situation.shorter_fits:
            return "shorten"
        if situation.made_room:
            return "give_up"
        if situation.background == "ready":
            return "use_summary"
        return "wait_for_summary" if situation.wait else "without_model"
    is_ready = situation.background == "ready"
    if situation.level == "none" and not (
        is_ready and situation.saves and situation.opens_turn
    ):
        return "nothing"
    if not situation.auto and situation.level != "full":
        return "nothing"
    if situation.vetoed and situation.level != "full":
        return "nothing"  # the hook is asked again with the next prompt
    if situation.undone and situation.level not in ("full", "request_size"):
        return "nothing"  # the user chose to keep this context
    if situation.used:
        failed = situation.background == "unavailable" and situation.level not in (
            "none",
            "prepare",
        )
        return "without_model" if situation.level == "full" or failed else "nothing"
    if is_ready and (situation.opens_turn or situation.level != "prepare"):
        return "use_summary"
    if situation.level == "prepare":
        wanted = situation.writes and situation.prepares and situation.grown >= GROWTH
        return (
            "begin_summary" if wanted and situation.background == "none" else "nothing"
        )
    has_grown = situation.opens_turn or situation.grown >= NEW_INPUT
    if situation.level == "full":
        if situation.grown <= 0 and not situation.opens_turn:
            return "nothing"  # the last attempt saw the same context
    elif not has_grown:
        return "nothing"
    urgent = situation.level != "threshold"
    if not situation.writes or situation.background == "unavailable":
        return "without_model"
    if urgent or not situation.prepares:
        return "wait_for_summary" if situation.wait and has_grown else "without_model"
    return "nothing" if situation.background == "running" else "begin_summary"
