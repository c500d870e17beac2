"""`SessionHooks`: dispatches events to one session's hooks. The caller carries out
their outcomes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from acp_agent.config.hook_events import EventName, event_name
from acp_agent.config.trust import ProjectCode
from acp_agent.conversation.events import CallView, ContextAdded
from acp_agent.conversation.messages import Text, ToolCall, UserMessage, new_id
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.errors import AgentError
from acp_agent.hooks.contract import Hook, Origin, guarded
from acp_agent.hooks.discovery import discover
from acp_agent.hooks.dispatcher import Dispatcher, HookKey
from acp_agent.hooks.events import (
    MAIN,
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TokenUsage,
    TurnEnd,
    UserMessageSend,
    paths_of,
)
from acp_agent.hooks.handlers import bound_handler
from acp_agent.hooks.outcomes import NOTHING, Compact, Outcome
from acp_agent.recipes.model import EXTERNAL, Recipe
from acp_agent.session.hook_services import HookServices, Transcript
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.session.state import SessionState
from acp_agent.session.trust import SessionTrust
from acp_agent.tools.tool import CallResult

_USER_ORIGINS: tuple[Origin, ...] = ("config", "user")
_CONTEXT_FORMAT = "A hook added this:\n\n{}"
"""Marks the text as a hook's, so that the model does not attribute it to the user."""

_COMPACTION_DEFERRED_AT: frozenset[EventName] = frozenset(
    {"user_message_send", "before_tool_call", "after_tool_call"}
)
"""A compaction that a hook requests at these events waits for the next request, or for
the end of the turn.
"""
_WAITING = (
    "The prompt is waiting for the `session_start` hooks, at most until their `timeout`. `acp-agent hooks list` "
    "lists them."
)
_Version: TypeAlias = tuple[Path, str] | None
"""Identifies the project's hooks that may run: their folder and digest. None if none
may run.
"""
_RecipeHooks: TypeAlias = tuple[Sequence[Hook], Sequence[Hook]]
"""The hooks of a recipe that are asked after all other hooks, and the ones that are
asked before them.
"""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Prompt:
    """The state of the hooks for the prompt that is being answered.

    :ivar run: the run of the prompt's recipe, if the prompt names one.
    :ivar recipe: the hooks of that recipe.
    :ivar answers: the number of answers without tool calls so far.
    :ivar blamed: the hooks that have made the model continue; see
        `Dispatcher.dispatch`.
    """

    run: RecipeRun | None = None
    recipe: _RecipeHooks = ((), ())
    answers: int = 0
    blamed: set[HookKey] = field(default_factory=set[HookKey])


class SessionHooks:
    """The hooks of one session. They are discovered when the first event happens."""

    def __init__(
        self,
        state: SessionState,
        trust: SessionTrust,
        notices: Notices,
        requests: Requests,
        services: HookServices,
    ) -> None:
        self._state = state
        self._trust = trust
        self._notices = notices
        self._requests = requests
        self._services = services
        self._transcript = Transcript(services.store, state.id, services.home)
        self._dispatcher: Dispatcher | None = None
        self._user_hooks: tuple[Hook, ...] = ()
        self._project_version: _Version = None
        self._faults: tuple[str, ...] = ()
        self._prompt = _Prompt()
        self._start_lock = anyio.Lock()
        self._started = False
        self._wanted_compaction: Compact | None = None

    @contextmanager
    def running(self, run: RecipeRun | None) -> Generator[None]:
        """Also ask a recipe's hooks while the `with` block answers the recipe's prompt.

        :param run: the run of the recipe; None for a prompt without one. The hooks of a
            recipe that compacts are asked only about the compaction.
        """
        self._prompt = _Prompt(run)
        if run is not None and not run.compacts:
            self._prompt.recipe = _recipe_hooks(run.recipe)
        try:
            yield
        finally:
            self._prompt = _Prompt()

    @property
    def may_act(self) -> bool:
        """Return True if there are hooks, or if the hooks have not been loaded yet. A
        recipe's hooks are included only while the recipe runs.
        """
        return self._dispatcher is None or any(
            (self._dispatcher.hooks, *self._prompt.recipe)
        )

    # --- the session ---

    async def start(self) -> None:
        """Dispatch `session_start` once, at the latest before the first prompt."""
        if self._started and not self._start_lock.locked():
            return
        async with self._notices.slow(_WAITING), self._start_lock:
            if not self._started:
                self._started = True
                await self._session_start(self._state.source)

    async def renew(self) -> None:
        """If the project's hooks that may run have changed, load them again and
        dispatch `session_start` to them.
        """
        await self._loaded()
        before = self._faults
        self._faults = self._state.settings.hook_faults
        await self._tell_left_out(
            fault for fault in self._faults if fault not in before
        )
        if _version(self._trust.hooks) == self._project_version:
            return
        hooks = await self._load_project_hooks()
        if any("session_start" in hook.events for hook in hooks):
            async with self._notices.slow(_WAITING):
                outcome = await self._new_dispatcher(hooks).dispatch(
                    SessionStart(await self._moment(), self._state.source)
                )
            await self.add(self._unread(outcome.context))

    async def end(self, reason: Literal["close", "delete", "exit"]) -> None:
        """Dispatch `session_end`, if `session_start` was dispatched."""
        if self._started:
            await self._ask(lambda at: SessionEnd(at, reason))

    async def _session_start(
        self, source: Literal["new", "load", "resume", "compact"]
    ) -> None:
        outcome = await self._ask(lambda at: SessionStart(at, source))
        await self.add(self._unread(outcome.context))

    def _unread(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts that the context does not contain yet. It may contain some
        from an earlier start of the session.
        """
        messages = [
            message.parts
            for message in self._state.context.messages
            if isinstance(message, UserMessage)
        ]
        return [
            text
            for text in texts
            if (Text(_CONTEXT_FORMAT.format(text)),) not in messages
        ]

    # --- a turn ---

    async def user_message(self, prompt: str) -> Outcome:
        """Dispatch `user_message_send`."""
        return await self._ask(lambda at: UserMessageSend(at, prompt))

    async def before_call(self, call: ToolCall, view: CallView) -> Outcome:
        """Dispatch `before_tool_call`."""
        paths = self._paths(call, view)
        return await self._ask(
            lambda at: BeforeToolCall(at, call.id, call.name, call.arguments, paths)
        )

    async def after_call(self, call: ToolCall, outcome: CallResult) -> Outcome:
        """Dispatch `after_tool_call`."""
        paths = self._paths(call, outcome.view)
        return await self._ask(
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

    async def turn_end(self, response: str) -> Outcome:
        """Dispatch `turn_end` after an answer without tool calls, and count the answer."""
        self._prompt.answers += 1
        return await self._ask(
            lambda at: TurnEnd(at, response), blamed=self._prompt.blamed
        )

    async def agent_stop(self, response: str) -> Outcome:
        """Dispatch `agent_stop`."""
        active = self._prompt.answers > 1
        return await self._ask(
            lambda at: AgentStop(at, response, stop_hook_active=active),
            blamed=self._prompt.blamed,
        )

    # --- a compaction ---

    async def is_handled(self, name: EventName) -> bool:
        """Return whether any hook handles an event. A recipe's hooks are included only
        while the recipe runs.
        """
        last, first = self._prompt.recipe
        return any(
            name in hook.events
            for hook in (*first, *(await self._loaded()).hooks, *last)
        )

    async def before_compaction(
        self, trigger: CompactionTrigger, window: int, instructions: str
    ) -> Outcome:
        """Dispatch `before_compaction`.

        :param window: tokens of the model's window.
        :param instructions: the instructions of the user or hook that requested the
            compaction.
        """
        return await self._ask(
            lambda at: BeforeCompaction(
                at,
                trigger,
                _tokens_before(at.usage),
                at.usage.output_tokens,
                window,
                instructions,
            ),
        )

    async def usage(self) -> TokenUsage:
        """Return the usage before a compaction, for `after_compaction`."""
        return (await self._moment()).usage

    async def after_compaction(
        self, trigger: CompactionTrigger, window: int, summary: str, before: TokenUsage
    ) -> None:
        """Dispatch `after_compaction`, and `session_start` for the compacted context.

        :param before: see `usage`.
        """
        await self._ask(
            lambda at: AfterCompaction(
                replace(at, usage=before),
                trigger,
                _tokens_before(before),
                before.output_tokens,
                window,
                summary,
            ),
        )
        await self._session_start("compact")

    async def summary_written(self, run: RecipeRun, summary: str) -> Outcome:
        """Dispatch `turn_end` for a recipe that compacts. The answer of such a recipe
        is the summary.
        """
        hooks = _recipe_hooks(run.recipe)
        return await self._ask(
            lambda at: TurnEnd(at, summary, is_summary=True), recipe=hooks
        )

    async def prompt_additions(self, run: RecipeRun, prompt: str) -> tuple[str, ...]:
        """Return the texts that the handlers of a compacting recipe add to its prompt."""
        outcome = await self._ask(
            lambda at: UserMessageSend(at, prompt),
            recipe=_recipe_hooks(run.recipe),
            alone=True,
        )
        return outcome.context

    async def recipe_ended(self, run: RecipeRun, summary: str) -> None:
        """Dispatch `agent_stop` to the handlers of a compacting recipe."""
        await self._ask(
            lambda at: AgentStop(at, summary),
            recipe=_recipe_hooks(run.recipe),
            alone=True,
        )

    # --- requests of hooks ---

    def take_compaction(self) -> Compact | None:
        """Return and forget the compaction that a hook requested at an event at which
        it had to be postponed.
        """
        wanted = self._wanted_compaction
        self._wanted_compaction = None
        return wanted

    async def add(self, texts: Sequence[str]) -> None:
        """Log the texts that hooks added for the model."""
        if texts:
            await self._state.log.append(
                *(
                    ContextAdded(new_id("msg"), _CONTEXT_FORMAT.format(text))
                    for text in texts
                )
            )

    # --- asking ---

    async def _ask(
        self,
        make: Callable[[Moment], HookEvent],
        recipe: _RecipeHooks | None = None,
        *,
        alone: bool = False,
        blamed: set[HookKey] | None = None,
    ) -> Outcome:
        """Create an event and dispatch it, if there are hooks.

        :param make: creates the event.
        :param recipe: the hooks of a recipe. None means the running recipe.
        :param alone: whether to ask only the recipe's hooks.
        :param blamed: see `Dispatcher.dispatch`. None if the model has not answered.
        """
        dispatcher = self._new_dispatcher(()) if alone else await self._loaded()
        last, first = recipe or self._prompt.recipe
        if not (dispatcher.hooks or first or last):
            return NOTHING
        at = await self._moment(answered=blamed is not None)
        event = make(at if recipe is None else replace(at, answer_number=1))
        outcome = await dispatcher.dispatch(
            event, last, recipe_first=first, blamed=blamed
        )
        if (
            event.name in _COMPACTION_DEFERRED_AT
            and not alone
            and isinstance(outcome.action, Compact)
        ):
            self._want_compaction(event.name, outcome.action)
        return outcome

    def _want_compaction(self, name: EventName, wanted: Compact) -> None:
        """Remember a compaction that has to wait. Later requests are ignored until it
        has run.
        """
        if self._wanted_compaction is None:
            self._wanted_compaction = wanted
        elif wanted != self._wanted_compaction:
            _log.warning(
                "a compaction that a hook requested at %s is skipped: another one is already due",
                name,
            )

    async def _moment(self, *, answered: bool = False) -> Moment:
        """Return the part of an event that describes the current session.

        :param answered: whether the event is about the newest answer rather than the
            next one.
        """
        state = self._state
        context = self._state.context
        run = self._prompt.run
        last = context.usage
        used = context.baseline or self._requests.estimate()
        usage = TokenUsage(
            last.prompt_tokens if last else 0,
            last.output_tokens if last else 0,
            current_context_window=used,
        )
        # Without a model there is no window. The next prompt reports the missing model.
        with suppress(AgentError):
            active = await self._requests.active()
            used = self._requests.used(active) or used
            usage = replace(
                usage,
                current_context_window=used,
                max_context_window=active.budget.window,
            )
        return Moment(
            session_id=state.id,
            cwd=str(state.cwd),
            transcript=self._transcript.write,
            mode=state.mode,
            turn_number=context.answers + (not answered),
            answer_number=max(1, self._prompt.answers),
            invoked_by=run.recipe.name if run else MAIN,
            usage=usage,
            messages=context.messages,
        )

    def _paths(self, call: ToolCall, view: CallView) -> tuple[str, ...]:
        return tuple(location.path for location in view.locations) or paths_of(
            call.arguments, str(self._state.cwd)
        )

    # --- the known hooks ---

    async def _loaded(self) -> Dispatcher:
        """Return the dispatcher. Discover the hooks first if that has not happened yet."""
        if self._dispatcher is None:
            await self._trust.ensure_read()
            settings = self._state.settings
            found = await discover(settings, _USER_ORIGINS)
            self._user_hooks = found.hooks
            self._faults = settings.hook_faults
            await self._tell_left_out(found.errors)
            await self._load_project_hooks()
            assert self._dispatcher is not None
        return self._dispatcher

    async def _load_project_hooks(self) -> tuple[Hook, ...]:
        """Replace the project's hooks with those that may run now. Return the new hooks."""
        code = self._trust.hooks
        hooks = tuple[Hook, ...]()
        if code is not None:
            # Use the code that the user trusted, even if the settings have changed
            # since.
            settings = replace(
                self._state.settings, project=code.place, hooks=code.commands
            )
            found = await discover(settings, ("project",), self._state.made, code)
            await self._tell_left_out(found.errors)
            hooks = tuple(guarded(hook, code.hooks_are_same) for hook in found.hooks)
        self._dispatcher = self._new_dispatcher((*self._user_hooks, *hooks))
        self._project_version = _version(code)
        return hooks

    def _new_dispatcher(self, hooks: Sequence[Hook]) -> Dispatcher:
        return Dispatcher(hooks, self._services, self._notices.tell, self._notices.tell)

    async def _tell_left_out(self, errors: Iterable[object]) -> None:
        for error in errors:
            _log.warning("hook left out: %s", error)
            await self._notices.tell(f"A hook was left out. {error}")


def _tokens_before(usage: TokenUsage) -> int:
    """Return the tokens of a context before it is compacted.

    This is the provider's count, or our estimate if the model was not called since the
    last compaction.
    """
    return usage.input_tokens or usage.current_context_window


def _recipe_hooks(recipe: Recipe) -> _RecipeHooks:
    """Return the hooks that a recipe names: the ones asked after all other hooks, and
    the ones asked before them.
    """
    last: list[Hook] = []
    first: list[Hook] = []
    for word, section in recipe.hooks.items():
        if (event := event_name(word)) is None:
            continue
        hooks = first if section.named(EXTERNAL) else last
        for each in section.handlers or ():
            if each.handler == EXTERNAL:
                hooks = last
                continue
            source = f"{recipe.source}: hooks.{word}.{each.handler}"
            hook = bound_handler(
                each.handler,
                event,
                source,
                params=each.params,
                once=section.once,
                on_error=each.on_error,
            )
            hooks.append(hook)
    return tuple(last), tuple(first)


def _version(code: ProjectCode | None) -> _Version:
    return (code.place, code.hooks_digest) if code else None
