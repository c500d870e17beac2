"""The tools of a session, in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from acp_agent.tools.forms import Asks
from acp_agent.tools.tool import Tool


class ToolRegistry:
    """The tools of a session by name, in order.

    :param load: returns tools whose names differ. It is called as soon as one is asked for, in whatever thread: a new
        session needs none before its first prompt.
    """

    def __init__(self, load: Callable[[], Iterable[Tool]]) -> None:
        self._load = load

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self._load()}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name; None where there is none."""
        return self._tools.get(name)


def built_in_tools(asks: Asks = "nothing") -> ToolRegistry:
    """Return the built-in tools; the one that asks the user stands behind the others.

    :param asks: what questions the user can be asked.
    """

    def load() -> tuple[Tool, ...]:
        from acp_agent.tools.built_in import ASK_USER, TOOLS

        return TOOLS if asks == "nothing" else (*TOOLS, ASK_USER)

    return ToolRegistry(load)
