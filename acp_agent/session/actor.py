"""`Session`: the actor of one conversation. It takes prompts from its mailbox and
answers them one at a time.

Changes of settings and cancels are not queued. They take effect at once, even while a
turn runs.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import TitleChanged, TurnEnded, UserPrompted
from acp_agent.conversation.messages import Text, UserPart, new_id
from acp_agent.conversation.updates import Option, TitleUpdated, TurnBegan, TurnOver
from acp_agent.errors import AgentError, QueueFullError, SessionClosedError
from acp_agent.session.client import SessionClient
from acp_agent.session.commands import is_blank
from acp_agent.session.mailbox import Mailbox, Ticket, check_size
from acp_agent.session.notices import Notices
from acp_agent.session.options import SessionOptions, chosen
from acp_agent.session.slash.offer import CommandOffer
from acp_agent.session.state import SessionState
from acp_agent.session.turn.record import TurnRecord

if TYPE_CHECKING:
    from acp_agent.session.turn.parts import TurnParts
    from acp_agent.session.turn.turn import Turn

CAPACITY = 64
"""Maximum number of queued prompts. A person does not type that many, so only a faulty
client reaches it.
"""
EXIT_SECONDS = 1.5
"""How long all hooks together may delay the end of the process."""

CloseReason: TypeAlias = Literal["close", "delete", "exit"]

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class PartsLoader:
    """Imports and builds the parts that one session's turns use when they are first
    needed.

    :ivar record: writes the turns to the log.
    """

    record: TurnRecord
    _notices: Notices
    _tasks: TaskGroup
    _load: Callable[[], Awaitable[TurnParts]]
    _parts: TurnParts | None = None
    _loading: anyio.Lock = field(default_factory=anyio.Lock)

    async def loaded(self) -> TurnParts:
        """Return the parts, building them on first use.

        :raises AgentError: if the model does not exist.
        """
        async with self._loading:
            if self._parts is None:
                self._parts = await self._load()
            return self._parts

    @asynccontextmanager
    async def turn(self, ticket: Ticket, mailbox: Mailbox) -> AsyncGenerator[Turn]:
        """Yield the turn of one prompt. Notices may be shown inside the `with` block."""
        async with self._notices.shown_in_turn():
            parts = await self.loaded()
            from acp_agent.session.turn.turn import Turn  # imported by now

            yield Turn(parts, ticket, mailbox)

    def prewarm(self) -> None:
        """Load the parts for the first prompt in the background, until the session is
        closed.
        """
        self._tasks.start_soon(self._prewarm)

    async def _prewarm(self) -> None:
        try:
            await (await self.loaded()).hooks.start()
        except Exception:  # the first prompt reports the error to the user
            _log.info("could not load the parts for the first prompt", exc_info=True)

    async def end_hooks(self, reason: CloseReason) -> None:
        """Dispatch `session_end`, if `session_start` was dispatched."""
        if self._parts is not None:
            await self._parts.hooks.end(reason)


class Session:
    """One open conversation. Its prompts are answered while `serve` runs.

    :ivar client: the editor or terminal at the other end.
    :ivar options: the settings that the client shows as menus.
    :ivar offer: the slash commands that the session offers.
    :ivar prewarm: see `PartsLoader.prewarm`.
    :ivar offered: whether the slash commands were sent to the client, or are about to
        be.
    :ivar changed: set and replaced when the title or an option is changed here; also
        set when `serve` has ended.
    :ivar serve_returned: whether `serve` has ended.
    :ivar closed: set when all of the session's resources are closed.
    """

    def __init__(
        self,
        state: SessionState,
        client: SessionClient,
        options: SessionOptions,
        offer: CommandOffer,
        loader: PartsLoader,
    ) -> None:
        self.state = state
        self.client = client
        self.offered = self.serve_returned = False
        self.changed = anyio.Event()
        self.closed = anyio.Event()
        self.options = options
        self.offer = offer
        self._loader = loader
        self.prewarm = loader.prewarm
        self._mailbox = Mailbox()
        self._running: Ticket | None = None
        self._turn_scope = anyio.CancelScope()
        self._serving = anyio.CancelScope()
        self._close_reason: CloseReason | None = None
        # The holder waits for the log anyway.
        self._changing = anyio.Lock(fast_acquire=True)

    @property
    def session_id(self) -> str:
        """Return the session's stable id."""
        return self.state.id

    @property
    def is_closing(self) -> bool:
        """Return whether the session no longer accepts prompts."""
        return self._close_reason is not None

    # --- prompts ---

    def submit(
        self,
        parts: tuple[UserPart, ...],
        trace: Mapping[str, str] | None = None,
        *,
        provisional: bool = False,
    ) -> Ticket:
        """Queue a prompt. This is synchronous, so that prompts keep their order.

        :param trace: the W3C trace context of the prompt.
        :param provisional: see `Ticket`.
        :raises PromptTooLargeError: if the prompt has more text than any model reads.
        :raises QueueFullError: if too many prompts are waiting.
        :raises SessionClosedError: if the session was closed.
        """
        self._require_open()
        check_size(parts)
        if len(self._mailbox.waiting) >= CAPACITY:
            raise QueueFullError(
                f"{CAPACITY} prompts are already waiting in this session. Wait for an answer or cancel the running one."
            )
        ticket = Ticket(parts, trace, provisional=provisional)
        self._mailbox.waiting.append(ticket)
        self._mailbox.arrived.set()
        return ticket

    async def said(self) -> list[str]:
        """Return the texts of all prompts so far in order, including prompts that are
        not logged yet.
        """
        prompts = [
            logged.event.shown
            async for logged in self.state.log.events()
            if isinstance(logged.event, UserPrompted)
        ]
        tickets = (self._running, *self._mailbox.joined, *self._mailbox.waiting)
        prompts += [
            each.parts for each in tickets if each is not None and not each.message_id
        ]
        return [
            part.text for parts in prompts for part in parts if isinstance(part, Text)
        ]

    def cancel(self) -> None:
        """End the running or next turn with `cancelled`. Later prompts stay queued."""
        if self._running is not None:
            self._turn_scope.cancel()
        elif self._mailbox.waiting:
            self._mailbox.waiting[0].cancelled = True

    def cancel_all(self) -> None:
        """End the running turn and answer all waiting prompts with `cancelled`."""
        while self._mailbox.waiting:
            self._mailbox.waiting.popleft().answer("cancelled")
        self.cancel()

    def withdraw(self, ticket: Ticket) -> bool:
        """Withdraw one prompt: remove it from the queue, or cancel its turn.

        :returns: True if the prompt was still waiting and never ran.
        """
        if ticket in self._mailbox.waiting:
            self._mailbox.waiting.remove(ticket)
            return True
        if self._running is ticket or ticket in self._mailbox.joined:
            self.cancel()
        return False

    async def serve(self) -> None:
        """Answer prompts until the session is closed."""
        try:
            with self._serving:
                while self._close_reason is None:
                    ticket = await self._mailbox.next()
                    async with self._turn(ticket):
                        await self.client.show(TurnBegan())
                        if ticket.cancelled:
                            self._turn_scope.cancel()
                        async with self._loader.turn(ticket, self._mailbox) as turn:
                            stop = await turn.run()
                        # Answer only after all notices of the turn are shown.
                        ticket.answer(stop)
        finally:
            reason = self._close_reason = self._close_reason or "exit"
            # A close has no time limit, unless the process ends in the meantime.
            is_exit = reason == "exit"
            with anyio.move_on_after(
                EXIT_SECONDS if is_exit else float("inf"), shield=is_exit
            ):
                await self._end(reason)
            self.serve_returned = True
            self.changed.set()

    def stop(self) -> None:
        """End the running turn and accept no more prompts, since the process is ending.
        `serve` returns afterwards.
        """
        self._serving.cancel()

    async def close(self, reason: Literal["close", "delete"] = "close") -> None:
        """End the running turn, answer every waiting prompt with `cancelled`, and make
        `serve` return.
        """
        self._close_reason = reason
        (self._serving if self._running is None else self._turn_scope).cancel()
        try:
            await self.closed.wait()
        finally:
            self._serving.cancel()  # the client may not read the turn's last updates

    @asynccontextmanager
    async def _turn(self, ticket: Ticket) -> AsyncGenerator[None]:
        """Run the `with` block as one prompt's turn. However the turn ends, answer the
        prompt and notify the client.
        """
        self._running = ticket
        self._turn_scope = anyio.CancelScope()
        self.state.trace = ticket.trace
        self.state.in_turn = True
        before = self.state.context
        try:
            with self._turn_scope:
                try:
                    yield
                except anyio.get_cancelled_exc_class():
                    if not ticket.message_id:
                        with anyio.CancelScope(shield=True):
                            await self._loader.record.keep_cancelled(ticket)
                    raise
        except Exception as error:
            ticket.answer(error)
        finally:
            # This has an effect only if the turn or the whole agent was cancelled.
            ticket.answer("cancelled")
            outcome = ticket.outcome
            is_failure = isinstance(outcome, Exception)
            while self._mailbox.joined:
                self._mailbox.joined.pop(0).answer(outcome)
            try:
                self._tell_others(before)
                with suppress(AgentError):
                    await self.options.show_missed()
                await self.client.show(
                    TurnOver(None, outcome) if is_failure else TurnOver(outcome)
                )
            finally:
                self._running = None
                self.state.in_turn = False
                if (
                    self._close_reason is None
                    and not is_failure
                    and outcome != "cancelled"
                ):
                    self._loader.record.titles.begin()

    async def _end(self, reason: CloseReason) -> None:
        waiting = tuple(self._mailbox.waiting)
        self._mailbox.waiting.clear()
        for ticket in waiting:
            ticket.answer("cancelled")
        # Wait until pending changes of settings are in the log, for other processes.
        async with self._changing:
            pass
        if reason != "delete":
            await self._log_unanswered(
                [
                    each
                    for each in waiting
                    if not is_blank(each.parts) and not each.provisional
                ]
            )
        await self._loader.end_hooks(reason)

    async def _log_unanswered(self, tickets: Sequence[Ticket]) -> None:
        """Log prompts that will not get a turn. A replay shows them, but the model
        never sees them.
        """
        prompts = [
            (UserPrompted(new_id("msg"), each.parts, sent=()), TurnEnded("cancelled"))
            for each in tickets
        ]
        if not prompts:
            return
        log = self.state.log
        events = tuple(chain.from_iterable(prompts))
        try:
            await log.refresh()  # another process may have continued the session
            # Log nothing in the middle of another process's turn.
            await log.append_built(
                lambda context: () if context.turn_from is not None else events
            )
        except AgentError as error:
            _log.info(
                "the waiting prompts of %s were not logged: %s", self.session_id, error
            )

    # --- settings ---

    async def set_option(self, option_id: str, value: str) -> tuple[Option, ...]:
        """Change an option at once, even while a turn runs.

        :returns: all options.
        :raises InvalidParamsError: if there is no such option or value.
        :raises SessionClosedError: if the session was closed.
        """
        async with self._change():
            return await self.options.change(option_id, value)

    async def titled(self) -> None:
        """Wait for the pending request for a title, if there is one."""
        await self._loader.record.titles.settled()

    async def set_title(self, title: str) -> None:
        """Set the title that the user chose. It is never replaced by a generated one.

        :param title: a title from `titles.given_title`.
        :raises SessionClosedError: if the session was closed.
        """
        async with self._change():
            await self.options.append(TitleChanged(title, "user"))
            await self.client.show(TitleUpdated(title))

    async def catch_up(self) -> None:
        """Show the changes that another connection has made."""
        try:
            async with self._changing:
                if self._close_reason is None:
                    await self.options.catch_up()
        except Exception as error:
            _log.info(
                "%s could not read changes from elsewhere: %s",
                self.session_id,
                error,
            )

    @asynccontextmanager
    async def _change(self) -> AsyncGenerator[None]:
        """Hold the lock while the `with` block changes a setting, then notify other
        connections.
        """
        self._require_open()
        before = self.state.context
        async with self._changing:
            await self.options.catch_up()
            try:
                yield
            finally:
                self._tell_others(before)

    def _tell_others(self, before: Context) -> None:
        now = self.state.context
        if (now.title, chosen(now)) != (before.title, chosen(before)):
            self.changed.set()
            self.changed = anyio.Event()

    # --- updates after a client opens the session ---

    async def show_offers(self) -> None:
        """Show the slash commands, the title and the usage. Editors forget them on
        every `new`, `load` and `resume`.
        """
        # Read this before the await, since a turn that ends meanwhile shows its own
        # usage.
        answered = bool(self.state.context.baseline)
        commands = await self.offer.commands()
        if self._close_reason is not None:
            return
        self.offered = True
        await self.offer.show(commands)
        if self.state.context.title is not None:
            await self.client.show(TitleUpdated(self.state.context.title))
        if answered:
            await self.show_usage()

    async def show_usage(self) -> None:
        """Show how full the window is. This is unknown until the first answer."""
        if self.state.context.baseline and self._close_reason is None:
            await self._loader.record.show_usage()

    async def replay(self) -> None:
        """Show the whole log."""
        await self._loader.record.replay()

    def _require_open(self) -> None:
        if self._close_reason is not None:
            raise SessionClosedError(self.session_id)
