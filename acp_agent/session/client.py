"""Whoever sits at the other end of a session: an editor, or a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.frozen import frozen
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Update

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions
    from acp_agent.tools.mcp_channel import McpChannel


@frozen
class TrustQuestion:
    """Whether the hooks and recipes that a project brings may run.

    :ivar call_id: of a tool call that stands for the question, and was announced.
    :ivar name: that call's.
    :ivar text: what there is, as Markdown.
    :ivar projects: absolute paths of the folders that it is about.
    """

    call_id: str
    name: str
    view: CallView
    text: str
    projects: tuple[str, ...]


class SessionClient(Protocol):
    """Shows updates, answers questions, and may lend its files and terminals."""

    @property
    def files(self) -> FileAccess:
        """Files as this client sees them, unsaved buffers included; the disk where it offers none."""
        ...

    @property
    def commands(self) -> CommandRunner:
        """Where shell commands run."""
        ...

    @property
    def questions(self) -> Questions:
        """How the user can be asked what is no permission."""
        ...

    @property
    def shows_notices(self) -> bool:
        """Whether it shows a `Notice`."""
        ...

    @property
    def mcp_channel(self) -> McpChannel | None:
        """How MCP servers are reached that it is itself; None where it can be none."""
        ...

    async def show(self, update: Update) -> None:
        """Show something; waits while the client is slow."""
        ...

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask whether a call may run.

        :param subject: what "always" would cover.
        :param reason: why a hook has the user asked, who is shown it.
        """
        ...

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask whether a project's hooks and recipes may run: always means as long as they are what they are now, once
        means in this session.

        :raises ToolError: nobody can be asked.
        """
        ...
