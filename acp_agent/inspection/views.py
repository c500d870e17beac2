"""What a session is shown as: turns of items, steps with their tokens, compactions with what the model saw.

Plain values; `story.py` makes them of a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen

ItemKind: TypeAlias = Literal[
    "prompt", "answer", "thought", "call", "note", "hook", "compaction", "undo", "pin", "plan", "setting", "refused"
]
Status: TypeAlias = Literal["", "completed", "failed", "cancelled", "open"]
Layer: TypeAlias = Literal["pinned", "excerpts", "summary", "tail", "replaced"]
"""What a part of a context is to a compaction. `pinned`: carried over word for word. `excerpts`: lines that code chose.
`tail`: messages that stay. `replaced`: messages that leave."""
Role: TypeAlias = Literal["user", "assistant", "tool"]
PointKind: TypeAlias = Literal["counted", "estimated", "compacted", "restored"]


@frozen
class Part:
    """A text with a heading, such as the arguments of a call."""

    label: str
    text: str


@frozen
class Item:
    """One thing that happened.

    :ivar seq: the entry of the log that it began with.
    :ivar at: when, in milliseconds since the epoch.
    :ivar title: one line; may be empty where `parts` say all.
    :ivar milliseconds: how long it took; None where that is not known.
    :ivar cost: US dollars.
    :ivar compaction: index into `Inspection.compactions`; None for anything else.
    :ivar marks: by which it is known elsewhere: ids, and the model that said it.
    """

    seq: int
    at: int
    kind: ItemKind
    title: str
    parts: tuple[Part, ...] = ()
    status: Status = ""
    milliseconds: int | None = None
    cost: float = 0.0
    compaction: int | None = None
    marks: tuple[str, ...] = ()


@frozen
class Turn:
    """From a prompt to the next one; number 0 is what came before the first.

    :ivar ended: milliseconds since the epoch; None for a turn that has not ended.
    :ivar stop_reason: empty for a turn that has not ended, and for number 0.
    :ivar error: the sentence that the user was shown where it failed.
    """

    number: int
    seq: int
    at: int
    title: str
    items: tuple[Item, ...]
    ended: int | None = None
    stop_reason: str = ""
    error: str = ""

    @property
    def cost(self) -> float:
        """US dollars of all that was asked in it."""
        return sum(item.cost for item in self.items)


@frozen
class Step:
    """One model call, as its provider counted it. All in tokens; the three kinds of input do not overlap.

    :ivar turn: the turn's number.
    :ivar cost: US dollars; None where the price is not known.
    :ivar elsewhere: it was made, and paid for, in the session that this one was forked from.
    """

    number: int
    seq: int
    turn: int
    model: str
    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    elsewhere: bool = False


@frozen
class Point:
    """The size of the context at one moment.

    :ivar step: model calls that had been made.
    :ivar compaction: of a drop, index into `Inspection.compactions`.
    """

    seq: int
    step: int
    tokens: int
    kind: PointKind
    model: str
    compaction: int | None = None


@frozen
class Block:
    """A message, or a layer of one, that the model sees.

    :ivar seq: where it stands in the log.
    :ivar tokens: an estimate.
    :ivar shortened: the log holds more of it.
    """

    layer: Layer
    role: Role
    seq: int
    tokens: int
    text: str
    shortened: bool = False


@frozen
class Compaction:
    """A compaction that happened, or did not.

    :ivar tokens_before: of the context that was replaced; 0 for one that did not happen, as `tokens_after`.
    :ivar notes: what the user was told below the summary.
    :ivar undone: seq of the entry that undid it; 0 where none did.
    :ivar before: what the model saw; empty for one that did not happen.
    :ivar after: what it saw from then on.
    """

    number: int
    id: str
    seq: int
    at: int
    trigger: str
    status: Status
    strategy: str = ""
    recipe: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    requests: int = 0
    cached: float | None = None
    cost: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()
    undone: int = 0
    before: tuple[Block, ...] = ()
    after: tuple[Block, ...] = ()


@frozen
class ModelLines:
    """Where a model's window ends and when a compaction is due, in tokens.

    :ivar prepare: from where on a summary is prepared; None where none is.
    :ivar threshold: None where nothing is compacted by itself.
    """

    window: int
    threshold: int | None = None
    prepare: int | None = None


@frozen
class Totals:
    """Sums over the session; of a fork, steps, tokens and costs are those since it was made.

    :ivar cost: US dollars, compactions included.
    :ivar compaction_cost: what of that was spent on them.
    :ivar cache_share: of what was sent with the steps, how much came from a cache, from 0 to 1; None before the first.
    """

    steps: int
    calls: int
    failed_calls: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float
    compaction_cost: float
    cache_share: float | None


@frozen
class Inspection:
    """A session to look at.

    :ivar began: milliseconds since the epoch, as `ended`; both 0 for an empty log.
    :ivar head: seq of the last event.
    """

    cwd: str
    title: str
    model: str
    mode: str
    began: int
    ended: int
    head: int
    turns: tuple[Turn, ...]
    steps: tuple[Step, ...]
    points: tuple[Point, ...]
    compactions: tuple[Compaction, ...]
    totals: Totals

    @property
    def items(self) -> Iterator[Item]:
        """All that happened, in order."""
        for turn in self.turns:
            yield from turn.items
