"""`Dispatcher`: runs the hooks for an event in a fixed order and combines their
outcomes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import anyio
from anyio import to_thread

from acp_agent.config.hook_events import OBSERVED, EventName
from acp_agent.errors import AgentError, sentence
from acp_agent.hooks.contract import ORIGINS, Hook, Origin, Services
from acp_agent.hooks.events import HookEvent, TurnEnd, changed
from acp_agent.hooks.outcomes import (
    NOTHING,
    POSSIBLE,
    SWAP,
    Decision,
    Outcome,
    bounded,
    cut,
    possible_part,
)
from acp_agent.logfile import log_failure

_log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[str], Awaitable[None]]
HookKey: TypeAlias = tuple[str, str]
"""Source and name of a hook, which stay the same when the hook is loaded again."""
_OF_PROJECTS: tuple[Origin, ...] = ("project", "recipe")
"""Origins of hooks that may come from a project. This includes recipes, since a
project's recipe can replace the user's.
"""


def in_order(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Sort hooks by origin into the order in which they run: config, user, project,
    recipe. The sort is stable.
    """
    return tuple(sorted(hooks, key=lambda hook: ORIGINS.index(hook.origin)))


class Dispatcher:
    """Runs the hooks of one session.

    :param hooks: the hooks, in any order; see `in_order`.
    :param tell: tells the user that a hook failed or requested something impossible.
        Called once for each hook and topic.
    :param notify: shows a hook's message to the user. Called as soon as the hook has
        answered, since the next hook may take a while, or be cancelled.
    """

    def __init__(
        self, hooks: Iterable[Hook], services: Services, tell: Tell, notify: Tell
    ) -> None:
        self.hooks = in_order(hooks)
        self._services = services
        self._tell = tell
        self._notify = notify
        self._told: set[tuple[HookKey, str]] = set()

    async def dispatch(
        self,
        event: HookEvent,
        recipe: Sequence[Hook] = (),
        *,
        recipe_first: Sequence[Hook] = (),
        blamed: set[HookKey] | None = None,
    ) -> Outcome:
        """Run every hook for this event.

        Usually, hooks run one after another. Each gets the event with the changes of
        the previous hooks, and a hook that blocks the action or ends the turn is the
        last to run. At the events in `OBSERVED`, all hooks run concurrently, and only
        their messages to the user are used.

        :param recipe: hooks of the running recipe that run after all others.
        :param recipe_first: hooks of the running recipe that run before all others.
        :param blamed: hooks whose failure must not block again, since it would make the
            agent continue forever; updated in place. None to let each failure block.
        """
        hooks = [
            hook for hook in (*recipe_first, *self.hooks, *recipe) if hook.wants(event)
        ]
        if event.name in OBSERVED:
            async with anyio.create_task_group() as tasks:
                for hook in hooks:
                    tasks.start_soon(self._ask, hook, event)
            return NOTHING
        total = NOTHING
        first: dict[str, Hook] = {}  # maps an attribute to the hook whose value is used
        for hook in hooks:
            outcome = await self._ask(hook, event, blamed)
            _log_conflicts(event.name, total, hook, outcome, first)
            total = total.then(outcome)
            if total.blocks or total.stop is not None:
                break
            event = changed(event, outcome)
        return total

    async def _ask(
        self, hook: Hook, event: HookEvent, blamed: set[HookKey] | None = None
    ) -> Outcome:
        """Run one hook and return the part of its outcome that is possible at this
        event. A hook that has been disabled does not run.
        """
        try:
            with anyio.fail_after(hook.time_limit):
                if hook.file is not None and await to_thread.run_sync(
                    hook.is_disabled, abandon_on_cancel=True
                ):
                    return NOTHING
                outcome = bounded(await hook.run(event, self._services))
                kept, ignored = possible_part(outcome, _possible(event))
        except TimeoutError:
            failure = f"It did not answer within {hook.time_limit:g} seconds."
            _log.warning(
                "the hook %s (%s) did not answer to %s in time",
                hook.name,
                hook.source,
                event.name,
            )
        except AgentError as error:
            failure = cut(str(error))
            _log.warning(
                "the hook %s (%s) failed at %s: %s",
                hook.name,
                hook.source,
                event.name,
                failure,
            )
        except Exception as error:  # hooks are third-party code and may raise anything
            failure = cut(
                log_failure(_log, f"the hook {hook.name} failed at {event.name}", error)
            )
        else:
            if ignored:
                await self._tell_ignored(hook, event, ignored)
            for notice in kept.notices:
                await self._notify(notice)
            decision = kept.decision and replace(
                kept.decision, by_project=hook.origin in _OF_PROJECTS
            )
            return replace(kept, decision=decision, notices=())
        return await self._failed(hook, event.name, failure, blamed)

    async def _failed(
        self, hook: Hook, name: EventName, failure: str, blamed: set[HookKey] | None
    ) -> Outcome:
        """Return the outcome of a hook's failure: block the action, ask about the tool
        call, or nothing. The first failure of each hook is reported to the user.
        """
        decision = None
        effect = "The hook is ignored."
        reason = f"The hook {hook.name} failed. {failure}"
        refuses = hook.on_error == "block" and name in POSSIBLE["decision: block"]
        if refuses and (blamed is None or _key(hook) not in blamed):
            decision = Decision("block", reason)
            effect = "Since its `on_error` is `block`, the failure counts as a refusal."
            if blamed is not None:
                blamed.add(_key(hook))
        elif hook.on_error == "ask" and name == "before_tool_call":
            decision = Decision("ask", reason)
            effect = "You will be asked about the call."
        await self._tell_once(
            hook, "failed", f"failed at {name}. {sentence(failure)} {effect}"
        )
        return Outcome(decision)

    async def _tell_ignored(
        self, hook: Hook, event: HookEvent, words: Iterable[str]
    ) -> None:
        allowed = [
            word for word in POSSIBLE if word in _possible(event) and word != SWAP
        ]
        limit = (
            f"At this event, only these keys are possible: {_listed(allowed)}."
            if allowed
            else "At this event, a hook cannot change anything."
        )
        text = f"answered {_listed(words)} at {event.name}, which was ignored. {limit}"
        _log.warning("The hook %s (%s) %s", hook.name, hook.source, text)
        # A hook cannot distinguish a summary from other answers, so a request that is
        # impossible after a summary is not a mistake.
        if not _is_summary(event):
            await self._tell_once(hook, event.name, text)

    async def _tell_once(self, hook: Hook, topic: str, text: str) -> None:
        if (_key(hook), topic) not in self._told:
            self._told.add((_key(hook), topic))
            await self._tell(f"The hook {hook.name} ({hook.source}) {text}")


def _log_conflicts(
    name: EventName,
    total: Outcome,
    hook: Hook,
    outcome: Outcome,
    first: dict[str, Hook],
) -> None:
    """Log each value of a hook's outcome that is ignored because an earlier hook set a
    different one.

    :param total: the combined outcome of the earlier hooks.
    :param first: maps attributes of the outcome to the hook whose value is used;
        updated in place.
    """
    earlier = total.first_wins()
    for attribute, value in outcome.first_wins().items():
        winner = first.setdefault(attribute, hook)
        if attribute in earlier and earlier[attribute] != value:
            named = (hook.name, hook.source, name, winner.name, winner.source)
            _log.warning(
                "the %s of the hook %s (%s) at %s is ignored: %s (%s) set a different one earlier",
                attribute,
                *named,
            )


def _key(hook: Hook) -> HookKey:
    # All functions of an installed module share one source.
    return (
        hook.source,
        hook.name,
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _possible(event: HookEvent) -> set[str]:
    """Return the keys of `POSSIBLE` that a hook may answer at an event."""
    words = {word for word, names in POSSIBLE.items() if event.name in names}
    if not _is_summary(event):
        return words - {SWAP}
    # A summary always replaces the conversation, so other actions are impossible.
    return {
        word
        for word in words
        if word == SWAP or not word.startswith(("action", "continue"))
    }


def _is_summary(event: HookEvent) -> bool:
    return isinstance(event, TurnEnd) and event.is_summary
