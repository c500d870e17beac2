"""The built-in tools of a session, in an order that never changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from acp_agent.tools.forms import Asks
from acp_agent.tools.tool import Tool


@cache
def built_in_tools(asks: Asks = "nothing") -> Mapping[str, Tool]:
    """Return the built-in tools by name. The tool that asks the user comes last.

    The first call imports them, since a new session does not need them before its first
    prompt.

    :param asks: the kind of questions that the user can be asked.
    """
    from acp_agent.tools.built_in import ASK_USER, TOOLS

    return {
        tool.name: tool for tool in (TOOLS if asks == "nothing" else (*TOOLS, ASK_USER))
    }
