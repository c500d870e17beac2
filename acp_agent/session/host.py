"""`SessionHost`: the session as its turns see it. Builds each request, compacts before one where that is due, and
passes updates and questions on to the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from anyio.abc import TaskGroup

from acp_agent.compaction.budget import ended_for_want_of_room
from acp_agent.config import Settings
from acp_agent.config.settings import CompactionSettings, McpServer
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import AssistantAnswered, CallView, Event, InstructionsLoaded, LoggedEvent
from acp_agent.conversation.messages import AssistantMessage, JsonObject, ToolCall
from acp_agent.errors import ContextOverflowError, OverflowLimit
from acp_agent.hooks.outcomes import Outcome as HookOutcome
from acp_agent.llm.places import key_variables
from acp_agent.llm.provider import ModelEvent, ModelRequest
from acp_agent.processes import environment_without
from acp_agent.session.archive import SessionArchive
from acp_agent.session.attachments import Attachments
from acp_agent.session.client import SessionClient
from acp_agent.session.instructions import read_instructions
from acp_agent.session.loading import SessionLoading
from acp_agent.session.log import SessionLog
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.models import SessionModels
from acp_agent.session.naming import SessionNaming
from acp_agent.session.options import session_options
from acp_agent.session.originals import SessionOriginals
from acp_agent.session.permissions import SessionPermissions
from acp_agent.session.recipes import SessionRecipes
from acp_agent.session.renewing import Renewing
from acp_agent.session.requests import SessionRequests
from acp_agent.session.run_settings import RunSettings
from acp_agent.session.services import Services
from acp_agent.session.telling import Telling
from acp_agent.session.trusting import SessionTrust
from acp_agent.tools.environment import Environment
from acp_agent.tools.registry import ToolRegistry, question_tools
from acp_agent.tools.tool import Outcome
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Option, Update, UsageUpdated

if TYPE_CHECKING:
    from acp_agent.conversation.events import ContextRestored
    from acp_agent.llm.registry import Registry
    from acp_agent.recipes.model import Recipe, Surroundings
    from acp_agent.session.compact.control import SessionCompaction
    from acp_agent.session.hooking import SessionHooks
    from acp_agent.session.refusals import Refusals

Source: TypeAlias = Literal["new", "load", "resume"]


class SessionHost:
    """One session's log, client and settings, as a turn needs them.

    :ivar log: the session's log.
    :ivar client: who sits at the other end; replaced when another editor opens the session.
    :ivar source: how the session was opened.
    :ivar requests: makes and measures its requests.
    :ivar run: what the running recipe sets.
    :ivar renewing: takes its settings anew.
    :ivar trust: what of its project may run.
    :ivar telling: what the user is told beside the conversation.
    :ivar permissions: what its user need not be asked again.
    :ivar recipes: those of its directory.
    :ivar mcp: its MCP servers.
    :ivar naming: asks for its title.
    :ivar loading: loads what its first turn needs.
    :ivar begun: the id of the call that began to run last, in this process.
    :ivar trace: W3C trace context of the prompt that is being answered.
    :ivar attachments: the bytes that its log refers to.
    :ivar originals: what was in files before they were changed, where the log does not hold it.
    """

    def __init__(
        self,
        session_id: str,
        log: SessionLog,
        client: SessionClient,
        services: Services,
        settings: Settings,
        directories: Sequence[Path],
        source: Source = "new",
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        self.session_id = session_id
        self.log = log
        self.client = client
        self.settings = settings
        self.source: Source = source
        self._directories = tuple(directories)
        self.attachments = Attachments(services.store, session_id)
        self.models = self._made_models(services.models(settings))
        self.run = RunSettings(self)
        tools = ToolRegistry(chain(services.tools, question_tools(client.questions.asks)))
        self.mcp = SessionMcp(self, tools, mcp_servers, self._directories)
        self.requests = SessionRequests(self)
        self.trust = SessionTrust(self, services, self._directories[0])
        self.permissions = SessionPermissions(self, services.home, self._directories[0])
        self.originals = SessionOriginals(services.home, session_id)
        self.recipes = SessionRecipes(self, services, self._directories[0])
        self._services = services
        self.telling = Telling(self)
        self.naming = SessionNaming(self)
        self.loading = SessionLoading(self)
        self.trace: Mapping[str, str] = {}
        self.begun = ""
        self._tasks: TaskGroup | None = None
        self._silent = False
        self.renewing = Renewing(self, services.settings, self._directories[0])

    def run_in(self, tasks: TaskGroup) -> None:
        """Do what is done in the background in this task group, which ends with the session."""
        self._tasks = tasks
        self.attachments.run_in(tasks)
        self.models.run_in(tasks)
        self.mcp.run_in(tasks)
        self.naming.run_in(tasks)

    async def give_up(self) -> None:
        """Give up a summary that is written in the background."""
        if "compaction" in self.__dict__:
            await self.compaction.background.drop()

    async def undo_compaction(self) -> ContextRestored:
        """Undo the newest compaction that is in force.

        :raises CompactionError: there is none.
        """
        from acp_agent.session.undoing import undo

        restored = await undo(self._services.store, self.session_id, self.log, self.requests.prefix_tokens())
        await self.give_up()  # only now: where nothing was undone, what is prepared still fits
        await self.show_usage()
        return restored

    @cached_property
    def compaction(self) -> SessionCompaction:
        """The session's compactions. Loaded with the first prompt: a new session does not wait for it."""
        from acp_agent.session.compact.control import SessionCompaction

        compaction = SessionCompaction(self, self._services)
        if self._tasks is not None:
            compaction.run_in(self._tasks)
        return compaction

    @cached_property
    def refusals(self) -> Refusals:
        """What it learns where a request is refused."""
        from acp_agent.session.refusals import Refusals

        return Refusals(self, self.compaction)

    @cached_property
    def hooks(self) -> SessionHooks:
        """The session's hooks."""
        from acp_agent.session.hooking import SessionHooks

        return SessionHooks(self, self._services)

    async def end_hooks(self, reason: Literal["close", "delete", "exit"]) -> None:
        """Tell the hooks that the session is being closed, where they have been asked anything."""
        if "hooks" in self.__dict__:
            await self.hooks.end(reason)

    # --- what a turn asks for (see TurnHost) ---

    @property
    def context(self) -> Context:
        """The context after everything appended so far."""
        return self.log.context

    @property
    def cwd(self) -> str:
        """The working directory that the session was opened in now; the log has the one in which it began."""
        return str(self._directories[0])

    @property
    def model(self) -> str:
        """The model that is asked now, as its user or the running recipe chose it; empty for the default."""
        return self.run.model or self.context.model

    @property
    def asked_model(self) -> str:
        """The model that the last request was made for, `provider/model`."""
        return self.model if self.requests.asked is None else self.requests.asked.name

    @property
    def mode(self) -> str:
        """The permission mode that holds now, the running recipe's included."""
        return self.run.mode or self.context.mode

    @property
    def tools(self) -> ToolRegistry:
        """The tools that there are in this turn."""
        return self.mcp.tools

    async def append(self, *events: Event) -> None:
        """Add events to the log and the context."""
        asked = self.context
        await self.log.append(*events)
        answers = [event.message for event in events if isinstance(event, AssistantAnswered)]
        for answer in answers:
            self.requests.answered(answer, asked)
        if answers:
            await self.telling.streamed()

    async def show(self, update: Update) -> None:
        """Let the user see something, until `fall_silent`."""
        if not self._silent:
            await self.client.show(update)

    def fall_silent(self) -> None:
        """Show nothing from now on: the session was closed, and its editor knows it no more."""
        self._silent = True

    async def leave_out(self, turn_from: int) -> None:
        """Take a turn out of the context, since its prompt was refused, and tell the user what the context is now."""
        from acp_agent.session.refusing import leave_out

        await leave_out(self, turn_from)

    async def show_usage(self) -> None:
        """Let the user see how full the window is: the provider's last count where there is one."""
        active = await self.models.active(self.model)
        context = self.context
        used = context.baseline or self.requests.used(active)
        await self.show(UsageUpdated(used, active.budget.window, context.cost or None))

    async def next_request(self) -> ModelRequest:
        """The request for the next step, after a compaction where one is due."""
        await self.telling.streamed()  # also where the last answer broke off
        await self.compact_for_hooks()
        await self.compaction.before_request(await self.models.active(self.model))
        # Another model may have been chosen while a summary was written.
        return self.requests.next(await self.models.active(self.model))

    async def compact_for_hooks(self) -> None:
        """Compact where a hook wanted it at an event at which it could not be done."""
        if (wanted := self.hooks.take_compaction()) is not None:
            await self.compaction.on_request(wanted.instructions)

    async def out_of_room(self, answer: AssistantMessage) -> bool:
        """Whether this answer was cut off because the window was full."""
        active = await self.models.active(self.model)
        return ended_for_want_of_room(answer, active.budget)

    async def heed(self, refusal: ContextOverflowError) -> bool:
        """Learn what a refusal of the last request says of the window.

        :returns: whether the same prompt fits with a shorter answer, which the next request asks for.
        """
        return (asked := self.requests.asked) is not None and await self.refusals.learn(asked, refusal)

    async def make_room(self, limit: OverflowLimit | None = None, refusal: ContextOverflowError | None = None) -> bool:
        """Compact, since the provider refused the last request or its answer ended for want of room.

        :param limit: what the provider said there was too much of; None where it took the request.
        :param refusal: what it said, where it refused the request or broke an answer off.
        :returns: False where nothing could be made short, and a shorter answer is asked for instead.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        return await self.refusals.make_room(self.requests.asked, limit, refusal)

    def call_model(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model that the last `next_request` was made for."""
        if self.requests.asked is None:
            raise RuntimeError("a model was called before a request was made for it")
        self.telling.streams = True
        return self.requests.asked.provider.stream(request)

    def environment(self, call_id: str = "") -> Environment:
        """What tools work in, as of now.

        :param call_id: the call that it is for.
        """
        return Environment(
            cwd=self._directories[0],
            roots=self._directories,
            files=self.client.files,
            commands=self.client.commands,
            seen=self.context.files,
            shell_timeout=self.settings.shell_timeout,
            archive=SessionArchive(self._services.store, self.session_id, self.context),
            originals=self.originals,
            questions=self.client.questions,
            call_id=call_id,
            private=self._services.home,
            key_variables=key_variables(self.settings),
            trace=self.trace,
        )

    async def before_call(self, call: ToolCall, view: CallView) -> HookOutcome:
        """Ask the hooks about a call that nobody has allowed yet."""
        return await self.hooks.before_call(call, view)

    def begin_call(self, call_id: str) -> None:
        """Note that a call begins to run: until then it has no effect."""
        self.begun = call_id

    async def after_call(self, call: ToolCall, outcome: Outcome) -> HookOutcome:
        """Tell the hooks of a call that has run, or has failed, before the model reads its result."""
        return await self.hooks.after_call(call, outcome)

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Put a call to the user, and keep an "always".

        :param reason: why a hook has the user asked.
        :raises SessionConflictError: another process has gone on with the session while the user was thinking.
        """
        return await self.permissions.ask(call_id, name, view, arguments, subject, reason)

    async def grants(self) -> frozenset[str]:
        """What the user need not be asked, as of now."""
        return await self.permissions.grants()

    async def tell(self, text: str) -> None:
        """Tell the user what belongs to no answer."""
        await self.telling.tell(text)

    def events(self) -> AsyncIterator[LoggedEvent]:
        """The whole log."""
        return self._services.store.events(self.session_id)

    # --- what is read from the disk ---

    async def work_with(self, settings: Settings) -> None:
        """Go on with other settings, and with models made of them."""
        await self.give_up()
        # It knows the models by which it was asked last, and what has failed with them.
        self.__dict__.pop("compaction", None)
        self.__dict__.pop("refusals", None)
        former, self.models = self.models, self._made_models(self._services.models(settings))
        self.settings, self.requests.asked = settings, None
        if self._tasks is not None:
            self.models.run_in(self._tasks)
        await former.aclose()

    def _made_models(self, registry: Registry) -> SessionModels:
        return SessionModels(registry, resolver=self.attachments)

    async def options(self) -> tuple[Option, ...]:
        """What may be chosen, and what is, for menus."""
        name = await self.models.name(self.model)
        auto = self.compaction_settings(name or "").auto
        return session_options(self.mode, self.context.thought_level, name, await self.models.choices(), auto)

    def compaction_settings(self, model: str) -> CompactionSettings:
        """What holds of compaction for a model in this session.

        :param model: `provider/model`.
        """
        return self.settings.compaction_for(model, self.context.auto_compaction)

    def surroundings(self, recipe: Recipe) -> Surroundings:
        """What a recipe's template may ask for beside its arguments."""
        from acp_agent.session.surroundings import CommandRunner, surroundings

        runner = CommandRunner(self.cwd, env=environment_without(key_variables(self.settings)))
        return surroundings(self.session_id, self.cwd, recipe, runner)

    async def read_instructions(self) -> InstructionsLoaded:
        """The system prompt as the project's files say now."""
        return await read_instructions(self._directories, self.settings.home)
