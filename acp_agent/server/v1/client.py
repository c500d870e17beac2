"""`EditorClient`: one session's editor, as the session sees it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import JsonValue, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol.v1 import PermissionOptionKind, content, methods, requests, updates
from acp_agent.server.bounds import bounded, cut, pieces
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.files import EditorFiles
from acp_agent.server.v1.presenter import Presenter, call_content, call_locations
from acp_agent.server.v1.questions import EditorQuestions
from acp_agent.server.v1.terminals import EditorTerminals
from acp_agent.session.client import TrustQuestion
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.local_commands import LocalCommands
from acp_agent.tools.text import one_line
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import CallAnnounced, CallFinished, CompactionFinished, CompactionStarted, Update

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions

MAX_JOINED = 16_384
"""Characters of neighbouring text deltas that are joined while the editor is slow."""
MAX_SUBJECT = 40
"""Characters of a permission option's name that tell what it covers; longer ones break editors' buttons."""

_log = logging.getLogger(__name__)


class EditorClient:
    """`SessionClient` over the wire.

    :param peer: the connection.
    :param session_id: as the editor knows it; every question carries it, also one of a nested piece of work.
    """

    def __init__(self, peer: Peer, session_id: str, capabilities: Capabilities) -> None:
        self._peer = peer
        self._session_id = session_id
        self._presenter = Presenter(capabilities)
        self._shows_notices = capabilities.notices
        self._begun: set[str] = set()
        self._questions = EditorQuestions(peer, session_id, capabilities)
        self._files = EditorFiles(peer, session_id, capabilities)
        self._commands: CommandRunner = EditorTerminals(peer, session_id) if capabilities.terminal else LocalCommands()

    @property
    def files(self) -> FileAccess:
        """Files as the editor has them."""
        return self._files

    @property
    def commands(self) -> CommandRunner:
        """The editor's terminals, or local processes where it has none."""
        return self._commands

    @property
    def questions(self) -> Questions:
        """Forms where the editor has them, and what permission dialogs can ask."""
        return self._questions

    @property
    def shows_notices(self) -> bool:
        """Whether the editor has notices."""
        return self._shows_notices

    async def show(self, update: Update) -> None:
        """Send an update, if this editor is to be told."""
        for whole in self._with_beginning(update):
            for piece in pieces(whole):
                wire = self._presenter.present(piece)
                if wire is not None:
                    await self._peer.notify(
                        methods.SESSION_UPDATE, updates.session_update(self._session_id, wire), merge=_joined
                    )
            # Not before: a cancel may reach whoever waits for room in the queue.
            match whole:
                case CallAnnounced(call_id=id) | CompactionStarted(compaction_id=id):
                    self._begun.add(id)
                case CallFinished(call_id=id) | CompactionFinished(compaction_id=id):
                    self._begun.discard(id)
                case _:
                    pass

    def _with_beginning(self, update: Update) -> tuple[Update, ...]:
        """The update; and what an editor must have seen before the end of a call or a compaction, where a cancel was
        quicker. Editors show an update of what they do not know as a failure for ever."""
        match update:
            case CallFinished(replayed=False) if update.call_id not in self._begun:
                return (replace(update, replayed=True),)
            case CompactionFinished(replayed=False) if update.compaction_id not in self._begun:
                return (CompactionStarted(update.compaction_id, ""), update)
            case _:
                return (update,)

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str
    ) -> Answer:
        """Ask the user. Only a selected allow option is consent.

        :raises ToolError: the editor could not ask, or its answer is none.
        """
        tool_call = updates.tool_call_fields(
            call_id,
            view.title,
            name=name,
            kind=view.kind,
            status="pending",
            content=call_content(view) or None,
            locations=call_locations(view) or None,
            raw_input=bounded(arguments),
        )
        return await self._ask(tool_call, _options(subject))

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask the user whether what a project brings may run.

        :raises ToolError: the editor could not ask, or its answer is none.
        """
        tool_call = updates.tool_call_fields(
            question.call_id,
            question.view.title,
            name=question.name,
            kind=question.view.kind,
            status="pending",
            content=[content.tool_content(content.text_content(cut(question.text)))],
            raw_input={"folders": [*question.projects]},
        )
        return await self._ask(tool_call, [requests.permission_option(kind, name, kind) for kind, name in _TRUST])

    async def _ask(self, tool_call: JsonObject, options: list[JsonObject]) -> Answer:
        try:
            answer = await self._peer.request(
                methods.SESSION_REQUEST_PERMISSION,
                requests.request_permission(self._session_id, tool_call, options),
            )
            return _answer(answer, [option["optionId"] for option in options])
        except (RpcError, ToolError) as error:
            _log.warning("the editor did not answer a permission request: %s", error)
            raise ToolError(
                f"The user could not be asked, so nothing was done. {sentence(error)} Do not try it in another way."
            ) from error


_TRUST: tuple[tuple[PermissionOptionKind, str], ...] = (
    ("allow_always", "Trust this folder until something in it changes"),
    ("allow_once", "For this session"),
    ("reject_once", "Not now"),
)


def _options(subject: str) -> list[JsonObject]:
    """One option of each kind: some editors keep only the last of a kind."""
    covered = subject if len(subject) <= MAX_SUBJECT else f"{subject[: MAX_SUBJECT - 1]}…"
    named: tuple[tuple[PermissionOptionKind, str], ...] = (
        ("allow_once", "Allow"),
        ("allow_always", f"Always allow {' '.join(covered.split())}"),
        ("reject_once", "Reject"),
    )
    return [requests.permission_option(kind, name, kind) for kind, name in named]


def _answer(wire: JsonValue, offered: Collection[JsonValue]) -> Answer:
    from acp_agent.protocol.v1 import CancelledPermissionOutcome, RequestPermissionResponse
    from acp_agent.protocol.wire import parse_result

    response = parse_result(RequestPermissionResponse, wire, methods.SESSION_REQUEST_PERMISSION)
    if isinstance(response.outcome, CancelledPermissionOutcome):
        return "cancelled"
    chosen = response.outcome.option_id
    if chosen not in offered:
        raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
    match chosen:
        case "allow_once":
            return "allow_once"
        case "allow_always":
            return "allow_always"
        case _:
            return "reject_once"


def _joined(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """Two neighbouring text deltas of one message as one, where they are that."""
    first, second = before["update"], after["update"]
    if not isinstance(first, dict) or not isinstance(second, dict) or before["sessionId"] != after["sessionId"]:
        return None
    kind = first["sessionUpdate"]
    if kind != second["sessionUpdate"] or kind not in _JOINABLE:
        return None
    if first.get("messageId") != second.get("messageId") or first.get("compactionId") != second.get("compactionId"):
        return None
    old, new = first["content"], second["content"]
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None
    head, tail = old.get("text"), new.get("text")
    if not isinstance(head, str) or not isinstance(tail, str) or len(head) + len(tail) > MAX_JOINED:
        return None
    return {**after, "update": {**second, "content": content.text_content(head + tail)}}


_JOINABLE = ("agent_message_chunk", "agent_thought_chunk", "compaction_summary_chunk")
