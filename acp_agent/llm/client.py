"""`ModelClient`: a provider that is called over the network.

The way of a request: `stream` lets the adapter encode it and sends the call over the connection, which folds the events
of the answer. A failure is retried, without the part of the request that the API refused, or raised as an error for the
user.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace

import anyio

from acp_agent.conversation.messages import CompactedBlock, JsonObject, Usage
from acp_agent.conversation.strict_json import get_int, get_objects, get_text
from acp_agent.errors import ConfigError, ContextOverflowError, ModelAuthError, ModelRequestError
from acp_agent.llm.adapters.adapter import Adapter, Omissions
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.adapters.connection import Connection
from acp_agent.llm.adapters.responses import ResponsesAdapter
from acp_agent.llm.errors import CallFailed, error_of, logged, reason, verdict
from acp_agent.llm.parts import estimated_usage
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, Retrying

_log = logging.getLogger(__name__)

_QUESTION_SECONDS = 10.0
_LOCAL_SECONDS = 0.3
_LOADED: dict[str, str] = {"ollama": "context_length", "lmstudio": "loaded_context_length"}
"""The local servers, which load a model with the window that they find best, and what they call it."""
_WINDOWS = ("max_input_tokens", "max_model_len", "context_length", "context_window", "max_context_length")
"""Anthropic's name of a window, vLLM's, OpenRouter's and Together's, Groq's, and Mistral's."""


_LONGEST_WAIT = 20.0
"""Seconds, of our own choice."""
_LONGEST_ASKED = 90.0
"""Seconds that a provider may ask to wait; a longer wait ends the call."""


_FIRST_WAIT = 0.5
"""Seconds before the second try."""
_TRIES: dict[str, int] = {"again": 7, "unreachable": 3}
"""Tries of one call in all, by the verdict on its failure; of any other there is one."""


class _Retries:
    """Counts the tries of one call, which is repeated until part of its answer was yielded: a second answer would not
    continue the first. The SDKs' own retries are off, since they cannot know what was shown."""

    def __init__(self, endpoint: Endpoint, first_wait: float) -> None:
        self._endpoint = endpoint
        self._first_wait = first_wait
        self._failed = 0
        self._tried = time.monotonic()

    def after(self, failure: CallFailed, *, shown: bool) -> Retrying:
        """Return when to try again after a failure.

        :param shown: whether part of the answer was yielded.
        :raises ModelError: nothing is tried any more.
        """
        self._failed += 1
        name = self._endpoint.name
        said = logged(failure, self._endpoint.secrets)
        who = (name, self._endpoint.host, self._failed, time.monotonic() - self._tried, said)
        asked = _wait_asked_for(failure.headers)
        waited = asked if asked is not None and asked > _LONGEST_ASKED else None
        if shown or self._failed >= _TRIES.get(verdict(failure), 1) or waited is not None:
            error = error_of(failure, self._endpoint, shown=shown, waited=waited)
            how = "in mid-answer" if shown else "given up"
            _log.warning("%s (%s): attempt %d failed after %.1f s: %s; %s: %s", *who, how, type(error).__name__)
            raise error from failure
        delay = _delay(self._first_wait, self._failed)
        delay = delay if asked is None else asked + delay * 0.1
        _log.info("%s (%s): attempt %d failed after %.1f s: %s; trying again in %.1f s", *who, delay)
        self._tried = time.monotonic() + delay
        return Retrying(f"{name}: {reason(failure)}", delay)


def _delay(first: float, failed: int) -> float:
    """Return the seconds to wait after so many failures, each time twice as long; up to a quarter shorter by chance, so
    that clients spread out."""
    return min(_LONGEST_WAIT, first * 2 ** (failed - 1)) * random.uniform(0.75, 1.0)


def _wait_asked_for(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the provider asks us to wait, from `retry-after-ms` or `retry-after`, as a number."""
    for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1)):
        with suppress(ValueError):
            if 0 <= (seconds := float(headers.get(name, "")) / unit) < float("inf"):
                return seconds
    return None


class ModelClient:
    """A provider; see `Provider`.

    :param adapter: makes the calls of its API.
    :param profile_of: what is known of a model, by its id.
    :param first_wait: seconds before a failed call is tried again for the first time.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        adapter: Adapter,
        profile_of: Callable[[str], ModelProfile],
        first_wait: float = _FIRST_WAIT,
    ) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._adapter = adapter
        self._profile_of = profile_of
        self._first_wait = first_wait
        self._connection = Connection(endpoint, adapter.sdk)
        self._windows: dict[str, int | None] = {}
        self._without: dict[tuple[str, str], Omissions] = {}

    async def stream(self, request: ModelRequest, prompt: str | None = None) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`; and for the prompt `Adapter.call`."""
        known = request.conversation_id, request.model
        profile, without = self._profile_of(request.model), self._without.get(known, frozenset())
        retries = _Retries(self._endpoint, self._first_wait)
        while True:
            call, fold = self._adapter.call(request, profile, without, prompt), self._adapter.fold()
            shown = False
            try:
                async with aclosing(self._connection.read(call, fold)) as deltas:
                    async for delta in deltas:
                        shown = True
                        yield delta
                break
            except CallFailed as failure:
                part = self._adapter.refused(failure, without) if failure.status == 400 and not shown else None
                if part is None:
                    again = retries.after(failure, shown=shown)
                else:
                    without = without.union((part,))
                    if request.conversation_id:
                        self._without[known] = without
                    again = Retrying(f"{self.name}: it refused a part of the request", 0.0)
            yield again
            await anyio.sleep(again.delay)
        if self.name in _LOADED:  # which has just loaded the model, where it was not loaded
            with anyio.move_on_after(_LOCAL_SECONDS):
                await self.learn_window(request.model)
        answer = fold.answer()
        usage = profile.priced(answer.usage) if answer.usage.total_tokens else estimated_usage(request, answer)
        yield replace(answer, usage=usage)

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self._windows.get(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`.

        A local server is asked each time, and what a model was loaded with counts on once it is unloaded. For others, a
        missing answer is cached, but not a failed request.
        """
        path = self._adapter.window_path(model)
        if path is None or (model in self._windows and self.name not in _LOADED):
            return
        found = None
        try:
            answer = await self._connection.ask(path, _QUESTION_SECONDS)
            found = _window_in(answer, model, (_LOADED[self.name],) if self.name in _LOADED else _WINDOWS)
        except (ConfigError, ModelAuthError):
            return  # the next request to the model says why
        except CallFailed as failure:
            if failure.kind != "status" or verdict(failure) != "refused":
                return
        self._windows[model] = found or self._windows.get(model)

    async def takes_key(self) -> bool:
        """Ask for something that needs a key and costs nothing.

        :returns: False where the server has no such thing, so that the key could not be tried.
        :raises ModelAuthError: the key is refused, or no header can carry it.
        :raises ModelError: no answer came that tells.
        :raises ConfigError: a variable of the network is wrong.
        """
        try:
            await self._connection.ask(self._adapter.models_path, _QUESTION_SECONDS)
        except CallFailed as failure:
            if failure.status in (404, 405):
                return False
            if failure.status != 429 or verdict(failure) != "again":  # a limit is for those who are known
                raise error_of(failure, self._endpoint) from failure
        return True

    async def aclose(self) -> None:
        """See `Provider.aclose`."""
        await self._connection.aclose()


class _NativeClient(ModelClient):
    """A provider that compacts conversations itself; see `NativeCompaction`."""

    @property
    def keeps_user_messages(self) -> bool:
        """See `NativeCompaction.keeps_user_messages`."""
        return self._adapter.keeps_user_messages

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> tuple[CompactedBlock, Usage]:
        """See `NativeCompaction.compact`."""
        answered: Answered | None = None
        async with aclosing(self.stream(request, instructions)) as events:
            async for event in events:
                if isinstance(event, Retrying):
                    again()
                elif isinstance(event, Answered):
                    answered = event
        assert answered is not None  # the last event of every stream that does not raise
        if answered.compacted is not None:
            return answered.compacted, answered.usage
        if answered.stop_reason == "context_overflow":
            raise ContextOverflowError(
                f"{self.name} cannot compact the conversation: it leaves no room for the prompt for the summary."
                " Have it summarised in pieces, or start a new session."
            )
        raise ModelRequestError(
            f"{self.name} ({self._endpoint.host}) made no summary of the conversation (it stopped with"
            f" {answered.stop_reason!r}). Compact with another strategy, or with another model."
        )


def make_client(
    endpoint: Endpoint, profile_of: Callable[[str], ModelProfile], first_wait: float = _FIRST_WAIT
) -> ModelClient:
    """Return the client of a provider that is asked over the network.

    :raises ConfigError: something is missing in the configuration.
    """
    if endpoint.base_url is None:
        raise ConfigError("needs `base_url: URL`", key=f"providers.{endpoint.name}")
    kinds = {"anthropic": AnthropicAdapter, "openai-responses": ResponsesAdapter}
    adapter = kinds.get(endpoint.kind, ChatAdapter)(endpoint)
    return (_NativeClient if adapter.native_key else ModelClient)(endpoint, adapter, profile_of, first_wait)


def _window_in(answer: JsonObject, model: str, names: Iterable[str]) -> int | None:
    """Return the tokens of a model's window in a list of models or in the description of one."""
    ids = {model, f"{model}:latest"}  # Ollama's, for a name without a tag
    listed = [*get_objects(answer, "data"), *get_objects(answer, "models")]
    entry = next((each for each in listed if ids & {get_text(each, "id"), get_text(each, "name")}), answer)
    return next((tokens for name in names if (tokens := get_int(entry, name)) > 0), None)
