"""`SessionClient`: the other end of a session, an editor or a terminal, and the questions that it puts to the user."""

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
"""Characters of a permission option's name; longer ones break editors' buttons."""
Answer: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "cancelled"]


@frozen
class Grant:
    """What one "always" of a question covers.

    :ivar subject: as it is remembered.
    :ivar label: the option's name.
    :ivar for_session: whether it holds in this session alone, whatever the configuration says.
    """

    subject: str
    label: str
    for_session: bool = False


class SessionClient(Protocol):
    """Shows updates, asks the user, and may provide files and terminals."""

    @property
    def files(self) -> FileAccess:
        """Return the files as this client sees them, unsaved buffers included; the disk if it provides none."""
        ...

    @property
    def commands(self) -> CommandRunner:
        """Return the runner of shell commands."""
        ...

    @property
    def questions(self) -> Questions:
        """Return how the user is asked questions other than for permission."""
        ...

    @property
    def shows_notices(self) -> bool:
        """Return whether it shows a `Notice`."""
        ...

    @property
    def mcp_channel(self) -> McpChannel | None:
        """Return the channel to MCP servers that the client itself runs; None if it cannot run any."""
        ...

    async def show(self, update: Update) -> None:
        """Show an update; wait while the client is slow."""
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

        :param view: with the title of the question.
        :param grant: what the user may allow for good instead.
        :param reason: why the user is asked, where it is not the mode; is shown.
        :param question: what is shown of the call.
        """
        ...

    async def ask_trust(self, call_id: str, name: str, view: CallView, projects: Sequence[str], text: str) -> Answer:
        """Ask whether a project's hooks and recipes may run: always means until they change, once means in this
        session.

        :param call_id: of the announced tool call that stands for the question.
        :param name: that call's.
        :param projects: absolute paths of the folders that they are in.
        :param text: the list of them, as Markdown.
        :raises ToolError: the user cannot be asked.
        """
        ...


async def ask_arguments(questions: Questions, command: str, missing: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Ask the user for missing arguments of a slash command with a form.

    :param command: as it is typed.
    :param missing: name and description of each.
    :returns: the values by name.
    :raises InvalidParamsError: they were not given, or the user could not be asked; says how they can be.
    """
    names = ", ".join(f"`{name}`" for name, _ in missing)
    example = " ".join([command, *(f"{name}=…" for name, _ in missing)])
    refusal = f"`{command}` was not run: it needs {names}. Give it in front: `{example}`."
    if questions.asks != "forms":
        raise InvalidParamsError(refusal)
    fields = tuple(FormField(name, "text", name, one_line(description, 300)) for name, description in missing)
    try:
        answer = await questions.fill(Form(f"{command} needs {names}.", fields))
    except ToolError as error:
        raise InvalidParamsError(f"{refusal} {error}") from error
    if isinstance(answer, str):
        raise InvalidParamsError(refusal)
    return {name: str(value) for name, value in answer.items()}
