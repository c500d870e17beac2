"""`ModelClient`: a provider that is called over the network.

In `stream`, the adapter encodes a request, and the connection sends it and folds the
events of the answer. A failed call is retried, without the part that the API refused if
it refused one, or raised as an error for the user.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import (
    CompactedBlock,
    JsonObject,
    Usage,
)
from acp_agent.conversation.strict_json import get_int, get_objects, get_text
from acp_agent.errors import (
    CompactionRefusedError,
    ConfigError,
    ContextOverflowError,
    ModelAuthError,
    ModelRequestError,
)
from acp_agent.llm.adapters.adapter import Adapter
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.adapters.connection import ProviderConnection
from acp_agent.llm.adapters.encoding import ModelCall
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.adapters.responses import ResponsesAdapter
from acp_agent.llm.errors import CallFailed, classify, error_of
from acp_agent.llm.learned import LearnedFacts, LearnedModel
from acp_agent.llm.parts import cached_usage, estimated_usage
from acp_agent.llm.places import Endpoint, Parallel
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    Answered,
    AskedAgain,
    ModelEvent,
    ModelRequest,
    ReasoningRefused,
    Refusal,
    Remembered,
    Retrying,
)
from acp_agent.llm.refused_tools import with_short_descriptions
from acp_agent.llm.remembered import keep_refusal, without_refused
from acp_agent.llm.rules import ReasoningRules
from acp_agent.llm.tries import Learned, Tries, reasoning_refused, without_reasoning

_log = logging.getLogger(__name__)

_QUERY_SECONDS = 10.0
_LOCAL_SECONDS = 0.3
_LOCAL_WINDOWS: dict[str, str] = {
    "ollama": "context_length",
    "lmstudio": "loaded_context_length",
}
"""Local servers that choose the context window when they load a model, each with the
field of its answer that contains the window.
"""
_LOCAL_PATHS = {"/api/ps": "context_length", "/api/v0/models": "loaded_context_length"}
"""The paths at which Ollama and LM Studio report their windows, each with the field of
the answer that contains the window. The agent tries these paths on a local server that
is configured under another name and does not report a window at its usual path.
"""
_WINDOWS = (
    "max_input_tokens",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
)
"""The fields that hold the window at Anthropic, vLLM, OpenRouter and Together, Groq,
and Mistral.
"""
_FIRST_DELAY = 0.5
"""Seconds before the second attempt."""
_MAX_NAMED = 5
"""Maximum number of places in a request that a log line names."""


class ModelClient:
    """A provider; see `Provider`.

    :param adapter: encodes requests for the provider's API.
    :param profile_of: returns the profile of a model by its id.
    :param first_delay: seconds before the first retry of a call.
    :param learned: the facts learned from refusals; None starts without any.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        adapter: Adapter,
        profile_of: Callable[[str], ModelProfile],
        first_delay: float = _FIRST_DELAY,
        learned: LearnedFacts | None = None,
    ) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._adapter = adapter
        self._profile_of = profile_of
        self._first_delay = first_delay
        self._learned = learned or LearnedFacts()
        self._connection = ProviderConnection(endpoint, adapter.sdk)
        self._windows: dict[str, int | None] = {}
        self._local_path = ""  # the key of `_LOCAL_PATHS` that a server with another name has answered; empty if none

    async def stream(
        self, request: ModelRequest, prompt: str | None = None
    ) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`, and `Adapter.call` for the prompt."""
        adapter = self._adapter
        profile = self._profile_of(request.model)
        learned = LearnedModel(
            f"{self.name}/{request.model}", self._endpoint, self._learned
        )
        whole = request
        request, remembered = without_refused(whole, learned)
        news: list[Remembered] = [remembered] if remembered != Remembered() else []
        limit = request.takes.get("descriptions", "")
        request = with_short_descriptions(
            request, int(limit) if limit.isdecimal() else None
        )
        tries = Tries(
            self._endpoint, adapter, profile, request.model, prompt, self._first_delay
        )
        while True:
            call = adapter.call(request, profile, request.refused, prompt)
            fold = adapter.fold(call)
            partial = False
            try:
                async with aclosing(self._connection.read(call, fold)) as deltas:
                    async for delta in deltas:
                        for event in (
                            *news,
                            *await _kept(tries.succeeded(), whole, learned),
                        ):
                            yield event
                        news.clear()
                        partial = True
                        yield delta
                break
            except CallFailed as failure:
                asked = request
                retry, request = tries.after(failure, asked, call, partial=partial)
                if failure.kind == "ignored":
                    # The provider has answered, but without the requested compaction.
                    # So it does not support compaction, and the answer costs money.
                    for event in await _kept(tries.succeeded(), whole, learned):
                        yield event
                    retry = AskedAgain(
                        profile.priced(failure.usage or cached_usage(asked))
                    )
                yield retry
                if isinstance(retry, Retrying):
                    await anyio.sleep(retry.delay)
        answer = fold.answer()
        for event in (
            *news,
            *await _kept(tries.succeeded(is_empty=not answer.parts), whole, learned),
        ):
            yield event
        if dropped := self._unforeseen(fold, request, profile):
            yield dropped
            # The model never saw the dropped reasoning, so the answer is bound to a
            # request without it.
            request = replace(
                request, messages=without_reasoning(request.messages, dropped.pieces)
            )
            call = adapter.call(request, profile, request.refused, prompt)
        answer = self._bound(answer, request, call)
        if self._chooses_window:  # the server may have loaded the model for this call
            with anyio.move_on_after(_LOCAL_SECONDS):
                await self.learn_window(request.model)
        # Every request has tokens, so a count of zero or less means that the provider
        # did not report a count.
        is_counted = answer.usage.prompt_tokens > 0
        usage = (
            profile.priced(answer.usage)
            if is_counted
            else estimated_usage(request, answer)
        )
        yield replace(answer, usage=usage, estimated=not is_counted)

    def _bound(
        self, answer: Answered, request: ModelRequest, call: ModelCall
    ) -> Answered:
        """Return an answer whose reasoning or compacted conversation is bound to the
        request that it answers.
        """
        if call.end is None:
            return answer
        rules = self._adapter.rules(request.model, request.refused)
        parts = self._adapter.bind(answer.parts, call.end.prefix, rules)
        compacted = answer.compacted
        if compacted is not None and rules.compaction == "kept":
            compacted = replace(compacted, at=call.end.prefix.bound(rules))
        return replace(
            answer, parts=parts, compacted=compacted, withheld=call.end.withheld
        )

    def _unforeseen(
        self, fold: Fold, request: ModelRequest, profile: ModelProfile
    ) -> ReasoningRefused | None:
        """Return the reasoning that the provider dropped although it should have been
        valid, or None.
        """
        if not fold.dropped:
            return None
        dropped = {each.place for each in fold.dropped}
        places = self._adapter.places(request, profile, request.refused)
        said = ", ".join(
            f"{each.reason} at {each.place}" for each in fold.dropped[:_MAX_NAMED]
        )
        _log.warning(
            "%s left out %d pieces of reasoning: %s", self.name, len(dropped), said
        )
        found = [each for each in places if each.place in dropped]
        return reasoning_refused(found, said) if found else None

    @property
    def parallel(self) -> Parallel:
        """See `Provider.parallel`."""
        return self._endpoint.parallel

    def rules(self, model: str) -> ReasoningRules:
        """See `Provider.rules`."""
        return self._adapter.rules(model)

    def reasoning_sent(self, request: ModelRequest) -> frozenset[str]:
        """See `Provider.reasoning_sent`."""
        places = self._adapter.places(
            request, self._profile_of(request.model), request.refused
        )
        return frozenset(each.message_id for each in places)

    async def prepare(self) -> None:
        """See `ProviderConnection.prepare`."""
        await self._connection.prepare()

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self._windows.get(model)

    @property
    def _chooses_window(self) -> bool:
        """Return whether the server chooses the window when it loads a model."""
        return self.name in _LOCAL_WINDOWS or bool(self._local_path)

    def is_window_settled(self, model: str) -> bool:
        """See `Provider.is_window_settled`."""
        if self._chooses_window:
            return False  # a local server may load the model with another window
        return model in self._windows or self._adapter.window_path(model) is None

    async def learn_window(self, model: str, *, lost: bool = False) -> None:
        """See `Provider.learn_window`.

        A local server is asked each time. Its last window stays known after the model
        is unloaded. Other servers are asked until they answer, even if the answer does
        not contain a window.
        """
        if self._local_path:
            await self._ask_window(
                model,
                f"{self._root}{self._local_path}",
                (_LOCAL_PATHS[self._local_path],),
            )
            return
        path = self._adapter.window_path(model)
        if path is not None and (model not in self._windows or self._chooses_window):
            names = (_LOCAL_WINDOWS[self.name],) if self._chooses_window else _WINDOWS
            await self._ask_window(model, path, names)
        if (
            lost
            and not self._chooses_window
            and self._windows.get(model) is None
            and self._endpoint.is_local
        ):
            for path, name in _LOCAL_PATHS.items():
                await self._ask_window(model, f"{self._root}{path}", (name,))
                if self._windows.get(model) is not None:
                    self._local_path = path
                    return

    @property
    def _root(self) -> str:
        return (self._endpoint.base_url or "").rstrip("/").removesuffix("/v1")

    async def _ask_window(self, model: str, path: str, names: Iterable[str]) -> None:
        """Ask the server for a model's window.

        :param names: the fields of the answer that may hold the window.
        """
        window = None
        try:
            answer = await self._connection.ask(path, _QUERY_SECONDS)
            window = _window_in(answer, model, names)
        except (ConfigError, ModelAuthError):
            return  # the next request to the model reports the error
        except CallFailed as failure:
            # Do not ask again if the server rejects the query itself.
            is_refused = failure.kind == "status" and classify(failure) == "rejected"
            if not is_refused:
                return
        self._windows[model] = window or self._windows.get(model)

    async def takes_key(self) -> bool:
        """Send a free request that needs a key, and return whether the provider accepts
        the key.

        :returns: False if the server has no such request, so the key could not be
            checked.
        :raises ModelAuthError: if the key is refused, or contains characters that no
            header can carry.
        :raises ModelError: if the request failed for another reason.
        :raises ConfigError: if an environment variable for the network is invalid.
        """
        try:
            await self._connection.ask(self._adapter.models_path, _QUERY_SECONDS)
        except CallFailed as failure:
            if failure.status in (404, 405):
                return False
            # A rate limit applies only to a known key.
            if failure.status != 429 or classify(failure) != "transient":
                raise error_of(failure, self._endpoint) from failure
        return True

    async def aclose(self) -> None:
        """See `Provider.aclose`."""
        await self._connection.aclose()


async def _kept(
    events: list[Learned], whole: ModelRequest, learned: LearnedModel
) -> list[Learned]:
    """Remember what was learned from a call, and return it.

    :param whole: the original request, before anything was left out.
    """
    for event in events:
        await to_thread.run_sync(keep_refusal, event, whole, learned)
    return events


class _NativeClient(ModelClient):
    """A provider that compacts conversations itself; see `NativeCompaction`."""

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Retrying | AskedAgain | Refusal], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        """See `NativeCompaction.compact`."""
        answered: Answered | None = None
        try:
            async with aclosing(self.stream(request, instructions)) as events:
                async for event in events:
                    if isinstance(event, Retrying | AskedAgain | Refusal):
                        note(event)
                    elif isinstance(event, Answered):
                        answered = event
        except ContextOverflowError:
            raise
        except ModelRequestError as error:
            raise CompactionRefusedError(str(error)) from error
        # The last event of every stream that does not raise.
        assert answered is not None
        if answered.compacted is not None:
            return answered.compacted, answered.usage
        if answered.stop_reason == "context_overflow":
            raise ContextOverflowError(
                f"{self.name} cannot compact the conversation: it leaves no room for the summary prompt."
                " Summarise it in pieces, or start a new session."
            )
        raise ModelRequestError(
            f"{self.name} ({self._endpoint.host}) returned no summary of the conversation (stop reason:"
            f" {answered.stop_reason!r}). Use another compaction strategy or another model."
        )


def make_client(
    endpoint: Endpoint,
    profile_of: Callable[[str], ModelProfile],
    first_delay: float = _FIRST_DELAY,
    learned: LearnedFacts | None = None,
) -> ModelClient:
    """Return the client for a provider on the network; see `ModelClient` for the
    parameters.

    :raises ConfigError: if the configuration lacks a required value.
    """
    if endpoint.base_url is None:
        raise ConfigError("needs `base_url: URL`", key=f"providers.{endpoint.name}")
    kinds = {"anthropic": AnthropicAdapter, "openai-responses": ResponsesAdapter}
    adapter = kinds.get(endpoint.kind, ChatAdapter)(endpoint)
    return (_NativeClient if adapter.native_key else ModelClient)(
        endpoint, adapter, profile_of, first_delay, learned
    )


def _window_in(answer: JsonObject, model: str, names: Iterable[str]) -> int | None:
    """Return a model's context window in tokens, from a list of models or from the
    description of one model.
    """
    ids = {model, f"{model}:latest"}  # Ollama's id for a name without a tag
    models = [*get_objects(answer, "data"), *get_objects(answer, "models")]
    entry = next(
        (
            each
            for each in models
            if ids & {get_text(each, "id"), get_text(each, "name")}
        ),
        answer,
    )
    return next(
        (tokens for name in names if (tokens := get_int(entry, name)) > 0), None
    )
