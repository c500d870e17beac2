"""`SessionTrust`: what of a project's hooks and recipes may run in one session, and the question that decides it.

They are code that somebody else wrote. Nothing of them runs before the user has allowed the folder as it is.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

from acp_agent.config.home import CONFIG_FILE, PROJECT_FOLDER
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Text, new_id
from acp_agent.errors import ConfigError, ToolError
from acp_agent.frozen import frozen
from acp_agent.session.client import TrustQuestion
from acp_agent.session.services import Services
from acp_agent.session.telling import SHOWING_SECONDS
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import CallAnnounced, CallFinished

if TYPE_CHECKING:
    from acp_agent.config import Settings
    from acp_agent.config.brought import Brought
    from acp_agent.config.trust import Trusted
    from acp_agent.session.host import SessionHost

NAME = "trust"
TITLE = "Trust the hooks and recipes of this repository?"
CHANGED_TITLE = "Trust the changed hooks and recipes of this repository?"

_Config: TypeAlias = "tuple[Settings, str]"
"""The settings that came of a project's configuration, and its text."""

_log = logging.getLogger(__name__)


@frozen
class _Seen:
    """What one look at the disk has found.

    :ivar settings: with the project's folder and hooks.
    :ivar wrong: why all commands of its configuration are left out; empty where they are not.
    :ivar problem: why nobody can tell what is allowed; empty where one can.
    """

    settings: Settings
    config: _Config | None
    wrong: str
    found: dict[Path, Brought]
    allowed: dict[Path, str]
    known: dict[Path, Trusted]
    problem: str


class SessionTrust:
    """Knows what one session's project brings, and which of it is allowed.

    :param cwd: absolute path of the session's working directory.
    """

    def __init__(self, host: SessionHost, services: Services, cwd: Path) -> None:
        self._host = host
        self._services = services
        self._cwd = cwd
        self._lock = anyio.Lock()
        self._found: dict[Path, Brought] | None = None
        self._allowed: dict[Path, str] = {}
        self._here: dict[Path, Brought] = {}
        self._known: dict[Path, Trusted] = {}
        self._config: _Config | None = None
        self._told: dict[str, str] = {}
        self._refused = False

    # --- what is allowed ---

    @property
    def state(self) -> frozenset[tuple[Path, str]]:
        """Another one when something else is allowed."""
        return frozenset(self._allowed.items())

    @property
    def hooks(self) -> Brought | None:
        """What the project's hooks are, where they may run."""
        project = self._host.settings.project
        return (self._found or {}).get(project) if project in self._allowed else None

    def trusted(self, path: Path) -> str | None:
        """SHA-256, in hex, of the text that may be used of one of the project's files; None where none may."""
        found = self._found or {}
        return next((text for place in self._allowed if (text := found[place].text_of(path))), None)

    async def looked(self) -> None:
        """Look once, so that the rest has something to say."""
        if self._found is None:
            await self._look()

    # --- the question ---

    async def settle(self) -> bool:
        """Look at what the project brings now, and ask where something of it is not allowed; once in a session, unless
        what was allowed has changed.

        :returns: False where the user ended the turn instead of answering.
        """
        await self._look()
        assert self._found is not None
        for place, brought in self._found.items():
            what = f"The hooks and recipes of {place.parent} are not used: {brought.problem}."
            await self._tell(str(place), what if brought.problem else "")
        missing = self._missing()
        if not missing:
            self._refused = False  # allowed from somewhere else; what changes of it is a question again
        if not missing or self._refused:
            return True
        self._refused = True  # however the question ends, it is not asked again
        answer = await self._ask(missing)
        if answer in ("allow_once", "allow_always"):
            self._refused = False
            self._here.update({brought.place: brought for brought in missing})
            if answer == "allow_always":
                await self._keep(missing)
            # Files may have changed while the user was thinking; those are asked about with the next prompt.
            await self._look()
        return answer != "cancelled"

    def _missing(self) -> list[Brought]:
        found = (self._found or {}).values()
        return [each for each in found if not each.is_nothing and not each.problem and each.place not in self._allowed]

    async def _ask(self, missing: Sequence[Brought]) -> Answer:
        from acp_agent.session.trust_text import listing

        host = self._host
        projects = tuple(dict.fromkeys(str(brought.place.parent) for brought in missing))
        before = {place: known.parts for place, known in self._known.items()}
        before |= {place: brought.parts for place, brought in self._here.items()}
        title = CHANGED_TITLE if any(each.place in before for each in missing) else TITLE
        call_id, view, arguments = new_id("call"), CallView(title), _arguments(projects)
        try:
            await host.show(CallAnnounced(call_id, NAME, view, arguments))
            answer = await host.client.ask_trust(TrustQuestion(call_id, NAME, view, listing(missing, before), projects))
            said = _ENDINGS[answer]
        except ToolError as error:
            answer, said = "reject_once", f"{error} {_ENDINGS['reject_once']}"
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(SHOWING_SECONDS, shield=True):
                await host.show(CallFinished(call_id, NAME, view, arguments, "failed", (Text("Cancelled."),)))
            raise
        status = "completed" if answer in ("allow_once", "allow_always") else "failed"
        if status == "failed":
            said += f" {advice(projects)}"
        await host.show(CallFinished(call_id, NAME, view, arguments, status, (Text(said),)))
        return answer

    # --- the disk ---

    async def _keep(self, allowed: Sequence[Brought]) -> None:
        from acp_agent.config.trust import TrustStore

        try:
            await anyio.to_thread.run_sync(TrustStore(self._services.home).trust, allowed)
        except ConfigError as error:
            await self._tell("keeping", f"What you allowed holds for this session alone. {error}")

    async def _look(self) -> None:
        async with self._lock:
            seen = await anyio.to_thread.run_sync(self._look_at, self._host.settings, abandon_on_cancel=True)
            # Not by the thread: one that nobody waits for any more may end after the next.
            self._host.settings, self._config = seen.settings, seen.config
            self._found, self._allowed, self._known = seen.found, seen.allowed, seen.known
        await self._tell("commands", seen.wrong)
        await self._tell("store", seen.problem)

    def _look_at(self, settings: Settings) -> _Seen:
        """Read what there is of the project, and what of it is allowed; changes nothing here."""
        places = self._services.project_places(settings, self._cwd)
        settings, config, wrong = self._with_commands(settings, places)
        found, allowed, known, problem = self._read(settings, places)
        return _Seen(settings, config, wrong, found, allowed, known, problem)

    def _with_commands(self, settings: Settings, places: Sequence[Path]) -> tuple[Settings, _Config | None, str]:
        """The settings with the project's folder, and what its configuration names as hooks, as they are now; the rest
        is as it was when the session was opened.

        :returns: them; what to keep of that; why all its commands are left out, empty where they are not.
        """
        project = settings.project or next((place for place in places if place.name == PROJECT_FOLDER), None)
        if project is None:
            return settings, self._config, ""
        from acp_agent.config.document import DocumentError, read_text

        try:
            text = read_text(project / CONFIG_FILE, within=project.parent) or ""
        except DocumentError as error:
            text = str(error)
        if self._config is not None and self._config[0] is settings and self._config[1] == text:
            return settings, self._config, ""
        own = replace(
            settings,
            project=project,
            hooks=tuple(command for command in settings.hooks if command.origin != "project"),
            hook_faults=tuple(fault for fault in settings.hook_faults if fault.origin != "project"),
        )
        try:
            now = self._services.settings(self._cwd) if text else own
        except ConfigError as error:
            return own, self._config, f"The hooks that {project / CONFIG_FILE} names are not used. {error}"
        hooks = tuple(command for command in now.hooks if command.origin == "project")
        faults = tuple(fault for fault in now.hook_faults if fault.origin == "project")
        changed = replace(own, hooks=(*own.hooks, *hooks), hook_faults=(*own.hook_faults, *faults))
        return changed, (changed, text), ""

    def _read(
        self, settings: Settings, places: Sequence[Path]
    ) -> tuple[dict[Path, Brought], dict[Path, str], dict[Path, Trusted], str]:
        """Read what is in these places.

        :returns: it; what of it is allowed; what is stored of them; why nobody can tell what is allowed, empty where
            one can.
        """
        if not places:
            return {}, {}, {}, ""
        from acp_agent.config.brought import read_brought

        found: dict[Path, Brought] = {}
        for place in places:
            commands = [command for command in settings.hooks if command.origin == "project"]
            before = (self._found or {}).get(place)
            found[place] = read_brought(place, commands if place == settings.project else (), before)
        brings = [brought for brought in found.values() if not brought.is_nothing and not brought.problem]
        problem, allowed = "", dict[Path, str]()
        known: dict[Path, Trusted] = {}
        if brings:
            from acp_agent.config.trust import TrustStore

            store = TrustStore(self._services.home)
            try:
                stored = {brought.place: store.find(brought.place) for brought in brings}
            except ConfigError as error:
                stored, problem = {}, str(error)
            for brought in brings:
                digest, kept, here = brought.digest, stored.get(brought.place), self._here.get(brought.place)
                if digest in (kept and kept.digest, here and here.digest):
                    allowed[brought.place] = digest
            known = {place: kept for place, kept in stored.items() if kept is not None}
        return found, allowed, known, problem

    async def _tell(self, matter: str, text: str) -> None:
        """Tell what is wrong with something; once, unless it was right, or wrong in another way, in between.

        :param text: empty where nothing is.
        """
        before = self._told.get(matter, "")
        self._told[matter] = text
        if text and text != before:
            _log.warning("%s", text)
            await self._host.tell(text)


def _arguments(projects: Sequence[str]) -> JsonObject:
    return {"folders": [*projects]}


def advice(projects: Sequence[str]) -> str:
    """How to allow it after all."""
    commands = " and ".join(f"`acp-agent trust {shlex.quote(project)}`" for project in projects)
    return f"{commands} in a terminal allows them."


_ENDINGS: dict[Answer, str] = {
    "allow_always": "Allowed until something of it changes.",
    "allow_once": "Allowed for this session.",
    "reject_once": "Not allowed: none of it runs in this session.",
    "cancelled": "Not answered: none of it runs in this session.",
}
