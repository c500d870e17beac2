"""`SessionPermissions`: what the user need not be asked again in one session, and where "always" is kept.

What a mode lets run and what has to be asked is the permission policy's to say.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from acp_agent.conversation.events import CallView, PermissionGranted
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ConfigError, sentence
from acp_agent.turn.permission import Answer

if TYPE_CHECKING:
    from acp_agent.config.permission_rules import PermissionRules
    from acp_agent.session.host import SessionHost

_log = logging.getLogger(__name__)


class SessionPermissions:
    """:param home: the folder of all state.
    :param cwd: absolute path of the session's working directory, whose rules hold.
    """

    def __init__(self, host: SessionHost, home: Path, cwd: Path) -> None:
        self._host = host
        self._home = home
        self._cwd = cwd
        self._rules: PermissionRules | None = None
        self._told = ""

    async def grants(self) -> frozenset[str]:
        """What needs no asking: allowed in this session, or by a rule of the project."""
        return self._host.context.grants | await self.rules()

    async def rules(self) -> frozenset[str]:
        """The project's rules as they are now, since they may have been revoked."""
        try:
            return await anyio.to_thread.run_sync(self._allowed)
        except ConfigError as error:
            await self._tell(error)
            return frozenset()

    async def ask(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str
    ) -> Answer:
        """Put a call to the user, and keep an "always".

        :param reason: why a hook has the user asked; empty where none has.
        :raises SessionConflictError: another process has gone on with the session while the user was thinking.
        """
        host = self._host
        answer = await host.client.ask_permission(call_id, name, view, arguments, subject, reason)
        if answer == "allow_always":
            kept = host.settings.remember_permissions == "project" and await self._keep(subject)
            await host.append(PermissionGranted(subject, "project" if kept else "session"))
        elif answer == "allow_once":
            # The user may have thought for an hour, and gone on in another editor.
            await host.log.confirm()
        return answer

    def _allowed(self) -> frozenset[str]:
        return self._store().of(self._cwd)

    async def _keep(self, subject: str) -> bool:
        """Make it a rule of the project; False where that could not be written."""
        try:
            await anyio.to_thread.run_sync(lambda: self._store().allow(self._cwd, subject))
        except ConfigError as error:
            await self._tell(error)
            return False
        return True

    def _store(self) -> PermissionRules:
        if self._rules is None:
            from acp_agent.config.permission_rules import PermissionRules

            self._rules = PermissionRules(self._home)
        return self._rules

    async def _tell(self, error: ConfigError) -> None:
        """Once for the same thing: it would be said at every call."""
        _log.warning("the permission rules cannot be used: %s", error)
        if str(error) != self._told:
            self._told = str(error)
            await self._host.tell(sentence(error))
