"""The editor's side of the connection: answers what the agent asks, shows what it is told, and remembers what counts.

Owns the permission policy of the demo and the files that it lends. Knows no order of events.
"""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import anyio

from acp_agent.commands.demo.view import View
from acp_agent.errors import AgentError
from acp_agent.jsonrpc.messages import JsonObject, JsonValue, RpcError
from acp_agent.jsonrpc.router import Call, Router
from acp_agent.protocol.v1 import (
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    PermissionOption,
    PermissionOptionKind,
    Plan,
    ReadTextFileRequest,
    RequestPermissionRequest,
    SessionNotification,
    ToolCallUpdate,
    UsageUpdate,
    WriteTextFileRequest,
    methods,
)
from acp_agent.protocol.wire import parse
from acp_agent.tools.command_lines import program_of

RESOURCE_NOT_FOUND = -32002
HARMLESS = frozenset({"python3", "python", "git", "ls", "cat", "head", "tail", "wc", "grep"})
"""Programs that the agent may run in the scratch repository."""


class Editor:
    """A client of the agent.

    :param folder: the only one that it reads and writes files in, and lets be edited.
    :ivar allowed: permission requests that were answered with consent.
    :ivar rejected: those that were not.
    :ivar plans: the statuses of the plan's entries after each of its updates.
    :ivar usage: tokens used and tokens of the window, as of the last update.
    :ivar compactions: statuses that compactions were reported with, in order.
    :ivar summary_chunks: pieces in which summaries have streamed.
    :ivar commands: names of the slash commands on offer.
    """

    def __init__(self, folder: Path, view: View) -> None:
        self._folder = folder
        self._view = view
        self.allowed = 0
        self.rejected = 0
        self.plans: list[tuple[str, ...]] = []
        self.usage: tuple[int, int] | None = None
        self.compactions: list[str] = []
        self.summary_chunks = 0
        self.commands: tuple[str, ...] = ()

    def router(self) -> Router:
        """What the agent can ask and tell."""
        router = Router()
        router.register(methods.SESSION_UPDATE, _notification, self._update)
        router.register(methods.SESSION_REQUEST_PERMISSION, _permission, self._ask)
        router.register(methods.FS_READ_TEXT_FILE, _reading, self._read)
        router.register(methods.FS_WRITE_TEXT_FILE, _writing, self._write)
        return router

    def _update(self, call: Call, params: SessionNotification) -> Awaitable[JsonValue]:
        # Shown before anything is awaited, and so in the order in which the agent said it.
        del call
        match params.update:
            case Plan(entries=entries):
                self.plans.append(tuple(entry.status for entry in entries))
            case UsageUpdate(used=used, size=size):
                self.usage = (used, size)
            case CompactionUpdate(status=status):
                self.compactions.append(status)
            case CompactionSummaryChunk():
                self.summary_chunks += 1
            case AvailableCommandsUpdate(available_commands=commands):
                self.commands = tuple(command.name for command in commands)
            case _:
                pass
        self._view.update(params.update)
        return _nothing()

    async def _ask(self, call: Call, params: RequestPermissionRequest) -> JsonValue:
        del call
        chosen = _option(params.options, self._decision(params.tool_call))
        self._view.permission(params.tool_call, params.options, chosen)
        if chosen.kind in ("allow_once", "allow_always"):
            self.allowed += 1
        else:
            self.rejected += 1
        return {"outcome": {"outcome": "selected", "optionId": chosen.option_id}}

    def _decision(self, tool_call: ToolCallUpdate) -> PermissionOptionKind:
        """Edits within the scratch repository, one by one; commands that run one of a few programs, for good."""
        if tool_call.kind == "edit":
            places = [Path(place.path) for place in tool_call.locations or ()]
            inside = bool(places) and all(place.is_relative_to(self._folder) for place in places)
            return "allow_once" if inside else "reject_once"
        arguments = tool_call.raw_input
        command = arguments.get("command") if isinstance(arguments, dict) else None
        if tool_call.kind == "execute" and isinstance(command, str) and program_of(command) in HARMLESS:
            return "allow_always"
        return "reject_once"

    async def _read(self, call: Call, params: ReadTextFileRequest) -> JsonValue:
        del call
        path = self._own(params.path)
        try:
            text = await anyio.Path(path).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise RpcError(RESOURCE_NOT_FOUND, f"{path} cannot be read.") from error
        first = max(0, (params.line or 1) - 1)
        last = None if params.limit is None else first + params.limit
        return {"content": "".join(text.splitlines(keepends=True)[first:last])}

    async def _write(self, call: Call, params: WriteTextFileRequest) -> JsonValue:
        del call
        path = self._own(params.path)
        try:
            await anyio.Path(path).write_text(params.content, "utf-8")
        except OSError as error:
            raise RpcError(RESOURCE_NOT_FOUND, f"{path} cannot be written.") from error
        return {}

    def _own(self, path: str) -> Path:
        resolved = Path(path).resolve()
        if not resolved.is_relative_to(self._folder):
            raise RpcError(RESOURCE_NOT_FOUND, f"{path} is not in the project.")
        return resolved


def _option(options: list[PermissionOption], kind: PermissionOptionKind) -> PermissionOption:
    found = next((option for option in options if option.kind == kind), None)
    if found is None:
        raise AgentError(f"The agent's permission request has no option of the kind {kind}.")
    return found


def _notification(params: JsonObject) -> SessionNotification:
    return parse(SessionNotification, params, methods.SESSION_UPDATE)


def _permission(params: JsonObject) -> RequestPermissionRequest:
    return parse(RequestPermissionRequest, params, methods.SESSION_REQUEST_PERMISSION)


def _reading(params: JsonObject) -> ReadTextFileRequest:
    return parse(ReadTextFileRequest, params, methods.FS_READ_TEXT_FILE)


def _writing(params: JsonObject) -> WriteTextFileRequest:
    return parse(WriteTextFileRequest, params, methods.FS_WRITE_TEXT_FILE)


async def _nothing() -> JsonValue:
    return None
