"""`TurnParts`: the parts of one session that its turns use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from acp_agent.frozen import frozen
from acp_agent.session.client import SessionClient
from acp_agent.session.compact.parts import CompactionParts
from acp_agent.session.compact.recall_index import RecallIndex
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.log import SessionLog
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.options import SessionOptions
from acp_agent.session.recipes.available import SessionRecipes
from acp_agent.session.slash.context import CompactReports
from acp_agent.session.trust import SessionTrust
from acp_agent.session.turn.answer import AnswerStream
from acp_agent.session.turn.calls import ToolCalls
from acp_agent.session.turn.prompt import PromptIntake
from acp_agent.session.turn.record import TurnRecord
from acp_agent.session.turn.refused import RefusedPrompts

BuiltinCommand: TypeAlias = Callable[[str], Awaitable[str]]
"""Runs a built-in command with the words after its name, and returns the answer."""


@frozen
class TurnParts:
    """The parts of one session that its turns use. They live as long as the session.

    :ivar commands: the built-in commands by name, except `/compact`.
    :ivar reports: answers `/compact preview`, `status` and `undo`.
    """

    client: SessionClient
    log: SessionLog
    record: TurnRecord
    refused: RefusedPrompts
    notices: Notices
    options: SessionOptions
    trust: SessionTrust
    hooks: SessionHooks
    mcp: SessionMcp
    recipes: SessionRecipes
    commands: Mapping[str, BuiltinCommand]
    reports: CompactReports
    requests: Requests
    intake: PromptIntake
    answers: AnswerStream
    calls: ToolCalls
    compaction: CompactionParts
    recall: RecallIndex
