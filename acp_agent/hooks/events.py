"""The events that hooks are told of, and the actions that they may answer with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

EventName: TypeAlias = Literal["turn_end"]
EVENT_NAMES: tuple[EventName, ...] = ("turn_end",)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The model answered without tool calls, so the turn is about to end. Fires once a turn.

    :ivar turn_number: counts from 1 within one run of a recipe.
    :ivar response: the visible text of that answer.
    """

    session_id: str
    cwd: str
    turn_number: int
    response: str
    name: EventName = "turn_end"


@dataclass(frozen=True, slots=True)
class SwapContext:
    """Let this text take the place of the conversation so far, atomically."""

    summary: str


@dataclass(frozen=True, slots=True)
class RequestCompaction:
    """Compact the conversation now, as `/compact` would."""


Action: TypeAlias = SwapContext | RequestCompaction
HookEvent: TypeAlias = TurnEnd
