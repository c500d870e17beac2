"""The input and output of a compaction, as plain values.

`ConversationState` in, `CompactedState` out: neither needs a session, a log or an editor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from acp_agent.compaction.budget import Limits, TokenBudget
from acp_agent.compaction.estimate import estimate_messages, estimate_prefix, used_tokens
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.messages import AssistantMessage, Entry, Message, Usage, UserMessage, UserPart
from acp_agent.conversation.swaps import Memory, Pinned, Receipt, Rewritten
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelRequest, ToolDefinition

Verify: TypeAlias = Literal["off", "mark", "mend", "reject"]

SIZE_SHARE = 0.2
"""Default share of the window for the new context."""
MOST_TOKENS = 64_000
"""Upper bound of the default in tokens: a fifth of a million tokens would make every later request expensive."""
BY_HAND_SHARE = 1 / 4
"""Largest share of the conversation itself, so that `/compact` shortens a short conversation as well."""
NO_OUTPUT_LIMIT = 8_192
RECALL = "recall"
"""The tool that reads entries of the record."""


@frozen
class Workspace:
    """Where the conversation takes place: the folder, and the repository's branch and commit."""

    cwd: str = ""
    branch: str = ""
    head: str = ""


@frozen
class ConversationState:
    """A conversation that is to be compacted.

    :ivar entries: its messages, each with its number.
    :ivar request: what the next step would send, all of it.
    :ivar budget: of the model that goes on with the conversation, filled with this conversation.
    :ivar turn_from: number of the prompt of a turn that is still running.
    :ivar guessed: whether the window is what the conversation has to fit into, and not known to be the model's.
    :ivar source: the original entries, those that earlier compactions replaced included; empty where `entries` are all.
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
        """Return the entries that excerpts are taken from, in order."""
        return self.source or tuple(entry for entry in self.entries if not entry.summary)

    @property
    def by_hand_size(self) -> int:
        """Return the most that a compaction by hand leaves: a part of the whole conversation, as it was before any."""
        now = estimate_messages(entry.message for entry in self.entries)
        whole = estimate_messages(entry.message for entry in self.originals)
        return int(self.budget.messages * max(1.0, whole / max(1, now)) * BY_HAND_SHARE)

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
        """Return the state of a conversation that no session of ours holds.

        An unanswered prompt at the end of the conversation is kept, like the prompt of a running turn.

        :param messages: legal history; numbered from 1.
        :param window: tokens of the model's window.
        :param model: the provider's own id of the model.
        :param used: tokens of the whole request, where a provider has counted them.
        """
        entries = tuple(Entry(number, message) for number, message in enumerate(messages, 1))
        request = ModelRequest(
            model, system, tuple(entry.message for entry in entries), tuple(tools), max_output_tokens
        )
        prefix = estimate_prefix(system, request.tools)
        counted = used if used is not None else prefix + estimate_messages(request.messages)
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
        """Return whether the model has the `recall` tool; only then may texts refer to it."""
        return any(tool.name == RECALL for tool in self.request.tools)

    @property
    def prefix(self) -> int:
        """Return the estimated tokens of the system prompt and the tools."""
        return estimate_prefix(self.request.system, self.request.tools)

    @property
    def calibration(self) -> float:
        """Return the ratio of the provider's token count to our estimate."""
        return self.budget.used / max(1, self.prefix + estimate_messages(entry.message for entry in self.entries))

    @property
    def rate(self) -> float:
        """Return the calibration, at least 1, so that sizes are never underestimated."""
        return max(1.0, self.calibration)


@frozen
class CompactionPolicy:
    """How to compact: what a recipe and the configuration say. Sizes in tokens; None takes the default.

    :ivar prompt: the recipe's text, rendered.
    :ivar size: the most that the new context takes, not counting system prompt, tools and the running prompt.
    :ivar tail: of that, the newest messages that stay as they are; two fifths where not given.
    :ivar summary: of that, the longest summary.
    :ivar sections: headings that a summary must have.
    :ivar by_hand: the user asked for it: a failure is reported and no other strategy is tried.
    :ivar must_fit: the conversation cannot be sent as it is.
    :ivar steps: the strategies to try, in place of the ladder that the others make.
    :ivar written: a summary that is there already, so that no model is asked for one.
    :ivar limits: what a request may hold besides tokens.
    :ivar native_first: an automatic compaction is the provider's own, since only that keeps the reasoning of the
        messages that stay.
    :ivar keeps_reasoning: whether a compaction of the provider's own keeps it.
    :ivar keeps_prompts: whether a compaction of the provider's own keeps all that the user has said.
    :ivar binds_reasoning: whether every other compaction leaves it behind.
    :ivar idle: the summary is prepared while the user pauses, and used once the provider's cache has expired: there is
        no cache to lose, so that a small gain is worth it too.
    """

    prompt: str
    strategy: str = "summary"
    size: int | None = None
    tail: int | None = None
    summary: int | None = None
    sections: tuple[str, ...] = ()
    verify: Verify = "mark"
    by_hand: bool = True
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
            raise ValueError(f"size: {self.size}; it is a number of tokens, 1 or more")

    def size_tokens(self, state: ConversationState) -> int:
        """Return the tokens of the new context, by the provider's count."""
        if self.size is not None:
            return self.size
        size = min(MOST_TOKENS, int(state.budget.window * SIZE_SHARE))
        return min(size, state.by_hand_size) if self.by_hand or self.idle else size


@frozen
class CompactedState:
    """A conversation after a compaction.

    :ivar entries: its messages; the summary has the number of the last message that it took the place of.
    :ivar summary: as a person reads it.
    :ivar sent: the summary as the model reads it, with quotations and excerpts; empty if messages were only rewritten.
    :ivar behind: what the model reads after the messages that stay, if nothing may stand before them.
    :ivar boundary: number of the last message that left; 0 where none did.
    :ivar pinned: messages from before the boundary that stay.
    :ivar rewritten: messages that stay in a shorter form.
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

    def next_state(self, state: ConversationState, messages: Iterable[Message] = ()) -> ConversationState:
        """Return the conversation as it goes on, with what has been said since `state` was compacted."""
        first = max((entry.seq for entry in state.entries), default=0) + 1
        added = tuple(Entry(number, message) for number, message in enumerate(messages, first))
        entries = (*self.entries, *added)
        request = replace(state.request, messages=tuple(entry.message for entry in entries))
        source = (*self.source, *added) if self.source else ()
        used = self.tokens_after + round(estimate_messages(entry.message for entry in added) * state.calibration)
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
    """Return the number of the user message that the model has not finished answering; None if there is none.

    This is the first user message after the last answer without tool calls. Later ones were added while tools ran.
    """
    prompt: int | None = None
    for entry in reversed(entries):
        message = entry.message
        if entry.summary or (isinstance(message, AssistantMessage) and not message.tool_calls):
            break
        if isinstance(message, UserMessage):
            prompt = entry.seq
    return prompt
