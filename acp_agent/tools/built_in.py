"""The table of built-in tools. Importing this module imports all of them."""

from __future__ import annotations

from acp_agent.tools.ask_user import ASK_USER
from acp_agent.tools.files.edit import EDIT
from acp_agent.tools.files.read import READ
from acp_agent.tools.files.write import WRITE
from acp_agent.tools.plan import PLAN
from acp_agent.tools.recall import RECALL
from acp_agent.tools.search.glob import GLOB
from acp_agent.tools.search.grep import GREP
from acp_agent.tools.search.list import LIST
from acp_agent.tools.shell.tool import SHELL
from acp_agent.tools.tool import Tool

__all__ = ["ASK_USER", "TOOLS"]

TOOLS: tuple[Tool, ...] = (READ, WRITE, EDIT, LIST, GLOB, GREP, SHELL, PLAN, RECALL)
"""Providers cache the tools in this order, so add a new tool at the end."""
