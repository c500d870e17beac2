"""What broke real editors, checked on every conversation that a test has with the
agent.

    laws = Laws(editor)
    for line in traffic: problems += laws.judge(line)

`start_agent(laws=False)` leaves them out for a test that provokes the agent on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.editors import Editor
from support.lines import Line

MAX_LINE_BYTES = 10 << 20
OPENING = {"session/load", "session/resume"}
ENDING = {"session/close", "session/delete", "session/archive"}
IN_TURN_ONLY = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "plan_update",
    "plan_removed",
    "compaction_update",
    "compaction_summary_chunk",
}
NEEDS_CAPABILITY = {
    "compaction_update": ("session", "compaction"),
    "compaction_summary_chunk": ("session", "compaction"),
    "notice": ("session", "notices"),
    "plan_update": ("plan",),
    "plan_removed": ("plan",),
}
TERMINAL_STATUSES = {"completed", "failed", "cancelled"}


@dataclass(slots=True)
class _Session:
    """What an editor knows of a session."""

    prompts: dict[Any, list[Any]] = field(default_factory=dict[Any, list[Any]])
    loading: set[Any] = field(default_factory=set[Any])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    compactions: dict[str, str] = field(default_factory=dict[str, str])


class Laws:
    """Follows one connection from its first line.

    :param editor: what was advertised.
    """

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._initialized = False
        self._sessions: dict[str, _Session] = {}
        self._requests: dict[Any, tuple[str, str]] = {}
        self._opened_by: dict[Any, str] = {}
        self._servers: set[str] = set()
        self._asked_for_status = False

    def judge(self, line: Line) -> list[str]:
        """Take note of a line; the answer says which rules it breaks."""
        if not line.received:
            self._sent(line)
            return []
        shown = line.raw[:300].decode(errors="replace")
        return [f"{line.label}: {problem}: {shown}" for problem in self._received(line)]

    def _sent(self, line: Line) -> None:
        if line.kind != "request":
            return
        servers = line.params.get("mcpServers") or ()
        self._servers |= {
            str(each.get("serverId")) for each in servers if isinstance(each, dict)
        }
        self._asked_for_status = self._asked_for_status or line.method == "auth/status"
        id = line.message["id"]
        session_id = line.params.get("sessionId")
        self._requests[id] = (
            line.method,
            session_id if isinstance(session_id, str) else "",
        )
        if not isinstance(session_id, str):
            return
        # Editors know the session from here on, so that its replay is seen.
        if line.method in OPENING:
            if session_id not in self._sessions:
                self._opened_by[id] = session_id
            session = self._sessions.setdefault(session_id, _Session())
            if line.method == "session/load":
                session.loading.add(id)
        elif line.method == "session/prompt" and session_id in self._sessions:
            self._sessions[session_id].prompts[id] = line.params.get("prompt") or []

    def _received(self, line: Line) -> Iterator[str]:
        if len(line.raw) > MAX_LINE_BYTES:
            yield f"a line of {len(line.raw)} bytes; some editors take 10 MiB at most"
        if line.kind in ("response", "error"):
            if isinstance(result := line.message.get("result"), dict):
                yield from self._options(result.get("configOptions"))
            self._answered(line)
            return
        if not self._initialized:
            yield "sent before the answer to initialize"
        session_id = line.params.get("sessionId")
        if line.method == "elicitation/complete" and not self._editor.advertises(
            "elicitation", "url"
        ):
            yield "the editor did not advertise it"
        if (
            line.method == "mcp/message"
            and line.params.get("serverId") not in self._servers
        ):
            yield "the editor named no such MCP server"
        if line.method == "auth/status_update" and not self._asked_for_status:
            yield "the editor has not asked for it, and may not know it"
        if not isinstance(session_id, str):
            return
        session = self._sessions.get(session_id)
        if session is None:
            yield f"the editor does not know the session {session_id!r} now"
        elif line.update:
            yield from self._updated(session, line.update_kind, line.update)
        elif line.kind == "request":
            yield from self._asked(session, line)

    def _options(self, options: Any) -> Iterator[str]:
        switches = [
            option["id"] for option in options or () if option.get("type") == "boolean"
        ]
        if switches and not self._editor.advertises(
            "session", "configOptions", "boolean"
        ):
            yield f"the editor did not advertise session.configOptions.boolean, and gets {switches}"

    def _answered(self, line: Line) -> None:
        id = line.message["id"]
        method, session_id = (
            self._requests.pop(id, ("", "")) if isinstance(id, int | str) else ("", "")
        )
        if session_id in self._sessions:
            self._sessions[session_id].prompts.pop(id, None)
            self._sessions[session_id].loading.discard(id)
        opened = self._opened_by.pop(id, None)
        if line.kind == "error":
            if opened is not None:
                self._sessions.pop(opened, None)
        elif method == "initialize":
            self._initialized = True
        elif method in ENDING:
            self._sessions.pop(session_id, None)
        elif method in ("session/new", "session/fork"):
            self._sessions.setdefault(
                str(line.message["result"].get("sessionId")), _Session()
            )

    def _asked(self, session: _Session, line: Line) -> Iterator[str]:
        room, _, name = line.method.partition("/")
        capability = {
            "read_text_file": "readTextFile",
            "write_text_file": "writeTextFile",
        }.get(name, "")
        if room == "fs" and not self._editor.advertises("fs", capability):
            yield "the editor did not advertise it"
        if room == "terminal" and not self._editor.advertises("terminal"):
            yield "the editor did not advertise it"
        if room == "elicitation":
            if not self._editor.advertises("elicitation", str(line.params.get("mode"))):
                yield "the editor did not advertise it"
            if not session.prompts:
                yield "the user is asked outside a turn"
        if line.method != "session/request_permission":
            return
        call: Mapping[str, Any] = line.params.get("toolCall") or {}
        status = session.tools.get(str(call.get("toolCallId")))
        if status is None:
            yield "permission is asked for a tool call that was not announced"
        elif status != "pending":
            yield f"permission is asked for a tool call that is {status}, not pending"
        # The arguments of a question and of a plan are shown in another form, and never
        # as JSON.
        needed = (
            ("title", "kind")
            if call.get("name") in ("ask_user", "plan")
            else ("title", "kind", "rawInput")
        )
        if missing := [key for key in needed if call.get(key) is None]:
            yield f"the tool call of a permission request lacks {missing}"
        kinds = [option.get("kind") for option in line.params.get("options") or ()]
        if len(kinds) != len(set(kinds)) and not self._editor.shows_every_option:
            yield "two options of one kind; some editors show the last only"
        if not session.prompts:
            yield "permission is asked outside a turn; some editors never answer"

    def _updated(
        self, session: _Session, kind: str, update: Mapping[str, Any]
    ) -> Iterator[str]:
        in_turn = bool(session.prompts or session.loading)
        if kind in IN_TURN_ONLY and not in_turn:
            yield "sent outside a turn; editors drop it or complain"
        if kind in NEEDS_CAPABILITY and not self._editor.advertises(
            *NEEDS_CAPABILITY[kind]
        ):
            yield f"the editor did not advertise {'.'.join(NEEDS_CAPABILITY[kind])}"
        if kind == "plan" and self._editor.advertises("plan"):
            yield "the editor has plan_update in its place"
        if kind.endswith("message_chunk") or kind == "agent_thought_chunk":
            if not update.get("messageId"):
                yield "a chunk without messageId"
            live = not session.loading
            if (
                live
                and kind == "user_message_chunk"
                and [update.get("content")] in session.prompts.values()
            ):
                yield "echoes the live prompt"
        elif kind in ("tool_call", "tool_call_update"):
            yield from self._tool(session, kind, update)
        elif kind.startswith("compaction"):
            yield from self._compaction(session, kind, update)
        elif kind == "config_option_update":
            yield from self._options(update.get("configOptions"))
        elif kind == "available_commands_update":
            for command in update.get("availableCommands") or ():
                name = str(command.get("name"))
                if (
                    name.startswith("/")
                    or name != name.lower()
                    or len(name.split()) != 1
                ):
                    yield f"the command name {name!r} has a slash, a space or capitals"

    def _tool(
        self, session: _Session, kind: str, update: Mapping[str, Any]
    ) -> Iterator[str]:
        id = str(update.get("toolCallId"))
        if kind == "tool_call_update" and id not in session.tools:
            yield "an update of a tool call that was not announced"
        if kind == "tool_call" and id in session.tools and not session.loading:
            yield "a tool call is announced twice"
        before = session.tools.get(id)
        status = session.tools[id] = str(update.get("status") or before or "pending")
        if before in TERMINAL_STATUSES and status != before and not session.loading:
            yield f"a tool call that was {before} becomes {status}"
        if "\n" in str(update.get("title") or ""):
            yield "the title has more than one line"
        content = update.get("content") or []
        types = [item.get("type") for item in content]
        if "diff" in types and types[0] != "diff":
            yield "a diff is not the first content; some editors look there only"
        for item in content:
            if (
                item.get("type") == "diff"
                and not Path(str(item.get("path"))).is_absolute()
            ):
                yield "the path of a diff is not absolute"
            if item.get("type") == "terminal" and (
                session.loading or status != "in_progress"
            ):
                yield "a terminal is attached, but the tool call is not in progress here and now"
        for location in update.get("locations") or ():
            if not Path(str(location.get("path"))).is_absolute():
                yield "the path of a location is not absolute"

    def _compaction(
        self, session: _Session, kind: str, update: Mapping[str, Any]
    ) -> Iterator[str]:
        id = str(update.get("compactionId"))
        before = session.compactions.get(id)
        if kind == "compaction_summary_chunk":
            if session.loading:
                yield "a summary chunk in a replay"
            elif before != "in_progress":
                yield f"a summary chunk of a compaction that is {before or 'unknown'}"
            return
        status = session.compactions[id] = str(update.get("status"))
        if session.loading:
            if status != "completed":
                yield f"a replayed compaction is {status}, not completed"
        elif before is None and status != "in_progress":
            yield f"a live compaction begins with {status}, not in_progress"
        elif before in TERMINAL_STATUSES:
            yield f"a compaction that was {before} gets {status}"
        if status == "completed" and not update.get("summary"):
            yield "a completed compaction without its summary"
