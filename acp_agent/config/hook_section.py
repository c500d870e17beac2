"""`hooks` in the configuration files: commands at events, in our form or in that of Claude Code's settings.

Each is read by itself, so that a wrong one, or one for an event that there is not, costs none of the others and no
session: what is wrong with it is told with file and line. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, model_validator
from pydantic_core import PydanticCustomError

from acp_agent.config.document import Document, DocumentError, Place, did_you_mean, dotted, validate
from acp_agent.config.forms import Command, Matcher
from acp_agent.config.hook_events import ALIASES, ELSEWHERE, EVENT_NAMES, EventName, OnError, event_name
from acp_agent.config.settings import HookCommand

M = TypeVar("M", bound=BaseModel)

KEY = "hooks"


class Section(BaseModel):
    """Any mapping of the files: unknown keys are errors, and nothing is converted (`yes` is no number)."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Hook(Section):
    """What both forms say of one command."""

    command: Command = Field(description="a command line, or a list of a program and its arguments")
    timeout: Annotated[float, Field(gt=0, le=3600)] | None = Field(
        default=None, description="seconds that it may take; left out: 10"
    )
    on_error: OnError | None = Field(
        default=None, description="what its failure means; left out: `ask`, which has you asked about the call"
    )
    name: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="what it is called; left out: the program's name"
    )

    def settings(
        self, event: EventName, origin: Literal["config", "project"], source: str, matcher: str
    ) -> HookCommand:
        """As plain data.

        :param source: the file, and the key of this section.
        :param matcher: empty for all.
        """
        words = self.command.split() if isinstance(self.command, str) else self.command
        return HookCommand(
            event=event,
            command=self.command if isinstance(self.command, str) else tuple(self.command),
            name=self.name or Path(words[0]).name.strip("\"'") or words[0],
            origin=origin,
            source=source,
            matcher=matcher,
            timeout=self.timeout,
            on_error=self.on_error or "ask",
        )


_MATCHER = "which tools, sources or reasons it is for; left out: all"


class HookSection(_Hook):
    """`hooks.*[]`: one command."""

    matcher: Matcher | None = Field(default=None, description=_MATCHER)


class GroupedHook(_Hook):
    """`hooks.*[].hooks[]`: one command of several that share a matcher."""

    type: Literal["command"] | None = Field(
        default=None, description="what it is; there are commands alone, and it may be left out"
    )
    status_message: str | None = Field(default=None, alias="statusMessage", description="is shown nowhere")

    @model_validator(mode="before")
    @classmethod
    def is_a_command(cls, value: object) -> object:
        """Other types of Claude Code's lack a command, which is not what is wrong with them."""
        kind = cast("Mapping[str, object]", value).get("type") if isinstance(value, Mapping) else None
        if isinstance(kind, str) and kind != "command":
            raise PydanticCustomError("hook_type", "its `type` is none that is run here; `command` is the only one")
        return cast("object", value)


class HookGroup(Section):
    """`hooks.*[]` as Claude Code's settings have it: several commands with one matcher."""

    matcher: Matcher | None = Field(default=None, description=_MATCHER)
    hooks: list[GroupedHook] = Field(description="commands with this matcher: Claude Code's form")


Hooks: TypeAlias = Annotated[dict[str, list[HookSection | HookGroup]] | None, SkipValidation]
"""The whole section, for a model of a file: what a JSON Schema says of it. `HooksReader` checks it."""


class HooksReader:
    """Reads the section of one file.

    :param document: the file.
    :param path: where it is.
    :ivar commands: those that can be used, in the file's order.
    :ivar faults: what is wrong with the others.
    """

    def __init__(self, document: Document, origin: Literal["config", "project"], path: Path) -> None:
        self.commands: list[HookCommand] = []
        self.faults: list[DocumentError] = []
        self._document = document
        self._origin: Literal["config", "project"] = origin
        self._path = path
        section = document.data.get(KEY)
        if isinstance(section, Mapping):
            self._read(cast("Mapping[str, object]", section))
        elif section is not None:
            self._wrong("should be `key: value` lines of its own, indented below", (KEY,))

    def _read(self, section: Mapping[str, object]) -> None:
        elsewhere = [word for word in section if word in ELSEWHERE]
        if elsewhere:
            named = " and ".join([", ".join(elsewhere[:-1]), elsewhere[-1]] if len(elsewhere) > 1 else elsewhere)
            self._wrong(f"{named}: there are no such events here, and what is bound to them is not run", (KEY,))
        for word, entries in section.items():
            event = event_name(word)
            place = (KEY, word)
            if event is None:
                if word not in ELSEWHERE:
                    known = did_you_mean(word, (*EVENT_NAMES, *ALIASES))
                    self._wrong(f"there is no such event; {known}", place)
            elif not isinstance(entries, list):
                self._wrong("should be a list, such as [one, two]", place)
            else:
                for index, entry in enumerate(cast("list[object]", entries)):
                    self._read_entry(event, entry, (*place, index))

    def _read_entry(self, event: EventName, entry: object, place: Place) -> None:
        try:
            for hook, where, matcher in self._hooks_of(entry, place):
                source = f"{self._path}: {dotted(where)}"
                self.commands.append(hook.settings(event, self._origin, source, matcher or ""))
        except DocumentError as error:
            self.faults.append(error)

    def _hooks_of(self, entry: object, place: Place) -> Iterator[tuple[_Hook, Place, str | None]]:
        """The commands of one entry, each with its place and its matcher.

        :raises DocumentError: the entry is wrong as a whole.
        """
        if not isinstance(entry, Mapping) or KEY not in entry:
            section = self._checked(HookSection, cast("object", entry), place)
            yield section, place, section.matcher
            return
        said = cast("Mapping[str, object]", entry)
        hooks = said[KEY]
        # The commands in it are checked one by one, so that one that is wrong leaves the others.
        group = self._checked(HookGroup, {**said, KEY: [] if isinstance(hooks, list) else hooks}, place)
        for index, hook in enumerate(cast("list[object]", hooks)):
            where = (*place, KEY, index)
            try:
                yield self._checked(GroupedHook, hook, where), where, group.matcher
            except DocumentError as error:
                self.faults.append(error)

    def _checked(self, model: type[M], value: object, place: Place) -> M:
        """A part of the file as a model.

        :raises DocumentError: with the line and the whole key.
        """
        depth = len(place)
        lines = {inner[depth:]: line for inner, line in self._document.lines.items() if inner[:depth] == place}
        try:
            return validate(model, Document(cast("Mapping[str, object]", value), lines))
        except DocumentError as error:
            key = ".".join(filter(None, (dotted(place), error.key)))
            raise DocumentError(error.message, error.line, key) from error

    def _wrong(self, message: str, place: Place) -> None:
        self.faults.append(DocumentError(message, self._document.lines.get(place), dotted(place)))
