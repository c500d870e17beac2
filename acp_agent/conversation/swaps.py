"""The events of compactions: a compaction replaced a part of the context, was undone,
failed, or was not used. Also the texts that every compaction keeps word for word.

A swap and its undo contain everything that a fold needs in order to begin there.
`Context._changes` defines their effect, and `events.py` re-exports them.
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
    "manual",
    "threshold",
    "idle",
    "overflow",
    "resume",
    "model_switch",
    "request_size",
    "hook",
]
"""Why a compaction began. `threshold`: the context outgrew its share of the window.
`idle`: the user paused, and the provider's prompt cache was about to expire.
`overflow`: a provider refused the request or the context, or ended an answer because
the window was full. `request_size`: too many images or bytes. In logs of earlier
versions, `resume` and `model_switch` mean an overflow.
"""
TitleAuthor: TypeAlias = Literal["words", "model", "user"]
"""The source of a session's title: the first words of a prompt, a model, or the user."""
REPLACE = "replace"
"""Strategy of a swap in which a hook replaced the conversation with its own messages."""


@frozen
class Pin:
    """A text that the user pinned. `number` identifies it in the session and is never
    reused.
    """

    number: int
    text: str


@frozen
class Quote:
    """A verbatim quote of the user, with the seq of its log entry."""

    seq: int
    text: str


@frozen
class Memory:
    """Texts that survive every compaction of a session.

    :ivar next_pin: number of the next pin. Numbers of removed pins are not reused.
    :ivar rules: sentences of the user that version 0.1 kept as rules; newer compactions
        find them in the log.
    """

    pins: tuple[Pin, ...] = ()
    next_pin: int = 1
    rules: tuple[Quote, ...] = ()


@frozen
class Carried:
    """The values that a swap carries over besides messages, so that a context can be
    rebuilt from the swap onwards.
    """

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
    refused_calls: tuple[str, ...] = ()
    root: str = ""


@frozen
class Rewritten:
    """A message that is replaced with a shorter form at its place. The log keeps the
    full message.
    """

    seq: int
    message: Message


@frozen
class Saving:
    """What a compaction saves in the next request if the provider's prompt cache has
    expired, in US dollars.

    :ivar before: price of the request's prompt with the old context.
    :ivar after: price of the request's prompt with the new context.
    """

    before: float
    after: float


@frozen
class Receipt:
    """What a compaction did and cost, for the user to see.

    :ivar summarised: number of messages that the summary replaced.
    :ivar kept: number of messages kept word for word.
    :ivar rewritten: number of messages kept in a shorter form.
    :ivar requests: number of model requests.
    :ivar seconds: duration of the compaction.
    :ivar waited: how many of these seconds the user waited.
    :ivar cached: share of the prompt that the provider read from its cache, from 0 to
        1; None if no model was used.
    :ivar unverified: pieces of the summary that the compacted part does not contain.
    :ivar missing: sections that the recipe requires and the summary lacks.
    :ivar with_reasoning: number of answers kept together with their reasoning.
    :ivar left_reasoning: number of pieces of reasoning that are no longer sent although
        their answers were kept.
    :ivar saving: None unless the provider's prompt cache had expired.
    :ivar notes: other information for the user, such as a step that failed.
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
    """A message from before the tail that is kept unchanged, with its seq in the log.

    :ivar shortened: whether it was rewritten earlier, so that the log contains a longer
        version.
    """

    seq: int
    message: UserMessage | RecipePrompt
    shortened: bool = False


@frozen
class ContextSwapped:
    """A compaction: the messages before `keep_from` leave the context, and `sent`
    replaces them.

    If `sent` is empty, no message leaves: an earlier summary stays, and messages were
    only rewritten.

    :ivar compaction_id: unique, and never reused.
    :ivar summary: the summary as the user reads it.
    :ivar sent: the summary as the model reads it, framed as history.
    :ivar keep_from: seq of the first event whose message is kept word for word; the
        swap's own seq if no message is kept.
    :ivar pinned: earlier messages that are also kept, between the summary and the tail:
        the prompt of a turn that is still running.
    :ivar tokens_before: tokens of the context that was replaced.
    :ivar tokens_after: estimate of the new context's tokens.
    :ivar recipe: name of the recipe that ran. `digest` is the digest of its text.
    :ivar strategy: name of the strategy that was used.
    :ivar rewritten: messages after `keep_from`, or among `pinned`, that are kept in a
        shorter form.
    :ivar files: file versions that the model still sees. All others must be read again.
    :ivar fold_from: seq at which a fold of the log's tail must begin; 0 for the first
        kept message.
    :ivar earlier: seqs of the earlier compactions that are still in effect.
    :ivar behind: an amendment that follows the kept messages, since nothing may come
        between `sent` and these messages.
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
    """A compaction was undone: the context is what it was before, plus the messages
    since then.

    This contains the whole context, so that a fold can begin here.

    :ivar undone: seq of the compaction.
    :ivar tokens: estimate of the context's tokens.
    :ivar earlier: seqs of the compactions that are still in effect.
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
    """A compaction began but failed or was cancelled. The context has not changed."""

    compaction_id: str
    trigger: CompactionTrigger
    status: Literal["failed", "cancelled"]
    error: str | None = None
    usage: Usage | None = None
    kind: Literal["compaction_failed"] = "compaction_failed"


@frozen
class SummaryDropped:
    """A summary that was prepared in the background was not used. It cost `usage`."""

    usage: Usage
    kind: Literal["summary_dropped"] = "summary_dropped"
