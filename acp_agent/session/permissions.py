"""Decides what each permission mode allows, and asks the user if necessary."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio.to_thread

from acp_agent.config.permission_rules import PermissionRules
from acp_agent.conversation.events import PermissionGranted
from acp_agent.conversation.messages import ToolCall
from acp_agent.errors import CallRefusedError, ConfigError, ToolError, sentence
from acp_agent.session.client import MAX_LABEL, Answer, Grant, SessionClient
from acp_agent.session.notices import Notices
from acp_agent.session.state import SessionState
from acp_agent.tools.asked import question_of
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Access, PreparedCall
from acp_agent.visible import visible

if TYPE_CHECKING:
    from acp_agent.hooks.outcomes import Decision, Outcome

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


_SANDBOXED = Grant(
    "sandboxed commands",
    "Allow all sandboxed commands in this session",
    for_session=True,
)
_PREFIX = "shell prefix: "
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_LONGEST_PREFIX = 40


def judge(mode: str, access: Access, grants: Collection[str]) -> Verdict:
    """Return whether a call may run in this mode, needs the user's permission, or may
    not run at all.

    Work outside the session's directories needs permission in every mode except
    `full-access`.

    :param grants: the subjects (see `grant_subject`) that the user has allowed.
    """
    if access.effect == "none" or mode == "full-access":
        return "allow"
    if mode == "plan" and access.effect != "read":
        return "deny"
    if access.demand:
        return "ask"
    is_work = access.effect == "edit" or access.sandboxed
    free = (
        access.effect == "read"
        or (is_work and mode == "accept-edits")
        or (access.sandboxed and access.by_recipe)
    )
    if free and not access.outside:
        return "allow"
    return "allow" if _granted(access, grants) else "ask"


def _granted(access: Access, grants: Collection[str]) -> bool:
    if grant_subject(access) in grants:
        return True
    if not access.sandboxed or access.outside:
        return False
    prefixes = (
        _PREFIX + shlex.join(access.words[:length])
        for length in range(2, len(access.words) + 1)
    )
    return _SANDBOXED.subject in grants or any(prefix in grants for prefix in prefixes)


def _covers(decision: Decision, access: Access) -> bool:
    """Return whether a hook's `allow` applies to a call.

    A project's own hook may only answer questions about that project: edits within the
    session's directories, and commands that the sandbox confines to these directories.
    `access.outside` also contains guarded paths inside the directories.
    """
    if not decision.by_project:
        return True
    is_contained = access.sandboxed or access.effect != "execute"
    return is_contained and not access.outside


def _grant_of(access: Access, *, one_by_one: bool) -> Grant | None:
    """Return the permission that the user may grant permanently when asked about this
    call; None if there is none.

    :param one_by_one: whether the user allows sandboxed commands one at a time.
    """
    if access.demand:
        return None
    is_free = access.sandboxed and not access.outside
    if is_free and not one_by_one:
        return _SANDBOXED
    prefix = shlex.join(access.words[:2])
    is_plain = (
        len(access.words) > 1
        and _SUBCOMMAND.fullmatch(access.words[1])
        and len(prefix) <= _LONGEST_PREFIX
    )
    if is_free and is_plain:
        return Grant(_PREFIX + prefix, f"Always allow `{prefix} …`")
    return Grant(subject := grant_subject(access), f"Always allow {subject}")


def grant_subject(access: Access) -> str:
    """Return the subject that an "always allow" for this call covers: the kind of call
    and, outside the session's directories, its paths.

    Outside, it covers only these exact paths, since a call that walks a directory tree
    could otherwise cover the whole machine.
    """
    kind = access.subject or access.effect
    return f"{kind} {', '.join(map(str, access.outside))}" if access.outside else kind


class Permissions:
    """Asks the user about the calls of one session, and stores which calls are always
    allowed.
    """

    def __init__(
        self, state: SessionState, client: SessionClient, notices: Notices
    ) -> None:
        self._state = state
        self._client = client
        self._notices = notices
        self._rules = PermissionRules(state.settings.home)
        self._elsewhere = frozenset[
            str
        ]()  # subjects allowed while the session is open in a directory other than its own
        self._one_by_one = False  # whether the user allowed a single sandboxed command instead of all of them

    async def check(
        self, call: ToolCall, prepared: PreparedCall, hooked: Outcome
    ) -> bool:
        """Ask the user if the mode or a hook demands it.

        A hook may also answer instead of the user, unless the call demands more than
        the sandbox allows. A project's hook may do so only within the project.

        :returns: False if the user ended the turn instead of answering.
        :raises ToolError: if the call may not run.
        """
        access = prepared.access
        verdict = await self._verdict(call, access)
        decision = hooked.decision
        if (
            decision is not None
            and decision.verdict == "allow"
            and not _covers(decision, access)
        ):
            decision = None
        reason = access.demand or ("" if decision is None else decision.reason)
        if not reason and access.fault and self._state.mode == "accept-edits":
            reason = f"There is no sandbox for this call: {access.fault}"
        if decision is not None and not access.demand:
            verdict = "allow" if decision.verdict == "allow" else "ask"
        if verdict == "ask":
            try:
                by_hook = decision is not None and not access.demand
                answer = await self._ask(call, prepared, reason, by_hook=by_hook)
            except ToolError as error:
                raise ToolError(f"{error} {reason}".rstrip()) from error
            if answer == "cancelled":
                return False
            if answer == "reject_once":
                raise ToolError(
                    "The user did not allow this call. Do not try it again; ask what they want instead."
                )
            # Check again, since the user may have changed the mode before answering.
            await self._verdict(call, access)
        return True

    async def _verdict(self, call: ToolCall, access: Access) -> Verdict:
        """Return the verdict on a call from the mode and the user's permissions.

        The project's rules are read only if they matter, and read again each time,
        since they may have been revoked.

        :raises ToolError: if the call may not run in this mode.
        """
        mode = self._state.mode
        verdict = judge(
            mode,
            access,
            self._state.context.grants if self._state.is_at_home else self._elsewhere,
        )
        if verdict == "deny":
            raise CallRefusedError(
                f"{call.name} may not run in {mode} mode, which only reads. Describe the change instead; the user can "
                "switch the mode.",
                by="mode",
            )
        if verdict == "ask":
            rules = frozenset[str]()
            try:
                rules = await anyio.to_thread.run_sync(self._rules.of, self._state.cwd)
            except ConfigError as error:
                await self._notices.tell_once(sentence(error))
            verdict = judge(mode, access, rules)
        return verdict

    async def _ask(
        self, call: ToolCall, prepared: PreparedCall, reason: str, *, by_hook: bool
    ) -> Answer | Grant:
        """Ask the user about a call, and remember an "always" answer.

        :param reason: why the user is asked; empty if because of the mode.
        :param by_hook: whether a hook demands the question.
        :raises SessionConflictError: if another process has continued the session
            before the user answered.
        """
        grant = _grant_of(prepared.access, one_by_one=self._one_by_one)
        # The question repeats what "always allow" covers if the button cannot show it.
        is_shown = grant is None or visible(grant.label) == grant.label == one_line(
            grant.label, MAX_LABEL
        )
        question = question_of(
            prepared,
            call.arguments,
            "" if is_shown or grant is None else grant.subject,
            by_hook=by_hook,
        )
        view = replace(prepared.view, title=question.title)
        answer = await self._client.ask_permission(
            call.id, call.name, view, call.arguments, grant, reason, question=question
        )
        if isinstance(answer, Grant):
            await self._remember(answer)
        elif answer == "allow_once":
            self._one_by_one |= prepared.access.sandboxed
            # The user may have taken an hour to answer, and continued in another editor
            # in the meantime.
            await self._state.log.confirm()
        return answer

    async def _remember(self, grant: Grant) -> None:
        scope: Literal["project", "session", "opening"] = (
            "session" if self._state.is_at_home else "opening"
        )
        if (
            self._state.settings.remember_permissions == "project"
            and not grant.for_session
        ):
            try:
                await anyio.to_thread.run_sync(
                    self._rules.allow, self._state.cwd, grant.subject
                )
                scope = "project"
            except ConfigError as error:
                await self._notices.tell_once(sentence(error))
        if scope == "opening":
            self._elsewhere |= {grant.subject}
        await self._state.log.append(PermissionGranted(grant.subject, scope))
