"""`Toolbox`: the tools of one session, and the environments that their calls run in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import ToolCall
from acp_agent.conversation.surroundings import amendments_in
from acp_agent.llm.places import key_variables
from acp_agent.session.client import SessionClient
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.state import SessionState
from acp_agent.tools.environment import Environment
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Tool


@dataclass(eq=False, slots=True)
class Toolbox:
    """Finds tools by their names, and makes the environments that their calls run in."""

    _state: SessionState
    _client: SessionClient
    _mcp: SessionMcp

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Return the tools by name, as requests to the model define them."""
        return self._mcp.tools

    def was_told_of(self, name: str) -> bool:
        """Return whether the model was given a tool of this name, now or earlier in the
        session.
        """
        context = self._state.context
        added = (
            tool
            for amendment in amendments_in(context.entries)
            for tool in amendment.added
        )
        return any(
            tool.name == name for tool in (*(context.declared.tools or ()), *added)
        )

    def view_of(self, call: ToolCall) -> CallView:
        """Return the view of a call for an editor while only its arguments are known."""
        tool = self.tools.get(call.name)
        return (
            tool.preview(call.arguments)
            if tool
            else CallView(one_line(call.name) or "(no name)")
        )

    def environment(self, call_id: str = "") -> Environment:
        """Return the current environment for a tool call.

        :param call_id: the id of the call; empty for a command from the user.
        """
        state = self._state
        client = self._client
        return Environment(
            cwd=state.cwd,
            roots=state.directories,
            files=client.files,
            commands=client.commands,
            seen=state.context.files,
            shell_timeout=state.settings.shell_timeout,
            archive=state.log,
            questions=client.questions,
            call_id=call_id,
            private=state.settings.home,
            key_variables=key_variables(state.settings),
            sandbox=state.sandbox,
            trace=state.trace,
            real_roots=state.real_directories,
            limits=state.read_limits,
        )
