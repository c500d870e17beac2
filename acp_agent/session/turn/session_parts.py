"""`SessionParts`: the parts of one session that exist before its first prompt."""

from __future__ import annotations

from anyio.abc import TaskGroup

from acp_agent.frozen import frozen
from acp_agent.session.client import SessionClient
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.options import SessionOptions
from acp_agent.session.recipes.available import SessionRecipes
from acp_agent.session.services import SessionServices
from acp_agent.session.slash.offer import CommandOffer
from acp_agent.session.state import SessionState
from acp_agent.session.toolbox import Toolbox
from acp_agent.session.trust import SessionTrust
from acp_agent.session.turn.record import TurnRecord


@frozen
class SessionParts:
    """The parts of a session that exist before its first prompt.

    :ivar tasks: runs until the session is closed.
    """

    services: SessionServices
    state: SessionState
    client: SessionClient
    tasks: TaskGroup
    notices: Notices
    mcp: SessionMcp
    requests: Requests
    trust: SessionTrust
    recipes: SessionRecipes
    options: SessionOptions
    offer: CommandOffer
    toolbox: Toolbox
    record: TurnRecord
