"""The tools of a session, in an order that never changes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from acp_agent.tools.tool import Tool

if TYPE_CHECKING:
    from acp_agent.tools.forms import Asks


def default_tools() -> Iterator[Tool]:
    """Yield the built-in tools. Their order is part of what providers cache, so a new one goes to the end.

    They are loaded as they are asked for: a new session does not need them before its first prompt.
    """
    from acp_agent.tools.files.edit import EditTool
    from acp_agent.tools.files.read import ReadTool
    from acp_agent.tools.files.write import WriteTool
    from acp_agent.tools.plan import PlanTool
    from acp_agent.tools.recall import RecallTool
    from acp_agent.tools.search.glob import GlobTool
    from acp_agent.tools.search.grep import GrepTool
    from acp_agent.tools.search.list import ListTool
    from acp_agent.tools.shell.tool import ShellTool

    yield from (ReadTool(), WriteTool(), EditTool(), ListTool(), GlobTool(), GrepTool(), ShellTool(), PlanTool())
    yield RecallTool()


def question_tools(asks: Asks) -> Iterator[Tool]:
    """Yield the tools that ask the user, which stand behind the others."""
    if asks != "nothing":
        from acp_agent.tools.ask_user import AskUserTool

        yield AskUserTool()


class ToolRegistry:
    """The tools of a session by name, in order.

    :param tools: whose names differ.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._given = tools
        self._taken: dict[str, Tool] | None = None
        self._taking = threading.Lock()

    @property
    def _tools(self) -> dict[str, Tool]:
        with self._taking:  # what is given can be gone through but once, by one thread
            if self._taken is None:
                self._taken = {tool.name: tool for tool in self._given}
            return self._taken

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name; None where there is none."""
        return self._tools.get(name)
