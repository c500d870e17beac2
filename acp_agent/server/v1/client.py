"""`EditorClient`: the `SessionClient` of an editor, as in version 1; that of version 2 differs in some ways.

It also makes sure that an editor sees the beginning of a call or a compaction before its end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.updates import (
    CallAnnounced,
    CallFinished,
    CompactionFinished,
    CompactionStarted,
    Update,
)
from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol import methods
from acp_agent.protocol.updates import session_update
from acp_agent.server.channel import (
    Channel,
    EditorQuestions,
    EditorServers,
    joined_deltas,
    permission_options,
    trust_options,
)
from acp_agent.server.content import cut
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1.environment import EditorFiles, EditorTerminals
from acp_agent.server.v1.presenter import Presenter
from acp_agent.session.client import Answer
from acp_agent.tools.environment import CommandRunner
from acp_agent.tools.shell.run import LocalCommands

_log = logging.getLogger(__name__)


class EditorClient(Channel):
    """`SessionClient` over the wire.

    :param session_id: as the editor knows it.
    :ivar mcp_channel: sends messages to the MCP servers inside the editor.
    """

    def __init__(self, peer: Peer, session_id: str, capabilities: Capabilities, servers: EditorServers) -> None:
        super().__init__(peer, session_id)
        self.files = EditorFiles(self, capabilities)
        self.commands: CommandRunner = EditorTerminals(self) if capabilities.terminal else LocalCommands()
        self.questions = EditorQuestions(self, capabilities)
        self.shows_notices = capabilities.notices
        self.mcp_channel = servers
        self._presenter = Presenter(capabilities)
        self._begun: set[str] = set()

    async def show(self, update: Update) -> None:
        """Send an update, if this editor is to have it."""
        for whole in self._with_beginning(update):
            for wire in self._presenter.present(whole):
                params = session_update(self._session_id, wire)
                await self._peer.notify(methods.SESSION_UPDATE, params, merge=joined_deltas)
            # Not before: a cancel may reach a task that waits for room in the queue.
            match whole:
                case CallAnnounced(call_id=id) | CompactionStarted(compaction_id=id):
                    self._begun.add(id)
                case CallFinished(call_id=id) | CompactionFinished(compaction_id=id):
                    self._begun.discard(id)
                case _:
                    pass

    def _with_beginning(self, update: Update) -> tuple[Update, ...]:
        """Return the update, preceded by the start of its call or compaction if a cancel kept that from being sent.
        Editors show an update of an unknown call as a permanent failure."""
        match update:
            case CallFinished(replayed=False) if update.call_id not in self._begun:
                return (replace(update, replayed=True),)
            case CompactionFinished(replayed=False) if update.compaction_id not in self._begun:
                return (CompactionStarted(update.compaction_id, ""), update)
            case _:
                return (update,)

    # --- questions ---

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask the user. Only a selected allow option is consent.

        :raises ToolError: the editor could not ask, or its answer is invalid.
        """
        shown = self._presenter.diffs(view)
        call = self._presenter.pending_call(call_id, name, view, arguments, shown)
        return await self._answer(call, permission_options(subject), reason)

    async def ask_trust(self, call_id: str, name: str, view: CallView, projects: Sequence[str], text: str) -> Answer:
        """Ask the user whether what a project brings may run.

        :raises ToolError: the editor could not ask, or its answer is invalid.
        """
        call = self._presenter.pending_call(call_id, name, view, {"folders": [*projects]})
        return await self._answer(call, trust_options(), text)

    async def _answer(self, call: JsonObject, options: Sequence[JsonObject], description: str) -> Answer:
        try:
            return cast("Answer", await self.select(call, options, cut(description)) or "cancelled")
        except PeerClosedError:
            return "cancelled"  # the turn is about to be ended, since the editor has gone
        except (RpcError, ToolError) as error:
            _log.warning("the editor did not answer a permission request: %s", error)
            raise ToolError(
                f"The user could not be asked, so nothing was done. {sentence(error)} Do not try it in another way."
            ) from error
