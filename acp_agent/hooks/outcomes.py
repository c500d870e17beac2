"""The outcomes of hooks, and how several are combined.

These are plain values; the session carries them out. None means no answer, which differs from an empty one.
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
"""From the freest to the strictest."""

LIMIT = 65_536
"""Characters of a text that is added to what the model or the user reads."""


@frozen
class Decision:
    """Says whether the pending action may proceed.

    :ivar verdict: `allow` spares the user the question that the mode demands, `ask` demands it, `block` refuses.
    :ivar reason: for the user, and for the model where it has to go on in another way.
    :ivar by_project: whether it comes from the project and not from the user. Its `allow` then covers only work that
        the session's directories or the sandbox contain. The dispatcher sets it, whatever a hook says.
    """

    verdict: Verdict
    reason: str = ""
    by_project: bool = False


@frozen
class SwapContext:
    """Put this text atomically in the place of the conversation so far. Handlers of a recipe that compacts want it, and
    hooks that reword its answer; the options are the recipe's alone.

    :ivar preserve_system_prompt: whether the system prompt stays as it is, and is not read afresh.
    :ivar max_summary_tokens: the longest that the text may be; None for no limit.
    :ivar keep_tail_tokens: how much of the newest messages stays word for word; None leaves it to the recipe.
    """

    name: ClassVar[str] = "swap_context"
    summary: str
    preserve_system_prompt: bool = False
    max_summary_tokens: int | None = None
    keep_tail_tokens: int | None = None


@frozen
class Compact:
    """Compact the conversation as soon as nothing stands in its way, as `/compact` would."""

    name: ClassVar[str] = "compact"
    instructions: str = ""


@frozen
class Summarize:
    """Write a summary and show it; the conversation stays as it is."""

    name: ClassVar[str] = "summary"
    instructions: str = ""


@frozen
class Continue:
    """Let the agent go on, with these messages as if the user had sent them."""

    name: ClassVar[str] = "continue"
    messages: tuple[str, ...]


@frozen
class Replace:
    """Put these messages in the place of the whole conversation."""

    name: ClassVar[str] = "replace"
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
    :ivar summary: text to use instead of a model's summary; a blank one is as none.
    :ivar stop: why the turn should end here and now.
    :ivar notices: what the user should be told.
    :ivar unknown: keys of a program's answer that mean nothing.
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
        """Let the call be made without asking the user."""
        return cls(Decision("allow", reason))

    @classmethod
    def ask(cls, reason: str = "") -> Outcome:
        """Have the user asked about the call, also where the mode would not."""
        return cls(Decision("ask", reason))

    @classmethod
    def block(cls, reason: str) -> Outcome:
        """Refuse what is about to happen; at the end of a turn, the agent has to go on."""
        return cls(Decision("block", reason))

    @property
    def blocks(self) -> bool:
        """Return whether it refuses what is about to happen."""
        return self.decision is not None and self.decision.verdict == "block"

    @property
    def reason(self) -> str:
        """Return why it decides as it does; empty where it gives no reason."""
        return self.decision.reason if self.decision is not None else ""

    def then(self, later: Outcome) -> Outcome:
        """Return this outcome together with that of a later hook. This is associative, and `NOTHING` is neutral.

        The stricter decision holds; of equal ones the user's before the project's, and then the first. The later
        replacement of a text or of arguments holds, since that hook saw the earlier one. The first action, summary and
        stop hold. Added texts are all kept.
        """
        decisions = [each for each in (self.decision, later.decision) if each is not None]
        return Outcome(
            decision=max(decisions, key=_weight, default=None),
            tool_input=self.tool_input if later.tool_input is None else later.tool_input,
            tool_output=self.tool_output if later.tool_output is None else later.tool_output,
            message=self.message if later.message is None else later.message,
            context=(*self.context, *later.context),
            action=later.action if self.action is None else self.action,
            summary=later.summary if self.summary is None else self.summary,
            stop=later.stop if self.stop is None else self.stop,
            notices=(*self.notices, *later.notices),
            unknown=(*self.unknown, *later.unknown),
        )

    def wants(self) -> dict[str, Action | str]:
        """Return what only one hook can get, the first that wants it, by the attribute's name."""
        once = {"action": self.action, "summary": self.summary}
        return {name: value for name, value in once.items() if value is not None}


def _weight(decision: Decision) -> tuple[int, bool]:
    """Return a key that is larger for the decision that holds."""
    return _VERDICTS.index(decision.verdict), not decision.by_project


NOTHING = Outcome()
"""The outcome without any hook."""


# --- what is possible where ---

_CALL: tuple[EventName, ...] = ("before_tool_call",)
_ENDS: tuple[EventName, ...] = ("turn_end", "agent_stop")
_TURN: tuple[EventName, ...] = ("user_message_send", "before_tool_call", "after_tool_call", *_ENDS)
_COMPACTION: tuple[EventName, ...] = ("before_compaction",)
_TOLD: tuple[EventName, ...] = ("session_start", *_TURN, *_COMPACTION)

SWAP = "action: swap_context"
POSSIBLE: Mapping[str, tuple[EventName, ...]] = {
    "decision: block": (*_TURN, *_COMPACTION),
    "decision: ask": _CALL,
    "continue: false": (*_TURN, *_COMPACTION),
    "systemMessage": (*_TOLD, "after_compaction"),
    "context": _TOLD,
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
"""The events at which something can be done, in the words of a program's answer. `decision: allow` objects to nothing,
which is possible everywhere; `swap_context` is possible where the answer that ended is a summary."""
_WORDS = {"stop": "continue: false", "notices": "systemMessage"}
"""The words for the attributes of `Outcome` that are called otherwise there."""


def possible_part(outcome: Outcome, possible: Collection[str]) -> tuple[Outcome, list[str]]:
    """Return what of an outcome can be done, and the words for the rest: those of `POSSIBLE`, and unknown keys.

    :param possible: words of `POSSIBLE`.
    :raises HookError: it wants what is possible nowhere.
    """
    unknown, outcome = outcome.unknown, replace(outcome, unknown=())
    words = {each.name: _WORDS.get(each.name, each.name) for each in fields(outcome)}
    words["decision"] = f"decision: {outcome.decision.verdict}" if outcome.decision else ""
    words["action"] = f"action: {outcome.action.name}" if outcome.action else ""
    rest: dict[str, str] = {}
    for name, word in words.items():
        if getattr(outcome, name) not in (None, ()) and word not in ("decision: allow", *possible):
            if word not in POSSIBLE:
                raise HookError(f"Its outcome wants `{word}`, which there is not.")
            rest[name] = word
    return replace(outcome, **{name: getattr(NOTHING, name) for name in rest}), [*rest.values(), *unknown]


# --- how long texts may be ---


def cut(text: str) -> str:
    """Return the beginning of a hook's text, with a note of how much is missing."""
    if len(text) <= LIMIT:
        return text
    return f"{text[:LIMIT]}\n[{len(text) - LIMIT:,} more characters of this hook were left out]"


def bounded(outcome: Outcome) -> Outcome:
    """Return an outcome without blank texts, and with each text cut that lengthens what the model or the user reads.
    What takes the place of another text is left as long as it is."""
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
        decision=outcome.decision and replace(outcome.decision, reason=cut(outcome.decision.reason)),
        context=_bounded_texts(outcome.context),
        action=action,
        summary=cut(outcome.summary) if outcome.summary and outcome.summary.strip() else None,
        stop=None if outcome.stop is None else cut(outcome.stop),
        notices=_bounded_texts(outcome.notices),
    )


def listed(value: object) -> object:
    """Return a list of the text that is written in place of one; anything else as it is."""
    return [value] if isinstance(value, str) else value


def _bounded_texts(texts: Sequence[str]) -> tuple[str, ...]:
    texts = (texts,) if isinstance(texts, str) else texts  # a Python hook's types are not checked
    return tuple(cut(text) for text in texts if text.strip())
