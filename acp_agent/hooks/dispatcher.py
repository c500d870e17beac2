"""`Dispatcher`: asks every hook of a session that is bound to an event, in a fixed order, and puts their answers
together. Knows no kind of hook; does nothing of what they want."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import anyio

from acp_agent.errors import AgentError
from acp_agent.hooks.contract import ORIGINS, Hook, Services
from acp_agent.hooks.events import OBSERVED, EventName, HookEvent, changed
from acp_agent.hooks.outcomes import NOTHING, Decision, Outcome
from acp_agent.logfile import log_failure

_log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[str], Awaitable[None]]
Heeding: TypeAlias = Callable[[Hook, Outcome], Outcome]
"""What of a hook's outcome counts where not all that it may want can be done."""


def in_order(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Hooks as they are asked: config, user, project, recipe, and within one of these as they are given."""
    return tuple(sorted(hooks, key=lambda hook: ORIGINS.index(hook.origin)))


class Dispatcher:
    """Asks the hooks of one session.

    :param hooks: see `in_order`.
    :param tell: tells the user that a hook has failed; once for each hook.
    """

    def __init__(self, hooks: Iterable[Hook], services: Services, tell: Tell) -> None:
        self.hooks = in_order(hooks)
        self._services = services
        self._tell = tell
        self._failed: set[str] = set()

    def listens(self, name: EventName) -> bool:
        """Whether any hook is bound to such events: where none is, there is no event to make."""
        return any(name in hook.events for hook in self.hooks)

    async def dispatch(
        self,
        event: HookEvent,
        recipe: Sequence[Hook] = (),
        *,
        recipe_first: Sequence[Hook] = (),
        heeding: Heeding | None = None,
    ) -> Outcome:
        """Ask every hook that wants to hear of this event.

        Where something can still be decided, one after the other: each is told of the event as the one before has left
        it, and the first that blocks it, or ends the turn, is the last that is asked. Of what is done already, all are
        told at once, and what they answer is dropped.

        :param recipe: hooks of the recipe that runs, asked after all others.
        :param recipe_first: those of them that want to be asked before all others.
        :param heeding: says what counts of each outcome; all of it where None.
        """
        hooks = [
            hook for hook in (*recipe_first, *self.hooks, *recipe) if event.name in hook.events and hook.wants(event)
        ]
        if not hooks:
            return NOTHING
        if event.name in OBSERVED:
            async with anyio.create_task_group() as tasks:
                for hook in hooks:
                    tasks.start_soon(self._ask, hook, event)
            return NOTHING
        total = NOTHING
        for hook in hooks:
            outcome = await self._ask(hook, event)
            outcome = outcome if heeding is None else heeding(hook, outcome)
            for word in total.overrules(outcome):
                _log.warning("%s of the hook %s is not used: a hook before it wanted another", word, hook.name)
            total = total.then(outcome)
            if total.blocks or total.stop is not None:
                break
            event = changed(event, outcome)
        return total

    async def _ask(self, hook: Hook, event: HookEvent) -> Outcome:
        """What one hook wants. Its failure is logged and told, and means what `on_error` says."""
        try:
            with anyio.fail_after(hook.time_limit):
                return await hook.run(event, self._services)
        except TimeoutError:
            failure = f"It did not answer within {hook.time_limit:g} seconds."
            _log.warning("the hook %s (%s) did not answer to %s in time", hook.name, hook.source, event.name)
        except AgentError as error:
            failure = str(error)
            _log.warning("the hook %s (%s) failed at %s: %s", hook.name, hook.source, event.name, error)
        except Exception as error:  # a hook is a stranger's code, and may raise anything
            failure = log_failure(_log, f"the hook {hook.name} failed at {event.name}", error)
        blocks = hook.on_error == "block" and event.name not in OBSERVED
        consequence = "Since its `on_error` is `block`, this was refused." if blocks else "It counts as not there."
        if hook.source not in self._failed:
            self._failed.add(hook.source)
            await self._tell(f"The hook {hook.name} ({hook.source}) failed at {event.name}. {failure} {consequence}")
        return Outcome(Decision("block", f"The hook {hook.name} failed. {failure}")) if blocks else NOTHING
