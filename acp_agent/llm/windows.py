"""What a provider said of its models' windows, and when it is asked again.

That it says nothing is remembered as well; a question that failed is put again with the next occasion. Knows neither
SDKs nor sessions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from acp_agent.llm.failures import CallFailed, lasting
from acp_agent.llm.probe import LOCAL_SECONDS, LocalQuestion
from acp_agent.llm.transport import inquire

WINDOW_SECONDS = 10.0
"""The longest wait for an answer; whoever asks need not wait for as long."""


class StatedWindows:
    """Windows that do not change once they are told."""

    def __init__(self) -> None:
        self._said: dict[str, int | None] = {}

    def get(self, model: str) -> int | None:
        """Tokens of a model's window, where it was told."""
        return self._said.get(model)

    async def learn(self, model: str, question: Callable[[], Awaitable[int | None]]) -> None:
        """Ask, unless the answer is known.

        :param question: puts it; None where the provider does not say.
        """
        if model in self._said:
            return
        try:
            self._said[model] = await inquire(question, WINDOW_SECONDS)
        except CallFailed as failure:
            if lasting(failure):
                self._said[model] = None


class LocalWindows:
    """Windows of a local server, which loads a model with the window it finds best.

    :param question: how the server is asked.
    :param base_url: with `/v1` at its end.
    """

    def __init__(self, question: LocalQuestion, base_url: str) -> None:
        self._question = question
        self._base_url = base_url
        self._loaded: dict[str, int] = {}
        self._most: dict[str, int] = {}

    def get(self, model: str) -> int | None:
        """Tokens of a model's window: what it was last loaded with, else what it could be loaded with."""
        return self._loaded.get(model) or self._most.get(model)

    async def learn(self, model: str) -> None:
        """Ask again. What a model was loaded with counts on where the server has unloaded it meanwhile."""
        said = await self._question(self._base_url, model, LOCAL_SECONDS if model in self._loaded else WINDOW_SECONDS)
        if said.loaded is not None:
            self._loaded[model] = said.loaded
        if said.most is not None:
            self._most[model] = said.most

    async def answered(self, model: str) -> None:
        """The model has answered, so that it is loaded now: ask with what, unless that is known."""
        if model not in self._loaded:
            said = await self._question(self._base_url, model, LOCAL_SECONDS)
            if said.loaded is not None:
                self._loaded[model] = said.loaded
