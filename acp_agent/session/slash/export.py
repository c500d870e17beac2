"""`/export`: the whole conversation as a Markdown file, written as the `write` tool does and after the same
question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from acp_agent.conversation.markdown import log_markdown
from acp_agent.conversation.messages import ResultPart, ToolCall, new_id
from acp_agent.conversation.updates import CallAnnounced, CallFinished, CallStarted, CallStatus, Show
from acp_agent.errors import ToolError
from acp_agent.hooks.handlers import EXPORTS, MARK
from acp_agent.hooks.outcomes import NOTHING
from acp_agent.session.log import SessionLog
from acp_agent.session.permissions import Permissions
from acp_agent.session.project.workspace import ToolEnvironment
from acp_agent.tools.files.changes import Change, text_to_change
from acp_agent.tools.paths import absolute, shown
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import PreparedCall, Progress

TOOL = "write"
"""The tool that is shown to the editor: the user is asked exactly when this tool would ask."""


_NOT_ALLOWED = "Nothing was written: it was not allowed."


@dataclass(eq=False, slots=True)
class Export:
    """Writes one session's conversation into a file."""

    _log: SessionLog
    _environment: ToolEnvironment
    _permissions: Permissions
    _show: Show

    async def run(self, rest: str) -> str:
        """Write the file, and return where it is.

        :param rest: a path, absolute or from the session's directory, or a `file://` address; empty for the usual
            place.
        :raises ToolError: why it was not written.
        """
        environment, session_id = self._environment.make(), self._log.session_id
        path = absolute(rest.strip().strip("\"'") or _usual(session_id), environment.cwd)
        label = shown(path, environment.cwd)
        mark = MARK.format(session_id)
        before = await text_to_change(environment, path)
        if before is not None and not before.startswith(mark):
            raise ToolError(
                f"{label} is there already, and is no export of this session. It was not changed; name another."
            )
        context = self._log.context
        asked = context.turn_from or context.head  # the prompt that asks for it is left out
        events = [logged async for logged in self._log.events() if logged.seq < asked]
        text = mark + log_markdown(events, title=context.title or "Conversation")
        done = f"The conversation was written to `{label}` ({len(text):,} characters)."
        await self._write(Change(path, before, text, one_line(f"Write {label}"), done).prepared(environment), path)
        return done

    async def _write(self, prepared: PreparedCall, path: Path) -> None:
        """Show the change as a call of the tool, ask for it as one, and make it.

        :raises ToolError: it was not allowed, or failed.
        """
        call, parts = ToolCall(new_id("call"), TOOL, {"path": str(path)}), tuple[ResultPart, ...]()
        await self._show(CallAnnounced(call.id, call.name, prepared.view, call.arguments))
        status: CallStatus = "failed"
        try:
            try:
                allowed = await self._permissions.check(call, prepared, NOTHING)
            except ToolError as error:
                raise ToolError(f"Nothing was written: it was not allowed. {error}") from error
            if allowed == "cancelled":
                raise ToolError(_NOT_ALLOWED)
            await self._show(CallStarted(call.id, prepared.view))
            parts, status = (await prepared.run(_ignore)).parts, "completed"
        finally:
            with anyio.CancelScope(shield=True):  # also for an editor that does not read for a while
                await self._show(CallFinished(call.id, call.name, prepared.view, call.arguments, status, parts))


async def _ignore(progress: Progress) -> None:
    del progress


def _usual(session_id: str) -> str:
    today = datetime.now(UTC).astimezone().date()
    return f"{EXPORTS}/{session_id}-{today.isoformat()}.md"
