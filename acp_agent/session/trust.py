"""`SessionTrust`: which of a project's hooks and recipes may run in one session, and
the question that decides it.

They are untrusted code: none of them runs until the user trusts the folder in its
current state.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

from acp_agent.config.home import CONFIG_FILE
from acp_agent.config.trust import ProjectCode, TrustStore, read_project_code
from acp_agent.conversation.events import CallView, InstructionsLoaded
from acp_agent.conversation.messages import JsonObject, Text, new_id
from acp_agent.conversation.updates import CallAnnounced, CallFinished, CallStatus
from acp_agent.errors import ConfigError, ToolError
from acp_agent.session.client import Answer, SessionClient
from acp_agent.session.notices import SHOWING_SECONDS, Notices
from acp_agent.session.services import SessionServices
from acp_agent.session.state import SessionState
from acp_agent.session.workspace import Places, ProjectInstructions
from acp_agent.tools.text import one_line
from acp_agent.visible import on_one_line

if TYPE_CHECKING:
    from acp_agent.config import Settings

    _Found: TypeAlias = tuple[
        Settings, dict[Path, ProjectCode], tuple[ProjectCode, ...], Sequence[str]
    ]

NAME = "trust"
TITLE = "Trust the hooks and recipes of this repository?"
MAX_LINES = 40
MAX_LENGTH = 200
"""Maximum characters of a path or a command in the question."""
_RECIPE = ".md"

_log = logging.getLogger(__name__)


class SessionTrust:
    """Tracks what one session's project could run, and what the user has allowed.

    :ivar allowed: the code that may run, by folder, as of the last read. The dictionary
        is replaced when the allowed code changes.
    """

    def __init__(
        self,
        state: SessionState,
        services: SessionServices,
        client: SessionClient,
        notices: Notices,
        instructions: ProjectInstructions,
    ) -> None:
        self._state = state
        self._services = services
        self._client = client
        self._notices = notices
        self._instructions = instructions
        # The holder waits for a thread anyway.
        self._lock = anyio.Lock(fast_acquire=True)
        self._was_read = False
        self.allowed: dict[Path, ProjectCode] = {}
        self._missing: tuple[ProjectCode, ...] = ()
        self._allowed_here: set[tuple[Path, str]] = set()
        self._refused = False

    @property
    def hooks(self) -> ProjectCode | None:
        """Return the project's hooks if they may run."""
        project = self._state.settings.project
        return None if project is None else self.allowed.get(project)

    def trusted(self, path: Path) -> str | None:
        """Return the hexadecimal SHA-256 of a project file's trusted text, or None if
        the file is not trusted.
        """
        return next(
            (
                digest
                for code in self.allowed.values()
                if (digest := code.file_digest(path))
            ),
            None,
        )

    async def ensure_read(self) -> None:
        """Read the project unless this was done before. The properties are valid
        afterwards.
        """
        if not self._was_read:
            await self._look()

    async def settle(self) -> bool:
        """Read the project, and ask the user if some of its code is not allowed. Ask
        once per session, and again only if allowed code has changed.

        :returns: False if the user ended the turn instead of answering.
        """
        await self._look()
        missing = self._missing
        if not missing:
            self._refused = False  # allowed elsewhere; ask again if it changes
        if not missing or self._refused:
            return True
        self._refused = True  # do not ask again, whatever the answer
        answer = await self._ask(missing)
        if answer in ("allow_once", "allow_always"):
            self._refused = False
            self._allowed_here |= {(code.place, code.digest) for code in missing}
            if answer == "allow_always":
                try:
                    await anyio.to_thread.run_sync(
                        TrustStore(self._services.home).trust, missing
                    )
                except ConfigError as error:
                    await self._notices.tell(
                        f"Your permission applies to this session only. {error}"
                    )
            # Files may have changed while the user was deciding. The next prompt asks
            # about them.
            await self._look()
        return answer != "cancelled"

    async def _ask(self, missing: Sequence[ProjectCode]) -> Answer:
        projects = tuple(dict.fromkeys(str(code.place.parent) for code in missing))
        call_id = new_id("call")
        view = CallView(TITLE)
        arguments: JsonObject = {"folders": [*projects]}
        status: CallStatus = "failed"
        said = "Cancelled."
        await self._client.show(CallAnnounced(call_id, NAME, view, arguments))
        try:
            answer = await self._client.ask_trust(
                call_id, NAME, view, projects, _listing(missing)
            )
            said = _ENDINGS[answer]
            if answer in ("allow_once", "allow_always"):
                status = "completed"
        except ToolError as error:
            answer = "reject_once"
            said = f"{error} {_ENDINGS['reject_once']}"
        finally:
            if status == "failed":
                said += f" {advice(projects)}"
            with anyio.move_on_after(SHOWING_SECONDS, shield=True):
                await self._client.show(
                    CallFinished(call_id, NAME, view, arguments, status, (Text(said),))
                )
        return answer

    async def _look(self) -> None:
        async with self._lock:
            state = self._state
            settings = state.settings
            places = (
                state.directories,
                settings.home,
                settings.root,
                state.read_limits,
            )
            found, loaded = await anyio.to_thread.run_sync(
                self._read, settings, places, abandon_on_cancel=True
            )
            # The thread does not assign these, since an abandoned thread may end after
            # the next one.
            self._state.settings, self.allowed, self._missing, notices = found
            self._instructions.expect(places, loaded)
            self._was_read = True
        for notice in notices:
            _log.warning("%s", notice)
            await self._notices.tell_once(notice)

    def _read(
        self, settings: Settings, places: Places
    ) -> tuple[_Found, InstructionsLoaded]:
        """Read the project's code and the instructions that the prompt will need, in
        one thread, which is cheaper than two.
        """
        return self._find(settings), self._instructions.load(places)

    def _find(self, settings: Settings) -> _Found:
        """Read the project without changing this object.

        :returns: the settings with the hooks that the project's configuration names
            now, the allowed code, the code that is not allowed, and notices for the
            user about what could not be read.
        """
        allowed = dict[Path, ProjectCode]()
        missing = list[ProjectCode]()
        notices = list[str]()
        places = self._services.project_places(settings, self._state.cwd)
        if not places:
            return settings, allowed, (), notices
        try:
            now = self._services.settings(self._state.cwd, settings.root)
            settings = replace(
                settings,
                project=now.project,
                hooks=now.hooks,
                hook_faults=now.hook_faults,
            )
        except ConfigError as error:
            notices.append(
                f"The hooks in the project's {CONFIG_FILE} are ignored. {error}"
            )
            users = tuple(
                command for command in settings.hooks if command.origin != "project"
            )
            settings = replace(settings, hooks=users, hook_faults=())
        try:
            store = TrustStore(self._services.home)
            kept = {
                (place, digest) for place in places if (digest := store.digest(place))
            }
        except ConfigError as error:
            kept = set[tuple[Path, str]]()
            notices = [*notices, str(error)]
        commands = [
            command for command in settings.hooks if command.origin == "project"
        ]
        for place in places:
            named = commands if place == settings.project else ()
            code = read_project_code(
                place, named, self._state.cwd, before=self.allowed.get(place)
            )
            if code.problem:
                notices.append(
                    f"The hooks and recipes of {place.parent} are ignored: {code.problem}."
                )
            elif (place, code.digest) in kept | self._allowed_here:
                allowed[place] = code
            elif not code.is_empty:
                missing.append(code)
        return settings, allowed, tuple(missing), notices


def advice(projects: Sequence[str]) -> str:
    """Return how to allow the code later."""
    commands = " and ".join(
        f"`acp-agent trust {on_one_line(shlex.quote(project))}`" for project in projects
    )
    return f"To allow them, run {commands} in a terminal."


def lines_of(code: ProjectCode) -> Iterator[str]:
    """Yield a line for each file and command of a folder."""
    folder = code.place.name
    for command in code.commands:
        words = (
            command.command
            if isinstance(command.command, str)
            else shlex.join(command.command)
        )
        yield f"{_quoted(f'{folder}/{CONFIG_FILE}')} runs {_quoted(words)} at {command.event}"
    for file in code.files:
        name = file.name.partition("/")[2]
        kind = "a file of the hooks" if file.is_hook else "a file of the recipes"
        if file.is_called:
            path = os.path.normpath(f"{folder}/{file.name}")
            yield f"{_quoted(path)}: a file that the hooks run"
            continue
        if not file.is_hook and name.endswith(_RECIPE):
            command = name.removesuffix(_RECIPE).replace("/", ":")
            kind = f"the command {_quoted(f'/{command}')}"
        yield f"{_quoted(f'{folder}/{file.name}')}: {kind}"


def _listing(codes: Sequence[ProjectCode]) -> str:
    """Return the code that could run, as Markdown."""
    lines = [line for code in codes for line in lines_of(code)]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more"]
    warning = "They run programs and message the model in your name. Allow them only if you trust their authors.\n\n"
    return warning + "\n".join(f"- {line}" for line in lines)


def _quoted(text: str) -> str:
    """Return untrusted text as Markdown code, in which no markup is interpreted."""
    plain = one_line(text, MAX_LENGTH).replace("`", "'")
    return f"`{plain}`"


_ENDINGS: dict[Answer, str] = {
    "allow_always": "Allowed until any of it changes.",
    "allow_once": "Allowed for this session.",
    "reject_once": "Not allowed: none of it runs in this session.",
    "cancelled": "Not answered: none of it runs in this session.",
}
