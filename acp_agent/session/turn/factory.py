"""`build_runner`: builds the `TurnRunner` of one session. Imported in a thread at the first prompt."""

from __future__ import annotations

from anyio.abc import TaskGroup

import acp_agent.secrets.text  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the log, at its first record
from acp_agent.session.client import SessionClient
from acp_agent.session.compact.background import BackgroundSummary
from acp_agent.session.compact.clock import Clock
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.compact.idle import IdleSummaries
from acp_agent.session.compact.job import Compactor
from acp_agent.session.compact.order import Orders
from acp_agent.session.compact.prompt_cache import PromptCache
from acp_agent.session.notices import Notices
from acp_agent.session.permissions import Permissions
from acp_agent.session.project.hook_services import HookServices
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.recipe_questions import RecipeQuestions
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.settings import SessionOptions
from acp_agent.session.project.toolbox import Toolbox
from acp_agent.session.project.trust import SessionTrust
from acp_agent.session.services import Services
from acp_agent.session.slash.context import CompactReports, ContextCommands
from acp_agent.session.slash.files import FileCommands
from acp_agent.session.slash.offer import CommandOffer
from acp_agent.session.source import OriginalEntries
from acp_agent.session.state import SessionState
from acp_agent.session.turn.answer import AnswerStream
from acp_agent.session.turn.calls import ToolCalls
from acp_agent.session.turn.loop import AnswerHandler, TurnLoop
from acp_agent.session.turn.prompt import PromptIntake
from acp_agent.session.turn.record import TurnRecord
from acp_agent.session.turn.runner import PromptResolver, TurnRunner, TurnSetup


def build_runner(
    services: Services,
    state: SessionState,
    client: SessionClient,
    tasks: TaskGroup,
    *,
    notices: Notices,
    mcp: SessionMcp,
    requests: Requests,
    trust: SessionTrust,
    recipes: SessionRecipes,
    options: SessionOptions,
    offer: CommandOffer,
    toolbox: Toolbox,
    record: TurnRecord,
) -> TurnRunner:
    """Build the runner of a session's turns from the session's existing parts."""
    log, show, permissions = state.log, client.show, Permissions(state, client, notices)
    hooks = SessionHooks(state, trust, notices, requests, HookServices(services, requests, recipes))

    questions = RecipeQuestions(state, permissions, show)
    orders = Orders(requests, recipes, hooks, notices, OriginalEntries(log), questions)
    compactor = Compactor(log, services.compaction(), hooks, requests, show)
    clock = Clock()
    cache = PromptCache(log, clock)
    background = BackgroundSummary(log, orders, compactor, tasks, cache)
    idle = IdleSummaries(requests, orders, background, cache, clock, tasks)
    compaction = SessionCompaction(requests, orders, compactor, notices, background, idle, cache)

    context, files = ContextCommands(state, requests, options), FileCommands(log, toolbox, permissions, show)
    commands = {
        "context": context.context,
        "export": files.export,
        "help": offer.help,
        "model": context.model,
        "pin": context.pin,
        "undo": files.undo,
        "unpin": context.unpin,
    }
    reports = CompactReports(state, requests, compaction, show)

    intake = PromptIntake(requests, mcp, recipes, questions, hooks, record, notices)
    answers = AnswerStream(requests, log, notices, show)
    calls = ToolCalls(toolbox, permissions, hooks, record, show)
    handler = AnswerHandler(log, hooks, compaction, calls, record, notices)
    loop = TurnLoop(requests, intake, compaction, answers, handler)
    setup = TurnSetup(options, trust, hooks, mcp, compaction)
    resolver = PromptResolver(recipes, commands, reports, compaction, client)
    return TurnRunner(hooks, setup, resolver, loop, record, idle)
