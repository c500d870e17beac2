"""The input and output of a compaction, as plain values.

`ConversationState` is the input and `CompactedState` the output. Neither needs a
session, a log or an editor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from acp_agent.compaction.budget import Limits, TokenBudget
from acp_agent.compaction.estimate import (
    estimate_messages,
    estimate_prefix,
    used_tokens,
)
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Message,
    Usage,
    UserMessage,
    UserPart,
)
from acp_agent.conversation.swaps import Memory, Pinned, Receipt, Rewritten
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelRequest, ToolDefinition

Verify: TypeAlias = Literal["off", "mark", "mend", "reject"]

SIZE_SHARE = 0.2
"""Default size of the new context, as a share of the window."""
MOST_TOKENS = 64_000
"""Upper bound of the default size in tokens. A fifth of a window of a million tokens
would make every later request expensive.
"""
MANUAL_SHARE = 1 / 4
"""Maximum size after a manual compaction, as a share of the original conversation, so
that `/compact` also shortens a short conversation.
"""
NO_OUTPUT_LIMIT = 8_192
RECALL = "recall"
"""Name of the tool that reads entries of the log."""


@frozen
class Workspace:
    """Where the conversation takes place: the folder, and the repository's branch and
    commit.
    """

    cwd: str = ""
    branch: str = ""
    head: str = ""


@frozen
class ConversationState:
    """A conversation to compact.

    :ivar entries: its messages, each with its number.
    :ivar request: the complete request that the next step would send.
    :ivar budget: the window of the model that continues the conversation, and how much
        of that window the conversation fills.
    :ivar memory: the pins, and the rules in logs of earlier versions.
    :ivar turn_from: number of the prompt of the running turn; None if no turn is
        running.
    :ivar plan: the model's current plan.
    :ivar mode: name of the session's mode; empty if there is none.
    :ivar guessed: whether the window is a guess, because the model's window is unknown
        and the provider has refused a request as too long.
    :ivar source: the original entries, including those that earlier compactions
        replaced; empty if there were no compactions.
    """

    entries: tuple[Entry, ...]
    request: ModelRequest
    budget: TokenBudget
    memory: Memory = field(default_factory=Memory)
    turn_from: int | None = None
    plan: tuple[PlanEntry, ...] = ()
    mode: str = ""
    workspace: Workspace = Workspace()
    guessed: bool = False
    source: tuple[Entry, ...] = ()

    @property
    def originals(self) -> tuple[Entry, ...]:
        """Return the entries from which excerpts are taken, in order."""
        return self.source or tuple(
            entry for entry in self.entries if not entry.summary
        )

    @property
    def manual_size(self) -> int:
        """Return the maximum size after a manual compaction in tokens, a share of the
        original conversation.
        """
        now = estimate_messages(entry.message for entry in self.entries)
        whole = estimate_messages(entry.message for entry in self.originals)
        return int(self.budget.messages * max(1.0, whole / max(1, now)) * MANUAL_SHARE)

    @classmethod
    def from_context(
        cls,
        context: Context,
        request: ModelRequest,
        budget: TokenBudget,
        workspace: Workspace | None = None,
        *,
        rate: float = 1.0,
        guessed: bool = False,
        source: tuple[Entry, ...] = (),
    ) -> ConversationState:
        """Return the state of a session, with its budget filled.

        :param rate: see `used_tokens`.
        """
        prefix = estimate_prefix(request.system, request.tools)
        return cls(
            entries=context.entries,
            request=request,
            budget=budget.filled(used_tokens(context, prefix, rate), prefix),
            memory=context.memory,
            turn_from=context.turn_from,
            plan=context.plan,
            mode=context.mode,
            workspace=workspace or Workspace(cwd=context.cwd),
            guessed=guessed,
            source=source,
        )

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        *,
        window: int,
        model: str = "",
        system: str = "",
        tools: Sequence[ToolDefinition] = (),
        max_output_tokens: int = NO_OUTPUT_LIMIT,
        used: int | None = None,
        memory: Memory | None = None,
        cwd: str = "",
    ) -> ConversationState:
        """Return the state of a conversation that does not belong to a session.

        If the conversation ends with an unanswered prompt, the prompt is kept, like the
        prompt of a running turn.

        :param messages: a valid history. The messages are numbered from 1.
        :param window: size of the model's window in tokens.
        :param model: the provider's ID of the model.
        :param used: tokens of the whole request, as counted by a provider; None to
            estimate them.
        """
        entries = tuple(
            Entry(number, message) for number, message in enumerate(messages, 1)
        )
        request = ModelRequest(
            model,
            system,
            tuple(entry.message for entry in entries),
            tuple(tools),
            max_output_tokens,
        )
        prefix = estimate_prefix(system, request.tools)
        counted = (
            used if used is not None else prefix + estimate_messages(request.messages)
        )
        return cls(
            entries=entries,
            request=request,
            budget=TokenBudget(window, max_output_tokens).filled(counted, prefix),
            memory=memory or Memory(),
            turn_from=unanswered_prompt(entries),
            workspace=Workspace(cwd=cwd),
        )

    @property
    def recall(self) -> bool:
        """Return whether the model has the `recall` tool, so that texts may mention it."""
        return any(tool.name == RECALL for tool in self.request.tools)

    @property
    def prefix(self) -> int:
        """Return the estimated tokens of the system prompt and the tools."""
        return estimate_prefix(self.request.system, self.request.tools)

    @property
    def calibration(self) -> float:
        """Return the ratio of the provider's token count to our estimate."""
        return self.budget.used / max(
            1, self.prefix + estimate_messages(entry.message for entry in self.entries)
        )

    @property
    def rate(self) -> float:
        """Return the calibration, but at least 1, so that sizes are not underestimated."""
        return max(1.0, self.calibration)


@frozen
class CompactionPolicy:
    """How to compact, as set by a recipe and the configuration. Sizes are in tokens;
    None means the default.

    :ivar prompt: the recipe's text with its arguments filled in.
    :ivar strategy: the strategy to use. Automatic compactions may try others before and
        after it; see `CompactionService.ladder`.
    :ivar size: maximum size of the new context, not counting system prompt, tools and
        the running prompt.
    :ivar tail: how much of this size the newest messages, which are kept unchanged, may
        take; by default a fifth, or less in a conversation without code.
    :ivar summary: how much of this size the summary may take.
    :ivar sections: headings that a summary must have.
    :ivar verify: what to do if the summary mentions things that are not in the
        conversation, or has no such heading: mark it, ask for a correction (`mend`) or
        reject it. `off` skips the check.
    :ivar manual: whether the user requested the compaction. If so, only `strategy` is
        tried, and its failure is reported.
    :ivar must_fit: whether the next request cannot be sent unless the conversation is
        compacted. If so, messages are shortened until it fits.
    :ivar steps: the strategies to try, in order; None for the default ladder.
    :ivar written: an existing summary to use; None to ask a model for one.
    :ivar limits: the limits of a request besides tokens.
    :ivar native_first: whether automatic compactions leave out `mask`, since only the
        provider's own compaction keeps the reasoning of the kept messages. With the
        strategy `native`, they then begin with it.
    :ivar keeps_reasoning: whether the provider's own compaction keeps the reasoning of
        the kept messages.
    :ivar keeps_prompts: whether the provider's own compaction keeps all text of the
        user.
    :ivar binds_reasoning: whether every other compaction loses the reasoning of the
        kept messages.
    :ivar idle: whether the summary is prepared while the user pauses, for use after the
        provider's prompt cache has expired. There is no cache to lose in that case, so
        even a small saving is worthwhile.
    """

    prompt: str
    strategy: str = "summary"
    size: int | None = None
    tail: int | None = None
    summary: int | None = None
    sections: tuple[str, ...] = ()
    verify: Verify = "mark"
    manual: bool = True
    must_fit: bool = False
    steps: tuple[str, ...] | None = None
    written: str | None = None
    limits: Limits = Limits()
    native_first: bool = False
    keeps_reasoning: bool = False
    keeps_prompts: bool = False
    binds_reasoning: bool = False
    idle: bool = False

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise ValueError(f"size must be at least 1 token, not {self.size}")

    def size_tokens(self, state: ConversationState) -> int:
        """Return the maximum size of the new context in tokens, as a provider counts
        them.
        """
        if self.size is not None:
            return self.size
        size = min(MOST_TOKENS, int(state.budget.window * SIZE_SHARE))
        return min(size, state.manual_size) if self.manual or self.idle else size


@frozen
class CompactedState:
    """A conversation after a compaction.

    :ivar entries: its messages. The summary has the number of the last message that it
        replaced.
    :ivar strategy: name of the strategy that was used.
    :ivar summary: the summary as people read it.
    :ivar sent: the summary as the model reads it, with quotations and excerpts; empty
        if messages were only rewritten.
    :ivar behind: parts that the model reads after the kept messages, because the
        provider's own compaction has to come directly before the kept messages.
    :ivar boundary: number of the last removed message; 0 if none was removed.
    :ivar pinned: messages from before the boundary that were kept.
    :ivar rewritten: messages that were kept in a shorter form.
    """

    entries: tuple[Entry, ...]
    strategy: str
    summary: str
    rewritten: tuple[Rewritten, ...]
    memory: Memory
    tokens_before: int
    tokens_after: int
    sent: tuple[UserPart, ...] = ()
    boundary: int = 0
    pinned: tuple[Pinned, ...] = ()
    receipt: Receipt = field(default_factory=Receipt)
    usage: Usage | None = None
    source: tuple[Entry, ...] = ()
    behind: tuple[UserPart, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages in order."""
        return tuple(entry.message for entry in self.entries)

    def next_state(
        self, state: ConversationState, messages: Iterable[Message] = ()
    ) -> ConversationState:
        """Return the state of the continued conversation, with the messages since
        `state` was compacted.
        """
        first = max((entry.seq for entry in state.entries), default=0) + 1
        added = tuple(
            Entry(number, message) for number, message in enumerate(messages, first)
        )
        entries = (*self.entries, *added)
        request = replace(
            state.request, messages=tuple(entry.message for entry in entries)
        )
        source = (*self.source, *added) if self.source else ()
        used = self.tokens_after + round(
            estimate_messages(entry.message for entry in added) * state.calibration
        )
        return replace(
            state,
            entries=entries,
            request=request,
            budget=state.budget.filled(used, state.budget.system),
            memory=self.memory,
            turn_from=unanswered_prompt(entries),
            source=source,
        )


def unanswered_prompt(entries: Sequence[Entry]) -> int | None:
    """Return the number of the user message that the model has not finished answering,
    or None if there is none.

    This is the first user message after the last answer without tool calls. Later ones
    were added while tools ran.
    """
    prompt: int | None = None
    for entry in reversed(entries):
        message = entry.message
        if entry.summary or (
            isinstance(message, AssistantMessage) and not message.tool_calls
        ):
            break
        if isinstance(message, UserMessage):
            prompt = entry.seq
    return prompt
