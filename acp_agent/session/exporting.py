"""`/export`: the whole conversation as a Markdown file, written as the model's tools write: through the editor where it
lends its files, and after the same question."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.conversation.markdown import log_markdown
from acp_agent.conversation.messages import JsonObject, new_id
from acp_agent.errors import ToolError
from acp_agent.hooks.writing import EXPORTS, MARK
from acp_agent.tools.changes import Change, text_to_change
from acp_agent.tools.paths import absolute, shown
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Outcome, PreparedCall, Progress
from acp_agent.turn.permission import grant_subject, judge
from acp_agent.turn.updates import CallAnnounced, CallFinished, CallStarted

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

TOOL = "write"
"""What an editor is told that the call is: nothing is asked for that this tool would not be asked for."""


async def export(host: SessionHost, words: str) -> str:
    """Write it, and say where it is.

    :param words: a path, absolute or from the session's directory, or a `file://` address; empty for the usual place.
    :raises ToolError: it was not written; says why.
    """
    environment = host.environment()
    path = absolute(_path(words) or _usual(host.session_id), environment.cwd)
    label = shown(path, environment.cwd)
    mark = MARK.format(host.session_id)
    before = await text_to_change(environment, path)
    if before is not None and not before.startswith(mark):
        raise ToolError(
            f"{label} is there already, and is no export of this session. It was not changed; name another."
        )
    # Without the prompt that asks for it.
    asked = host.context.turn_from or host.context.head
    events = [logged async for logged in host.events() if logged.seq < asked]
    text = mark + log_markdown(events, title=host.context.title or "Conversation")
    done = f"The conversation was written to `{label}` ({len(text):,} characters)."
    call = Change(path, before, text, one_line(f"Write {label}"), done).prepared(environment)
    await _run(host, call, path)
    return done


async def _run(host: SessionHost, call: PreparedCall, path: Path) -> None:
    call_id = new_id("call")
    arguments: JsonObject = {"path": str(path)}
    await host.show(CallAnnounced(call_id, TOOL, call.view, arguments))
    try:
        outcome = await _allowed(host, call, call_id, arguments)
    except ToolError:
        await host.show(CallFinished(call_id, TOOL, call.view, arguments, "failed", ()))
        raise
    await host.show(CallFinished(call_id, TOOL, outcome.view, arguments, "completed", outcome.parts))


async def _allowed(host: SessionHost, call: PreparedCall, call_id: str, arguments: JsonObject) -> Outcome:
    verdict = judge(host.mode, call.access, await host.grants())
    if verdict == "deny":
        raise ToolError(f"Nothing was written: in {host.mode} mode no file is. Choose another mode, and send it again.")
    if verdict == "ask":
        subject = grant_subject(call.access)
        answer = await host.ask_permission(call_id, TOOL, call.view, arguments, subject)
        if answer not in ("allow_once", "allow_always"):
            raise ToolError("Nothing was written.")
    await host.show(CallStarted(call_id, call.view))
    return await call.run(_silently)


async def _silently(progress: Progress) -> None:
    del progress


def _usual(session_id: str) -> str:
    today = datetime.now(UTC).astimezone().date()
    return f"{EXPORTS}/{session_id}-{today.isoformat()}.md"


def _path(words: str) -> str:
    path = words.strip()
    return path[1:-1] if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'" else path
