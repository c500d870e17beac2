"""An ACP client for one agent process: sends requests, shows what the agent says, and answers its questions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from acp_agent import __version__
from acp_agent.commands.view import View
from acp_agent.conversation.views import CallView, Diff, Location
from acp_agent.errors import AgentError
from acp_agent.jsonrpc.messages import JsonObject, JsonValue, PeerClosedError, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Call, Router
from acp_agent.jsonrpc.stdio import ProcessTransport
from acp_agent.protocol.v1 import PROTOCOL_VERSION, methods

COMMAND = (sys.executable, "-m", "acp_agent")
PACKAGES = Path(__file__).parents[3]
"""Where `-m` finds the package, installed or not."""
REQUEST_SECONDS = 20.0
PROMPT_SECONDS = 900.0
EXIT_SECONDS = 3.0
MAX_OUTPUT_LINES = 4

_HARMLESS = re.compile(r"python3 -m unittest( [\w.-]+)*")
"""Commands that are allowed without a person; the agent's other programs can do all that the user can."""


@dataclass(slots=True)
class Observed:
    """What the agents of a demo have said.

    :ivar usage: tokens used and tokens of the window, as of the last update.
    :ivar compactions: statuses that compactions were reported with, in order.
    """

    usage: tuple[int, int] | None = None
    compactions: list[str] = field(default_factory=list[str])


class DemoClient:
    """Shows an agent's updates, and allows edits in the scratch project and runs of its tests.

    :param folder: the project.
    """

    def __init__(self, view: View, folder: Path, observed: Observed) -> None:
        self._view = view
        self._folder = folder
        self._observed = observed
        self._calls: dict[str, JsonObject] = {}

    def router(self) -> Router:
        """Return what an agent may ask and tell."""
        router = Router()
        router.register(methods.SESSION_UPDATE, dict, self._update)
        router.register(methods.SESSION_REQUEST_PERMISSION, dict, self._ask)
        return router

    def _update(self, call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        # Shown before anything is awaited, and so in the order in which the agent said it.
        self._show(params.get("update"))
        return _nothing()

    def _show(self, update: JsonValue) -> None:
        view, observed = self._view, self._observed
        match update:
            case {"sessionUpdate": "agent_message_chunk", "content": {"text": str(text)}}:
                view.stream(f"message {update.get('messageId')}", "", text)
            case {"sessionUpdate": "agent_thought_chunk", "content": {"text": str(text)}}:
                view.stream(f"thought {update.get('messageId')}", "thought", text)
            case {"sessionUpdate": "compaction_summary_chunk", "content": {"text": str(text)}}:
                view.stream("summary", "thought", text)
            case {"sessionUpdate": "compaction_update", "status": str(status)}:
                observed.compactions.append(status)
                view.line("warning", " ".join(["Compaction", status.replace("_", " "), str(update.get("error") or "")]))
            case {"sessionUpdate": "tool_call" | "tool_call_update", "status": str(status)}:
                call = self._merged(update)
                if status in ("completed", "failed"):
                    view.call(call, failed=status == "failed", details=_output(call), changes=call.kind != "edit")
            case {"sessionUpdate": "tool_call" | "tool_call_update"}:
                self._merged(update)
            case {"sessionUpdate": "plan", "entries": list(entries)}:
                plan = [(str(entry["status"]), str(entry["content"])) for entry in entries if isinstance(entry, dict)]
                view.plan(plan)
            case {"sessionUpdate": "usage_update", "used": int(used), "size": int(size)}:
                observed.usage = (used, size)
            case {"sessionUpdate": "notice", "title": str(title)}:
                view.line("warning", title)
            case _:
                pass

    async def _ask(self, call: Call, params: JsonObject) -> JsonValue:
        asked, options = params.get("toolCall"), params.get("options")
        if not isinstance(asked, dict) or not isinstance(options, list):
            raise RpcError(-32602, "A permission request needs toolCall and options.")
        view = self._merged(asked)
        kind = self._decision(view, asked.get("rawInput"))
        offered = [option for option in options if isinstance(option, dict)]
        chosen = next((option for option in offered if option.get("kind") == kind), None)
        if chosen is None:
            raise AgentError(f"The agent's permission request has no option of the kind {kind}.")
        self._view.question(view, "")
        self._view.line("dim", "  " + "  ".join(f"[{option.get('name')}]" for option in offered))
        self._view.line("you", f"  → {chosen.get('name')}")
        return {"outcome": {"outcome": "selected", "optionId": chosen.get("optionId")}}

    def _decision(self, view: CallView, arguments: JsonValue) -> str:
        """Return the kind of option to choose."""
        match arguments:
            case {"command": str(command)} if _HARMLESS.fullmatch(command):
                return "allow_always"
            case _ if view.kind == "edit" and view.locations:
                inside = all(Path(place.path).is_relative_to(self._folder) for place in view.locations)
                return "allow_once" if inside else "reject_once"
            case _:
                return "reject_once"

    def _merged(self, update: JsonObject) -> CallView:
        """Return a call as it is after an update; what an update leaves out stays."""
        known = self._calls.setdefault(str(update.get("toolCallId")), {})
        known.update({name: value for name, value in update.items() if value})
        locations = [Location(str(place["path"]), _line(place)) for place in objects(known.get("locations"))]
        diffs = [
            Diff(str(item["path"]), str(item["oldText"]) if item.get("oldText") else None, str(item["newText"]))
            for item in objects(known.get("content"))
            if item.get("type") == "diff"
        ]
        return CallView(
            str(known.get("title")),
            "edit" if known.get("kind") == "edit" else "other",
            tuple(locations),
            tuple(diffs),
            known.get("rawOutput"),
        )


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a list of the protocol's."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _line(place: JsonObject) -> int | None:
    line = place.get("line")
    return line if isinstance(line, int) else None


def _output(view: CallView) -> list[str]:
    """Return the last lines that a command printed."""
    match view.raw_output:
        case {"stdout": printed, "stderr": errors}:
            lines = f"{printed or ''}\n{errors or ''}".splitlines()
            return [line.strip() for line in lines if line.strip(" -=.F")][-MAX_OUTPUT_LINES:]
        case _:
            return []


async def _nothing() -> JsonValue:
    return None


class Agent:
    """A running agent process; made by `start_agent`."""

    def __init__(self, process: anyio.abc.Process, peer: Peer, stderr_file: Path) -> None:
        self._process = process
        self._peer = peer
        self._stderr_file = stderr_file

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def initialize(self) -> JsonObject:
        """Introduce the client. Without terminals and files of its own, the agent uses the machine's."""
        return await self.request(
            methods.INITIALIZE,
            protocolVersion=PROTOCOL_VERSION,
            clientCapabilities={"session": {"compaction": {}}},
            clientInfo={"name": "acp-agent-demo", "version": __version__},
        )

    async def prompt(self, session_id: str, text: str) -> str:
        """Send a prompt, wait for the end of its turn, and return its stop reason."""
        parts: list[JsonValue] = [{"type": "text", "text": text}]
        answer = await self.request(methods.SESSION_PROMPT, PROMPT_SECONDS, sessionId=session_id, prompt=parts)
        return str(answer.get("stopReason"))

    async def request(self, method: str, timeout: float = REQUEST_SECONDS, **params: JsonValue) -> JsonObject:
        """Send a request, and return its result.

        :raises AgentError: it was answered with an error, or not at all.
        """
        try:
            result = await self._peer.request(method, params, timeout=timeout)
        except RpcError as error:
            raise AgentError(f"The agent answered {method} with an error ({error.code}): {error.message}") from error
        except PeerClosedError as error:
            raise AgentError(f"The agent ended before it answered {method}.{self._last_words()}") from error
        except TimeoutError as error:
            raise AgentError(f"The agent did not answer {method} within {timeout:.0f} s.") from error
        return result if isinstance(result, dict) else {}

    async def kill(self) -> None:
        """End it as a crash would: it has no chance to save anything."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def aclose(self) -> None:
        """End it as an editor does that quits: close its stdin, wait for a moment, and insist."""
        self._peer.close()
        with anyio.move_on_after(EXIT_SECONDS):
            await self._process.wait()
        if self._process.returncode is None:
            await self.kill()

    def _last_words(self) -> str:
        with suppress(OSError):
            if lines := self._stderr_file.read_text("utf-8", "replace").strip().splitlines():
                return f" Its last words: {lines[-1]}"
        return ""


@asynccontextmanager
async def start_agent(
    tasks: anyio.abc.TaskGroup, client: DemoClient, env: Mapping[str, str], stderr_file: Path
) -> AsyncGenerator[Agent]:
    """Start the agent, and end it with the block.

    :param tasks: runs the connection.
    :param env: all of its environment variables.
    :param stderr_file: what it writes to its stderr.
    :raises AgentError: it cannot be started.
    """
    try:
        with stderr_file.open("ab") as stderr:
            # In a session of its own, so that ctrl-c reaches the demo alone, which then ends the agent.
            process = await anyio.open_process(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=PACKAGES,
                env=env,
                start_new_session=True,
            )
    except OSError as error:
        raise AgentError(f"The agent cannot be started with {COMMAND[0]}: {error.strerror or error}.") from error
    peer = Peer(ProcessTransport(process), client.router())
    agent = Agent(process, peer, stderr_file)
    tasks.start_soon(peer.run)
    try:
        yield agent
    finally:
        with anyio.CancelScope(shield=True):
            await agent.aclose()
