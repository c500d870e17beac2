"""The events of a compaction: it replaced a part of the context, was undone, failed, or was not used; and what is
remembered word for word through each.

Each holds all that a fold which begins at it needs; `Context.apply` defines its effect. `events.py` re-exports them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import (
    Amendment,
    Entry,
    Message,
    RecipePrompt,
    Usage,
    UserMessage,
    UserPart,
)
from acp_agent.conversation.surroundings import Feature, Surroundings
from acp_agent.conversation.views import FileVersion, PlanEntry
from acp_agent.frozen import frozen

CompactionTrigger: TypeAlias = Literal[
    "manual", "threshold", "idle", "overflow", "resume", "model_switch", "request_size", "hook"
]
"""Why a compaction began. `threshold`: the context outgrew its share of the window. `idle`: the user paused, and the
provider's prompt cache was about to expire. `overflow`: a provider refused the
request, ended an answer for want of room, or would not take the context. `request_size`: too many images or bytes.
`resume` and `model_switch` stand in logs of earlier versions for an overflow."""
TitleAuthor: TypeAlias = Literal["words", "model", "user"]
"""Where a session's title is from: the first words of a prompt, a model that was asked for one, or a person."""
REPLACE = "replace"
"""Strategy of a swap by which a hook put its own messages in the place of the conversation."""


@frozen
class Pin:
    """A text that the user pinned; `number` names it for as long as the session lives and is never given again."""

    number: int
    text: str


@frozen
class Quote:
    """Something that the user said, word for word, with the seq of the log's entry where it stands."""

    seq: int
    text: str


@frozen
class Memory:
    """What outlives every compaction of a session.

    :ivar next_pin: number of the next pin; one that was taken back never gets its number again.
    :ivar rules: sentences of the user that version 0.1 carried as rules; newer compactions find them in the log.
    """

    pins: tuple[Pin, ...] = ()
    next_pin: int = 1
    rules: tuple[Quote, ...] = ()


@frozen
class Carried:
    """What a swap carries over besides messages, so that a context can be rebuilt from the swap's tail alone."""

    cwd: str
    additional_directories: tuple[str, ...]
    mode: str
    model: str
    thought_level: str
    instructions: str
    title: str | None
    plan: tuple[PlanEntry, ...]
    grants: tuple[str, ...]
    cost: float
    turn_from: int | None
    memory: Memory = field(default_factory=Memory)
    auto_compaction: bool | None = None
    title_by: TitleAuthor = "words"
    answers: int = 0
    declared: Surroundings = Surroundings()
    withheld: tuple[str, ...] = ()
    void: tuple[str, ...] = ()
    refused: tuple[tuple[str, Feature], ...] = ()
    takes: tuple[tuple[str, Feature, str], ...] = ()
    refused_images: tuple[tuple[str, str], ...] = ()
    refused_tools: tuple[tuple[str, str], ...] = ()
    root: str = ""


@frozen
class Rewritten:
    """A message that stays in a shorter form, at its place; the log keeps the whole of it."""

    seq: int
    message: Message


@frozen
class Saving:
    """What a compaction saves in the request after it, since the provider's prompt cache has expired. In US dollars.

    :ivar before: price of the request's prompt with the context as it was.
    :ivar after: the same with the new context.
    """

    before: float
    after: float


@frozen
class Receipt:
    """What a compaction did and cost, for the user to see.

    :ivar summarised: messages that the summary took the place of.
    :ivar kept: messages that stayed word for word.
    :ivar rewritten: messages that stayed in a shorter form.
    :ivar requests: model requests that were made for it.
    :ivar seconds: how long it took.
    :ivar waited: how much of that the user waited.
    :ivar cached: share of the prompt that the provider read from its cache, from 0 to 1; None where no model was asked.
    :ivar unverified: pieces of the summary that the compacted part does not contain.
    :ivar missing: sections that the recipe asks for and the summary lacks.
    :ivar with_reasoning: answers that stayed together with their reasoning.
    :ivar left_reasoning: pieces of reasoning of answers that stayed, which are no longer sent.
    :ivar saving: None unless the provider's prompt cache had expired.
    :ivar notes: what else the user should know, such as which step of the ladder failed.
    """

    summarised: int = 0
    kept: int = 0
    rewritten: int = 0
    requests: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    cached: float | None = None
    unverified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    with_reasoning: int = 0
    left_reasoning: int = 0
    saving: Saving | None = None


@frozen
class Pinned:
    """A message from before the tail that stays as it is, with the seq at which it stands in the log.

    :ivar shortened: it was rewritten before; the log holds more of it.
    """

    seq: int
    message: UserMessage | RecipePrompt
    shortened: bool = False


@frozen
class ContextSwapped:
    """A compaction: the messages before `keep_from` leave the context, and `sent` stands in their place.

    Where `sent` is empty, nothing leaves: an earlier summary stays, and messages were only rewritten.

    :ivar compaction_id: unique, and never reused.
    :ivar summary: the summary as the user reads it.
    :ivar sent: the same as the model reads it, framed as history.
    :ivar keep_from: seq of the first event whose message stays, word for word; the swap's own seq where none does.
    :ivar pinned: messages from before that, which stay as well, between the summary and the tail: the prompt of a turn
        that is still running.
    :ivar tokens_before: tokens of the context that was replaced.
    :ivar tokens_after: estimate of the new context's tokens.
    :ivar recipe: name of the recipe that ran, and `digest` of its text.
    :ivar strategy: what made it.
    :ivar rewritten: messages behind `keep_from`, or among `pinned`, that stay in a shorter form.
    :ivar files: file versions that the model still sees; all others have to be read again.
    :ivar fold_from: seq at which a fold of the log's tail has to begin; 0 for the first message that stays.
    :ivar earlier: seqs of the compactions before this one that are still in force.
    :ivar behind: what is told after the messages that stay, since nothing may stand between `sent` and them.
    """

    compaction_id: str
    message_id: str
    trigger: CompactionTrigger
    summary: str
    sent: tuple[UserPart, ...]
    keep_from: int
    carried: Carried
    tokens_before: int
    tokens_after: int
    pinned: tuple[Pinned, ...] = ()
    usage: Usage | None = None
    recipe: str = ""
    digest: str = ""
    strategy: str = "summary"
    rewritten: tuple[Rewritten, ...] = ()
    files: tuple[FileVersion, ...] = ()
    fold_from: int = 0
    earlier: tuple[int, ...] = ()
    receipt: Receipt = Receipt()
    behind: Amendment | None = None
    kind: Literal["context_swapped"] = "context_swapped"


@frozen
class ContextRestored:
    """A compaction was undone: the context is again what it was before it, with what has been said since.

    Holds the whole context, so that a fold can begin here.

    :ivar undone: seq of the compaction.
    :ivar tokens: estimate of the context's tokens.
    :ivar earlier: seqs of the compactions that are still in force.
    """

    compaction_id: str
    undone: int
    entries: tuple[Entry, ...]
    carried: Carried
    tokens: int
    files: tuple[FileVersion, ...] = ()
    earlier: tuple[int, ...] = ()
    kind: Literal["context_restored"] = "context_restored"


@frozen
class CompactionFailed:
    """A compaction began and did not happen; the context is as it was."""

    compaction_id: str
    trigger: CompactionTrigger
    status: Literal["failed", "cancelled"]
    error: str | None = None
    usage: Usage | None = None
    kind: Literal["compaction_failed"] = "compaction_failed"


@frozen
class SummaryDropped:
    """A summary that was prepared in the background was not used; it cost `usage`."""

    usage: Usage
    kind: Literal["summary_dropped"] = "summary_dropped"
