"""From a response that an SDK opened to our events, and from an SDK's exceptions to `CallFailed`.

The three adapters share this: the SDKs do HTTP, credentials and proxies, and here the bytes are read. Both SDKs come
from the same generator and stand on httpx2, so that their exceptions can be read alike without importing either. Knows
no provider's vocabulary; a `Fold` does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol, TypeVar, cast
from urllib.parse import urlsplit

import anyio

from acp_agent.conversation.messages import JsonObject
from acp_agent.llm.arguments import ArgumentsTooLongError
from acp_agent.llm.error_body import read_error
from acp_agent.llm.failures import STATUS_OF_CODE, CallFailed, logged
from acp_agent.llm.json_access import get_object, get_text, parse_object
from acp_agent.llm.parts import estimated_usage
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from acp_agent.llm.sse import MAX_LINE, Decoder, LineTooLongError

_log = logging.getLogger(__name__)

DONE = b"[DONE]"
_DRAIN_SECONDS = 0.2
_MAX_ODD_BODY = 64 * 1024


class Fold(Protocol):
    """Takes the events of one stream, and has the whole answer at its end."""

    @property
    def complete(self) -> bool:
        """Whether the event that ends every whole answer was seen."""
        ...

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Take one event.

        :return: what can be shown of it.
        :raises CallFailed: it is an error.
        :raises ArgumentsTooLongError: a call's arguments are too long.
        """
        ...

    def answer(self) -> Answered:
        """The answer, once `complete` or once a call's arguments were too long."""
        ...


class Response(Protocol):
    """What an SDK's `with_streaming_response` gives."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer; names in any case of letters."""
        ...

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        ...


async def read(
    opened: AbstractAsyncContextManager[Response],
    fold: Fold,
    request: ModelRequest,
    profile: ModelProfile,
    *,
    ends_with_done: bool = False,
) -> AsyncGenerator[ModelEvent, None]:
    """Open the response and read it to its end, or until a call's arguments are too long, which ends the answer.

    :param opened: the SDK's context manager.
    :param fold: a fresh one.
    :param request: for an estimate where the server counts no tokens.
    :param profile: for the price.
    :param ends_with_done: whether more may come between the completing event and `[DONE]`.
    :raises CallFailed: whatever went wrong, also where the stream or `[DONE]` came without the event that completes it.
    """
    done = answered = broken_off = False
    headers: Mapping[str, str] = {}
    try:
        async with opened as response:
            answered = True
            headers = response.headers
            decoder = Decoder()
            body = response.iter_bytes()
            odd: bytes | None = None
            async for chunk in body:
                if odd is None:
                    if head := chunk.lstrip():
                        odd = head if head[:1] in b"{[<" else b""  # no line of an event stream begins so
                elif odd:
                    odd = (odd + chunk)[:_MAX_ODD_BODY]
                for data in decoder.feed(chunk):
                    for delta in _feed(fold, data):
                        yield delta
                    done = done or data == DONE
                    if done or (fold.complete and not ends_with_done):
                        break
                else:
                    continue
                await _drain(body)
                break
            else:
                if odd:
                    raise _odd_answer(odd)
                for data in decoder.end():
                    for delta in _feed(fold, data):
                        yield delta
    except LineTooLongError as error:
        raise CallFailed("no-stream", f"(more than {MAX_LINE:,} bytes in one line)", headers=headers) from error
    except ArgumentsTooLongError:
        broken_off = True
    except CallFailed as failure:
        failure.headers = headers
        raise
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        if failure.kind == "dropped" and not answered:
            failure = CallFailed("unanswered", failure.message)
        if not fold.complete:
            failure.headers = failure.headers or headers
            raise failure from error
    if not fold.complete and not broken_off:
        raise CallFailed("dropped", "the stream ended before the answer did", headers=headers)
    answer = fold.answer()
    counted = answer.usage.total_tokens > 0
    yield replace(answer, usage=profile.priced(answer.usage) if counted else estimated_usage(request, answer))


async def read_object(opened: AbstractAsyncContextManager[Response]) -> JsonObject:
    """Open a response that is no stream and read it whole.

    :raises CallFailed: whatever went wrong.
    """
    body = b""
    answered = False
    try:
        async with opened as response:
            answered = True
            async for chunk in response.iter_bytes():
                body += chunk
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        if failure.kind == "dropped" and not answered:
            failure = CallFailed("unanswered", failure.message)
        raise failure from error
    answer = parse_object(body)
    if answer is None or answer.get("error"):
        raise _odd_answer(body)
    return answer


def _feed(fold: Fold, data: bytes) -> Iterable[TextDelta | ThinkingDelta]:
    if data == DONE:
        return ()
    event = parse_object(data)
    if event is None:
        raise CallFailed("dropped", "the stream held an event that is no JSON")
    return fold.feed(event)


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read what is left, so that the connection can be used again."""
    with anyio.move_on_after(_DRAIN_SECONDS):
        async for _ in body:
            pass


def _odd_answer(body: bytes) -> CallFailed:
    """A 200 with JSON or a page in place of a stream: some gateways send their errors so."""
    answer = parse_object(body) or parse_object(body.strip().removeprefix(b"[").removesuffix(b"]")) or {}
    if "error" in answer:
        return stream_error(answer)
    return CallFailed("no-stream", body.decode("utf-8", "replace"))


def stream_error(event: JsonObject) -> CallFailed:
    """An error object in a stream: `{"error": {...}}`, or the fields themselves."""
    error = get_object(event, "error") or event
    code = error.get("code")
    kind = get_text(error, "type")
    word = code if isinstance(code, str) and code else kind
    status = code if isinstance(code, int) and not isinstance(code, bool) else STATUS_OF_CODE.get(word)
    if status is None:
        status = int(word) if word.isdigit() else STATUS_OF_CODE.get(kind)
    message = get_text(error, "message") or get_text(event, "error") or word
    return CallFailed("stream", message, status=status, code=word)


def failure_of(error: Exception) -> CallFailed | None:
    """An SDK's or httpx2's exception as ours; None where it is neither (a mistake in our own code).

    :param error: read by its attributes: `status_code` and `response` of the SDKs' status errors.
    """
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _status_failure(error, status)
    import ssl

    import httpx2

    # Most of httpx2's are transport errors; a body that cannot be decoded and a loop of redirects are not.
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx2.RequestError | httpx2.StreamError):
        cause = cause.__cause__
    if cause is None:
        return None
    message = str(cause) or type(cause).__name__
    if _caused_by(cause, ssl.SSLCertVerificationError):
        return CallFailed("untrusted", message)
    if isinstance(
        cause,
        httpx2.ConnectError
        | httpx2.ConnectTimeout
        | httpx2.ProxyError
        | httpx2.UnsupportedProtocol
        | httpx2.TooManyRedirects,
    ):
        return CallFailed("connect", message)
    if isinstance(cause, httpx2.LocalProtocolError):
        return CallFailed("unsendable", message)
    if isinstance(cause, httpx2.ReadTimeout):
        return CallFailed("silent", message)
    return CallFailed("dropped", message)


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error is not None


def _status_failure(error: Exception, status: int) -> CallFailed:
    response: object = getattr(error, "response", None)
    headers: object = getattr(response, "headers", None)
    # The SDKs give on a part of the body, and only of the shapes that they know.
    said = read_error(_body_of(response))
    return CallFailed(
        "status",
        said.message,
        status=status,
        code=said.code,
        headers=cast(Mapping[str, str], headers) if isinstance(headers, Mapping) else None,
    )


def _body_of(response: object) -> str:
    """Empty where it was not read."""
    import httpx2

    try:
        text: object = getattr(response, "text", "")
    except httpx2.StreamError:
        return ""
    return text if isinstance(text, str) else ""


T = TypeVar("T")


async def ask(question: Callable[[], Awaitable[T]], limit: float) -> T | None:
    """Put a small question to a provider (its models, say) that must never get in the way.

    :param question: makes the awaitable.
    :param limit: seconds.
    :return: the answer; None where there was none in time, or an error.
    """
    try:
        return await inquire(question, limit)
    except CallFailed:
        return None


async def inquire(question: Callable[[], Awaitable[T]], limit: float) -> T:
    """As `ask`, for those who want to know why there is no answer.

    :raises CallFailed: there was none in time, or an error.
    """
    with anyio.move_on_after(limit):
        try:
            return await question()
        except CallFailed:
            raise
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            _log.info("a question to %s was not answered: %s", _asked_host(error), logged(failure, ()))
            raise failure from error
    _log.info("a question to a provider was not answered within %g seconds", limit)
    raise CallFailed("silent", f"no answer within {limit:g} seconds")


def _asked_host(error: Exception) -> str:
    """Where a request of an SDK's went to, as its exception tells."""
    url: object = getattr(getattr(error, "request", None), "url", None)
    return host_of(str(url)) if url is not None else "a provider"


async def ask_count(question: Callable[[], Awaitable[object]], limit: float) -> int | None:
    """`input_tokens` of what the SDK makes of an answer; None also where a gateway answered with something else."""
    count: object = getattr(await ask(question, limit), "input_tokens", None)
    return count if isinstance(count, int) else None


def host_of(url: str) -> str:
    """Host and port of a URL, without anything secret that may stand around them."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    return f"{parts.hostname or url}:{port}" if port else parts.hostname or url
