"""`hooks` in the configuration files: commands at events, in our form or in that of Claude Code's settings.

Each hook is read by itself, so that a wrong one affects neither the others nor the session: it is reported with file
and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

from acp_agent.config.document import Document, DocumentError, Place, dotted, validate
from acp_agent.config.forms import Form, Matcher, Section
from acp_agent.config.hook_events import EventName, event_name, unknown_event
from acp_agent.config.settings import HookCommand, Origin
from acp_agent.frozen import frozen

KEY = "hooks"
IGNORED = ("type", "statusMessage")
"""Keys of a command in Claude Code's form that mean nothing here."""


@frozen
class _Group(Section):
    """`hooks.*[]` as Claude Code's settings have it: several commands with one matcher."""

    hooks: Annotated[list[object], Form()]
    matcher: Matcher = ""


def read_hooks(
    document: Document, origin: Origin, path: Path
) -> tuple[tuple[HookCommand, ...], tuple[DocumentError, ...]]:
    """Read the section of one file.

    :param path: where the file is.
    :returns: the commands that can be used, in the file's order, and what is wrong with the others.
    """
    commands: list[HookCommand] = []
    faults: list[DocumentError] = []
    waiting: list[tuple[EventName, Place, _Group | None]] = [
        (event, place, None) for event, place in _entries(document, faults)
    ]
    while waiting:
        event, place, group = waiting.pop(0)
        entry = document.at(place)
        try:
            if group is None and isinstance(entry, Mapping) and KEY in entry:
                group = validate(_Group, document, *place)
                waiting[:0] = [(event, (*place, KEY, index), group) for index in range(len(group.hooks))]
            else:
                hook = _command(document, event, place, group)
                commands.append(replace(hook, origin=origin, source=f"{path}: {dotted(place)}"))
        except DocumentError as error:
            faults.append(error)
    return tuple(commands), tuple(faults)


def _entries(document: Document, faults: list[DocumentError]) -> Iterator[tuple[EventName, Place]]:
    """Yield the event and the place of each entry; add what cannot be one to the faults."""
    section = document.at((KEY,))
    if not isinstance(section, Mapping | None):
        faults.append(document.wrong("should be `key: value` lines of its own, indented below", KEY))
        return
    for word, entries in cast("Mapping[str, object]", section or {}).items():
        event = event_name(word)
        if event is None:
            faults.append(document.wrong(unknown_event(word), KEY, word))
        elif not isinstance(entries, list):
            faults.append(document.wrong("should be a list, such as [one, two]", KEY, word))
        else:
            for index in range(len(cast("list[object]", entries))):
                yield event, (KEY, word, index)


def _command(document: Document, event: EventName, place: Place, group: _Group | None) -> HookCommand:
    """Return one command.

    :raises DocumentError: it is wrong.
    """
    data = document.at(place)
    if group is not None and isinstance(data, Mapping):
        entry = cast("Mapping[str, object]", data)
        if entry.get("type", "command") != "command":
            raise document.wrong("its `type` is none that is run here; `command` is the only one", *place)
        data = {key: value for key, value in entry.items() if key not in IGNORED}
    hook = validate(HookCommand, document, *place, data=data)
    program = hook.command.split()[0] if isinstance(hook.command, str) else hook.command[0]
    name = hook.name or Path(program).name.strip("\"'") or program
    return replace(hook, event=event, name=name, matcher=hook.matcher if group is None else group.matcher)
