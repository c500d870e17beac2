"""`SessionHost`: the session as its turns see it. Builds each request, compacts before one where that is due, and
passes updates and questions on to the client."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from pathlib import Path

import anyio.to_thread

from acp_agent.compaction.estimate import estimate_prefix, used_tokens
from acp_agent.config import Settings
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CallView, Event, InstructionsLoaded, PermissionGranted
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import AgentError, RecipeError
from acp_agent.llm.provider import ModelEvent, ModelRequest, ToolDefinition
from acp_agent.recipes.library import RecipeLibrary
from acp_agent.session.client import SessionClient
from acp_agent.session.commands import COMPACT, RecipeRun
from acp_agent.session.compacting import Compactor
from acp_agent.session.instructions import read_instructions
from acp_agent.session.log import SessionLog
from acp_agent.session.models import ActiveModel, SessionModels
from acp_agent.session.services import Services
from acp_agent.tools.environment import Environment
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Notice, Update, UsageUpdated

MAX_FUTILE = 2
"""Automatic compactions in one turn after which the context was too full at once: a third would do no better."""

_log = logging.getLogger(__name__)


class SessionHost:
    """One session's log, client and settings, as a turn needs them.

    :ivar log: the session's log.
    :ivar client: who sits at the other end; replaced when another editor opens the session.
    """

    def __init__(
        self,
        session_id: str,
        log: SessionLog,
        client: SessionClient,
        services: Services,
        settings: Settings,
        directories: Sequence[Path],
    ) -> None:
        self.session_id = session_id
        self.log = log
        self.client = client
        self.settings = settings
        self.models = SessionModels(services.models(settings))
        self._services = services
        self._directories = tuple(directories)
        self._library: RecipeLibrary | None = None
        self._futile = 0
        self._just_compacted = False
        self._asked: ActiveModel | None = None
        self._untold: list[str] = []
        self._compactor = Compactor(
            session_id, log, services.compaction, services.hooks, self.show, self.show_usage, self.read_instructions
        )

    # --- what a turn asks for (see TurnHost) ---

    @property
    def context(self) -> Context:
        """The context after everything appended so far."""
        return self.log.context

    async def append(self, *events: Event) -> None:
        """Add events to the log and the context."""
        await self.log.append(*events)

    async def show(self, update: Update) -> None:
        """Let the user see something."""
        await self.client.show(update)

    async def show_usage(self) -> None:
        """Let the user see how full the window is: the provider's last count where there is one."""
        active = await self.models.active(self.context.model)
        context = self.context
        used = context.baseline or used_tokens(context, self._prefix_tokens())
        await self.show(UsageUpdated(used, active.budget.window, context.cost or None))

    async def next_request(self) -> ModelRequest:
        """The request for the next step, after a compaction where one is due."""
        active = await self.models.active(self.context.model)
        await self._compact_if_due(active)
        # Another model may have been chosen while the summary was written.
        self._asked = await self.models.active(self.context.model)
        return self._request(self._asked)

    def call_model(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model that the last `next_request` was made for."""
        if self._asked is None:
            raise RuntimeError("a model was called before a request was made for it")
        return self._asked.provider.stream(request)

    def environment(self) -> Environment:
        """What tools work in, as of now."""
        return Environment(
            cwd=self._directories[0],
            roots=self._directories,
            files=self.client.files,
            commands=self.client.commands,
            seen=self.context.files,
            shell_timeout=self.settings.shell_timeout,
        )

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str
    ) -> Answer:
        """Put a call to the user, and remember an "always" for the rest of the session.

        :raises SessionConflictError: another process has gone on with the session while the user was thinking.
        """
        answer = await self.client.ask_permission(call_id, name, view, arguments, subject)
        if answer == "allow_always":
            await self.append(PermissionGranted(subject))
        elif answer == "allow_once":
            # The user may have thought for an hour, and gone on in another editor.
            await self.log.confirm()
        return answer

    async def tell(self, text: str) -> None:
        """Tell the user what belongs to no answer: as a notice, or in the next turn where the client has none."""
        if self.client.shows_notices:
            await self.show(Notice("warning", text))
        else:
            self._untold.append(text)

    def take_untold(self) -> tuple[str, ...]:
        """What could not be told so far."""
        untold = tuple(self._untold)
        self._untold.clear()
        return untold

    # --- compaction ---

    def begin_turn(self) -> None:
        """New input arrived, so that automatic compaction gets another chance."""
        self._futile = 0
        self._just_compacted = False

    async def compact(self, run: RecipeRun) -> bool:
        """Compact because the user asked.

        :returns: False where there was nothing to compact.
        :raises AgentError: it failed; the context is as it was.
        """
        active = await self.models.active(self.context.model)
        return await self._compactor.compact(
            run, "manual", self._request(active), active.budget, active.provider.stream
        )

    async def _compact_if_due(self, active: ActiveModel) -> None:
        if not self.settings.compaction.auto or not self._too_full(active):
            self._just_compacted = False
            return
        self._futile += self._just_compacted
        if self._futile >= MAX_FUTILE:
            return
        recipe = (await self.library()).get(COMPACT)
        if recipe is None:
            return
        run = RecipeRun(recipe, "", ())
        try:
            self._just_compacted = await self._compactor.compact(
                run, "threshold", self._request(active), active.budget, active.provider.stream
            )
        except RecipeError as error:
            await self.tell(f"The context window is nearly full and was not compacted. {error}")
            self._futile = MAX_FUTILE
        except AgentError as error:
            # The user has seen it; the turn goes on with what fits, and does not try again before there is new input.
            _log.warning("automatic compaction failed: %s", error)
            self._futile = MAX_FUTILE

    def _too_full(self, active: ActiveModel) -> bool:
        used = used_tokens(self.context, self._prefix_tokens())
        return active.budget.exceeded(used, self.settings.compaction.threshold)

    # --- what is read from the disk ---

    async def library(self) -> RecipeLibrary:
        """The recipes of the session's directory. Read on first use: a new session does not wait for it."""
        if self._library is None:
            library = await anyio.to_thread.run_sync(self._services.library, self.settings)
            for error in library.errors:
                _log.warning("recipe left out: %s", error)
                await self.tell(f"A recipe was left out. {error}")
            self._library = library
        return self._library

    async def read_instructions(self) -> InstructionsLoaded:
        """The system prompt as the project's files say now."""
        return await read_instructions(self._directories, self.settings.home)

    # --- requests ---

    async def prewarm(self) -> None:
        """Load what the first request needs, so that the first prompt does not wait for it.

        :raises AgentError: see `SessionModels.prewarm`.
        """
        _ = self._definitions
        await self.models.prewarm(self.context.model)

    @cached_property
    def _definitions(self) -> tuple[ToolDefinition, ...]:
        # Made with the first request: their schemas take longer than all else of a new session.
        tools = self._services.tools
        return tuple(ToolDefinition(tool.name, tool.description, tool.input_schema) for tool in tools)

    def _prefix_tokens(self) -> int:
        return estimate_prefix(self.context.instructions, self._definitions)

    def _request(self, active: ActiveModel) -> ModelRequest:
        context = self.context
        return ModelRequest(
            model=active.model_id,
            system=context.instructions,
            messages=context.messages,
            tools=self._definitions,
            max_output_tokens=active.budget.output(
                used_tokens(context, self._prefix_tokens()), active.max_output_tokens
            ),
            thought_level=context.thought_level or self.settings.thought_level or "",
            conversation_id=self.session_id,
        )
