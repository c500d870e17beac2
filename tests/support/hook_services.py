"""The services of a hook that runs without a session."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from acp_agent.conversation.messages import Message
from acp_agent.hooks import Services
from acp_agent.hooks.contract import Summary
from acp_agent.storage.store import SessionStore


class HookServices(Services):
    """Has a home, a logger and a store, but no model.

    :param home: the agent's home; need not exist.
    :param store: None if the hook must not read it.
    """

    def __init__(
        self, home: Path = Path("/nowhere"), store: SessionStore | None = None
    ) -> None:
        self._home = home
        self._store = store

    @property
    def store(self) -> SessionStore:
        assert self._store is not None
        return self._store

    @property
    def home(self) -> Path:
        return self._home

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger(__name__)

    async def compaction(
        self,
        messages: Sequence[Message] | None = None,
        *,
        prompt: str | None = None,
        model: str | None = None,
    ) -> Summary:
        raise AssertionError("this hook must not ask for a summary")

    async def ask_model(
        self, prompt: str, *, system: str = "", model: str | None = None
    ) -> str:
        raise AssertionError("this hook must not ask a model")
