"""Constructors of the pieces that updates, results and requests are put together from, as plain JSON objects.

A content block, an item of a tool call, a place in a file, an entry of a plan, a command, a mode, a config option.

Every constructor of this room returns a `JsonObject` and not a model. Streamed text is the hot path (one
`session/update` a token), where a dict costs a small part of a validated model and nothing has to be loaded; one type
for all means that pieces fit together without conversion. What a model would have guaranteed, the tests do: each
constructor's output is checked against the official schema and read back through the generated models.

An argument that is left out (None) is left out on the wire. Where null itself has a meaning, the parameter's default is
`OMITTED` instead and None is written as null. Arguments are not copied.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import PlanEntryPriority, PlanEntryStatus, SessionConfigOptionCategory


class Omitted(enum.Enum):
    """Type of `OMITTED`."""

    OMITTED = "omitted"


OMITTED: Final = Omitted.OMITTED
"""Default of a parameter for which None is a value of its own (null)."""

OmittedType: TypeAlias = Literal[Omitted.OMITTED]


def given(**members: JsonValue) -> JsonObject:
    """The arguments that are not None, under their wire names."""
    return {name: value for name, value in members.items() if value is not None}


# ------------------------------------------------------------------------------------------------ content blocks


def text_content(text: str) -> JsonObject:
    """Plain text or Markdown."""
    return {"type": "text", "text": text}


def image_content(data: str, mime_type: str, *, uri: str | None = None) -> JsonObject:
    """An image.

    :param data: base64.
    """
    return {"type": "image", "data": data, "mimeType": mime_type, **given(uri=uri)}


def audio_content(data: str, mime_type: str) -> JsonObject:
    """A sound.

    :param data: base64.
    """
    return {"type": "audio", "data": data, "mimeType": mime_type}


def resource_link(
    uri: str,
    name: str,
    *,
    mime_type: str | None = None,
    title: str | None = None,
    description: str | None = None,
    size: int | None = None,
) -> JsonObject:
    """A reference to something that the reader can fetch.

    :param size: bytes.
    """
    optional = given(mimeType=mime_type, title=title, description=description, size=size)
    return {"type": "resource_link", "uri": uri, "name": name, **optional}


def text_resource(uri: str, text: str, *, mime_type: str | None = None) -> JsonObject:
    """An embedded resource with its text."""
    return {"type": "resource", "resource": {"uri": uri, "text": text, **given(mimeType=mime_type)}}


def blob_resource(uri: str, blob: str, *, mime_type: str | None = None) -> JsonObject:
    """An embedded resource with its bytes.

    :param blob: base64.
    """
    return {"type": "resource", "resource": {"uri": uri, "blob": blob, **given(mimeType=mime_type)}}


# --------------------------------------------------------------------------------------------- parts of tool calls


def tool_content(block: JsonObject) -> JsonObject:
    """An item of a tool call's content: a content block."""
    return {"type": "content", "content": block}


def diff(path: str, old_text: str | None, new_text: str) -> JsonObject:
    """An item of a tool call's content: a change to a file.

    :param path: absolute.
    :param old_text: None (null on the wire) for a new file.
    """
    return {"type": "diff", "path": path, "oldText": old_text, "newText": new_text}


def terminal(terminal_id: str) -> JsonObject:
    """An item of a tool call's content: a live terminal of the client, which must not be released yet."""
    return {"type": "terminal", "terminalId": terminal_id}


def location(path: str, *, line: int | None = None) -> JsonObject:
    """A place that a tool call works on.

    :param path: absolute.
    """
    return {"path": path, **given(line=line)}


# ------------------------------------------------------------------------------------- plan, commands, modes, options


def plan_entry(content: str, *, priority: PlanEntryPriority, status: PlanEntryStatus) -> JsonObject:
    """One task of a plan."""
    return {"content": content, "priority": priority, "status": status}


def available_command(name: str, description: str, *, hint: str | None = None) -> JsonObject:
    """A slash command.

    :param name: without the slash.
    :param hint: what to type after it; None for a command that takes no text.
    """
    command: JsonObject = {"name": name, "description": description}
    if hint is not None:
        command["input"] = {"hint": hint}
    return command


def session_mode(mode_id: str, name: str, *, description: str | None = None) -> JsonObject:
    """One mode among those that a session can be in."""
    return {"id": mode_id, "name": name, **given(description=description)}


def session_mode_state(current_mode_id: str, available_modes: Sequence[JsonObject]) -> JsonObject:
    """The modes of a session and which one is on."""
    return {"currentModeId": current_mode_id, "availableModes": [*available_modes]}


def config_value(value: str, name: str, *, description: str | None = None) -> JsonObject:
    """One value of a select option."""
    return {"value": value, "name": name, **given(description=description)}


def config_select(
    option_id: str,
    name: str,
    current_value: str,
    options: Sequence[JsonObject],
    *,
    category: SessionConfigOptionCategory | None = None,
    description: str | None = None,
) -> JsonObject:
    """A setting of a session with a list of values.

    :param options: made by `config_value`.
    """
    head: JsonObject = {"type": "select", "id": option_id, "name": name, "currentValue": current_value}
    return {**head, "options": [*options], **given(category=category, description=description)}


def config_boolean(
    option_id: str,
    name: str,
    current_value: bool,
    *,
    category: SessionConfigOptionCategory | None = None,
    description: str | None = None,
) -> JsonObject:
    """A setting of a session that is on or off; only for clients with `session.configOptions.boolean`."""
    head: JsonObject = {"type": "boolean", "id": option_id, "name": name, "currentValue": current_value}
    return {**head, **given(category=category, description=description)}


def form_choice(value: str, title: str, *, description: str | None = None) -> JsonObject:
    """One answer of a field that has several to choose from."""
    return {"const": value, "title": title, **given(description=description)}


def form_field(
    kind: Literal["string", "number", "integer", "boolean", "array"],
    *,
    title: str | None = None,
    description: str | None = None,
    default: JsonValue = None,
    choices: Sequence[JsonObject] = (),
    limits: Mapping[str, JsonValue] | None = None,
    meta: JsonObject | None = None,
) -> JsonObject:
    """The schema of one property of a form's answer.

    :param kind: `array` for several of its choices, `string` for one of them, or for text where it has none.
    :param choices: made by `form_choice`.
    :param limits: further keywords of this kind, such as `minLength`.
    """
    said = given(title=title, description=description, default=default, _meta=meta)
    field: JsonObject = {"type": kind, **said, **(limits or {})}
    if kind == "array":
        return {**field, "items": {"anyOf": [*choices]}}
    return {**field, "oneOf": [*choices]} if choices else field


def form_schema(properties: Mapping[str, JsonObject], required: Sequence[str]) -> JsonObject:
    """The schema of a form's answer.

    :param properties: made by `form_field`, by name, in the order in which they are shown.
    :param required: names of those that have to be answered.
    """
    return {"type": "object", "properties": {**properties}, "required": [*required]}


def cost(amount: float, currency: str) -> JsonObject:
    """What a session has cost so far.

    :param currency: ISO 4217, such as `USD`.
    """
    return {"amount": amount, "currency": currency}
