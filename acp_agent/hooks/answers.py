"""Parses the answer of an executable, in our format or Claude Code's, into an
`Outcome`.

An invalid answer raises a `HookError` that names the invalid key.
"""

from __future__ import annotations

import json
import logging
import signal
from typing import Annotated, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import get_objects, parse_json
from acp_agent.errors import HookError
from acp_agent.hooks.events import (
    BeforeToolCall,
    HookEvent,
    SessionStart,
    UserMessageSend,
)
from acp_agent.hooks.outcomes import (
    NOTHING,
    Action,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
    Verdict,
    listed,
)
from acp_agent.hooks.payload import EDIT_KEYS, KEYS, conversation, with_claude_keys

_BLOCKED = 2
"""The exit status with which a hook blocks an action."""
_MAX_LINES = 5
_MAX_CHARACTERS = 1000
_VERDICTS: dict[str, Verdict] = {
    "allow": "allow",
    "approve": "allow",
    "ask": "ask",
    "block": "block",
    "deny": "block",
}

_log = logging.getLogger(__name__)


def read_outcome(event: HookEvent, code: int, stdout: bytes, stderr: bytes) -> Outcome:
    """Return the outcome of an executable.

    :param code: exit status; the negative number of the signal if one ended the
        executable.
    :raises HookError: if the executable failed, or its answer is invalid.
    """
    if code == 0:
        return _read_answer(event, stdout.decode("utf-8", "replace"))
    if code == _BLOCKED:
        return Outcome(Decision("block", stderr.decode("utf-8", "replace").strip()))
    raise failure(code, stderr)


def failure(code: int, stderr: bytes) -> HookError:
    """Return the error for a program that failed, with the last lines of its stderr.

    :param code: exit status; the negative number of the signal if one ended the
        program.
    """
    how = (
        f"It was ended by {signal.Signals(-code).name}."
        if code < 0
        else f"It ended with status {code}."
    )
    lines = stderr.decode("utf-8", "replace").strip().splitlines()[-_MAX_LINES:]
    last = "\n".join(lines)[-_MAX_CHARACTERS:]
    return HookError(
        f"{how} It said: {last}" if last else f"{how} It said nothing on stderr."
    )


def _read_answer(event: HookEvent, text: str) -> Outcome:
    """Return the outcome of an executable that exited with 0.

    :param text: the executable's output: a JSON object, plain text or nothing. Plain
        text is added to the context at `session_start` and `user_message_send`. At
        `before_tool_call` it is an error, since it may be meant as a refusal. At other
        events it is ignored, unless a line looks like the beginning of a JSON answer,
        which is an error.
    :raises HookError: if the answer is invalid; the message names the key.
    """
    text = text.strip().removeprefix("\ufeff")
    if not text.startswith("{"):
        if text and isinstance(event, SessionStart | UserMessageSend):
            return Outcome(context=(text,))
        if text and (
            isinstance(event, BeforeToolCall)
            or any(map(_begins_json, text.splitlines()))
        ):
            raise HookError(
                'What it printed is no JSON object; print nothing, or one such as {"decision": "block"}.'
            )
        if text:
            _log.info(
                "ignored the output of a hook at %s, which is not a JSON object: %.200s",
                event.name,
                text,
            )
        return NOTHING
    try:
        value = parse_json(text)
        if isinstance(value, dict) and {"conv_id", "hook_event_name"} <= value.keys():
            return NOTHING  # the hook's input, printed by `tee log` or similar
        return _outcome(Answer.model_validate(_flat(value)), event)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, details["loc"]))
        raise HookError(
            f"Its answer is wrong. {place}: {details['msg'].replace('Input should', 'should')}."
        ) from error
    except ValueError as error:
        raise HookError(f"Its answer is no JSON: {error}.") from error
    except RecursionError as error:
        raise HookError("Its answer is nested too deeply.") from error


def _begins_json(line: str) -> bool:
    return line.lstrip().startswith(("{", "[{", '["'))


_OUTPUT = AliasChoices("updatedToolOutput", "updatedMCPToolOutput", "tool_output")
Texts = Annotated[list[str], BeforeValidator(listed)]


_SILENT = {"hookSpecificOutput", "hookEventName", "suppressOutput"}
"""Claude Code's keys that are ignored without a notice to the user."""
_CHOICES = {"action", "decision", "permissionDecision"}
"""Keys whose value is one of a fixed set of words."""
_FOR_ACTIONS = ("instructions", "messages", "replace_messages", "follow_up_messages")
"""Keys that contain the input of an action."""


class Answer(BaseModel):
    """An answer with the keys of `hookSpecificOutput` merged in and nulls removed.

    Unknown keys are not errors, since Claude Code keeps adding keys, but the user gets
    a notice about them.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    blocked: bool = False
    decision: Literal["block", "approve", "allow", "ask"] | None = None
    permission: Literal["allow", "deny", "ask", "defer"] | None = Field(
        None, alias="permissionDecision"
    )
    reason: str = ""
    permission_reason: str | None = Field(None, alias="permissionDecisionReason")
    continues: bool = Field(True, alias="continue")
    stop_reason: str = Field("", alias="stopReason")
    system_message: str = Field("", alias="systemMessage")
    context: Texts = []
    more_context: Texts = Field([], alias="additionalContext")
    tool_input: JsonObject | None = Field(
        None, validation_alias=AliasChoices("updatedInput", "tool_input")
    )
    tool_output: JsonValue = Field(None, validation_alias=_OUTPUT)
    message: str | None = None
    summary: str | None = None
    action: Literal["compact", "summary", "continue", "replace"] | None = None
    instructions: str = ""
    messages: list[JsonValue] | None = None
    replace_messages: list[JsonValue] | None = None
    follow_up_messages: list[str] = []


def _flat(value: JsonValue) -> JsonValue:
    """Return an answer as one flat object for `Answer`."""
    if not isinstance(value, dict):
        return value
    specific = value.get("hookSpecificOutput") or {}
    if not isinstance(specific, dict):
        raise HookError("Its answer is wrong. hookSpecificOutput: should be an object.")
    both: JsonObject = {
        **value,
        **{key: each for key, each in specific.items() if key != "decision"},
    }
    # A program in a language without null writes an empty string if it chooses nothing.
    return {
        key: each
        for key, each in both.items()
        if each is not None and (each != "" or key not in _CHOICES)
    }


def _outcome(answer: Answer, event: HookEvent) -> Outcome:
    # Claude Code's `defer` leaves the decision to its caller. Here the mode decides.
    decided = answer.permission or answer.decision or ""
    verdict = _VERDICTS.get("block" if answer.blocked else decided)
    reason = (
        answer.reason if answer.permission_reason is None else answer.permission_reason
    )
    arguments = answer.tool_input
    if arguments is not None and isinstance(event, BeforeToolCall):
        arguments = with_our_keys(event.tool, arguments, event.input, event.at.cwd)
        arguments = None if arguments == event.input else arguments
    action, used = _action(answer)
    unused = [key for key in _FOR_ACTIONS if getattr(answer, key) and key not in used]
    which = f"with action: {answer.action}" if answer.action else "without action"
    unknown = [key[:50] for key in answer.model_extra or () if key not in _SILENT]
    return Outcome(
        decision=Decision(verdict, reason) if verdict else None,
        tool_input=arguments,
        tool_output=None
        if answer.tool_output is None
        else _text_of(answer.tool_output),
        message=answer.message,
        context=(*answer.context, *answer.more_context),
        action=action,
        summary=answer.summary,
        stop=None if answer.continues else answer.stop_reason,
        notices=(answer.system_message,) if answer.system_message else (),
        unknown=(*unknown, *(f"{key} {which}" for key in unused)),
    )


def _action(answer: Answer) -> tuple[Action | None, tuple[str, ...]]:
    """Return the action that an answer requests, and the keys that the action uses.

    `replace_messages` without an action, or with `compact`, replaces the conversation.
    `messages` without an action lets the agent continue with these messages, if all of
    them are strings.
    """
    if answer.action in (None, "compact") and answer.replace_messages:
        return Replace(conversation(answer.replace_messages, "replace_messages")), (
            "replace_messages",
        )
    match answer.action:
        case "summary":
            return Summarize(answer.instructions), ("instructions",)
        case "compact":
            return Compact(answer.instructions), ("instructions",)
        case "replace":
            key = "messages" if answer.replace_messages is None else "replace_messages"
            return Replace(conversation(getattr(answer, key) or (), key)), (key,)
        case "continue" | None:
            given = answer.messages or ()
            are_texts = all(isinstance(text, str) for text in given)
            if answer.action and not are_texts:
                raise HookError("messages: should be strings, with `action: continue`.")
            texts = (
                [str(text) for text in given if str(text).strip()] if are_texts else []
            )
            if texts:
                return Continue(tuple(texts)), ("messages",)
            # Blank texts are ignored without a notice.
            used = (
                ("follow_up_messages", "messages")
                if are_texts
                else ("follow_up_messages",)
            )
            return Continue(
                tuple(answer.follow_up_messages)
            ) if answer.follow_up_messages else None, used


def _text_of(value: JsonValue) -> str:
    """Convert a tool output in a hook's answer to text for the model. The output may
    have any of the forms that Claude Code's tools return.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(_text_of, value))
    if isinstance(value, dict):
        texts = [
            value.get(key) for key in ("text", "content", "output", "stdout", "stderr")
        ]
        if joined := "\n".join(
            _text_of(text) for text in texts if isinstance(text, str | list) and text
        ):
            return joined
    return json.dumps(value, ensure_ascii=False)


def with_our_keys(
    tool: str, answer: JsonObject, arguments: JsonObject, cwd: str
) -> JsonObject:
    """Convert the arguments in a hook's answer to our keys.

    The answer may contain both our key and Claude Code's for the same argument. Then
    the value that differs from what the hook was given is used.

    :param answer: the arguments in the answer.
    :param arguments: the arguments of the call.
    :raises HookError: if the answer has the keys of a single edit, but the call has
        several edits.
    """
    sent = with_claude_keys(tool, arguments, cwd)
    ours = dict(answer)
    for key, theirs in KEYS.get(tool, {}).items():
        if theirs in ours:
            value = ours.pop(theirs)
            if key not in ours or value != sent.get(theirs):
                ours[key] = value
    if tool == "edit":
        given = {
            key: ours.pop(theirs) for key, theirs in EDIT_KEYS.items() if theirs in ours
        }
        edit = {
            key: value
            for key, value in given.items()
            if value != sent.get(EDIT_KEYS[key])
        }
        edits = get_objects(ours, "edits") or get_objects(arguments, "edits")
        if edit and len(edits) > 1:
            raise HookError(
                f"Its answer has `old_string` or `new_string`, but the call has {len(edits)} edits; return `edits`."
            )
        if edits or edit:
            ours["edits"] = (
                [{**(edits[0] if edits else {}), **edit}] if edit else [*edits]
            )
    return ours
