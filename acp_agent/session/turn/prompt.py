"""`PromptIntake`: renders the prompts of one session, runs their hooks, and logs them
for the next request.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import (
    Image,
    Resource,
    ResourceLink,
    Text,
    UserPart,
)
from acp_agent.errors import (
    AgentError,
    InvalidParamsError,
    PromptTooLargeError,
    ToolError,
)
from acp_agent.hooks.outcomes import Outcome
from acp_agent.nofollow import resolved
from acp_agent.secrets.known import secrets_of
from acp_agent.secrets.text import mask
from acp_agent.session.commands import command_words, is_blank, text_of
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.mailbox import Mailbox, Ticket
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.session.recipes.available import SessionRecipes
from acp_agent.session.recipes.questions import RecipeQuestions
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.session.turn.record import TurnRecord
from acp_agent.tools.paths import absolute, scheme_of, shown
from acp_agent.tools.text import one_line

_READABLE = ("file", "http", "https")
"""Schemes of links that a tool may be able to open."""


@dataclass(eq=False, slots=True)
class PromptIntake:
    """Logs prompts so that the next request contains them."""

    _requests: Requests
    _mcp: SessionMcp
    _recipes: SessionRecipes
    _questions: RecipeQuestions
    _hooks: SessionHooks
    _record: TurnRecord
    _notices: Notices

    async def add(
        self,
        ticket: Ticket,
        recipe_run: RecipeRun | None = None,
        *,
        steers: bool = False,
    ) -> Outcome:
        """Log a prompt so that the next request contains it, unless a hook refuses it.

        :param recipe_run: the run of the recipe that the prompt names; None for an
            ordinary prompt.
        :param steers: whether the prompt joins a running turn.
        :returns: the outcome of the hooks.
        :raises PromptTooLargeError: if the prompt is too large to be sent. It was not
            logged.
        :raises AgentError: if no model is set, the recipe is broken, or an attachment
            cannot be sent.
        """
        try:
            sent, hooked = await self._prepare(ticket.parts, recipe_run)
        except PromptTooLargeError:
            raise
        except AgentError:
            # Log the prompt, but keep it out of the context, so that the user can send
            # it again unchanged.
            await self._record.log_prompt(ticket, (), recipe_run, steers=steers)
            raise
        refused = hooked.blocks or hooked.stop is not None
        await self._record.log_prompt(
            ticket, () if refused else sent, recipe_run, steers=steers
        )
        if refused:
            why = hooked.stop or hooked.reason
            await self._record.note(
                f"A hook blocked this prompt. {why}".rstrip(), "veto"
            )
        else:
            await self._tell_unreadable(ticket.parts)
            await self._hooks.add(hooked.context)
            await self._record.titles.set_from(ticket.parts, _masked)
        return hooked

    async def join(self, mailbox: Mailbox) -> bool:
        """Log the prompts that have arrived since the last answer. Return whether a
        hook has ended the turn.

        Commands and recipes have their own turns, so they wait, and all later prompts
        wait with them.
        """
        while (ticket := mailbox.join(_may_join)) is not None:
            try:
                hooked = await self.add(ticket, steers=True)
            except anyio.get_cancelled_exc_class():
                if not ticket.message_id:
                    with anyio.CancelScope(shield=True):
                        await self._record.log_prompt(ticket, (), steers=True)
                raise
            except AgentError as error:
                if not ticket.message_id and not isinstance(error, PromptTooLargeError):
                    raise  # the log is not writable, so the turn ends
                ticket.answer(error)  # only this prompt fails; the turn goes on
            else:
                if hooked.stop is not None:
                    return True
        return False

    async def _prepare(
        self, parts: tuple[UserPart, ...], recipe_run: RecipeRun | None
    ) -> tuple[tuple[UserPart, ...] | None, Outcome]:
        """Return what the model reads instead of the prompt, and the outcome of the
        hooks.

        The first value is None if the model reads the prompt itself.
        """
        active = await self._requests.active()
        if recipe_run is None:
            sent = await self._mcp.sent(parts)
        else:
            text = Text(await self._recipes.render(recipe_run, self._questions))
            sent = (text, *recipe_run.attachments, *await self._mcp.resources(parts))
        if any(isinstance(part, Image | Resource) for part in sent or parts):
            await to_thread.run_sync(self._refuse_closed, sent or parts)
        if any(map(self._is_unreadable, sent or parts)):
            sent = tuple(map(self._marked, sent or parts))
        refused = self._requests.context.images_refused_by(active.name)
        await active.attachments.check(
            parts if sent is None else sent, active.profile, active.name, refused
        )
        hooked = await self._hooks.user_message(text_of(sent or parts))
        if hooked.message is not None:
            others = (part for part in sent or parts if not isinstance(part, Text))
            sent = (Text(hooked.message), *others)
        return sent, hooked

    def _refuse_closed(self, parts: tuple[UserPart, ...]) -> None:
        """Refuse files that the settings do not let models read. Links are not checked
        here, since tools check what they read.

        :raises InvalidParamsError: if there is such a file. The message names it.
        """
        for part in parts:
            uri = part.uri if isinstance(part, Image | Resource) else None
            try:
                path = absolute(uri, self._requests.cwd) if uri else None
            except ToolError:  # the URI does not name a file
                continue
            if path is not None and self._requests.read_limits.refuse(resolved(path)):
                raise InvalidParamsError(
                    f"The setting `sandbox.read_deny` does not let models read {shown(path, self._requests.cwd)}. "
                    "Nothing was sent. Leave it out or change the setting, and prompt again."
                )

    # --- links ---

    def _is_unreadable(self, part: UserPart) -> bool:
        """Return whether a part is a link that no tool can open, such as a link to a
        terminal inside the editor.
        """
        if not isinstance(part, ResourceLink) or self._mcp.lists(part.uri):
            return False
        return scheme_of(part.uri) not in ("", *_READABLE)

    def _marked(self, part: UserPart) -> UserPart:
        """Return the part as the model reads it, with a remark if it is a link that no
        tool can open.
        """
        if not isinstance(part, ResourceLink) or not self._is_unreadable(part):
            return part
        remark = f"cannot be read: no tool opens addresses of {scheme_of(part.uri)}:"
        return replace(
            part,
            description=f"{part.description}; {remark}" if part.description else remark,
        )

    async def _tell_unreadable(self, parts: tuple[UserPart, ...]) -> None:
        links = [
            part
            for part in parts
            if isinstance(part, ResourceLink) and self._is_unreadable(part)
        ]
        for link in links:
            name = one_line(link.title or link.name or link.uri, 80)
            await self._notices.tell(
                f"The link {name!r} cannot be read: the agent can open files and web pages, but not URIs with the "
                f"scheme `{scheme_of(link.uri)}`. The model sees only the link. Paste its content into the prompt."
            )


def _masked(text: str) -> str:
    return mask(text, secrets_of(os.environ))


def _may_join(ticket: Ticket) -> bool:
    return (
        not ticket.cancelled
        and not is_blank(ticket.parts)
        and command_words(ticket.parts) is None
    )
