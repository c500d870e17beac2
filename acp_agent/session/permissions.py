"""The permission modes of a session, and the question put to the user where a mode demands it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

import anyio.to_thread

from acp_agent.config.permission_rules import PermissionRules
from acp_agent.conversation.events import PermissionGranted
from acp_agent.conversation.messages import ToolCall
from acp_agent.conversation.updates import Choice
from acp_agent.errors import ConfigError, ToolError, sentence
from acp_agent.hooks.outcomes import Outcome
from acp_agent.session.client import Answer, SessionClient
from acp_agent.session.notices import Notices
from acp_agent.session.state import SessionState
from acp_agent.tools.tool import Access, PreparedCall

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


MODES = (
    Choice("ask", "Ask", "Reads freely; asks before every edit and command."),
    Choice("accept-edits", "Accept edits", "Reads and edits files freely; asks before every command."),
    Choice("plan", "Plan", "Reads only: no edits and no commands."),
    Choice("full-access", "Full access", "Reads, edits and runs commands anywhere without asking."),
)
"""The permission modes."""


def judge(mode: str, access: Access, grants: Collection[str]) -> Verdict:
    """Return whether a call may run, has to be asked for, or may not run at all in this mode.

    Work outside the session's directories is asked for in every mode but `full-access`.

    :param grants: subjects (see `grant_subject`) that the user allowed.
    """
    if access.effect == "none" or mode == "full-access":
        return "allow"
    if mode == "plan" and access.effect != "read":
        return "deny"
    free = access.effect == "read" or (access.effect == "edit" and mode == "accept-edits")
    if free and not access.outside:
        return "allow"
    return "allow" if grant_subject(access) in grants else "ask"


def grant_subject(access: Access) -> str:
    """Return what an "always allow" of this call covers: its kind, and outside the session's directories the very path.

    No more than that path, since a kind of call that goes down a tree could cover the whole machine.
    """
    kind = access.subject or access.effect
    return f"{kind} {', '.join(map(str, access.outside))}" if access.outside else kind


class Permissions:
    """Asks the user about calls of one session, and stores the calls that are always allowed."""

    def __init__(self, state: SessionState, client: SessionClient, notices: Notices) -> None:
        self._state = state
        self._client = client
        self._notices = notices
        self._rules = PermissionRules(state.settings.home)

    async def check(self, call: ToolCall, prepared: PreparedCall, hooked: Outcome) -> bool:
        """Ask the user where the mode or a hook demands it; a hook may also answer in the user's place.

        :returns: False if the user ended the turn instead of answering.
        :raises ToolError: the call may not run.
        """
        verdict = await self._verdict(call, prepared.access)
        if hooked.decision is not None:
            verdict = "allow" if hooked.decision.verdict == "allow" else "ask"
        if verdict == "ask":
            try:
                answer = await self._ask(call, prepared, hooked.reason)
            except ToolError as error:
                raise ToolError(f"{error} {hooked.reason}".rstrip()) from error
            if answer == "cancelled":
                return False
            if answer == "reject_once":
                raise ToolError("The user did not allow this call. Do not try it again; ask what they want instead.")
            # In the mode as it is by now: the user may have changed it first.
            await self._verdict(call, prepared.access)
        return True

    async def _verdict(self, call: ToolCall, access: Access) -> Verdict:
        """Return what the mode and what the user allowed say of a call; reads the project's rules only if they matter,
        and as they are now, since they may have been revoked.

        :raises ToolError: it may not run in this mode.
        """
        mode = self._state.mode
        verdict = judge(mode, access, self._state.context.grants)
        if verdict == "deny":
            raise ToolError(
                f"{call.name} may not run in {mode} mode, which only reads. Describe the change instead; the user can "
                "switch the mode."
            )
        if verdict == "ask":
            rules, notice = frozenset[str](), ""
            try:
                rules = await anyio.to_thread.run_sync(self._rules.of, self._state.cwd)
                notice = self._rules.notice
            except ConfigError as error:
                notice = sentence(error)
            if notice:
                await self._notices.tell_once(notice)
            verdict = judge(mode, access, rules)
        return verdict

    async def _ask(self, call: ToolCall, prepared: PreparedCall, reason: str) -> Answer:
        """Put a call to the user, and remember an "always".

        :param reason: why a hook wants the user to be asked; empty if none does.
        :raises SessionConflictError: another process has gone on with the session while the user was thinking.
        """
        subject = grant_subject(prepared.access)
        answer = await self._client.ask_permission(call.id, call.name, prepared.view, call.arguments, subject, reason)
        if answer == "allow_always":
            scope: Literal["project", "session"] = self._state.settings.remember_permissions
            if scope == "project":
                try:
                    await anyio.to_thread.run_sync(self._rules.allow, self._state.cwd, subject)
                except ConfigError as error:
                    scope = "session"
                    await self._notices.tell_once(sentence(error))
            await self._state.log.append(PermissionGranted(subject, scope))
        elif answer == "allow_once":
            # The user may have thought for an hour, and gone on in another editor.
            await self._state.log.confirm()
        return answer
