"""What a hook may want, and what comes of several that want something.

Plain values: a hook returns them and does nothing itself. `Outcome.then` puts two together; it is associative, and an
outcome that wants nothing changes nothing. An answer that is absent (None) is not an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonObject, Message
from acp_agent.frozen import frozen

Verdict: TypeAlias = Literal["allow", "ask", "block"]
_RANK: dict[Verdict, int] = {"allow": 0, "ask": 1, "block": 2}

LIMIT = 65_536
"""Characters by which the texts of one outcome may lengthen what the model reads."""


@frozen
class Decision:
    """Whether what is about to happen may.

    :ivar verdict: `allow` spares the user the question that the mode demands, `ask` demands it, `block` refuses.
    :ivar reason: for the user, and for the model where it has to go on in another way.
    """

    verdict: Verdict
    reason: str = ""


DEFERRED = Decision(
    "block", "The hook asked to defer. `defer` is no longer known: a veto is asked about again with the next prompt."
)
"""What `defer` means, which hooks of earlier versions answer."""


@frozen
class SwapContext:
    """Let this text take the place of the conversation so far, atomically. For a recipe that compacts, and for
    hooks that reword its answer; how it is done, the recipe alone says.

    :ivar preserve_system_prompt: whether the system prompt stays as it is, and is not read afresh.
    :ivar max_summary_tokens: the longest that the text may be; None for no bound of its own.
    :ivar keep_tail_tokens: how much of the newest messages stays word for word; None leaves it to the recipe.
    """

    summary: str
    preserve_system_prompt: bool = False
    max_summary_tokens: int | None = None
    keep_tail_tokens: int | None = None


@frozen
class Compact:
    """Compact the conversation as soon as nothing stands in its way, as `/compact` would."""

    instructions: str = ""


@frozen
class Summarize:
    """Write a summary and show it; the conversation stays as it is."""

    instructions: str = ""


@frozen
class Continue:
    """Let the agent go on, with these messages as if the user had sent them."""

    messages: tuple[str, ...]


@frozen
class Replace:
    """Let these messages take the place of the whole conversation."""

    messages: tuple[Message, ...]


Action: TypeAlias = SwapContext | Compact | Summarize | Continue | Replace


@frozen
class Outcome:
    """What a hook wants, or several together.

    :ivar tool_input: arguments in the place of the call's own.
    :ivar tool_output: text in the place of the call's result.
    :ivar message: text in the place of the user's message.
    :ivar context: texts that the model should read as well.
    :ivar action: what should be done; which are possible depends on the event.
    :ivar summary: what is to be used instead of asking a model for a summary; a blank one is as none.
    :ivar stop: why the turn should end here and now.
    :ivar notices: what the user should be told.
    """

    decision: Decision | None = None
    tool_input: JsonObject | None = None
    tool_output: str | None = None
    message: str | None = None
    context: tuple[str, ...] = ()
    action: Action | None = None
    summary: str | None = None
    stop: str | None = None
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.summary is not None and not self.summary.strip():
            object.__setattr__(self, "summary", None)

    @classmethod
    def allow(cls, reason: str = "") -> Outcome:
        """The call may be made; the user is not asked."""
        return cls(Decision("allow", reason))

    @classmethod
    def ask(cls, reason: str = "") -> Outcome:
        """The user is asked about the call, also where the mode would not."""
        return cls(Decision("ask", reason))

    @classmethod
    def block(cls, reason: str) -> Outcome:
        """It may not happen; at the end of a turn, the agent has to go on."""
        return cls(Decision("block", reason))

    @property
    def blocks(self) -> bool:
        """Whether it refuses what is about to happen."""
        return self.decision is not None and self.decision.verdict == "block"

    @property
    def reason(self) -> str:
        """Why it decides as it does; empty where it says nothing about it."""
        return self.decision.reason if self.decision is not None else ""

    def then(self, later: Outcome) -> Outcome:
        """This, and what a later hook wants, which has seen what this one made of the event.

        The stricter decision holds, and of equal ones the first. What takes the place of something is the later one's.
        The first action, summary and stop hold. Added texts are all kept, in order.
        """
        return Outcome(
            decision=_stricter(self.decision, later.decision),
            tool_input=self.tool_input if later.tool_input is None else later.tool_input,
            tool_output=self.tool_output if later.tool_output is None else later.tool_output,
            message=self.message if later.message is None else later.message,
            context=(*self.context, *later.context),
            action=later.action if self.action is None else self.action,
            summary=later.summary if self.summary is None else self.summary,
            stop=later.stop if self.stop is None else self.stop,
            notices=(*self.notices, *later.notices),
        )

    def overrules(self, later: Outcome) -> Iterator[str]:
        """What a later hook wants and does not get, since an earlier one wanted another; for the log."""
        pairs = (("action", self.action, later.action), ("summary", self.summary, later.summary))
        for word, first, second in pairs:
            if first is not None and second is not None and first != second:
                yield word


NOTHING = Outcome()
"""What no hook at all wants."""


def _stricter(first: Decision | None, second: Decision | None) -> Decision | None:
    if first is None or second is None:
        return second if first is None else first
    return second if _RANK[second.verdict] > _RANK[first.verdict] else first


def cut(text: str, limit: int = LIMIT) -> str:
    """The beginning of a hook's text, and how much of it is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[{len(text) - limit:,} more characters of this hook were left out]"
