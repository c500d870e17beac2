"""`Dispatcher`: asks every hook of a session that is bound to an event, in a fixed order, and puts their answers
together. Knows no kind of hook; does nothing of what they want."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio import to_thread

from acp_agent.errors import AgentError
from acp_agent.hooks.contract import DISABLED, ORIGINS, Hook, Services
from acp_agent.hooks.events import OBSERVED, EventName, HookEvent, changed
from acp_agent.hooks.outcomes import DEFERRED, NOTHING, Decision, Outcome, Verdict, cut
from acp_agent.hooks.possible import REFUSED, bounded, impossible, possible, without
from acp_agent.logfile import log_failure

_log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[str], Awaitable[None]]
Heeding: TypeAlias = Callable[[Hook, Outcome], Outcome]
"""What of a hook's outcome counts where not all that it may want can be done."""
HookKey: TypeAlias = tuple[str, str]
"""By which a hook is known, though it is made anew: where it stands, and its name there."""


def in_order(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Hooks as they are asked: config, user, project, recipe, and within one of these as they are given."""
    return tuple(sorted(hooks, key=lambda hook: ORIGINS.index(hook.origin)))


class Dispatcher:
    """Asks the hooks of one session.

    :param hooks: see `in_order`.
    :param tell: tells the user that a hook has failed, or wants what cannot be done; once for each hook.
    :param notify: tells the user what a hook says to them, as soon as it has answered: the next one may take its time,
        and be cancelled. None leaves all that to the outcome.
    """

    def __init__(self, hooks: Iterable[Hook], services: Services, tell: Tell, notify: Tell | None = None) -> None:
        self.hooks = in_order(hooks)
        self._services = services
        self._tell = tell
        self._notify = notify
        self._told_failed: set[HookKey] = set()
        self._impossible: set[tuple[HookKey, EventName]] = set()
        self._deferred: set[HookKey] = set()

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
        blamed: set[HookKey] | None = None,
    ) -> Outcome:
        """Ask every hook that wants to hear of this event.

        Where something can still be decided, one after the other: each is told of the event as the one before has left
        it, and the first that blocks it, or ends the turn, is the last that is asked. Of what is done already, all are
        told at once, and of what they answer the user's notices alone are kept.

        :param recipe: hooks of the recipe that runs, asked after all others.
        :param recipe_first: those of them that want to be asked before all others.
        :param heeding: says what counts of each outcome; all of it where None.
        :param blamed: hooks whose failure has kept the agent going already, and which does so once; those that do it
            now are added. None where a failure means the same each time.
        """
        hooks = [
            hook for hook in (*recipe_first, *self.hooks, *recipe) if event.name in hook.events and hook.wants(event)
        ]
        if not hooks:
            return NOTHING
        if event.name in OBSERVED:
            return await self._observed(hooks, event)
        total = NOTHING
        for hook in hooks:
            outcome = await self._ask(hook, event, blamed)
            outcome = outcome if heeding is None else heeding(hook, outcome)
            for word in total.overrules(outcome):
                _log.warning("%s of the hook %s is not used: a hook before it wanted another", word, hook.name)
            total = total.then(outcome)
            if total.blocks or total.stop is not None:
                break
            event = changed(event, outcome)
        return total

    async def _observed(self, hooks: Sequence[Hook], event: HookEvent) -> Outcome:
        answers: dict[int, Outcome] = {}

        async def ask(number: int, hook: Hook) -> None:
            answers[number] = await self._ask(hook, event)

        async with anyio.create_task_group() as tasks:
            for number, hook in enumerate(hooks):
                tasks.start_soon(ask, number, hook)
        return Outcome(notices=tuple(notice for number in sorted(answers) for notice in answers[number].notices))

    async def _ask(self, hook: Hook, event: HookEvent, blamed: set[HookKey] | None = None) -> Outcome:
        """Return what one hook wants, as far as it can be done; nothing where it has been switched off."""
        try:
            with anyio.fail_after(hook.time_limit):
                if hook.file is not None and await to_thread.run_sync(_is_off, hook.file, abandon_on_cancel=True):
                    return NOTHING
                outcome = await hook.run(event, self._services)
        except TimeoutError:
            failure = f"It did not answer within {hook.time_limit:g} seconds."
            _log.warning("the hook %s (%s) did not answer to %s in time", hook.name, hook.source, event.name)
        except AgentError as error:
            failure = cut(str(error))
            _log.warning("the hook %s (%s) failed at %s: %s", hook.name, hook.source, event.name, failure)
        except Exception as error:  # a hook is a stranger's code, and may raise anything
            failure = cut(log_failure(_log, f"the hook {hook.name} failed at {event.name}", error))
        else:
            return await self._told(await self._fitted(hook, event, outcome))
        return await self._failed(hook, event.name, failure, blamed)

    async def _failed(self, hook: Hook, name: EventName, failure: str, blamed: set[HookKey] | None) -> Outcome:
        """Return what the failure of a hook means: an objection, a question to the user about the call that it guards,
        or nothing. The first failure is told to the user here, every one by what comes of it."""
        key = _key(hook)
        verdict: Verdict | None = None
        if hook.on_error == "block" and name in REFUSED and (blamed is None or key not in blamed):
            verdict, meant = "block", f"Since its `on_error` is `block`, {REFUSED[name]}."
            if blamed is not None:
                blamed.add(key)
        elif hook.on_error == "ask" and name == "before_tool_call":
            verdict, meant = "ask", "You are asked about the call."
        else:
            meant = "It counts as not there."
        if key not in self._told_failed:
            self._told_failed.add(key)
            await self._tell(f"The hook {hook.name} ({hook.source}) failed at {name}. {failure} {meant}")
        return NOTHING if verdict is None else Outcome(Decision(verdict, f"The hook {hook.name} failed. {failure}"))

    async def _told(self, outcome: Outcome) -> Outcome:
        """What is left of an outcome once the user has been told."""
        if self._notify is None or not outcome.notices:
            return outcome
        for notice in outcome.notices:
            await self._notify(notice)
        return replace(outcome, notices=())

    async def _fitted(self, hook: Hook, event: HookEvent, outcome: Outcome) -> Outcome:
        """What of an outcome can be done at this event; the user is told once of the rest."""
        if outcome.decision == DEFERRED:
            await self._tell_deferred(hook)
        outcome = bounded(event, outcome)
        words = impossible(event, outcome)
        if not words:
            return outcome
        kept = without(outcome, words)
        if event.name == "session_start" and (outcome.blocks or outcome.stop is not None):
            # Nothing can be refused here, and what it says is worth reading all the same.
            words = tuple(word for word in words if word not in ("decision: block", "continue: false"))
            said = " ".join(text for text in (outcome.reason, outcome.stop) if text) or _NO_REFUSAL
            kept = replace(kept, notices=(*kept.notices, f"The hook {hook.name} at {event.name}: {said}"))
        if words:
            await self._tell_impossible(hook, event.name, words)
        return kept

    async def _tell_impossible(self, hook: Hook, name: EventName, words: Sequence[str]) -> None:
        wanted = ", ".join(f"`{word}`" for word in words)
        able = ", ".join(f"`{word}`" for word in possible(name))
        where = f"{name}, where only these are possible: {able}" if able else f"{name}, where nothing can be changed"
        text = f"The hook {hook.name} ({hook.source}) answered {wanted} at {where}. That was left out."
        _log.warning("%s", text)
        if (_key(hook), name) not in self._impossible:
            self._impossible.add((_key(hook), name))
            await self._tell(text)

    async def _tell_deferred(self, hook: Hook) -> None:
        if _key(hook) not in self._deferred:
            self._deferred.add(_key(hook))
            await self._tell(
                f"The hook {hook.name} ({hook.source}) asked for `defer`, which is no longer known. It counts as "
                "`decision: block`: the compaction is not done, and the hook is asked again with the next prompt."
            )


_NO_REFUSAL = "it refuses, but the start of a session cannot be refused."


def _is_off(file: Path) -> bool:
    return file.with_name(f"{file.name}{DISABLED}").exists()


def _key(hook: Hook) -> HookKey:
    # All functions of an installed module stand in one place.
    return hook.source, hook.name
