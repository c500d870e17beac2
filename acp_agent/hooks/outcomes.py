"""The outcomes of hooks, and how several outcomes are combined.

Outcomes are plain values that the session carries out. In an attribute, None means that
the hook did not set it, which differs from an empty value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar, Literal, TypeAlias, get_args

from acp_agent.config.hook_events import EventName
from acp_agent.conversation.messages import JsonObject, Message
from acp_agent.errors import HookError
from acp_agent.frozen import frozen

Verdict: TypeAlias = Literal["allow", "ask", "block"]
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The verdicts, from the least to the most restrictive."""

LIMIT = 65_536
"""Maximum number of characters of a text that a hook adds for the model or the user."""


@frozen
class Decision:
    """A hook's decision about the pending action.

    :ivar verdict: `allow` skips the permission request that the mode requires, `ask`
        requires one, `block` refuses the action.
    :ivar reason: the reason for the user, and for the model if it has to continue.
    :ivar by_project: whether the hook comes from the project instead of the user.
        `allow` then covers only actions that are confined to the session's directories
        or the sandbox. The dispatcher always overwrites this value.
    """

    verdict: Verdict
    reason: str = ""
    by_project: bool = False


@frozen
class SwapContext:
    """Replace the conversation so far with a summary, atomically. Handlers of a recipe
    that compacts return this, and so do hooks that reword the recipe's summary. Only
    the recipe sets the options.

    :ivar preserve_system_prompt: whether to keep the system prompt instead of creating
        it again.
    :ivar max_summary_tokens: maximum length of the text in tokens; None for no limit.
    :ivar keep_tail_tokens: how many tokens of the newest messages to keep word for
        word; None for the recipe's default.
    """

    name: ClassVar[str] = "swap_context"
    summary: str
    preserve_system_prompt: bool = False
    max_summary_tokens: int | None = None
    keep_tail_tokens: int | None = None


@frozen
class Compact:
    """Compact the conversation as soon as possible, in the same way as `/compact`."""

    name: ClassVar[str] = "compact"
    instructions: str = ""


@frozen
class Summarize:
    """Write a summary and show it. The conversation does not change."""

    name: ClassVar[str] = "summary"
    instructions: str = ""


@frozen
class Continue:
    """Let the agent continue, as if the user had sent these messages."""

    name: ClassVar[str] = "continue"
    messages: tuple[str, ...]


@frozen
class Replace:
    """Replace the whole conversation with these messages."""

    name: ClassVar[str] = "replace"
    messages: tuple[Message, ...]


Action: TypeAlias = SwapContext | Compact | Summarize | Continue | Replace


@frozen
class Outcome:
    """The answer of a hook, or of several hooks combined.

    :ivar tool_input: arguments that replace the call's own.
    :ivar tool_output: text that replaces the call's result.
    :ivar message: text that replaces the user's message.
    :ivar context: texts to add for the model.
    :ivar action: an action to carry out; the event determines which actions are
        possible.
    :ivar summary: text to use instead of a model's summary; a blank text counts as
        none.
    :ivar stop: the reason to end the turn immediately; None to continue.
    :ivar notices: messages to the user.
    :ivar unknown: keys of a program's answer that have no effect.
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
    unknown: tuple[str, ...] = ()

    @classmethod
    def allow(cls, reason: str = "") -> Outcome:
        """Allow the call without asking the user."""
        return cls(Decision("allow", reason))

    @classmethod
    def ask(cls, reason: str = "") -> Outcome:
        """Ask the user about the call, even if the mode would not."""
        return cls(Decision("ask", reason))

    @classmethod
    def block(cls, reason: str) -> Outcome:
        """Refuse the pending action. At the end of a turn, this makes the agent
        continue.
        """
        return cls(Decision("block", reason))

    @property
    def blocks(self) -> bool:
        """Return whether the outcome refuses the pending action."""
        return self.decision is not None and self.decision.verdict == "block"

    @property
    def reason(self) -> str:
        """Return the reason for the decision; empty if there is none."""
        return self.decision.reason if self.decision is not None else ""

    def then(self, later: Outcome) -> Outcome:
        """Combine this outcome with that of a later hook. The operation is associative,
        and `NOTHING` is its identity.

        The more restrictive decision wins. Between equal decisions, the user's wins
        over the project's, and the earlier one wins otherwise. If both outcomes replace
        a text or arguments, the later replacement wins, since the later hook saw the
        earlier replacement. The first action, summary and stop win. All added texts are
        kept.
        """
        decisions = [
            each for each in (self.decision, later.decision) if each is not None
        ]
        return Outcome(
            decision=max(decisions, key=_weight, default=None),
            tool_input=self.tool_input
            if later.tool_input is None
            else later.tool_input,
            tool_output=self.tool_output
            if later.tool_output is None
            else later.tool_output,
            message=self.message if later.message is None else later.message,
            context=(*self.context, *later.context),
            action=later.action if self.action is None else self.action,
            summary=later.summary if self.summary is None else self.summary,
            stop=later.stop if self.stop is None else self.stop,
            notices=(*self.notices, *later.notices),
            unknown=(*self.unknown, *later.unknown),
        )

    def first_wins(self) -> dict[str, Action | str]:
        """Return the attributes that this outcome sets and for which the first hook
        wins, by name.
        """
        once = {"action": self.action, "summary": self.summary}
        return {name: value for name, value in once.items() if value is not None}


def _weight(decision: Decision) -> tuple[int, bool]:
    """Return a sort key that is larger for the decision that wins."""
    return _VERDICTS.index(decision.verdict), not decision.by_project


NOTHING = Outcome()
"""The outcome of a hook that does nothing."""


# --- what is possible at each event ---

_CALL: tuple[EventName, ...] = ("before_tool_call",)
_ENDS: tuple[EventName, ...] = ("turn_end", "agent_stop")
_TURN: tuple[EventName, ...] = (
    "user_message_send",
    "before_tool_call",
    "after_tool_call",
    *_ENDS,
)
_COMPACTION: tuple[EventName, ...] = ("before_compaction",)
_CONTEXT: tuple[EventName, ...] = ("session_start", *_TURN, *_COMPACTION)

SWAP = "action: swap_context"
POSSIBLE: Mapping[str, tuple[EventName, ...]] = {
    "decision: block": (*_TURN, *_COMPACTION),
    "decision: ask": _CALL,
    "continue: false": (*_TURN, *_COMPACTION),
    "systemMessage": (*_CONTEXT, "after_compaction"),
    "context": _CONTEXT,
    "tool_input": _CALL,
    "tool_output": ("after_tool_call",),
    "message": ("user_message_send",),
    "action: compact": _TURN,
    "action: summary": _ENDS,
    "action: continue": _ENDS,
    "action: replace": _ENDS,
    SWAP: ("turn_end",),
    "summary": _COMPACTION,
}
"""Maps each key of a program's answer to the events at which it is possible. `decision:
allow` is not listed, since it is possible at every event. `swap_context` is possible
only if the model's answer is a summary.
"""
_WORDS = {"stop": "continue: false", "notices": "systemMessage"}
"""Attributes of `Outcome` that have a different name in `POSSIBLE`."""


def possible_part(
    outcome: Outcome, possible: Collection[str]
) -> tuple[Outcome, list[str]]:
    """Split an outcome into its possible part and the names of the rest: keys of
    `POSSIBLE`, and unknown keys.

    :param possible: the keys of `POSSIBLE` that are possible now.
    :raises HookError: if the outcome has a value that is not possible at any event.
    """
    unknown = outcome.unknown
    outcome = replace(outcome, unknown=())
    words = {each.name: _WORDS.get(each.name, each.name) for each in fields(outcome)}
    words["decision"] = (
        f"decision: {outcome.decision.verdict}" if outcome.decision else ""
    )
    words["action"] = f"action: {outcome.action.name}" if outcome.action else ""
    rest: dict[str, str] = {}
    for name, word in words.items():
        if getattr(outcome, name) not in (None, ()) and word not in (
            "decision: allow",
            *possible,
        ):
            if word not in POSSIBLE:
                raise HookError(f"Unknown outcome `{word}`.")
            rest[name] = word
    return replace(outcome, **{name: getattr(NOTHING, name) for name in rest}), [
        *rest.values(),
        *unknown,
    ]


# --- how long texts may be ---


def cut(text: str) -> str:
    """Return a hook's text, cut to `LIMIT` with a note about the number of missing
    characters.
    """
    if len(text) <= LIMIT:
        return text
    return f"{text[:LIMIT]}\n[{len(text) - LIMIT:,} more characters from this hook were omitted]"


def bounded(outcome: Outcome) -> Outcome:
    """Remove blank texts from an outcome, and cut the texts that it adds for the model
    or the user to `LIMIT`. Texts that replace another text are not cut.
    """
    action = outcome.action
    match action:
        case Continue():
            messages = _bounded_texts(action.messages)
            action = Continue(messages) if messages else None
        case Compact() | Summarize():
            action = replace(action, instructions=cut(action.instructions))
        case SwapContext() if not action.summary.strip():
            action = None
        case _:
            pass
    return replace(
        outcome,
        decision=outcome.decision
        and replace(outcome.decision, reason=cut(outcome.decision.reason)),
        context=_bounded_texts(outcome.context),
        action=action,
        summary=cut(outcome.summary)
        if outcome.summary and outcome.summary.strip()
        else None,
        stop=None if outcome.stop is None else cut(outcome.stop),
        notices=_bounded_texts(outcome.notices),
    )


def listed(value: object) -> object:
    """Convert a string to a list that contains it; return any other value unchanged."""
    return [value] if isinstance(value, str) else value


def _bounded_texts(texts: Sequence[str]) -> tuple[str, ...]:
    # A Python hook may have passed a single string.
    texts = (texts,) if isinstance(texts, str) else texts
    return tuple(cut(text) for text in texts if text.strip())
