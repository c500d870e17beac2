"""`build_runner`: builds what runs one session's turns. Imported with the first prompt, in a thread."""

from __future__ import annotations

from functools import partial

from anyio.abc import TaskGroup

import acp_agent.secrets.text  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the log, at its first record
from acp_agent.llm.places import key_variables
from acp_agent.session.client import SessionClient
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.compact.job import BackgroundSummary, Compactor
from acp_agent.session.compact.order import Orders
from acp_agent.session.mailbox import Mailbox
from acp_agent.session.notices import Notices
from acp_agent.session.permissions import Permissions
from acp_agent.session.project.hook_services import HookServices
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.models import SessionModels
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.settings import SessionOptions
from acp_agent.session.project.trust import SessionTrust
from acp_agent.session.project.workspace import ReadInstructions
from acp_agent.session.services import Services
from acp_agent.session.slash.context import CompactReports, ContextCommands
from acp_agent.session.slash.files import FileCommands
from acp_agent.session.slash.offer import CommandOffer
from acp_agent.session.source import OriginalEntries
from acp_agent.session.state import SessionState
from acp_agent.session.turn.answer import StopHooks, ToolCalls
from acp_agent.session.turn.loop import PromptSubmitter, TurnLoop
from acp_agent.session.turn.record import TurnRecord
from acp_agent.session.turn.runner import Commands, TurnRunner, TurnSetup
from acp_agent.tools.environment import Environment


def build_runner(
    services: Services,
    state: SessionState,
    client: SessionClient,
    mailbox: Mailbox,
    tasks: TaskGroup,
    *,
    instructions: ReadInstructions,
    notices: Notices,
    models: SessionModels,
    mcp: SessionMcp,
    requests: Requests,
    trust: SessionTrust,
    recipes: SessionRecipes,
    options: SessionOptions,
    offer: CommandOffer,
    record: TurnRecord,
) -> TurnRunner:
    """Build the runner of a session's turns from the parts that the session has already."""
    log, show = state.log, client.show
    permissions, environment = Permissions(state, client, notices), partial(_environment, state, client)
    hook_services = HookServices(services, requests, recipes)
    hooks = SessionHooks(state, trust, notices, requests, hook_services)

    orders = Orders(state, requests, recipes, hooks, notices, OriginalEntries(log))
    compactor = Compactor(log, instructions, services.compaction(), hooks, requests, show)
    background = BackgroundSummary(log, orders, compactor, tasks)
    compaction = SessionCompaction(state, requests, orders, compactor, hooks, notices, background)

    context, files = ContextCommands(state, requests, options), FileCommands(log, environment, permissions, show)
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

    submitter = PromptSubmitter(requests, mcp, recipes, hooks, options, mailbox, record)
    calls = ToolCalls(record, log, mcp, environment, permissions, hooks, show)
    stop_hooks = StopHooks(log, hooks, requests, compaction, record, show)
    loop = TurnLoop(log, options, submitter, requests, compaction, calls, stop_hooks, record, notices, show)
    setup = TurnSetup(options, trust, hooks, models, compaction)
    return TurnRunner(hooks, setup, Commands(recipes, commands, reports, compaction, client), loop, record)


def _environment(state: SessionState, client: SessionClient, call_id: str = "") -> Environment:
    """Return the environment of one of a session's tool calls, as of now.

    :param call_id: the call that it is for; empty for a command of the user's.
    """
    return Environment(
        cwd=state.cwd,
        roots=state.directories,
        files=client.files,
        commands=client.commands,
        seen=state.context.files,
        shell_timeout=state.settings.shell_timeout,
        archive=state.log,
        questions=client.questions,
        call_id=call_id,
        private=state.settings.home,
        key_variables=key_variables(state.settings),
        trace=state.trace,
    )
