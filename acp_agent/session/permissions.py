"""The permission modes of a session, and the question put to the user where a mode demands it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

import anyio.to_thread

from acp_agent.config.permission_rules import PermissionRules
from acp_agent.conversation.events import CallView, PermissionGranted
from acp_agent.conversation.messages import JsonObject, ToolCall
from acp_agent.errors import ConfigError, ToolError, sentence
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome as HookOutcome
from acp_agent.session.client import Answer, SessionClient
from acp_agent.session.notices import Notices
from acp_agent.session.state import SessionState
from acp_agent.tools.tool import Access, PreparedCall

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@frozen
class Mode:
    """A way of working that the user chooses."""

    id: str
    name: str
    description: str


MODES: tuple[Mode, ...] = (
    Mode("ask", "Ask", "Reads freely; asks before every edit and command."),
    Mode("accept-edits", "Accept edits", "Reads and edits files freely; asks before every command."),
    Mode("plan", "Plan", "Reads only: no edits and no commands."),
    Mode("full-access", "Full access", "Reads, edits and runs commands anywhere without asking."),
)


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

    async def check(
        self, call: ToolCall, prepared: PreparedCall, hooked: HookOutcome
    ) -> Literal["allowed", "cancelled"]:
        """Ask the user where the mode or a hook demands it; a hook may also answer in the user's place.

        :returns: `cancelled` if the user ended the turn instead of answering.
        :raises ToolError: the call may not run.
        """
        verdict = await self._required(call, prepared)
        if hooked.decision is not None:
            verdict = "allow" if hooked.decision.verdict == "allow" else "ask"
        if verdict == "ask":
            subject = grant_subject(prepared.access)
            try:
                answer = await self.ask(call.id, call.name, prepared.view, call.arguments, subject, hooked.reason)
            except ToolError as error:
                raise ToolError(f"{error} {hooked.reason}".rstrip()) from error
            if answer == "cancelled":
                return "cancelled"
            if answer == "reject_once":
                raise ToolError("The user did not allow this call. Do not try it again; ask what they want instead.")
            await self._required(call, prepared)  # in the mode as it is by now: the user may have changed it first
        return "allowed"

    @property
    def mode(self) -> str:
        """Return the permission mode in force."""
        return self._state.mode

    async def verdict(self, access: Access) -> Verdict:
        """Return what the mode and what the user allowed say of a call; reads the project's rules only if they matter,
        and as they are now, since they may have been revoked."""
        verdict = judge(self._state.mode, access, self._state.context.grants)
        if verdict != "ask":
            return verdict
        try:
            rules, notice = await anyio.to_thread.run_sync(self._read_rules)
        except ConfigError as error:
            rules, notice = frozenset[str](), sentence(error)
        if notice:
            await self._notices.tell_once(notice)
        return judge(self._state.mode, access, rules)

    async def _required(self, call: ToolCall, prepared: PreparedCall) -> Literal["allow", "ask"]:
        verdict = await self.verdict(prepared.access)
        if verdict == "deny":
            raise ToolError(
                f"{call.name} may not run in {self._state.mode} mode, which only reads. Describe the change instead; "
                "the user can switch the mode."
            )
        return verdict

    async def ask(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Put a call to the user, and remember an "always".

        :param reason: why a hook wants the user to be asked; empty if none does.
        :raises SessionConflictError: another process has gone on with the session while the user was thinking.
        """
        answer = await self._client.ask_permission(call_id, name, view, arguments, subject, reason)
        if answer == "allow_always":
            scope: Literal["project", "session"] = self._state.settings.remember_permissions
            if scope == "project":
                try:
                    await anyio.to_thread.run_sync(self._rules().allow, self._state.cwd, subject)
                except ConfigError as error:
                    scope = "session"
                    await self._notices.tell_once(sentence(error))
            await self._state.log.append(PermissionGranted(subject, scope))
        elif answer == "allow_once":
            # The user may have thought for an hour, and gone on in another editor.
            await self._state.log.confirm()
        return answer

    def _rules(self) -> PermissionRules:
        return PermissionRules(self._state.settings.home)

    def _read_rules(self) -> tuple[frozenset[str], str]:
        rules = self._rules()
        return rules.of(self._state.cwd), rules.notice
