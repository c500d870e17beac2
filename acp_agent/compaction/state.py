"""What goes into a compaction and what comes out of it, as plain values.

`ConversationState` in, `CompactedState` out: neither needs a session, a log or an editor. The session makes the one of
its context and turns the other into an event; other Python code may use both as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import estimate_messages, estimate_prefix, used_tokens
from acp_agent.compaction.triggers import Limits
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import Pinned, PlanEntry, Receipt, Rewritten
from acp_agent.conversation.memory import Ledger, Memory
from acp_agent.conversation.messages import Message, Usage, UserPart
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelRequest, ToolDefinition

Verify: TypeAlias = Literal["off", "mark", "mend", "reject"]

DEFAULT_TARGET = 0.5
LEDGER_TOKENS = 4_000
LEDGER_SHARE = 0.04
NO_OUTPUT_LIMIT = 8_192
RECALL = "recall"
"""The tool that reads entries of the record."""


@frozen
class Workspace:
    """What the disk says at the moment of a compaction, for marking facts as stale.

    :ivar digests: of the files that the conversation knows, now; None for one that is gone.
    """

    cwd: str = ""
    digests: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    branch: str = ""
    head: str = ""


@frozen
class ConversationState:
    """A conversation that is to be compacted.

    :ivar entries: its messages, each with its number.
    :ivar request: what the next step would send, all of it.
    :ivar budget: of the model that goes on with the conversation, filled with this conversation.
    :ivar memory: what earlier compactions carried over.
    :ivar turn_from: number of the prompt of a turn that is still running.
    :ivar grants: what the user allowed in the session, as of the context.
    :ivar rules: what a rule of the project allows, as of now.
    :ivar files: digests of the file versions that the model has seen.
    :ivar guessed: whether the budget's window is no more than what the conversation has to fit into, since it left too
        little room as it is: nobody has said that the model's is as small.
    """

    entries: tuple[Entry, ...]
    request: ModelRequest
    budget: TokenBudget
    memory: Memory = field(default_factory=Memory)
    turn_from: int | None = None
    plan: tuple[PlanEntry, ...] = ()
    mode: str = ""
    grants: tuple[str, ...] = ()
    rules: frozenset[str] = frozenset()
    files: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    workspace: Workspace = Workspace()
    guessed: bool = False

    def allowed(self, grants: Iterable[str]) -> list[str]:
        """What needs no asking, where this is allowed in the session."""
        return sorted({*grants, *self.rules})

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
        rules: frozenset[str] = frozenset(),
    ) -> ConversationState:
        """The state of a session.

        :param request: the live request for this context.
        :param budget: of the session's model; what it is filled with is counted here.
        :param rate: see `used_tokens`.
        :param guessed: see the class.
        :param rules: likewise.
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
            grants=tuple(sorted(context.grants)),
            rules=rules,
            files=context.files,
            workspace=workspace or Workspace(cwd=context.cwd),
            guessed=guessed,
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
        """The state of a conversation that no session of ours holds.

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
            workspace=Workspace(cwd=cwd),
        )

    @property
    def recall(self) -> bool:
        """Whether the model has the tool that reads what a compaction took away; only then is it told of it."""
        return any(tool.name == RECALL for tool in self.request.tools)

    @property
    def calibration(self) -> float:
        """Tokens as the provider counts them for each token of our estimate."""
        estimated = estimate_prefix(self.request.system, self.request.tools) + estimate_messages(
            entry.message for entry in self.entries
        )
        return self.budget.used / max(1, estimated)


@frozen
class CompactionPolicy:
    """How to compact: what a recipe and the configuration say. Sizes in tokens; None takes the default.

    :ivar prompt: what the model is asked; the recipe's text, rendered.
    :ivar strategy: what to begin with (see `strategies`).
    :ivar tail: size of the newest messages that stay word for word.
    :ivar target: share of the window that the new context may fill.
    :ivar ledger: size of the fact ledger.
    :ivar requests: size of the user's own requests that are quoted, together with those in the tail.
    :ivar summary: upper bound of a summary.
    :ivar sections: headings that a summary must have.
    :ivar verify: what happens to a summary that says what the conversation does not.
    :ivar by_hand: a person asked for it: a failure is told and not worked around, and little may be gained.
    :ivar must_fit: the conversation cannot be sent as it is, so the last step has to fit whatever it costs.
    :ivar steps: the strategies to try, in place of the ladder that the others make.
    :ivar written: a summary that is there already, so that no model is asked for one.
    :ivar max_images: images that a request may hold; None where there is no limit.
    :ivar max_bytes: bytes that a request may hold.
    :ivar sent: see `request_bytes`.
    """

    prompt: str
    strategy: str = "summary"
    tail: int | None = None
    target: float = DEFAULT_TARGET
    ledger: int | None = None
    requests: int | None = None
    summary: int | None = None
    sections: tuple[str, ...] = ()
    verify: Verify = "mark"
    by_hand: bool = True
    must_fit: bool = False
    steps: tuple[str, ...] | None = None
    written: str | None = None
    max_images: int | None = None
    max_bytes: int | None = None
    sent: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def limits(self) -> Limits:
        """What a request may hold besides tokens."""
        return Limits(self.max_images, self.max_bytes, self.sent)

    def tail_tokens(self, budget: TokenBudget) -> int:
        """Tokens of the tail."""
        return budget.tail if self.tail is None else min(self.tail, budget.usable // 2)

    def ledger_tokens(self, budget: TokenBudget) -> int:
        """Tokens of the ledger."""
        return min(LEDGER_TOKENS, int(budget.window * LEDGER_SHARE)) if self.ledger is None else self.ledger

    def request_tokens(self, budget: TokenBudget) -> int:
        """Tokens of the user's requests."""
        return budget.tail if self.requests is None else self.requests


@frozen
class CompactedState:
    """A conversation after a compaction.

    :ivar entries: its messages; the summary has the number of the last message that it took the place of.
    :ivar strategy: what made it.
    :ivar summary: as a person reads it.
    :ivar sent: as the model reads it, with everything that stands beside it; empty where messages were only rewritten.
    :ivar boundary: number of the last message that left; 0 where none did.
    :ivar pinned: messages from before the boundary that stay.
    :ivar rewritten: messages that stay in a shorter form.
    :ivar memory: to be carried to the next compaction.
    :ivar held: numbers of the user's requests that a provider's own compaction holds word for word, so that they do not
        stand beside it as well.
    """

    entries: tuple[Entry, ...]
    strategy: str
    summary: str
    sent: tuple[UserPart, ...]
    boundary: int
    pinned: tuple[Pinned, ...]
    rewritten: tuple[Rewritten, ...]
    memory: Memory
    files: Mapping[str, str | None]
    tokens_before: int
    tokens_after: int
    receipt: Receipt = field(default_factory=Receipt)
    usage: Usage | None = None
    held: frozenset[int] = frozenset()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in order."""
        return tuple(entry.message for entry in self.entries)

    @property
    def ledger(self) -> Ledger:
        """The facts so far."""
        return self.memory.ledger

    def next_state(self, state: ConversationState, messages: Iterable[Message] = ()) -> ConversationState:
        """The conversation as it goes on.

        :param state: what was compacted.
        :param messages: what has been said since.
        """
        first = max((entry.seq for entry in state.entries), default=0) + 1
        added = tuple(Entry(number, message) for number, message in enumerate(messages, first))
        entries = (*self.entries, *added)
        request = replace(state.request, messages=tuple(entry.message for entry in entries))
        used = self.tokens_after + round(estimate_messages(entry.message for entry in added) * state.calibration)
        return replace(
            state,
            entries=entries,
            request=request,
            budget=state.budget.filled(used, state.budget.system),
            memory=self.memory,
            files=self.files,
        )
