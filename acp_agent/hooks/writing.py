"""The built-in handlers that write files: `export_markdown` in the project, `log_tool_usage` in the agent's home."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG

from anyio import to_thread

from acp_agent.conversation.markdown import log_markdown
from acp_agent.conversation.messages import JsonObject, new_id
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Services
from acp_agent.hooks.events import AfterToolCall, BeforeToolCall, EventName, HookEvent
from acp_agent.hooks.outcomes import NOTHING, Outcome
from acp_agent.secrets.known import secrets_of
from acp_agent.secrets.messages import masked

EXPORTS = ".acp-agent/exports"
"""Folder in the project, where no path is given."""
MARK = "<!-- An export of the session {} by acp-agent, written anew with each one -->\n"
"""First line of an export: what begins with it is ours to replace."""
MOST_LOGGED = 2_000
"""Characters of each text in a call's arguments; a file's contents are not the log's matter."""


class ExportMarkdownHandler:
    """`export_markdown`: the session as a Markdown file in the project."""

    name = "export_markdown"
    events: frozenset[EventName] = frozenset({"turn_end", "agent_stop"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """Write it.

        :raises HookError: there is another file of this name, or it cannot be written.
        """
        from acp_agent.hooks.params import ExportMarkdownParams

        said = ExportMarkdownParams.model_validate(params)
        session = event.at.session_id
        today = datetime.now(UTC).astimezone().date()
        name = said.path or f"{EXPORTS}/{session}-{today.isoformat()}.md"
        events = [logged async for logged in services.store.events(session)]

        def write() -> None:
            mark = MARK.format(session)
            write_export(Path(event.at.cwd), name, mark, mark + log_markdown(events), overwrite=said.overwrite)

        await to_thread.run_sync(write)
        return NOTHING


class LogToolUsageHandler:
    """`log_tool_usage`: each call of a tool as a line of JSON in the agent's home."""

    name = "log_tool_usage"
    events: frozenset[EventName] = frozenset({"before_tool_call", "after_tool_call"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """Write the line.

        :raises HookError: it cannot be written.
        """
        from acp_agent.hooks.params import LogToolUsageParams

        if not isinstance(event, BeforeToolCall | AfterToolCall):
            return NOTHING
        said = LogToolUsageParams.model_validate(params)
        secrets = secrets_of(os.environ)
        line: JsonObject = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event.name,
            "session_id": event.at.session_id,
            "cwd": event.at.cwd,
            "recipe": event.at.invoked_by,
            "call_id": event.call_id,
            "tool": event.tool,
            "input": masked(event.input, secrets, _short),
        }
        if isinstance(event, AfterToolCall):
            line |= {"is_error": event.is_error, "output_characters": len(event.text)}
        await to_thread.run_sync(append_line, services.home, said.path, json.dumps(line, ensure_ascii=False))
        return NOTHING


def write_export(folder: Path, name: str, mark: str, text: str, *, overwrite: bool) -> None:
    """Write a file in a folder, whole or not at all. Touches the disk.

    :param mark: what a file that may be replaced begins with.
    :param overwrite: whether any regular file may be replaced.
    :raises HookError: it would be outside of the folder or over something else, or cannot be written.
    """
    path = folder / name
    part = path.with_name(f".{new_id('export')}.part")
    try:
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise HookError(f"{path} would be outside of {folder}; name a file in it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _may_replace(path, mark, overwrite=overwrite):
            raise HookError(
                f"{path} is there already, and is no export of this session. It was not changed; name another `path`, "
                "or set `overwrite: true`."
            )
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: Python 3.11's answer to a loop of links
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise HookError(f"{path} cannot be written ({getattr(error, 'strerror', None) or error}).") from error


def append_line(home: Path, name: str, line: str) -> None:
    """Append to a file in the agent's home that is the user's alone. Touches the disk.

    :raises HookError: it would be outside of the home, or cannot be written.
    """
    path = home / name
    try:
        if not path.parent.resolve().is_relative_to(home.resolve()):
            raise HookError(f"{path} would be outside of {home}; name a file in it.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            # One write a line, so that lines of several processes do not mix.
            file.write(f"{line}\n".encode(errors="replace"))
    except (OSError, RuntimeError) as error:
        raise HookError(f"{path} cannot be written ({getattr(error, 'strerror', None) or error}).") from error


def _may_replace(path: Path, mark: str, *, overwrite: bool) -> bool:
    try:
        if not S_ISREG(path.lstat().st_mode):
            return False
        if overwrite:
            return True
        with path.open("rb") as file:
            return file.read(len(mark.encode())) == mark.encode()
    except FileNotFoundError:
        return True


def _short(text: str) -> str:
    return text if len(text) <= MOST_LOGGED else f"{text[:MOST_LOGGED]}… ({len(text):,} characters)"
