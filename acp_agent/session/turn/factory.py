"""`build_parts`: builds the `TurnParts` of one session. It is imported in a thread at
the first prompt.
"""

from __future__ import annotations

import acp_agent.secrets.text  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the log, at its first record
from acp_agent.session.compact.background import BackgroundSummary
from acp_agent.session.compact.clock import Clock
from acp_agent.session.compact.compactor import Compactor
from acp_agent.session.compact.idle import IdleSummaries
from acp_agent.session.compact.order import Orders
from acp_agent.session.compact.parts import CompactionParts
from acp_agent.session.compact.prompt_cache import PromptCache
from acp_agent.session.compact.recall_index import RecallIndex
from acp_agent.session.hook_services import HookServices
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.permissions import Permissions
from acp_agent.session.recipes.questions import RecipeQuestions
from acp_agent.session.slash.context import CompactReports, ContextCommands
from acp_agent.session.slash.files import FileCommands
from acp_agent.session.source import OriginalEntries
from acp_agent.session.turn.answer import AnswerStream
from acp_agent.session.turn.calls import ToolCalls
from acp_agent.session.turn.parts import TurnParts
from acp_agent.session.turn.prompt import PromptIntake
from acp_agent.session.turn.refused import RefusedPrompts
from acp_agent.session.turn.session_parts import SessionParts


def build_parts(session: SessionParts) -> TurnParts:
    """Build the parts that a session's turns use."""
    state = session.state
    log = state.log
    client = session.client
    show = client.show
    notices = session.notices
    requests = session.requests
    recipes = session.recipes
    record = session.record
    permissions = Permissions(state, client, notices)
    hook_services = HookServices(session.services, requests, recipes)
    hooks = SessionHooks(state, session.trust, notices, requests, hook_services)

    questions = RecipeQuestions(state, permissions, show)
    orders = Orders(requests, recipes, hooks, notices, OriginalEntries(log), questions)
    service = session.services.compaction()
    compactor = Compactor(log, service, hooks, requests, show)
    clock = Clock()
    cache = PromptCache(log, clock)
    background = BackgroundSummary(log, orders, compactor, session.tasks, cache)
    idle = IdleSummaries(requests, orders, background, cache, clock, session.tasks)
    compaction = CompactionParts(orders, compactor, background, idle, cache)

    context = ContextCommands(state, requests, session.options)
    files = FileCommands(log, session.toolbox, permissions, show)
    commands = {
        "context": context.context,
        "export": files.export,
        "help": session.offer.help,
        "model": context.model,
        "pin": context.pin,
        "undo": files.undo,
        "unpin": context.unpin,
    }
    recall = RecallIndex(log, session.tasks)
    recall.begin_pause()  # the session may have been compacted before it was opened
    return TurnParts(
        client=client,
        log=log,
        record=record,
        refused=RefusedPrompts(log, record),
        notices=notices,
        options=session.options,
        trust=session.trust,
        hooks=hooks,
        mcp=session.mcp,
        recipes=recipes,
        commands=commands,
        reports=CompactReports(state, requests, compaction, show),
        requests=requests,
        intake=PromptIntake(
            requests, session.mcp, recipes, questions, hooks, record, notices
        ),
        answers=AnswerStream(requests, log, notices, show),
        calls=ToolCalls(session.toolbox, permissions, hooks, record, show),
        compaction=compaction,
        recall=recall,
    )
