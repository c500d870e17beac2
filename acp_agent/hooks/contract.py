"""`Hook`: what every kind of hook is to the dispatcher, and what a hook may use of the agent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from acp_agent.config.hook_events import OnError
from acp_agent.conversation.messages import Message
from acp_agent.hooks.events import EventName, HookEvent
from acp_agent.hooks.outcomes import Outcome
from acp_agent.storage.store import SessionStore

Origin: TypeAlias = Literal["config", "user", "project", "recipe"]
"""Where a hook comes from, in the order in which they are asked. A project's config.yaml is the project's."""
ORIGINS: tuple[Origin, ...] = ("config", "user", "project", "recipe")

DISABLED = ".disable"
"""What is added to the name of a file in a hooks folder to switch it off."""
TIME_LIMIT = 10.0
"""Seconds that a hook may take, where it says nothing else."""


class Summary(Protocol):
    """What a compaction came to."""

    @property
    def summary(self) -> str:
        """What stands for what was compacted."""
        ...

    @property
    def tokens_before(self) -> int:
        """Of the whole context."""
        ...

    @property
    def tokens_after(self) -> int:
        """Of the whole context, were the result used."""
        ...


class Services(Protocol):
    """What a hook that is written in Python may use. None of it changes the session: outcomes do."""

    @property
    def store(self) -> SessionStore:
        """All sessions, with their logs."""
        ...

    @property
    def home(self) -> Path:
        """The agent's own folder, which is the user's alone."""
        ...

    @property
    def log(self) -> logging.Logger:
        """Writes into the agent's log file."""
        ...

    async def compaction(
        self, messages: Sequence[Message] | None = None, *, prompt: str | None = None, model: str | None = None
    ) -> Summary:
        """Compact a conversation without changing it.

        :param messages: what to compact; the session's context where None.
        :param prompt: what the model is told to write; the text of the recipe `compact` where None.
        :param model: `provider/model` that writes it; the session's own where None.
        :raises AgentError: nothing came of it.
        """
        ...

    async def ask_model(self, prompt: str, *, system: str = "", model: str | None = None) -> str:
        """Have a model answer one question, with no tools and nothing of the session.

        :param model: `provider/model`; the session's own where None.
        :raises AgentError: it did not answer.
        """
        ...


class Hook(Protocol):
    """Is asked or told at events, and says what it wants."""

    @property
    def name(self) -> str:
        """What it is called, for people."""
        ...

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        ...

    @property
    def source(self) -> str:
        """Where it stands: a file, or a file and a key of it."""
        ...

    @property
    def file(self) -> Path | None:
        """The file of a hooks folder that it stands in; None where it stands elsewhere."""
        ...

    @property
    def events(self) -> frozenset[EventName]:
        """The events that it may want to hear of."""
        ...

    @property
    def time_limit(self) -> float:
        """Seconds that it may take."""
        ...

    @property
    def on_error(self) -> OnError:
        """What its failure means."""
        ...

    def wants(self, event: HookEvent) -> bool:
        """Whether it is to be asked about this very event, which is one of its `events`. Quick, and touches nothing."""
        ...

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Say what it wants. A cancel, as at the end of its time, leaves nothing running.

        :raises HookError: it failed; the text says how, and what to do about it.
        """
        ...
