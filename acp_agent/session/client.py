"""`SessionClient`: the editor or terminal at the other end of a session, and the
questions it asks the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.updates import Update
from acp_agent.errors import InvalidParamsError, ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.forms import Form, FormField, Questions
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.mcp.model import McpChannel
    from acp_agent.tools.asked import Question

MAX_LABEL = 56
"""Maximum characters in a permission option's name. Longer names break editors'
buttons.
"""
Answer: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "cancelled"]


@frozen
class Grant:
    """What an "always allow" answer covers.

    :ivar subject: the text under which the permission is stored.
    :ivar label: the option's name.
    :ivar for_session: whether the permission applies only to this session, whatever the
        configuration says.
    """

    subject: str
    label: str
    for_session: bool = False


class SessionClient(Protocol):
    """Shows updates, asks the user, and may provide files and terminals."""

    @property
    def files(self) -> FileAccess:
        """Return access to the client's files, including unsaved buffers, or to the
        disk if it provides no files.
        """
        ...

    @property
    def commands(self) -> CommandRunner:
        """Return the runner of shell commands."""
        ...

    @property
    def questions(self) -> Questions:
        """Return the object that asks the user questions other than for permission."""
        ...

    @property
    def shows_notices(self) -> bool:
        """Return whether the client shows a `Notice`."""
        ...

    @property
    def mcp_channel(self) -> McpChannel | None:
        """Return the channel to MCP servers that run in the client; None if the client
        cannot run any.
        """
        ...

    async def show(self, update: Update) -> None:
        """Show an update. This waits while the client is slow."""
        ...

    async def ask_permission(
        self,
        call_id: str,
        name: str,
        view: CallView,
        arguments: JsonObject,
        grant: Grant | None,
        reason: str = "",
        *,
        question: Question,
    ) -> Answer | Grant:
        """Ask whether a call may run.

        :param view: the view of the call, titled with the question.
        :param grant: the permission that the user may grant permanently instead; None
            if there is none.
        :param reason: why the user is asked, if not because of the mode. The user sees
            it.
        :param question: the parts of the call to show.
        """
        ...

    async def ask_trust(
        self,
        call_id: str,
        name: str,
        view: CallView,
        projects: Sequence[str],
        text: str,
    ) -> Answer:
        """Ask whether a project's hooks and recipes may run.

        "Always" means until they change; "once" means in this session.

        :param call_id: id of the announced tool call that represents the question.
        :param name: name of that call.
        :param projects: absolute paths of the folders that contain the hooks and
            recipes.
        :param text: Markdown list of the hooks and recipes.
        :raises ToolError: if the user cannot be asked.
        """
        ...


async def ask_arguments(
    questions: Questions, command: str, missing: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Ask the user for missing arguments of a slash command with a form.

    :param command: the command as typed, with the slash.
    :param missing: name and description of each missing argument.
    :returns: the values by name.
    :raises InvalidParamsError: if the user gave no values or could not be asked. The
        message says how to give them.
    """
    names = ", ".join(f"`{name}`" for name, _ in missing)
    example = " ".join([command, *(f"{name}=…" for name, _ in missing)])
    refusal = (
        f"`{command}` was not run: it needs {names}. Send it like this: `{example}`."
    )
    if questions.asks != "forms":
        raise InvalidParamsError(refusal)
    fields = tuple(
        FormField(name, "text", name, one_line(description, 300))
        for name, description in missing
    )
    try:
        answer = await questions.fill(Form(f"{command} needs {names}.", fields))
    except ToolError as error:
        raise InvalidParamsError(f"{refusal} {error}") from error
    if isinstance(answer, str):
        raise InvalidParamsError(refusal)
    return {name: str(value) for name, value in answer.items()}
