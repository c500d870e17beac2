"""`hooks` in the configuration files: commands at events, in our form or in that of Claude Code's settings.

Each hook is read by itself, so that a wrong one affects neither the others nor the session: it is reported with file
and line.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class HooksReader:
    """Reads the section of one file.

    :param document: the file.
    :param path: where it is.
    :ivar commands: those that can be used, in the file's order.
    :ivar faults: what is wrong with the others.
    """

    def __init__(self, document: Document, origin: Origin, path: Path) -> None:
        self.commands: list[HookCommand] = []
        self.faults: list[DocumentError] = []
        self._document = document
        self._origin: Origin = origin
        self._path = path
        section = document.at((KEY,))
        if isinstance(section, Mapping):
            for word, entries in cast("Mapping[str, object]", section).items():
                self._read_event(word, entries)
        elif section is not None:
            self.faults.append(document.wrong("should be `key: value` lines of its own, indented below", KEY))

    def _read_event(self, word: str, entries: object) -> None:
        event = event_name(word)
        if event is None:
            self.faults.append(self._document.wrong(unknown_event(word), KEY, word))
        elif not isinstance(entries, list):
            self.faults.append(self._document.wrong("should be a list, such as [one, two]", KEY, word))
        else:
            for index in range(len(cast("list[object]", entries))):
                self._read(event, (KEY, word, index))

    def _read(self, event: EventName, place: Place, group: _Group | None = None) -> None:
        """Read a command, or a group of commands."""
        entry = self._document.at(place)
        try:
            if group is None and isinstance(entry, Mapping) and KEY in entry:
                found = validate(_Group, self._document, *place)
                for index in range(len(found.hooks)):
                    self._read(event, (*place, KEY, index), found)
            else:
                self.commands.append(self._command(event, place, group))
        except DocumentError as error:
            self.faults.append(error)

    def _command(self, event: EventName, place: Place, group: _Group | None) -> HookCommand:
        """Return one command.

        :raises DocumentError: it is wrong.
        """
        data = self._document.at(place)
        if group is not None and isinstance(data, Mapping):
            entry = cast("Mapping[str, object]", data)
            if entry.get("type", "command") != "command":
                raise self._document.wrong("its `type` is none that is run here; `command` is the only one", *place)
            data = {key: value for key, value in entry.items() if key not in IGNORED}
        hook = validate(HookCommand, self._document, *place, data=data)
        program = hook.command.split()[0] if isinstance(hook.command, str) else hook.command[0]
        return replace(
            hook,
            event=event,
            name=hook.name or Path(program).name.strip("\"'") or program,
            origin=self._origin,
            source=f"{self._path}: {dotted(place)}",
            matcher=hook.matcher if group is None else group.matcher,
        )
