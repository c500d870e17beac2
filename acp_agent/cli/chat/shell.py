"""`PersonalShell`: commands that a person runs themselves in a conversation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import anyio

from acp_agent.cli.chat.commands import SHELL
from acp_agent.cli.chat.view import ChatView
from acp_agent.conversation.messages import Resource
from acp_agent.programs import shell
from acp_agent.tools.environment import (
    CommandResult,
    CommandRunner,
    OutputArrived,
    Progress,
)
from acp_agent.tools.shell.screen import ShownOutput
from acp_agent.tools.shell.tool import OUTPUT_LIMIT, reported
from acp_agent.tools.text import clean, one_line


class PersonalShell:
    """Runs commands as the person, without a sandbox, and keeps what they print for the
    model.

    :ivar printed: what has not been sent with a prompt yet.
    """

    def __init__(self, commands: CommandRunner, view: ChatView) -> None:
        self._commands = commands
        self._view = view
        self.printed: list[Resource] = []

    async def run(self, line: str, cwd: Path) -> None:
        """Run a command to its end, and show what it prints while it does. A cancel
        ends it.

        :raises ToolError: it could not be started.
        """
        line = clean(line)
        output = ShownOutput(OUTPUT_LIMIT)  # what was pasted may be no text

        async def report(progress: Progress) -> None:
            if isinstance(progress, OutputArrived):
                output.add(progress.text)
                self._view.command_output(SHELL, output.text)

        argv = (shell(), "-c", line)
        self._view.busy(f"Run {line}", SHELL)
        try:
            result = await self._commands.run(argv, cwd, math.inf, report, shown=line)
            self._ended(line, output.text, result)
        except anyio.get_cancelled_exc_class():
            self._ended(
                line,
                output.text,
                CommandResult("", "", None, "SIGTERM", ended_by_user=True),
            )
            raise
        finally:
            self._view.busy("", SHELL)

    def _ended(self, line: str, printed: str, result: CommandResult) -> None:
        """Show and keep what a command has printed, in that order; its result has the
        two streams apart.
        """
        text, _ = reported(
            replace(result, stdout=printed, stderr="", merged=True), math.inf
        )
        ending = text.partition("\n")[0].rstrip(".")
        self._view.command_ended(f"  ({ending}; sent with your next prompt)", printed)
        said = self._view.safe(
            f"The user has run this command in the terminal: {line}\n{text}"
        )
        self.printed.append(
            Resource(
                f"shell:{quote(one_line(line), safe='')}", said, mime_type="text/plain"
            )
        )
