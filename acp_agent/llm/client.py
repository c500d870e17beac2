"""`ModelClient`: a provider that is called over the network.

`stream` has the adapter encode a request and sends it over the connection, which folds the events of the answer. A
failed call is retried, if need be without the part of the request that the API refused, or raised as an error for the
user.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime

import anyio

from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    JsonObject,
    Message,
    Thinking,
    Usage,
    name_of,
)
from acp_agent.conversation.strict_json import get_int, get_objects, get_text
from acp_agent.errors import (
    CompactionRefusedError,
    ConfigError,
    ContextOverflowError,
    ModelAuthError,
    ModelRequestError,
)
from acp_agent.llm.adapters.adapter import Adapter, Call, Fold, ReasoningPlace
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.adapters.connection import Connection
from acp_agent.llm.adapters.responses import ResponsesAdapter
from acp_agent.llm.errors import CallFailed, classify, error_of, log_line, may_be_image, reason
from acp_agent.llm.parts import estimated_usage, without_images
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    Answered,
    ImagesLeftOut,
    ModelEvent,
    ModelRequest,
    ReasoningRefused,
    Refused,
    Retrying,
)
from acp_agent.llm.rules import ReasoningRules

_log = logging.getLogger(__name__)

_QUERY_SECONDS = 10.0
_LOCAL_SECONDS = 0.3
_LOCAL_WINDOWS: dict[str, str] = {"ollama": "context_length", "lmstudio": "loaded_context_length"}
"""Local servers, which choose the window when they load a model, and the name of the window in their answers."""
_WINDOWS = ("max_input_tokens", "max_model_len", "context_length", "context_window", "max_context_length")
"""The names of the window at Anthropic, vLLM, OpenRouter and Together, Groq, and Mistral."""
_FIRST_DELAY = 0.5
"""Seconds before the second attempt."""
_MAX_DELAY = 20.0
"""Seconds between two attempts, where the provider does not ask for more."""
_MAX_RETRY_AFTER = 90.0
"""Seconds that a provider may ask to wait; a longer wait ends the call."""
_REFUSED = (400, 422)
"""Statuses with which servers refuse reasoning, or a header, in the request."""
_MAX_REFUSALS = 3
"""After this many refusals of one call, all of its reasoning is withheld at once."""
_MAX_PARTS = 8
"""Parts of one call that are left out one after another."""
_EMPTY_STREAMS = 2
"""Streams without any event, after which the answer is asked for without a stream."""
_MAX_NAMED = 5
"""Places in a request that a line of the log names."""
_MAX_ATTEMPTS: dict[str, int] = {"transient": 7, "connect": 3}
"""Attempts of one call, by the category of its failure; a failure of another category is not retried."""
_SERVER_ERROR = 500
_MAX_ANSWERED = 3
"""Attempts of one call that each time is answered and breaks off, since every answer has to be paid."""


class _Retries:
    """Decides on the retries of one call.

    A call is retried only until part of its answer was yielded, since a second answer would not continue the first. The
    SDKs' own retries are off, because they do not distinguish the two.
    """

    def __init__(self, endpoint: Endpoint, first_delay: float) -> None:
        self._endpoint = endpoint
        self._first_delay = first_delay
        self._failures = 0
        self._started = time.monotonic()

    def after(self, failure: CallFailed, *, partial: bool) -> Retrying:
        """Return the next retry after a failure.

        :param partial: whether part of the answer was yielded.
        :raises ModelError: the call is not retried any more.
        """
        self._failures += 1
        endpoint, elapsed = self._endpoint, time.monotonic() - self._started
        attempt = (endpoint.name, endpoint.host, self._failures, elapsed, log_line(failure, endpoint.secrets))
        retry_after = _retry_after(failure.headers)
        too_long = retry_after if retry_after is not None and retry_after > _MAX_RETRY_AFTER else None
        most = _MAX_ATTEMPTS.get(classify(failure), 1)
        if failure.kind == "dropped" and failure.came != "nothing":
            most = min(most, _MAX_ANSWERED)
        if partial or self._failures >= most or too_long is not None:
            error = error_of(failure, endpoint, partial=partial, retry_after=too_long)
            how = "in mid-answer" if partial else "given up"
            _log.warning("%s (%s): attempt %d failed after %.1f s: %s; %s: %s", *attempt, how, type(error).__name__)
            raise error from failure
        delay = _backoff(self._first_delay, self._failures)
        delay = delay if retry_after is None else retry_after + delay * 0.1
        _log.info("%s (%s): attempt %d failed after %.1f s: %s; trying again in %.1f s", *attempt, delay)
        self._started = time.monotonic() + delay
        return Retrying(f"{endpoint.name}: {reason(failure)}", delay)


def _backoff(first_delay: float, failures: int) -> float:
    """Return the seconds to wait after so many failures: exponential, and up to a quarter shorter at random, so that
    clients spread out."""
    return min(_MAX_DELAY, first_delay * 2 ** (failures - 1)) * random.uniform(0.75, 1.0)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the provider asks us to wait; None if it does not say.

    Source: RFC 9110, 10.2.3, for `retry-after`, a number or a date; `retry-after-ms` is OpenAI's. LiteLLM puts
    `llm_provider-` in front of the headers of the provider that it has asked.
    """
    for prefix in ("", "llm_provider-"):
        for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1)):
            value = headers.get(f"{prefix}{name}", "").strip()
            with suppress(ValueError):
                seconds = float(value) / unit
                if 0 <= seconds < float("inf"):
                    return seconds
        with suppress(ValueError, TypeError, OverflowError):
            moment = parsedate_to_datetime(headers.get(f"{prefix}retry-after", ""))
            return max(0.0, moment.timestamp() - time.time())
    return None


def _refused(places: Sequence[ReasoningPlace], said: str) -> ReasoningRefused:
    messages = dict.fromkeys(each.message_id for each in places)
    return ReasoningRefused(tuple(messages), tuple(each.name for each in places), said)


def _without_reasoning(messages: tuple[Message, ...], pieces: Collection[str]) -> tuple[Message, ...]:
    """Return the messages without these pieces of reasoning, by their names."""
    kept: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            gone = [part for part in message.parts if isinstance(part, Thinking) and name_of(part) in pieces]
            if gone:
                message = replace(message, parts=tuple(part for part in message.parts if part not in gone))  # noqa: PLW2901
        kept.append(message)
    return tuple(kept)


class _Tries:
    """The tries of one call: decides with what it is made again after a failure.

    :param profile: the model's.
    :param prompt: see `Adapter.call`.
    :param first_delay: seconds before the first retry of the same call.
    """

    def __init__(self, client: ModelClient, profile: ModelProfile, prompt: str | None, first_delay: float) -> None:
        self._client = client
        self._adapter = client.adapter
        self._profile = profile
        self._prompt = prompt
        self._retries = _Retries(client.endpoint, first_delay)
        self._refusals = 0
        self._parts = 0
        self._server_errors = 0
        self._empty_streams = 0
        self._without_images: CallFailed | None = None
        self._learned: list[ModelEvent] = []

    def succeeded(self) -> list[ModelEvent]:
        """Return what is known to have been the cause of the failures, now that an answer has begun; once."""
        learned, self._learned = self._learned, []
        return learned

    def after(
        self, failure: CallFailed, request: ModelRequest, call: Call, *, partial: bool
    ) -> tuple[ModelEvent | None, ModelRequest]:
        """Return what to tell of a failure, and the request that is made next; see `_Retries.after`.

        :param partial: whether part of the answer was yielded.
        :raises ModelError: the call is not made again.
        """
        if not partial:
            again = self._without_reasoning(failure, request, call) or self._without_part(failure, request, call)
            if again is not None:
                return again
            changed = self._without_pictures(failure, request) or self._without_stream(failure, request)
            if changed is not None:
                return None, changed
        cause = self._without_images
        if cause is not None and classify(failure) == "rejected":
            failure = cause  # the images were not to blame
        return self._retries.after(failure, partial=partial), request

    def _without_reasoning(
        self, failure: CallFailed, request: ModelRequest, call: Call
    ) -> tuple[Refused | ReasoningRefused, ModelRequest] | None:
        """Return what the provider refused of reasoning, or of what needs a header, and the request without it."""
        if failure.status not in _REFUSED:
            return None
        is_last = self._refusals >= _MAX_REFUSALS
        refusal = self._client.without_refused(
            failure, request, self._profile, call, self._prompt, withhold_all=is_last
        )
        self._refusals += refusal is not None
        return refusal

    def _without_part(
        self, failure: CallFailed, request: ModelRequest, call: Call
    ) -> tuple[Refused, ModelRequest] | None:
        """Return which optional part the provider refused, and the request without it."""
        part = self._adapter.refused_part(failure, call, request.refused) if self._parts < _MAX_PARTS else None
        if part is None:
            return None
        self._parts += 1
        takes = dict(request.takes)
        if part.takes and takes.get(part.feature) != part.takes:
            takes[part.feature] = part.takes
            changed = replace(request, takes=takes)
        else:
            changed = replace(request, refused=request.refused | {part.feature})
            part = replace(part, takes="")
        _log.warning("%s refused a part of a request (%s); it is asked again without", self._client.name, part.feature)
        return Refused(part.feature, part.takes), changed

    def _without_pictures(self, failure: CallFailed, request: ModelRequest) -> ModelRequest | None:
        """Return the request without images, if the provider may have refused it for them."""
        if self._without_images is not None or not may_be_image(failure, is_repeated=self._server_errors > 0):
            self._server_errors += failure.status == _SERVER_ERROR
            return None
        changed = without_images(request)
        if changed is not None:
            self._without_images = failure
            self._learned.append(ImagesLeftOut())
            _log.warning("%s refused a request with images; it is asked again without", self._client.name)
        return changed

    def _without_stream(self, failure: CallFailed, request: ModelRequest) -> ModelRequest | None:
        """Return the request for an answer in one piece, after streams with nothing in them.

        llama-cpp-python's server finds out that a prompt is too long once it has begun the stream, and then ends it.
        Without a stream it says so.
        """
        is_empty = failure.kind == "dropped" and failure.came == "status"
        self._empty_streams = self._empty_streams + 1 if is_empty else 0
        if self._empty_streams != _EMPTY_STREAMS or "stream" not in self._adapter.members or self._prompt is not None:
            return None
        self._learned.append(Refused("stream"))
        return replace(request, refused=request.refused | {"stream"})


class ModelClient:
    """A provider; see `Provider`.

    :param profile_of: returns the profile of a model by its id.
    :param first_delay: seconds before the first retry of a call.
    :ivar adapter: encodes requests for its API.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        adapter: Adapter,
        profile_of: Callable[[str], ModelProfile],
        first_delay: float = _FIRST_DELAY,
    ) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint
        self.adapter = adapter
        self._profile_of = profile_of
        self._first_delay = first_delay
        self._connection = Connection(endpoint, adapter.sdk)
        self._windows: dict[str, int | None] = {}

    async def stream(self, request: ModelRequest, prompt: str | None = None) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`, and `Adapter.call` for the prompt."""
        adapter, profile = self.adapter, self._profile_of(request.model)
        tries = _Tries(self, profile, prompt, self._first_delay)
        while True:
            call, fold = adapter.call(request, profile, request.refused, prompt), adapter.fold()
            partial = False
            try:
                async with aclosing(self._connection.read(call, fold)) as deltas:
                    async for delta in deltas:
                        for event in tries.succeeded():
                            yield event
                        partial = True
                        yield delta
                break
            except CallFailed as failure:
                event, request = tries.after(failure, request, call, partial=partial)
                if event is not None:
                    yield event
                if isinstance(event, Retrying):
                    await anyio.sleep(event.delay)
        for event in tries.succeeded():
            yield event
        answer = fold.answer()
        if dropped := self._unforeseen(fold, request, profile):
            yield dropped
            # The model never saw the dropped reasoning, so the answer is bound to a request without it.
            request = replace(request, messages=_without_reasoning(request.messages, dropped.pieces))
            call = adapter.call(request, profile, request.refused, prompt)
        answer = self._bound(answer, request, call)
        if self.name in _LOCAL_WINDOWS:  # the server may have loaded the model for this call
            with anyio.move_on_after(_LOCAL_SECONDS):
                await self.learn_window(request.model)
        usage = profile.priced(answer.usage) if answer.usage.total_tokens else estimated_usage(request, answer)
        yield replace(answer, usage=usage)

    def without_refused(
        self,
        failure: CallFailed,
        request: ModelRequest,
        profile: ModelProfile,
        call: Call,
        prompt: str | None,
        *,
        withhold_all: bool,
    ) -> tuple[Refused | ReasoningRefused, ModelRequest] | None:
        """Return what the provider refused of a request, and the request without it; None if it refused all of it.

        :param prompt: see `Adapter.call`.
        :param withhold_all: whether to withhold all reasoning, and not only what the provider names.
        """
        adapter = self.adapter
        places = adapter.refused_reasoning(failure, request, profile, request.refused)
        if places and withhold_all:
            places = tuple(adapter.places(request, profile, request.refused))
        if places:
            said = log_line(failure, self.endpoint.secrets)
            _log.warning("%s refused %d pieces of reasoning: %s", self.name, len(places), said)
            event = _refused(places, failure.message)
            return event, replace(request, messages=_without_reasoning(request.messages, event.pieces))
        used = call.features - request.refused
        accepted = adapter.accepted_features(request, profile)
        feature = adapter.refused_feature(failure, used, accepted)
        # A compaction refused without a reason was most likely refused because of its reasoning.
        if feature is None or (prompt is not None and (feature == "compaction" or used <= accepted)):
            return None
        _log.warning("%s refused a part of a request (%s); it is asked again without", self.name, feature)
        return Refused(feature), replace(request, refused=request.refused | {feature})

    def _bound(self, answer: Answered, request: ModelRequest, call: Call) -> Answered:
        """Return an answer whose reasoning, or compacted conversation, knows the request that it answers."""
        if call.end is None:
            return answer
        rules = self.adapter.rules(request.model, request.refused)
        parts = self.adapter.bind(answer.parts, call.end.prefix, rules)
        compacted = answer.compacted
        if compacted is not None and rules.compaction == "kept":
            compacted = replace(compacted, at=call.end.prefix.bound(rules))
        return replace(answer, parts=parts, compacted=compacted, withheld=call.end.withheld)

    def _unforeseen(self, fold: Fold, request: ModelRequest, profile: ModelProfile) -> ReasoningRefused | None:
        """Return what the provider left out of a request although it should have been valid; None if nothing."""
        if not fold.dropped:
            return None
        dropped = {each.place for each in fold.dropped}
        places = self.adapter.places(request, profile, request.refused)
        said = ", ".join(f"{each.reason} at {each.place}" for each in fold.dropped[:_MAX_NAMED])
        _log.warning("%s left out %d pieces of reasoning: %s", self.name, len(dropped), said)
        found = [each for each in places if each.place in dropped]
        return _refused(found, said) if found else None

    def rules(self, model: str) -> ReasoningRules:
        """See `Provider.rules`."""
        return self.adapter.rules(model)

    def reasoning_sent(self, request: ModelRequest) -> frozenset[str]:
        """See `Provider.reasoning_sent`."""
        places = self.adapter.places(request, self._profile_of(request.model), request.refused)
        return frozenset(each.message_id for each in places)

    async def prepare(self) -> None:
        """See `Connection.prepare`."""
        await self._connection.prepare()

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self._windows.get(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`.

        A local server is asked each time, and the last window is kept once the model is unloaded. Other servers are
        asked until they answer; an answer without a window is an answer too.
        """
        path = self.adapter.window_path(model)
        if path is None or (model in self._windows and self.name not in _LOCAL_WINDOWS):
            return
        window = None
        try:
            answer = await self._connection.ask(path, _QUERY_SECONDS)
            names = (_LOCAL_WINDOWS[self.name],) if self.name in _LOCAL_WINDOWS else _WINDOWS
            window = _window_in(answer, model, names)
        except (ConfigError, ModelAuthError):
            return  # the next request to the model reports the error
        except CallFailed as failure:
            if failure.kind != "status" or classify(failure) != "rejected":
                return
        self._windows[model] = window or self._windows.get(model)

    async def takes_key(self) -> bool:
        """Return whether the provider takes the key, by a request that needs one and costs nothing.

        :returns: False where the server has no such request, so that the key could not be tried.
        :raises ModelAuthError: the key is refused, or no header can carry it.
        :raises ModelError: the request failed for another reason.
        :raises ConfigError: an environment variable for the network is wrong.
        """
        try:
            await self._connection.ask(self.adapter.models_path, _QUERY_SECONDS)
        except CallFailed as failure:
            if failure.status in (404, 405):
                return False
            if failure.status != 429 or classify(failure) != "transient":  # only a known key has a rate limit
                raise error_of(failure, self.endpoint) from failure
        return True

    async def aclose(self) -> None:
        """See `Provider.aclose`."""
        await self._connection.aclose()


class _NativeClient(ModelClient):
    """A provider that compacts conversations itself; see `NativeCompaction`."""

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Retrying | Refused | ReasoningRefused], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        """See `NativeCompaction.compact`."""
        answered: Answered | None = None
        try:
            async with aclosing(self.stream(request, instructions)) as events:
                async for event in events:
                    if isinstance(event, Retrying | Refused | ReasoningRefused):
                        note(event)
                    elif isinstance(event, Answered):
                        answered = event
        except ContextOverflowError:
            raise
        except ModelRequestError as error:
            raise CompactionRefusedError(str(error)) from error
        assert answered is not None  # the last event of every stream that does not raise
        if answered.compacted is not None:
            return answered.compacted, answered.usage
        if answered.stop_reason == "context_overflow":
            raise ContextOverflowError(
                f"{self.name} cannot compact the conversation: it leaves no room for the prompt for the summary."
                " Have it summarised in pieces, or start a new session."
            )
        raise ModelRequestError(
            f"{self.name} ({self.endpoint.host}) made no summary of the conversation (it stopped with"
            f" {answered.stop_reason!r}). Compact with another strategy, or with another model."
        )


def make_client(
    endpoint: Endpoint, profile_of: Callable[[str], ModelProfile], first_delay: float = _FIRST_DELAY
) -> ModelClient:
    """Return the client of a provider that is asked over the network.

    :raises ConfigError: something is missing in the configuration.
    """
    if endpoint.base_url is None:
        raise ConfigError("needs `base_url: URL`", key=f"providers.{endpoint.name}")
    kinds = {"anthropic": AnthropicAdapter, "openai-responses": ResponsesAdapter}
    adapter = kinds.get(endpoint.kind, ChatAdapter)(endpoint)
    return (_NativeClient if adapter.native_key else ModelClient)(endpoint, adapter, profile_of, first_delay)


def _window_in(answer: JsonObject, model: str, names: Iterable[str]) -> int | None:
    """Return the tokens of a model's window in a list of models or in the description of one."""
    ids = {model, f"{model}:latest"}  # Ollama's id of a name without a tag
    models = [*get_objects(answer, "data"), *get_objects(answer, "models")]
    entry = next((each for each in models if ids & {get_text(each, "id"), get_text(each, "name")}), answer)
    return next((tokens for name in names if (tokens := get_int(entry, name)) > 0), None)
