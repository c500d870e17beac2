"""What an executable answers, in our words or in those of Claude Code, as an `Outcome`.

Whatever it prints, this ends with an outcome or a `HookError` that says which key is wrong. Knows no process.
"""

from __future__ import annotations

import logging
import signal
from functools import cache
from itertools import pairwise
from typing import Annotated, Literal, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import parse_json
from acp_agent.errors import HookError
from acp_agent.hooks.claude import text_of, with_our_keys
from acp_agent.hooks.events import BeforeCompaction, BeforeToolCall, HookEvent, SessionStart, UserMessageSend
from acp_agent.hooks.messages import KINDS, MessageForm, as_json, conversation
from acp_agent.hooks.outcomes import (
    DEFERRED,
    NOTHING,
    Action,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
    SwapContext,
    Verdict,
)

BLOCKED = 2
"""The exit status that refuses."""
_FOR_OTHERS = frozenset({"suppressOutput", "hookEventName"})
"""Keys that say nothing to us, and are no mistake."""
_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 1000

_log = logging.getLogger(__name__)


def read_outcome(event: HookEvent, code: int, stdout: bytes, stderr: bytes) -> Outcome:
    """What an executable wants, from how it ended and what it printed.

    :param code: exit status, negative for a signal.
    :raises HookError: it failed, or its answer makes no sense.
    """
    if code == 0:
        return read_answer(event, stdout.decode("utf-8", "replace"))
    said = stderr.decode("utf-8", "replace").strip()
    if code == BLOCKED:
        return Outcome(Decision("block", said))
    how = f"It was ended by {_signal(-code)}." if code < 0 else f"It ended with status {code}."
    last = "\n".join(said.splitlines()[-_SHOWN_LINES:])[-_SHOWN_CHARACTERS:]
    raise HookError(f"{how} It said: {last}" if last else f"{how} It said nothing on stderr.")


def read_answer(event: HookEvent, text: str) -> Outcome:
    """What an executable that ended well wants.

    :param text: what it printed: a JSON object; or other text, which at `session_start` and `user_message_send` is for
        the model to read, at `before_tool_call` is a mistake, since it may be meant as a refusal, and is for nobody
        elsewhere; or nothing.
    :raises HookError: the answer makes no sense; names the key.
    """
    text = text.strip().removeprefix("\ufeff")
    if not text.startswith("{"):
        if text and isinstance(event, SessionStart | UserMessageSend):
            return Outcome(context=(text,))
        if text and isinstance(event, BeforeToolCall):
            raise HookError('What it printed is no JSON object; print nothing, or one such as {"decision": "block"}.')
        if text:
            _log.info("what a hook printed at %s is no JSON object and was left out: %.200s", event.name, text)
        return NOTHING
    try:
        value: object = parse_json(text)
    except ValueError as error:
        raise HookError(f"Its answer is no JSON: {error}.") from error
    if isinstance(value, dict) and {"conv_id", "hook_event_name"} <= value.keys():
        return NOTHING  # what it was told: it ends with `tee log` or the like
    _log_unknown(cast("JsonObject", value))
    try:
        return _outcome(_Answer.model_validate(value), event)
    except ValidationError as error:
        raise _wrong("", error) from error
    except RecursionError as error:
        raise HookError("Its answer is nested too deeply.") from error


class _Form(BaseModel):
    """Null is the same as leaving a key out, and other keys are left alone: Claude Code's grow in number."""

    model_config = ConfigDict(strict=True, extra="ignore", populate_by_name=True)


def _as_texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


_Texts = Annotated[list[str], BeforeValidator(_as_texts)]


class _Specific(_Form):
    permission: Annotated[Literal["allow", "deny", "ask", "defer"] | None, Field(alias="permissionDecision")] = None
    reason: Annotated[str | None, Field(alias="permissionDecisionReason")] = None
    input: Annotated[dict[str, JsonValue] | None, Field(alias="updatedInput")] = None
    output: Annotated[JsonValue, Field(validation_alias=AliasChoices("updatedToolOutput", "updatedMCPToolOutput"))] = (
        None
    )
    context: Annotated[_Texts | None, Field(alias="additionalContext")] = None
    summary: str | None = None


class _Answer(_Form):
    decision: Literal["block", "approve", "allow", "ask"] | None = None
    reason: str | None = None
    goes_on: Annotated[bool | None, Field(alias="continue")] = None
    stop_reason: Annotated[str | None, Field(alias="stopReason")] = None
    system_message: Annotated[str | None, Field(alias="systemMessage")] = None
    specific: Annotated[_Specific | None, Field(alias="hookSpecificOutput")] = None
    action: Literal["compact", "summary", "continue", "replace"] | None = None
    instructions: str | None = None
    messages: list[JsonValue] | None = None
    replace_messages: list[JsonValue] | None = None
    follow_up_messages: list[str] | None = None
    defer: JsonValue = None
    tool_input: dict[str, JsonValue] | None = None
    tool_output: JsonValue = None
    message: str | None = None
    context: _Texts | None = None
    summary: str | None = None


def _log_unknown(answer: JsonObject) -> None:
    """Say in the log what a key does nothing for: it may be misspelt."""
    specific = answer.get("hookSpecificOutput")
    keys = {*answer, *(specific if isinstance(specific, dict) else ())} - answer_keys() - _FOR_OTHERS
    if keys:
        _log.warning("keys of a hook's answer that mean nothing here: %.500s", ", ".join(sorted(keys)))


@cache
def answer_keys() -> frozenset[str]:
    """Every key that means something in an answer, those of `hookSpecificOutput` included."""
    names: set[str] = set()
    for form in (_Answer, _Specific):
        for name, field in form.model_fields.items():
            alias = field.validation_alias
            choices = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
            names.update(choice for choice in choices if isinstance(choice, str))
    return frozenset(names)


def _outcome(answer: _Answer, event: HookEvent) -> Outcome:
    specific = answer.specific or _Specific()
    arguments = answer.tool_input if specific.input is None else specific.input
    if arguments is not None and isinstance(event, BeforeToolCall):
        arguments = with_our_keys(event.tool, arguments, event.input, event.at.cwd)
        arguments = None if arguments == event.input else arguments
    output = answer.tool_output if specific.output is None else specific.output
    context = (*(answer.context or ()), *(specific.context or ()))
    decision = _decision(answer, specific)
    if answer.defer and isinstance(event, BeforeCompaction) and (decision is None or decision.verdict != "block"):
        decision = DEFERRED
    return Outcome(
        decision=decision,
        tool_input=arguments,
        tool_output=None if output is None else text_of(output),
        message=answer.message,
        context=tuple(text for text in context if text.strip()),
        action=_action(answer),
        summary=answer.summary if specific.summary is None else specific.summary,
        stop=(answer.stop_reason or "") if answer.goes_on is False else None,
        notices=(answer.system_message,) if answer.system_message else (),
    )


def _decision(answer: _Answer, specific: _Specific) -> Decision | None:
    verdicts: dict[str, Verdict] = {
        "allow": "allow",
        "approve": "allow",
        "ask": "ask",
        "block": "block",
        "deny": "block",
    }
    if specific.permission == "defer":  # a decision that Claude Code leaves to whoever started it; here, to the mode
        return None
    if specific.permission is not None:
        reason = answer.reason if specific.reason is None else specific.reason
        return Decision(verdicts[specific.permission], reason or "")
    return Decision(verdicts[answer.decision], answer.reason or "") if answer.decision else None


def _action(answer: _Answer) -> Action | None:
    instructions = answer.instructions or ""
    if answer.replace_messages is not None and answer.action not in ("replace", "compact"):
        raise HookError("replace_messages: `action` should be `replace` where these are given.")
    match answer.action:
        case "compact" if answer.replace_messages is None:
            return Compact(instructions)
        case "summary":
            return Summarize(instructions)
        case "compact" | "replace":
            if answer.replace_messages is not None:
                return Replace(conversation(_forms(answer.replace_messages, "replace_messages"), "replace_messages"))
            if answer.messages is None:
                raise HookError("replace_messages: is required with `action: replace`.")
            return Replace(conversation(_forms(answer.messages, "messages"), "messages"))
        case "continue":
            said = [_said(value, index) for index, value in enumerate(answer.messages or ())]
            return _continue(said) or _continue(answer.follow_up_messages or [])
        case None:
            return _continue(answer.follow_up_messages or [])


def _continue(messages: list[str]) -> Continue | None:
    """Blank messages are none; without any there is nothing to go on with."""
    said = tuple(message for message in messages if message.strip())
    return Continue(said) if said else None


def _said(value: JsonValue, index: int) -> str:
    if isinstance(value, dict) and value.get("role") == "user":
        value = value.get("content")
    if not isinstance(value, str):
        raise HookError(f"messages.{index}: should be a text, with `action: continue`.")
    return value


def _forms(values: list[JsonValue], key: str) -> list[MessageForm]:
    try:
        return TypeAdapter(list[MessageForm]).validate_python(values)
    except ValidationError as error:
        raise _wrong(key, error) from error


def _wrong(key: str, error: ValidationError) -> HookError:
    """The first complaint, with the key. What was answered is not repeated: it may be long, or secret."""
    details = error.errors(include_url=False, include_input=False)[0]
    parts = ("", *details["loc"])
    # Behind an index, pydantic names the kind of block that it read there, which is no key.
    keys = [
        str(part)
        for before, part in pairwise(parts)
        if not (isinstance(before, int) and isinstance(part, str) and part in KINDS)
    ]
    place = [key, *keys] if key else keys
    message = details["msg"].replace("Input should", "should").replace("Field required", "is required")
    return HookError(f"Its answer is wrong. {'.'.join(place)}: {message}.")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- and back ---


def as_answer(outcome: Outcome) -> JsonObject:
    """An outcome as an executable would answer it, for people to look at. `read_answer` makes the same of it again,
    but for `swap_context`, which executables do not have."""
    answer: JsonObject = {}
    if outcome.decision is not None:
        answer |= {"decision": outcome.decision.verdict, "reason": outcome.decision.reason}
    for key, value in (
        ("tool_input", outcome.tool_input),
        ("tool_output", outcome.tool_output),
        ("message", outcome.message),
        ("summary", outcome.summary),
    ):
        if value is not None:
            answer[key] = value
    if outcome.context:
        answer["context"] = [*outcome.context]
    if outcome.action is not None:
        answer |= _as_action(outcome.action)
    if outcome.stop is not None:
        answer |= {"continue": False, "stopReason": outcome.stop}
    if outcome.notices:
        answer["systemMessage"] = "\n".join(outcome.notices)
    return answer


def _as_action(action: Action) -> JsonObject:
    match action:
        case Compact():
            return {"action": "compact", "instructions": action.instructions}
        case Summarize():
            return {"action": "summary", "instructions": action.instructions}
        case Continue():
            return {"action": "continue", "messages": [*action.messages]}
        case Replace():
            return {"action": "replace", "replace_messages": [as_json(message) for message in action.messages]}
        case SwapContext():
            return {"action": "swap_context", "summary": action.summary}
