"""Constructors of the pieces that version 2 has in another form than version 1; see `acp_agent.protocol.v1.content`,
which also says why these are dicts and how absent and null are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1.content import given
from acp_agent.protocol.v2 import SessionConfigOptionCategory


def diff(changes: Sequence[JsonObject], *, git_patch: str | None = None) -> JsonObject:
    """An item of a tool call's content: changes of files.

    :param changes: made by `change`.
    :param git_patch: the same as text, with absolute paths and without prefixes.
    """
    item: JsonObject = {"type": "diff", "changes": [*changes]}
    return item if git_patch is None else {**item, "patch": {"format": "git_patch", "text": git_patch}}


def change(operation: Literal["add", "modify"], path: str) -> JsonObject:
    """What became of a text file.

    :param path: absolute.
    """
    return {"operation": operation, "path": path, "fileType": "text"}


def available_command(name: str, description: str, *, hint: str | None = None) -> JsonObject:
    """A slash command.

    :param name: without the slash.
    :param hint: what to type after it; None for a command that takes no text.
    """
    command: JsonObject = {"type": "command", "name": name, "description": description}
    if hint is not None:
        command["input"] = {"type": "text", "hint": hint}
    return command


def config_select(
    config_id: str,
    name: str,
    current_value: str,
    options: Sequence[JsonObject],
    *,
    category: SessionConfigOptionCategory | None = None,
    description: str | None = None,
) -> JsonObject:
    """A setting of a session with a list of values.

    :param options: made by version 1's `config_value`; at least one.
    """
    head: JsonObject = {"type": "select", "configId": config_id, "name": name, "currentValue": current_value}
    return {**head, "options": [*options], **given(category=category, description=description)}


def config_boolean(
    config_id: str,
    name: str,
    current_value: bool,
    *,
    category: SessionConfigOptionCategory | None = None,
    description: str | None = None,
) -> JsonObject:
    """A setting of a session that is on or off."""
    head: JsonObject = {"type": "boolean", "configId": config_id, "name": name, "currentValue": current_value}
    return {**head, **given(category=category, description=description)}
