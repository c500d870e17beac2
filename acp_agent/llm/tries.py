"""Decides how to retry a failed model call: unchanged after a delay, or at once without
the part that the provider refused.

The next try can leave out tools, reasoning, optional parts of the API, images, and
streaming.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from acp_agent.conversation.messages import AssistantMessage, Message, Thinking, name_of
from acp_agent.conversation.surroundings import Feature
from acp_agent.frozen import frozen
from acp_agent.llm.adapters.adapter import Adapter
from acp_agent.llm.adapters.encoding import ModelCall, ReasoningPlace
from acp_agent.llm.errors import (
    SERVER_STATUSES,
    CallFailed,
    classify,
    error_of,
    log_line,
    may_be_image,
    may_be_overflow,
    reason,
    takes_no_images,
)
from acp_agent.llm.parts import without_images
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    AskedAgain,
    ImagesLeftOut,
    ModelRequest,
    ReasoningRefused,
    Refusal,
    Refused,
    RefusedTools,
    Retrying,
)
from acp_agent.llm.refusals import LIMITS, RefusedPart
from acp_agent.llm.refused_tools import (
    is_built_in,
    longest_description,
    refused_tools,
    tool_names,
    with_short_descriptions,
    without_tools,
)

_log = logging.getLogger(__name__)

Learned: TypeAlias = Refusal | ImagesLeftOut

_MAX_PARTS = 8
"""Maximum number of parts that are left out of one call, one after another."""
_EMPTY_STREAMS = 2
"""After this many streams without any event, the answer is requested without streaming.
"""
_MAX_ATTEMPTS: dict[str, int] = {"transient": 7, "connect": 3}
"""Maximum attempts of one call, by the category of its failure. Failures of other
categories are not retried.
"""
_MAX_ANSWERED = 3
"""Maximum attempts of one call if its answers begin and then break off, since every
answer costs money.
"""
_MAX_DELAY = 20.0
"""Maximum seconds between two attempts, unless the provider asks for more."""
_MAX_RETRY_AFTER = 90.0
"""Maximum delay in seconds that a provider may ask for; a longer delay ends the call.
"""
_REFUSED = (400, 422)
"""Statuses that servers use to refuse reasoning or a header."""
_MAX_TRIGGER_FAILURES = 2
"""After this many server failures, a compaction is requested without the trigger."""
_TRIGGER_STATUSES = (500, 501, 502)
"""Statuses from servers that cannot handle a part of a request. Other statuses mean
that the server is overloaded.
"""
_MAX_BUILT_IN = 2
"""Maximum number of built-in tools that are left out of a call. If a provider refuses
more, all tools count as refused.
"""
_MAX_REFUSALS = 3
"""After this many refusals of one call, all of its reasoning is withheld at once."""


_NO_STREAM = Refused("stream", lasting=False)
_ABOUT_CONVERSATION = ("prompt", "input", "context", "messages")
"""If an error contains one of these words, the answer limit in the error depends on the
length of the conversation.
"""
_UNKNOWN_MEMBER = ("extra_forbidden", "extra inputs", "extra fields", "unrecognized")
"""Words in an error that prove that the server does not know a member at all,
regardless of what else the error quotes. Source: the errors of pydantic, which FastAPI
returns.
"""


@frozen
class _Guess:
    """A part of a request that was left out because the refusal named no cause.

    :ivar failure: the refusal.
    :ivar request: the request with the part.
    :ivar learned: what had been learned before the guess.
    """

    failure: CallFailed
    request: ModelRequest
    learned: tuple[Learned, ...]


class Tries:
    """Decides how one call is retried after a failure.

    The next try leaves out the part that the provider appears to have refused. The
    refusal is learned only after a try succeeds. A guess that leads to the same refusal
    is undone.

    :param profile: the model's profile.
    :param model: the provider's id of the model.
    :param prompt: see `Adapter.call`.
    :param first_delay: seconds before the first retry of an unchanged call.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        adapter: Adapter,
        profile: ModelProfile,
        model: str,
        prompt: str | None,
        first_delay: float,
    ) -> None:
        self._endpoint = endpoint
        self._adapter = adapter
        self._profile = profile
        self._prompt = prompt
        self._retries = _Retries(endpoint, model, first_delay)
        self._refusals = 0
        self._built_in = 0
        self._parts = 0
        self._server_errors = 0
        self._empty_streams = 0
        self._has_empty_streams = False
        self._trigger_failures = 0
        self._is_unproven_tried = False
        self._guess: _Guess | None = None
        self._images: list[int] | None = None
        self._learned: list[Learned] = []

    def succeeded(self, *, is_empty: bool = False) -> list[Learned]:
        """Return what was learned from the failures, after an answer has begun. Each
        event is returned only once.

        :param is_empty: whether the answer ended without any content. If so, streaming
            did not cause the empty streams before it.
        """
        learned = self._learned
        self._learned = []
        return [each for each in learned if not is_empty or each != _NO_STREAM]

    def after(
        self,
        failure: CallFailed,
        request: ModelRequest,
        call: ModelCall,
        *,
        partial: bool,
    ) -> tuple[Retrying | AskedAgain, ModelRequest]:
        """Return the event to report for a failure, and the next request.

        :param partial: whether part of the answer was yielded.
        :raises ModelError: if the call is not retried.
        """
        guess = self._guess
        if guess is not None and failure.message == guess.failure.message:
            request = guess.request
            self._learned = [*guess.learned]
        if not partial:
            changed = (
                self._without_trigger(failure, request, call)
                or self._with_fitting_tools(failure, request, call)
                or self._without_reasoning(failure, request, call)
                or self._without_part(failure, request, call)
                or self._without_unproven(failure, request, call)
                or self._without_pictures(failure, request)
                or self._without_stream(failure, request)
            )
            if changed is not None:
                return AskedAgain(), changed
        if guess is not None and classify(failure) == "rejected":
            failure = guess.failure  # the guess itself may have caused the last failure
        after_empty = "stream" in request.refused and self._has_empty_streams
        retrying = self._retries.after(
            failure, partial=partial, after_empty=after_empty
        )
        return retrying, request

    def _without_trigger(
        self, failure: CallFailed, request: ModelRequest, call: ModelCall
    ) -> ModelRequest | None:
        """Return the compaction request without the trigger, if the server did not
        recognise or could not handle it.

        An explicit refusal of the trigger is handled like that of any other part.
        """
        if "trigger" not in call.features:
            return None
        if failure.kind == "ignored" and not failure.code:
            _log.warning(
                "%s did not follow a compaction trigger: %s",
                self._endpoint.name,
                failure.message,
            )
            return self._left_out(RefusedPart("trigger"), request)
        is_broken = failure.kind == "stream" and "server_error" in failure.code
        if (
            failure.kind == "dropped"
            or failure.status in _TRIGGER_STATUSES
            or is_broken
        ):
            self._trigger_failures += 1
        elif failure.kind in ("ignored", "no-stream"):
            self._trigger_failures = _MAX_TRIGGER_FAILURES
        if self._trigger_failures < _MAX_TRIGGER_FAILURES:
            return None
        # This applies to the current compaction only, since the server may know the
        # trigger and have failed for another reason.
        said = log_line(failure, self._endpoint.secrets)
        _log.warning(
            "%s failed to follow a compaction trigger; trying another way: %s",
            self._endpoint.name,
            said,
        )
        return replace(request, refused=request.refused | {"trigger"})

    def _with_fitting_tools(
        self, failure: CallFailed, request: ModelRequest, call: ModelCall
    ) -> ModelRequest | None:
        """Return the request without the tools that the provider refused, or with
        shortened descriptions if one is too long. Return None if the provider refused
        no tool, or appears to refuse all tools.
        """
        names = (
            refused_tools(failure, call.body, tool_names(request))
            if failure.status in _REFUSED
            else ()
        )
        built_in = sum(is_built_in(name) for name in names)
        if not names or self._built_in + built_in > _MAX_BUILT_IN:
            return None
        longest = longest_description(failure)
        shortened = with_short_descriptions(request, longest)
        if longest is not None and shortened is not request:
            return self._left_out(RefusedPart("descriptions", str(longest)), shortened)
        _log.warning(
            "%s refused tools, which are now left out: %s",
            self._endpoint.name,
            ", ".join(names),
        )
        self._built_in += built_in
        self._learned.append(RefusedTools(names))
        return without_tools(request, names)

    def _without_reasoning(
        self, failure: CallFailed, request: ModelRequest, call: ModelCall
    ) -> ModelRequest | None:
        """Return the request without the reasoning, or the feature of a beta header,
        that the provider refused.
        """
        if failure.status not in _REFUSED:
            return None
        adapter = self._adapter
        places = adapter.refused_reasoning(
            failure, request, self._profile, request.refused
        )
        if places and self._refusals >= _MAX_REFUSALS:
            places = tuple(adapter.places(request, self._profile, request.refused))
        if places:
            self._refusals += 1
            said = log_line(failure, self._endpoint.secrets)
            _log.warning(
                "%s refused %d pieces of reasoning: %s",
                self._endpoint.name,
                len(places),
                said,
            )
            event = reasoning_refused(places, failure.message)
            self._learned.append(event)
            return replace(
                request, messages=without_reasoning(request.messages, event.pieces)
            )
        used = call.features - request.refused
        accepted = adapter.accepted_features(request, self._profile)
        feature = adapter.refused_feature(failure, used, accepted)
        # If a compaction is refused without a reason, the reason is most likely its
        # reasoning.
        is_vague = self._prompt is not None and (
            feature == "compaction" or used <= accepted
        )
        if feature is None or is_vague:
            return None
        self._refusals += 1
        return self._left_out(RefusedPart(feature), request)

    def _without_part(
        self, failure: CallFailed, request: ModelRequest, call: ModelCall
    ) -> ModelRequest | None:
        """Return the request without the optional member or form that the provider
        refused.
        """
        part = (
            self._adapter.refused_part(failure, call, request.refused)
            if self._parts < _MAX_PARTS
            else None
        )
        if part is None:
            return None
        self._parts += 1
        said = failure.message.lower()
        is_unknown = any(word in said for word in _UNKNOWN_MEMBER)
        is_about_conversation = any(word in said for word in _ABOUT_CONVERSATION)
        lasting = part.feature not in LIMITS or is_unknown or not is_about_conversation
        return self._left_out(part, request, lasting=lasting)

    def _without_unproven(
        self, failure: CallFailed, request: ModelRequest, call: ModelCall
    ) -> ModelRequest | None:
        """Return the request without the features that the provider has not yet
        accepted in this conversation.

        The provider may have refused one of them with an error text that the agent does
        not recognise.
        """
        may_be_one = failure.status in _REFUSED and classify(failure) == "rejected"
        if not may_be_one or self._is_unproven_tried:
            return None
        self._is_unproven_tried = True
        known = (
            self._adapter.accepted_features(request, self._profile) | request.refused
        )
        unproven: list[Feature] = [
            feature
            for feature, _ in self._adapter.refusals
            if feature in call.features - known
        ]
        if self._prompt is not None:
            # Without the other features, the provider would compact a different
            # conversation.
            unproven = [feature for feature in unproven if feature == "trigger"]
        if not unproven:
            return None
        self._guess = _Guess(failure, request, tuple(self._learned))
        changed = request
        for feature in unproven:
            changed = self._left_out(RefusedPart(feature), changed)
        return changed

    def _left_out(
        self, part: RefusedPart, request: ModelRequest, *, lasting: bool = True
    ) -> ModelRequest:
        """Return the request without one part, or with another value for that part.

        :param lasting: see `Refused`.
        """
        name = self._endpoint.name
        feature = part.feature
        takes = part.takes
        if takes and request.takes.get(feature) != takes:
            _log.warning(
                "%s accepts other values in a request (%s); retrying with those",
                name,
                feature,
            )
            self._learned.append(Refused(feature, takes, lasting))
            return replace(request, takes={**request.takes, feature: takes})
        _log.warning(
            "%s refused a part of a request (%s); retrying without it",
            name,
            feature,
        )
        self._learned.append(Refused(feature, lasting=lasting))
        return replace(request, refused=request.refused | {feature})

    def _without_pictures(
        self, failure: CallFailed, request: ModelRequest
    ) -> ModelRequest | None:
        """Return the request without images if an image may be the cause: first without
        the images that the model has not answered yet, then without any images.
        """
        if not may_be_image(failure, is_repeated=self._server_errors > 0):
            self._server_errors += failure.status in SERVER_STATUSES
            return None
        accepted = self._adapter.accepted_messages(request)
        if self._images is None:
            self._images = [0, accepted]
        while self._images:
            first = self._images.pop()
            changed = without_images(request, first)
            if changed is not None:
                self._guess = _Guess(failure, request, tuple(self._learned))
                has_older = (
                    without_images(
                        replace(request, messages=request.messages[:accepted])
                    )
                    is not None
                )
                self._learned.append(
                    ImagesLeftOut(
                        first, takes_none=takes_no_images(failure) and not has_older
                    )
                )
                _log.warning(
                    "%s refused a request with images; retrying without them",
                    self._endpoint.name,
                )
                return changed
        return None

    def _without_stream(
        self, failure: CallFailed, request: ModelRequest
    ) -> ModelRequest | None:
        """Return the request without streaming, after several empty streams.

        llama-cpp-python's server notices only after the stream has begun that the
        prompt is too long, and then ends the stream. Other servers send token counts
        first (github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2339). Without
        streaming, these servers report the error.
        """
        is_empty = failure.kind == "dropped" and failure.came == "status"
        self._empty_streams = self._empty_streams + 1 if is_empty else 0
        if (
            self._empty_streams != _EMPTY_STREAMS
            or "stream" not in self._adapter.members
            or self._prompt is not None
        ):
            return None
        self._has_empty_streams = True
        self._learned.append(_NO_STREAM)
        return replace(request, refused=request.refused | {"stream"})


def reasoning_refused(places: Sequence[ReasoningPlace], said: str) -> ReasoningRefused:
    """Return the event that reports that the provider refused the reasoning at these
    places.

    :param said: the provider's error message.
    """
    messages = dict.fromkeys(each.message_id for each in places)
    return ReasoningRefused(tuple(messages), tuple(each.name for each in places), said)


def without_reasoning(
    messages: tuple[Message, ...], pieces: Collection[str]
) -> tuple[Message, ...]:
    """Return the messages without the pieces of reasoning with these names."""
    kept: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            gone = [
                part
                for part in message.parts
                if isinstance(part, Thinking) and name_of(part) in pieces
            ]
            if gone:
                parts = tuple(part for part in message.parts if part not in gone)
                kept.append(replace(message, parts=parts))
                continue
        kept.append(message)
    return tuple(kept)


class _Retries:
    """Decides whether and when one call is retried.

    A call is not retried once part of its answer has been yielded, since a second
    answer would not continue the first. The SDKs' own retries are off, because they do
    not make this distinction.
    """

    def __init__(self, endpoint: Endpoint, model: str, first_delay: float) -> None:
        self._endpoint = endpoint
        self._model = model
        self._first_delay = first_delay
        self._failures = 0
        self._started = time.monotonic()

    def after(
        self, failure: CallFailed, *, partial: bool, after_empty: bool
    ) -> Retrying:
        """Return the next retry after a failure.

        :param partial: whether part of the answer was yielded.
        :param after_empty: see `error_of`. If True, the request has already been sent
            several times, so an error with an unknown text is final.
        :raises ModelError: if the call is not retried again.
        """
        self._failures += 1
        endpoint = self._endpoint
        elapsed = time.monotonic() - self._started
        attempt = (
            endpoint.name,
            endpoint.host,
            self._failures,
            elapsed,
            log_line(failure, endpoint.secrets),
        )
        retry_after = _retry_after(failure.headers)
        too_long = (
            retry_after
            if retry_after is not None and retry_after > _MAX_RETRY_AFTER
            else None
        )
        most = _MAX_ATTEMPTS.get(classify(failure), 1)
        if failure.kind == "dropped" and failure.came != "nothing":
            most = min(most, _MAX_ANSWERED)
        if after_empty and may_be_overflow(failure):
            most = 1
        if partial or self._failures >= most or too_long is not None:
            error = error_of(
                failure,
                endpoint,
                model=self._model,
                partial=partial,
                retry_after=too_long,
                after_empty=after_empty,
            )
            how = "in mid-answer" if partial else "given up"
            _log.warning(
                "%s (%s): attempt %d failed after %.1f s: %s; %s: %s",
                *attempt,
                how,
                type(error).__name__,
            )
            raise error from failure
        delay = _backoff(self._first_delay, self._failures)
        delay = delay if retry_after is None else retry_after + delay * 0.1
        _log.info(
            "%s (%s): attempt %d failed after %.1f s: %s; trying again in %.1f s",
            *attempt,
            delay,
        )
        self._started = time.monotonic() + delay
        return Retrying(f"{endpoint.name}: {reason(failure)}", delay)


def _backoff(first_delay: float, failures: int) -> float:
    """Return how many seconds to wait after this many failures.

    The delay grows exponentially. It is randomly shortened by up to a quarter, so that
    clients do not retry at the same time.
    """
    return min(_MAX_DELAY, first_delay * 2 ** (failures - 1)) * random.uniform(
        0.75, 1.0
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the provider asks us to wait; None if it does not say.

    Source: RFC 9110, 10.2.3, for `retry-after`, which is a number or a date;
    `retry-after-ms` is OpenAI's. LiteLLM prefixes the provider's headers with
    `llm_provider-`.
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
