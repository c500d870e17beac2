"""Claude Code's words for what we have: names of tools, keys of their arguments, modes, sources.

The one place where both are known, so that a hook that was written for it runs here. Its words are those of its hooks
reference (https://code.claude.com/docs/en/hooks). Knows no wire form of a whole event or answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import HookError
from acp_agent.hooks.events import (
    ALIASES,
    AfterCompaction,
    AfterToolCall,
    BeforeCompaction,
    BeforeToolCall,
    EventName,
    HookEvent,
    SessionEnd,
    SessionStart,
)
from acp_agent.patterns import compile_pattern

EVENTS: Mapping[EventName, str] = {ours: theirs for theirs, ours in ALIASES.items()}

TOOLS: Mapping[str, str] = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "list": "LS",
    "glob": "Glob",
    "grep": "Grep",
    "plan": "TodoWrite",
    "ask_user": "AskUserQuestion",
}
"""Our tools that it has as well, by our name."""

KEYS: Mapping[str, Mapping[str, str]] = {
    "read": {"path": "file_path"},
    "write": {"path": "file_path"},
    "edit": {"path": "file_path"},
    "grep": {"ignore_case": "-i", "context": "-C"},
    "plan": {"entries": "todos"},
}
"""Arguments that it calls otherwise, by our tool and our key. Those of `edit` differ in more than their names."""

MODES: Mapping[str, str] = {
    "plan": "plan",
    "ask": "default",
    "accept-edits": "acceptEdits",
    "full-access": "bypassPermissions",
}

SOURCES: Mapping[str, str] = {"new": "startup", "load": "resume", "resume": "resume", "compact": "compact"}

ENDS: Mapping[str, tuple[str, ...]] = {
    "close": ("other",),
    "delete": ("other",),
    "exit": ("prompt_input_exit", "other"),
}
"""Why a session ends, in its words that may mean it."""

_EDIT = {"old_text": "old_string", "new_text": "new_string", "replace_all": "replace_all"}


def absolute(cwd: str, path: str) -> str:
    """A path that a model wrote as its hooks get it: absolute, as the tools will understand it."""
    if path.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        path = unquote(urlsplit(path).path)
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - Path's raises where there is no home
    return os.path.normpath(Path(cwd) / path)


def trigger(reason: str) -> str:
    """`manual` or `auto`: why a compaction is done."""
    return "manual" if reason == "manual" else "auto"


def matches(matcher: str, event: HookEvent) -> bool:
    """Whether a matcher means this event.

    A matcher of words and `|` means exactly these names; any other is a regular expression of RE2 that is to be found
    in a name. Empty, or `*`, it means all; at events that have nothing to match it means nothing.
    """
    words = _names(event)
    if matcher in ("", "*") or not words:
        return True
    if re.fullmatch(r"[\w|-]+", matcher):
        return not words.isdisjoint(matcher.split("|"))
    pattern = compile_pattern(matcher)
    return any(pattern.search(word) is not None for word in words)


def _names(event: HookEvent) -> frozenset[str]:
    """What a matcher is compared with: our word and its."""
    match event:
        case BeforeToolCall() | AfterToolCall():
            multiple = ("MultiEdit",) if event.tool == "edit" else ()
            return frozenset({event.tool, TOOLS.get(event.tool, event.tool), *multiple})
        case SessionStart():
            return frozenset({event.source, SOURCES[event.source]})
        case BeforeCompaction() | AfterCompaction():
            return frozenset({event.reason, trigger(event.reason)})
        case SessionEnd():
            return frozenset({event.reason, *ENDS[event.reason]})
        case _:
            return frozenset()


def with_its_keys(tool: str, arguments: JsonObject, cwd: str) -> JsonObject:
    """A call's arguments with its keys beside ours; paths under its keys are absolute, as a hook expects them.

    Of several edits in one call, the old texts and the new ones are joined by line ends, so that a hook that looks for
    something in them sees all.
    """
    both = dict(arguments)
    for ours, theirs in KEYS.get(tool, {}).items():
        if ours in arguments:
            value = arguments[ours]
            both[theirs] = absolute(cwd, value) if theirs == "file_path" and isinstance(value, str) else value
    if tool == "edit" and (edits := _edits(arguments)):
        both["old_string"] = "\n".join(str(edit.get("old_text", "")) for edit in edits)
        both["new_string"] = "\n".join(str(edit.get("new_text", "")) for edit in edits)
        both["replace_all"] = any(edit.get("replace_all") is True for edit in edits)
    return both


def with_our_keys(tool: str, answer: JsonObject, asked: JsonObject, cwd: str) -> JsonObject:
    """Arguments as a hook wants them, in our keys alone. Where it answers with both keys of an argument, the one that
    it has changed holds.

    :param asked: the call's own arguments.
    :raises HookError: it answers for one edit where the call has several.
    """
    sent = with_its_keys(tool, asked, cwd)
    ours = dict(answer)
    for key, theirs in KEYS.get(tool, {}).items():
        if theirs in ours:
            value = ours.pop(theirs)
            if key not in ours or value != sent.get(theirs):
                ours[key] = value
    if tool == "edit":
        _use_one_edit(ours, asked, sent)
    return ours


def _use_one_edit(ours: JsonObject, asked: JsonObject, sent: JsonObject) -> None:
    theirs = {key: ours.pop(key) for key in _EDIT.values() if key in ours}
    if (edits := _edits(ours)) is not None:
        ours["edits"] = [{_ours(key): value for key, value in edit.items()} for edit in edits]
    unchanged = all(sent.get(key) == value for key, value in theirs.items())
    if unchanged and "edits" in ours:
        return
    before = _edits(asked) or []
    if len(before) > 1 and unchanged:
        ours["edits"] = asked["edits"]
    elif len(before) > 1:
        raise HookError(
            f"Its answer has `old_string` or `new_string` for a call with {len(before)} edits; answer with `edits`."
        )
    else:
        edit = dict(before[0]) if before else {}
        ours["edits"] = [{**edit, **{_ours(key): value for key, value in theirs.items()}}]


def _ours(key: str) -> str:
    return next((ours for ours, theirs in _EDIT.items() if theirs == key), key)


def _edits(arguments: JsonObject) -> list[JsonObject] | None:
    """The edits of a call; None where it has none that are of any use: a model may send anything."""
    value = arguments.get("edits")
    edits = [edit for edit in value if isinstance(edit, dict)] if isinstance(value, list) else []
    return edits if edits and len(edits) == len(cast("list[JsonValue]", value)) else None


def text_of(value: JsonValue) -> str:
    """A tool's output that a hook gives, as the model reads it: the text of any form that its tools answer in."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text_of(part) for part in value)
    if isinstance(value, dict):
        texts = [value.get(key) for key in ("text", "content", "output", "stdout", "stderr")]
        found: Iterable[JsonValue] = (text for text in texts if isinstance(text, str | list) and text)
        if said := "\n".join(text_of(text) for text in found):
            return said
    import json

    return json.dumps(value, ensure_ascii=False)
