"""Constructors of the pieces that version 2 has in another form than version 1; see `acp_agent.protocol.v1.content`,
which also says why these are dicts and how absent and null are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1.content import given
from acp_agent.protocol.v2 import PlanEntryPriority, PlanEntryStatus


def diff(changes: Sequence[JsonObject], *, git_patch: str | None = None) -> JsonObject:
    """An item of a tool call's content: changes of files.

    :param changes: made by `change`.
    :param git_patch: the same as text, with absolute paths and without prefixes.
    """
    item: JsonObject = {"type": "diff", "changes": [*changes]}
    return item if git_patch is None else {**item, "patch": {"format": "git_patch", "text": git_patch}}


def change(
    operation: Literal["add", "modify", "delete", "move", "copy"],
    path: str,
    *,
    former: str | None = None,
    file_type: Literal["text", "binary", "directory", "symlink"] | None = None,
    mime_type: str | None = None,
) -> JsonObject:
    """What became of a file.

    :param path: absolute; for a move and a copy, where it is now.
    :param former: for these, where it was moved or copied from; absolute.
    :param file_type: of what is there now, or was there; None where that is not known.
    :param mime_type: likewise.
    """
    return {
        "operation": operation,
        **given(oldPath=former),
        "path": path,
        **given(fileType=file_type, mimeType=mime_type),
    }


def plan_entry(content: str, *, priority: PlanEntryPriority, status: PlanEntryStatus) -> JsonObject:
    """One task of a plan."""
    return {"content": content, "priority": priority, "status": status}


def available_command(name: str, description: str, *, hint: str | None = None) -> JsonObject:
    """A slash command.

    :param name: without the slash.
    :param hint: what to type after it; None for a command that takes no text.
    """
    command: JsonObject = {"type": "command", "name": name, "description": description}
    if hint is not None:
        command["input"] = {"type": "text", "hint": hint}
    return command


def config_option(option: JsonObject, groups: Sequence[JsonObject] = ()) -> JsonObject:
    """A setting of a session, from version 1's form of it.

    :param option: made by version 1's `config_select`, with at least one value, or by its `config_boolean`.
    :param groups: made by `config_group`; in place of a select's list of values.
    """
    wire: JsonObject = {"configId" if key == "id" else key: value for key, value in option.items()}
    return {**wire, "options": [*groups]} if groups else wire


def config_group(name: str, values: Sequence[JsonObject]) -> JsonObject:
    """Values of a select that belong together.

    :param name: shown above them.
    :param values: made by version 1's `config_value`.
    """
    return {"groupId": name, "name": name, "options": [*values]}
