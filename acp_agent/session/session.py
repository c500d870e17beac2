"""`Session`: the actor behind one conversation. It takes prompts from its mailbox one by one and has each answered.

It owns who is next and who is cancelled. Settings and cancelling do not queue: they act at once, beside a running turn.
What a turn is, it does not know.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Literal

import anyio

from acp_agent.conversation.events import Event, LoggedEvent, TitleChanged, TurnEnded, UserPrompted
from acp_agent.conversation.messages import UserPart, new_id
from acp_agent.errors import AgentError, SessionClosedError, SessionConflictError
from acp_agent.session.catching_up import CatchingUp
from acp_agent.session.host import SessionHost
from acp_agent.session.mailbox import Mailbox, Ticket
from acp_agent.session.options import change_event
from acp_agent.session.replay import replay
from acp_agent.session.steering import Steering, says_anything
from acp_agent.session.turns import SessionTurns
from acp_agent.turn.updates import Command, ModeUpdated, Option, OptionsUpdated, TitleUpdated, TurnBegan, TurnOver

EXIT_SECONDS = 1.5
"""For all hooks together that want to hear of the agent's end: who closes the wire may not be kept waiting."""

_log = logging.getLogger(__name__)


class Session:
    """One open conversation. `serve` must run for its prompts to be answered.

    :param host: its log, client and settings.
    :param changed: called when its title or an option was set here.
    :ivar offered: its editor was told what may be chosen from, or is about to be.
    """

    def __init__(self, host: SessionHost, changed: Callable[[], None]) -> None:
        self.host = host
        self._changed = changed
        self._catching_up = CatchingUp(host, lambda: self._running is not None)
        host.log.caught_up = self._catching_up.show
        self.offered = False
        self._mailbox = Mailbox()
        self._steering = Steering(host, self._mailbox)
        self._turns = SessionTurns(host, self.set_option, self._steering)
        self._running: Ticket | None = None
        self._turn_scope = anyio.CancelScope()
        self._serving = anyio.CancelScope()
        self._closed = False
        self._changing = anyio.Lock()
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def session_id(self) -> str:
        """Its stable id."""
        return self.host.session_id

    # --- prompts ---

    def submit(
        self, parts: tuple[UserPart, ...], trace: Mapping[str, str] | None = None, *, provisional: bool = False
    ) -> Ticket:
        """Put a prompt behind those that wait. Synchronous, so that prompts keep their order.

        :param trace: W3C trace context that it came with.
        :param provisional: see `Ticket`.
        :raises QueueFullError: too many are waiting.
        :raises SessionClosedError: the session was closed.
        """
        if self._closed:
            raise SessionClosedError(self.session_id)
        ticket = Ticket(parts, trace, provisional=provisional)
        self._mailbox.put(ticket)
        return ticket

    def cancel(self) -> None:
        """End the running turn with `cancelled`, or the one that was about to run; prompts behind it stay."""
        if self._running is not None:
            self._turn_scope.cancel()
        else:
            self._mailbox.cancel_first()

    def cancel_all(self) -> None:
        """End the running turn with `cancelled`, and take back every prompt that waits."""
        for ticket in self._mailbox.empty():
            ticket.answer("cancelled")
        if self._running is not None:
            self._turn_scope.cancel()

    def withdraw(self, ticket: Ticket) -> bool:
        """Take one prompt back.

        :returns: True where it was still waiting and never ran; otherwise its turn is cancelled.
        """
        if self._mailbox.remove(ticket):
            return True
        if self._running is ticket or self._steering.has(ticket):
            self.cancel()
        return False

    async def serve(self) -> None:
        """Answer prompts until the session is closed."""
        with self._serving:
            try:
                async with anyio.create_task_group() as tasks:
                    self.host.run_in(tasks)
                    tasks.start_soon(self.host.recipes.watch, lambda: self._running is None)
                    while True:
                        await self._answer(await self._mailbox.take())
            finally:
                if not self._closed:
                    waiting = self._release()
                    with anyio.CancelScope(deadline=anyio.current_time() + EXIT_SECONDS, shield=True):
                        await self._keep(waiting)
                        await self.host.end_hooks("exit")

    def stop(self) -> None:
        """End the running turn and take no more prompts, since the process ends; `serve` returns when that is done."""
        self._serving.cancel()

    async def close(self, reason: Literal["close", "delete"] = "close") -> None:
        """Answer every prompt with `cancelled`, end the running turn, take no more, and show nothing any more."""
        waiting = self._release()
        if self._running is not None:
            self._turn_scope.cancel()
        try:
            await self._idle.wait()
            if reason == "close":
                await self._keep(waiting)
            # A setting that was sent before the closing is in the log before somebody else reads it.
            async with self._changing:
                pass
            await self.host.naming.give_way()
            # Before somebody else reads the log, which is told what a summary cost that nobody will use.
            await self.host.give_up()
            await self.host.end_hooks(reason)
            await self.host.mcp.aclose()
        finally:
            self._serving.cancel()
            self.host.fall_silent()
        await self.host.models.aclose()

    def _release(self) -> tuple[Ticket, ...]:
        self._closed = True
        waiting = self._mailbox.empty()
        for ticket in waiting:
            ticket.answer("cancelled")
        return waiting

    async def _keep(self, waiting: Iterable[Ticket]) -> None:
        """Keep prompts whose turn will not come: they are shown again, and the model never sees them."""
        kept = [ticket.parts for ticket in waiting if says_anything(ticket.parts) and not ticket.provisional]
        if not kept:
            return
        events = [(UserPrompted(new_id("msg"), parts, sent=()), TurnEnded("cancelled")) for parts in kept]
        log = self.host.log
        log.caught_up = None  # nobody is told of anything any more
        try:
            await log.refresh()  # another process may have overtaken the turn that they waited for
            # In the turn of another process they have no place.
            await log.append_built(
                lambda context: () if context.turn_from is not None else tuple(chain.from_iterable(events))
            )
        except AgentError as error:
            _log.info("prompts that waited in %s are not kept: %s", self.session_id, error)

    async def _answer(self, ticket: Ticket) -> None:
        self._running, self._turn_scope, self._idle = ticket, anyio.CancelScope(), anyio.Event()
        try:
            with self._turn_scope:
                await self.host.naming.give_way()
                await self.host.show(TurnBegan())
                await self._catching_up.show_plan()
                ticket.answer(await self._turns.answer(ticket))
        except Exception as error:
            ticket.answer(error)
        finally:
            ticket.answer("cancelled")  # counts only where the turn, or the whole agent, was cancelled
            self._steering.settle(ticket.outcome)
            try:
                await self.host.show(_over(ticket))
            finally:
                self._running = None
                self._idle.set()
                if not self._closed and isinstance(ticket.outcome, str) and ticket.outcome != "cancelled":
                    self.host.naming.begin()

    # --- settings ---

    async def options(self) -> tuple[Option, ...]:
        """The options as they stand, for menus."""
        return await self.host.options()

    async def commands(self) -> tuple[Command, ...]:
        """The slash commands as they stand; more may come of MCP servers."""
        return await self.host.recipes.commands()

    async def set_option(self, option_id: str, value: str) -> tuple[Option, ...]:
        """Change an option at once, also while a turn runs.

        :returns: all options.
        :raises InvalidParamsError: no such option or value.
        :raises SessionClosedError: the session was closed.
        """
        if self._closed:
            raise SessionClosedError(self.session_id)
        async with self._changing:
            with _in_an_overtaken_turn():
                return await self._set_option(option_id, value)

    async def set_title(self, title: str) -> None:
        """Give it the title that a person wants; nothing else takes it away again.

        :param title: as `titles.given_title` leaves it.
        :raises SessionClosedError: the session was closed.
        """
        if self._closed:
            raise SessionClosedError(self.session_id)
        async with self._changing:
            with _in_an_overtaken_turn():
                await self._catch_up()
                await self._append(TitleChanged(title, "user"))
            self._changed()
            await self.host.show(TitleUpdated(title))

    async def _set_option(self, option_id: str, value: str) -> tuple[Option, ...]:
        # First, since what somebody else has chosen meanwhile may be another value than the one that is wanted here.
        await self._catch_up()
        event = change_event(await self.options(), option_id, value, self.host.models.unusable)
        if event is not None:
            await self._change(event)
        return await self.options()

    async def catch_up(self) -> None:
        """Show what somebody else has changed."""
        try:
            async with self._changing:
                if not self._closed:
                    await self._catch_up()
        except Exception as error:
            _log.info("%s does not know yet what was changed elsewhere: %s", self.session_id, error)

    async def _catch_up(self) -> None:
        # Of what somebody else has appended, a running turn may have no more below it than settings.
        await (self.host.log.refresh if self._running is None else self.host.log.confirm)()

    async def _append(self, event: Event) -> None:
        # Another process may work on the session at this very moment: that fails a turn of ours, and no setting.
        await (self.host.log.change if self._running is None else self.host.append)(event)

    async def _change(self, event: Event) -> None:
        mode = self.host.mode
        await self._append(event)
        self._changed()
        self.host.run.chosen(event)
        if self.host.mode != mode:
            await self.host.show(ModeUpdated(self.host.mode))
        await self.host.show(OptionsUpdated(await self.options()))

    # --- what an editor is told when it opens the session ---

    async def show_offers(self) -> None:
        """Send what may be chosen from: the slash commands. Editors forget them with every new, load and resume."""
        self.offered = True
        # A turn that is quicker than the disk shows by itself how full the window is.
        answered = bool(self.host.context.baseline)
        await self.host.recipes.show()
        if self.host.context.title is not None:
            await self.host.show(TitleUpdated(self.host.context.title))
        if answered:
            await self.show_usage()

    async def show_usage(self) -> None:
        """Send how full the window is, where that is known: before the first answer there is nothing to tell."""
        if self.host.context.baseline:
            try:
                await self.host.show_usage()
            except AgentError as error:
                # Without a model there is no window to speak of; the next prompt will say what to set.
                _log.info("no usage to show for %s: %s", self.session_id, error)

    async def replay(self, events: AsyncIterator[LoggedEvent]) -> None:
        """Show the whole log."""
        async for update in replay(events, self._turns.view_of):
            await self.host.show(await self.host.attachments.shown(update))


@contextmanager
def _in_an_overtaken_turn() -> Generator[None]:
    """Say of a setting what is said of the turn."""
    try:
        yield
    except SessionConflictError as error:
        raise SessionConflictError(
            "Another process has worked on this session meanwhile, and a turn from before that still runs here. Cancel "
            "it and choose again; nothing was set."
        ) from error


def _over(ticket: Ticket) -> TurnOver:
    outcome = ticket.outcome
    return TurnOver(None, outcome) if isinstance(outcome, Exception) else TurnOver(outcome)
