"""`SessionHooks`: asks one session's hooks at every event of its life, and puts together what each is told.

What they want done to the session is done by whoever asks here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio

from acp_agent.conversation.events import CallView, ContextAdded, ContextSwapped
from acp_agent.conversation.messages import ToolCall, new_id
from acp_agent.hooks.contract import Hook, Origin
from acp_agent.hooks.dispatcher import Dispatcher, Heeding, HookKey
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    EventName,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TokenUsage,
    TurnEnd,
    UserMessageSend,
    paths_of,
)
from acp_agent.hooks.guarded import GuardedHook
from acp_agent.hooks.outcomes import NOTHING, Compact, Outcome, SwapContext
from acp_agent.session.commands import RecipeRun
from acp_agent.session.hook_services import HookServices
from acp_agent.session.moments import moment
from acp_agent.session.recipe_hooks import recipe_hooks
from acp_agent.session.services import Services
from acp_agent.session.transcript import Transcript
from acp_agent.tools.tool import Outcome as CallOutcome

if TYPE_CHECKING:
    from acp_agent.config import HookFault
    from acp_agent.config.brought import Brought
    from acp_agent.hooks.discovery import Found
    from acp_agent.session.compact.order import Order
    from acp_agent.session.host import SessionHost

_USERS: tuple[Origin, ...] = ("config", "user")

ADDED = "A hook added this:\n\n{}"
"""How the model reads what a hook added: nobody is to take it for the user's words."""

_AMID_A_TURN: frozenset[EventName] = frozenset({"user_message_send", "before_tool_call", "after_tool_call"})
"""Events at which a compaction waits for the next request, or for the end of the turn."""

_Version: TypeAlias = tuple[Path, str] | None
"""Another one when other hooks of the project may run; None while none may."""

_log = logging.getLogger(__name__)


class SessionHooks:
    """The hooks of one session. They are looked for when the first event happens."""

    def __init__(self, host: SessionHost, services: Services) -> None:
        self._host = host
        self._services = services
        self._dispatcher: Dispatcher | None = None
        self._own: tuple[Hook, ...] = ()
        self._project: dict[_Version, Found] = {}
        self._allowed: _Version = None
        self._begun: set[_Version] = set()
        self._faults: tuple[HookFault, ...] = ()
        self._run: RecipeRun | None = None
        self._recipe: Sequence[Hook] = ()
        self._recipe_first: Sequence[Hook] = ()
        self._answers = 0
        self._blamed: set[HookKey] = set()
        self._started: anyio.Event | None = None
        self._wants_compaction: Compact | None = None

    @contextmanager
    def running(self, run: RecipeRun | None) -> Generator[None]:
        """A prompt is being answered, as long as this lasts.

        :param run: the recipe that it runs, whose hooks begin and end with it; those of one that compacts are asked
            about the compaction, however it came about.
        """
        self._run, self._answers, self._blamed = run, 0, set()
        self._recipe, self._recipe_first = ((), ()) if run is None or run.compacts else recipe_hooks(run.recipe)
        try:
            yield
        finally:
            self._run, self._answers = None, 0
            self._recipe = self._recipe_first = ()

    # --- the events ---

    async def start(self) -> None:
        """The session was opened; happens once, before its first prompt at the latest."""
        if self._started is None:
            self._started = anyio.Event()
            try:
                await self._session_start(self._host.source)
                self._begun.add(self._allowed)
            finally:
                self._started.set()
        await self._started.wait()

    async def renew(self) -> None:
        """Take the project's hooks as they may run now; those that may run for the first time are told that the session
        has started. What has become wrong in its configuration, so that it is not asked any more, is told."""
        await self._ready()
        before, self._faults = self._faults, self._host.settings.hook_faults
        await self._tell_left_out(fault.text for fault in self._faults if fault not in before)
        if _version(self._host.trust.hooks) == self._allowed:
            return
        hooks = await self._take_project()
        if self._allowed not in self._begun and any("session_start" in hook.events for hook in hooks):
            event = SessionStart(await self._moment(), self._host.source)
            outcome = await self._made(hooks).dispatch(event)
            await self.add(outcome.context)
        self._begun.add(self._allowed)

    async def end(self, reason: Literal["close", "delete", "exit"]) -> None:
        """The session is being closed; nothing happens where it had not begun to work."""
        if self._started is not None:
            await self._ask("session_end", lambda at: SessionEnd(at, reason))

    async def _session_start(self, source: Literal["new", "load", "resume", "compact"]) -> None:
        """What hooks add for the model is put into the log."""
        outcome = await self._ask("session_start", lambda at: SessionStart(at, source))
        await self.add(outcome.context)

    async def user_message(self, prompt: str) -> Outcome:
        """A prompt is about to be put to the model."""
        return await self._ask("user_message_send", lambda at: UserMessageSend(at, prompt))

    async def before_call(self, call: ToolCall, view: CallView) -> Outcome:
        """See `TurnHost.before_call`."""
        paths = self._paths(call, view)
        return await self._ask(
            "before_tool_call", lambda at: BeforeToolCall(at, call.id, call.name, call.arguments, paths)
        )

    async def after_call(self, call: ToolCall, outcome: CallOutcome) -> Outcome:
        """See `TurnHost.after_call`."""
        paths = self._paths(call, outcome.view)
        return await self._ask(
            "after_tool_call",
            lambda at: AfterToolCall(
                at,
                call.id,
                call.name,
                call.arguments,
                outcome.parts,
                is_error=outcome.is_error,
                paths=paths,
                raw_output=outcome.view.raw_output,
            ),
        )

    def _paths(self, call: ToolCall, view: CallView) -> tuple[str, ...]:
        return tuple(location.path for location in view.locations) or paths_of(call.arguments, self._host.cwd)

    async def turn_end(self, response: str) -> Outcome:
        """The model has answered without tool calls; each such answer of a run has the next number."""
        self._answers += 1
        return await self._ask("turn_end", lambda at: TurnEnd(at, response), blamed=self._blamed)

    async def summary_written(self, run: RecipeRun, summary: str) -> Outcome:
        """A recipe that compacts has its answer; it is a run of its own, with one answer, of which the swap is all that
        can come."""
        last, first = recipe_hooks(run.recipe)
        return await self._ask(
            "turn_end",
            lambda at: TurnEnd(replace(at, turn_number=1), summary, is_summary=True),
            last,
            first,
            _swap_alone,
        )

    async def added_to(self, run: RecipeRun, prompt: str) -> tuple[str, ...]:
        """What the handlers of a recipe that compacts add to what it asks the model for."""
        return (await self._of_recipe(run, "user_message_send", lambda at: UserMessageSend(at, prompt))).context

    async def recipe_ended(self, run: RecipeRun, summary: str) -> None:
        """See `CompactionHooks`."""
        await self._of_recipe(run, "agent_stop", lambda at: AgentStop(at, summary))

    async def _of_recipe(self, run: RecipeRun, name: EventName, make: Callable[[Moment], HookEvent]) -> Outcome:
        """Ask the handlers of a recipe that compacts, and nobody else: no prompt of the user's begins or ends."""
        last, first = recipe_hooks(run.recipe)
        if not any(name in hook.events for hook in (*first, *last)):
            return NOTHING
        event = make(replace(await self._moment(), turn_number=1))
        return await self._nobody_else.dispatch(event, last, recipe_first=first)

    async def before_compaction(self, order: Order) -> Outcome:
        """See `CompactionHooks`."""
        return await self._ask(
            "before_compaction",
            lambda at: BeforeCompaction(
                at,
                order.trigger,
                at.usage.input_tokens,
                at.usage.output_tokens,
                order.state.budget.window,
                order.run.instructions,
            ),
        )

    async def usage(self) -> TokenUsage:
        """See `CompactionHooks`."""
        dispatcher = await self._ready()
        return (await self._moment()).usage if dispatcher.listens("after_compaction") else TokenUsage()

    async def after_compaction(self, order: Order, swap: ContextSwapped, before: TokenUsage) -> None:
        """See `CompactionHooks`. The session then starts anew with the compacted context."""
        await self._ask(
            "after_compaction",
            lambda at: AfterCompaction(
                replace(at, usage=before),
                order.trigger,
                before.input_tokens,
                before.output_tokens,
                order.state.budget.window,
                swap.summary,
            ),
        )
        await self._session_start("compact")

    async def agent_stop(self, response: str) -> Outcome:
        """The turn is about to end."""
        active = self._answers > 1
        return await self._ask(
            "agent_stop", lambda at: AgentStop(at, response, stop_hook_active=active), blamed=self._blamed
        )

    # --- what they want ---

    def take_compaction(self) -> Compact | None:
        """The compaction that a hook wanted at an event at which none can be done; given once."""
        wanted, self._wants_compaction = self._wants_compaction, None
        return wanted

    async def add(self, texts: Sequence[str]) -> None:
        """Have the model read what hooks added."""
        if texts:
            await self._host.append(*(ContextAdded(new_id("msg"), ADDED.format(text)) for text in texts))

    async def _ask(
        self,
        name: EventName,
        make: Callable[[Moment], HookEvent],
        last: Sequence[Hook] | None = None,
        first: Sequence[Hook] | None = None,
        heeding: Heeding | None = None,
        blamed: set[HookKey] | None = None,
    ) -> Outcome:
        """Ask all hooks, those of the running recipe included, unless others are given."""
        dispatcher = await self._ready()
        last, first = self._recipe if last is None else last, self._recipe_first if first is None else first
        if not dispatcher.listens(name) and not any(name in hook.events for hook in (*first, *last)):
            return NOTHING
        event = make(await self._moment())
        outcome = await dispatcher.dispatch(event, last, recipe_first=first, heeding=heeding, blamed=blamed)
        if name in _AMID_A_TURN and isinstance(outcome.action, Compact):
            self._wants_compaction = outcome.action
        return outcome

    # --- which there are ---

    async def _ready(self) -> Dispatcher:
        if self._dispatcher is None:
            await self._host.trust.looked()
            settings = self._host.settings
            own = await self._services.hooks(settings, _USERS)
            self._own, self._faults = own.hooks, settings.hook_faults
            await self._tell_left_out(own.errors)
            await self._take_project()
            assert self._dispatcher is not None
        return self._dispatcher

    async def _take_project(self) -> tuple[Hook, ...]:
        """Ask the project's hooks from now on, as far as they are allowed, and none that were asked so far."""
        brought = self._host.trust.hooks
        version, hooks = _version(brought), tuple[Hook, ...]()
        if brought is not None:
            # What was asked once is the same when it comes back: it may remember something.
            if version not in self._project:
                # What was allowed, and not what the settings may say by now.
                settings = replace(self._host.settings, project=brought.place, hooks=brought.commands)
                self._project[version] = await self._services.hooks(settings, ("project",))
            found = self._project[version]
            await self._tell_left_out(found.errors)
            hooks = tuple(GuardedHook(hook, brought.hooks_are_same) for hook in found.hooks)
        self._dispatcher, self._allowed = self._made((*self._own, *hooks)), version
        return hooks

    def _made(self, hooks: Sequence[Hook]) -> Dispatcher:
        tell = self._host.tell
        return Dispatcher(hooks, HookServices(self._host, self._services), tell, notify=tell)

    @cached_property
    def _nobody_else(self) -> Dispatcher:
        return self._made(())

    async def _tell_left_out(self, errors: Iterable[object]) -> None:
        for error in errors:
            _log.warning("hook left out: %s", error)
            await self._host.tell(f"A hook was left out. {error}")

    async def _moment(self) -> Moment:
        recipe = self._run.recipe.name if self._run else ""
        return await moment(self._host, self._transcript.write, turn_number=max(1, self._answers), invoked_by=recipe)

    @cached_property
    def _transcript(self) -> Transcript:
        return Transcript(self._services.store, self._host.session_id, self._host.settings.home)


def _swap_alone(hook: Hook, outcome: Outcome) -> Outcome:
    """What counts of what a hook wants behind a summary: nothing that would take the place of the swap."""
    action = outcome.action if isinstance(outcome.action, SwapContext) else None
    for word, unused in (("action", action is not outcome.action), ("stop", outcome.stop is not None)):
        if unused:
            _log.warning("%s of the hook %s is not used: what ended is a compaction, not an answer", word, hook.name)
    return replace(outcome, action=action, stop=None)


def _version(brought: Brought | None) -> _Version:
    return (brought.place, brought.hooks_digest) if brought else None


def load_modules() -> None:
    """Load what is needed to find a session's hooks, whatever their kind."""
    for name in ("discovery", "plugins", "python_hooks"):
        import_module(f"acp_agent.hooks.{name}")
