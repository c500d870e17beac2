"""Who may do what: the modes of a session, and the question put to the user where a mode demands it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.tools.tool import Access

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Answer: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "cancelled"]


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
    """Whether a call may run, must be asked for, or may not run at all in this mode.

    Work outside the session's directories is asked for in every mode but `full-access`.

    :param grants: what (see `grant_subject`) the user allowed for the rest of the session.
    """
    if access.effect == "none":
        return "allow"
    if mode == "full-access":
        return "allow"
    if mode == "plan" and access.effect != "read":
        return "deny"
    free = access.effect == "read" or (access.effect == "edit" and mode == "accept-edits")
    if free and not access.outside:
        return "allow"
    return "allow" if grant_subject(access) in grants else "ask"


def grant_subject(access: Access) -> str:
    """What an "always allow" of this call covers: its kind, and outside the session's directories the very path.

    No more than that path, since a kind of call that goes down a tree could cover the whole machine.
    """
    kind = access.subject or access.effect
    return f"{kind} {', '.join(map(str, access.outside))}" if access.outside else kind
