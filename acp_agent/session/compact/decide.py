"""Decide whether a context is compacted now: a pure function of usage, settings, refusals and earlier attempts.

| level        | reached at                                | what happens there                                      |
| ------------ | ----------------------------------------- | ------------------------------------------------------- |
| prepare      | 70 % of the usable window                 | a summary is begun in the background                    |
| threshold    | 80 %                                      | it takes its place when it is written                   |
| urgent       | 95 %                                      | excerpts are swapped in, unless the user wants to wait  |
| request_size | nine tenths of the images or bytes        | the same                                                |
| full         | the request does not fit                  | the same, whatever the settings say                     |
| refused      | the provider has no room for it           | the same, once in a turn                                |
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.compaction.budget import NEW_INPUT, Pressure
from acp_agent.frozen import frozen

Background: TypeAlias = Literal["none", "running", "ready", "failed"]
Action: TypeAlias = Literal["nothing", "prepare", "use", "swap", "wait", "shorten", "give up"]
"""`prepare`: begin a summary in the background, unless masking old results will do. `use`: swap the prepared one in.
`swap`: mask, or swap excerpts in. `wait`: the turn waits for a summary. `shorten`: ask for a shorter answer. `give up`:
end the turn."""

GROWTH = 0.02
"""Share of the usable window by which a context has to grow before another summary of it is begun."""


@frozen
class Situation:
    """The input of the decision.

    :ivar auto: whether the user wants automatic compaction.
    :ivar undone: whether the newest compaction was undone.
    :ivar writes: whether the chosen strategy asks a model.
    :ivar prepares: whether summaries are written in the background.
    :ivar wait: whether the user would rather wait for a summary than use excerpts.
    :ivar background: the summary in the background; `failed` for one of this context that failed, or that
        was not needed since masking would do.
    :ivar opens_turn: whether this is the first request since a prompt.
    :ivar grown: what has come since the last compaction, or the last attempt at one, as a share of the usable window.
    :ivar vetoed: whether a hook has vetoed a compaction since the newest prompt.
    :ivar used: whether the prepared summary has just been swapped in, or could not be.
    :ivar refused: whether the provider refused the last request, or cut its answer off, for want of room.
    :ivar shorter_fits: whether the same request fits with a shorter answer, which was not tried yet.
    :ivar made_room: whether this turn was compacted after a refusal already.
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
    used: bool = False
    refused: bool = False
    shorter_fits: bool = False
    made_room: bool = False


def decide(at: Situation) -> Action:
    """Return what to do before a request is sent, or after it was refused."""
    if at.refused:
        if at.shorter_fits or at.made_room:
            return "shorten" if at.shorter_fits else "give up"
        return "use" if at.background == "ready" else "wait" if at.wait else "swap"
    if at.level == "none" or (not at.auto and at.level != "full"):
        return "nothing"
    if at.vetoed and at.level != "full":
        return "nothing"  # the hook is asked again with the next prompt
    if at.undone and at.level not in ("full", "request_size"):
        return "nothing"  # the user wants this context as it is
    if at.used:
        failed = at.background == "failed" and at.level != "prepare"
        return "swap" if at.level == "full" or failed else "nothing"
    if at.background == "ready" and (at.opens_turn or at.level != "prepare"):
        return "use"
    if at.level == "prepare":
        begins = at.writes and at.prepares and at.background == "none" and at.grown >= GROWTH
        return "prepare" if begins else "nothing"
    has_grown = at.opens_turn or at.grown >= NEW_INPUT
    if at.level == "full":
        if at.grown <= 0 and not at.opens_turn:
            return "nothing"  # the last attempt saw the same context
    elif not has_grown:
        return "nothing"
    urgent = at.level != "threshold"
    if not at.writes or at.background == "failed":
        return "swap"
    if urgent or not at.prepares:
        return "wait" if at.wait and has_grown else "swap"
    return "nothing" if at.background == "running" else "prepare"
