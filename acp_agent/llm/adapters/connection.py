"""`ProviderConnection`: one provider's SDK client, created when first needed, with
exceptions converted to `CallFailed`.

Only this module imports the anthropic and openai SDKs. The SDKs handle HTTP, headers,
proxies and errors; their own retries are off. A request's body is sent as plain JSON
through the SDK's `post`, since the typed methods copy it field by field, which blocks
the event loop for 90 ms at 119,000 tokens. Both SDKs come from the same generator and
use httpx2, so one class serves both.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.strict_json import parse_object
from acp_agent.errors import ConfigError
from acp_agent.llm.adapters.encoding import ModelCall
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.adapters.stream import Decoder
from acp_agent.llm.errors import (
    MAX_BODY,
    CallFailed,
    Came,
    FailureKind,
    log_line,
    names_in_error,
    read_error,
)
from acp_agent.llm.parts import ArgumentsTooLongError
from acp_agent.llm.places import Endpoint
from acp_agent.llm.provider import TextDelta, ThinkingDelta
from acp_agent.programs import settle_platform

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

READ_TIMEOUT = 600.0
"""Seconds that a provider may be silent, even before its answer begins.

Models that think may send nothing for minutes. Local servers send no header before they
have read the prompt, and hosted servers may take just as long for a large prompt that
is not cached. A shorter limit could not tell such servers from one that hangs.
"""
CONNECT_TIMEOUT = 4.0
"""Seconds for the TCP connection and TLS."""
_DRAIN_SECONDS = 0.2
_NO_KEY = "no-key-needed"
_NETWORK_VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)

_loading = {"anthropic": anyio.CapacityLimiter(1), "openai": anyio.CapacityLimiter(1)}
"""Ensures that sessions waiting for the same import do not occupy threads of the pool,
and that the certificates are read only once.
"""

_log = logging.getLogger(__name__)


class ProviderConnection:
    """A connection to a provider through its SDK.

    :param sdk: the SDK to use.
    """

    def __init__(self, endpoint: Endpoint, sdk: Literal["anthropic", "openai"]) -> None:
        self._endpoint = endpoint
        self._sdk = sdk
        self._client: AsyncAnthropic | AsyncOpenAI | None = None
        self._making = anyio.Lock()

    async def read(
        self, call: ModelCall, fold: Fold
    ) -> AsyncGenerator[TextDelta | ThinkingDelta, None]:
        """Send a call, feed its answer to `fold`, and yield the deltas to show.

        Ends with the answer, or when a tool call's arguments are too long.

        :raises CallFailed: for any failure, including a stream that ends, even with
            `[DONE]`, without the event that completes the answer.
        :raises ModelAuthError: if there is no key, or it cannot be sent.
        :raises ConfigError: if an environment variable for the network is invalid.
        """
        self._endpoint.check_key()
        client = await self.prepare()
        import httpx2

        decoder = Decoder()
        headers: Mapping[str, str] = {}
        came: Came = "nothing"
        options: Any = {"headers": dict(call.headers)}
        try:
            # For this type, the SDK returns the response unchanged.
            response = await client.post(
                call.path,
                cast_to=httpx2.Response,
                content=call.content,
                options=options,
                stream=True,
            )
            async with aclosing(response):
                headers = response.headers
                body = response.aiter_bytes()
                came = "status"
                async for chunk in body:
                    for event in decoder.feed(chunk):
                        came = "events"
                        for delta in fold.feed(event):
                            yield delta
                    if decoder.done or (fold.complete and not fold.ends_with_done):
                        await _drain(body)
                        break
                else:
                    for event in decoder.end():
                        for delta in (
                            fold.feed(event)
                            if not (call.streams and decoder.other)
                            else ()
                        ):
                            yield delta
            if decoder.other and (call.streams or not fold.complete):
                raise CallFailed("no-stream", decoder.other)
            if not fold.complete:
                fold.close(done=decoder.done)
            if not fold.complete:
                raise CallFailed("dropped", "it ended before the answer was complete")
        except ArgumentsTooLongError:
            return
        except Exception as error:
            failure = error if isinstance(error, CallFailed) else _failure_of(error)
            if not fold.complete and not isinstance(error, CallFailed):
                fold.close(done=False)
            if isinstance(error, CallFailed) or not fold.complete:
                failure.headers = failure.headers or headers
                # A stream that ended normally with only token counts counts as empty,
                # like one without events.
                is_empty = (
                    isinstance(error, CallFailed) and came == "events" and fold.is_empty
                )
                failure.came = "status" if is_empty else came
                failure.path = call.path
                raise failure from error

    async def ask(self, path: str, limit: float) -> JsonObject:
        """Send a small GET request to the provider, for example for its list of models,
        and return the answer.

        :param limit: the time limit in seconds.
        :raises CallFailed: if no answer came in time, or the answer is an error.
        :raises ModelAuthError: if there is no key, or it cannot be sent.
        :raises ConfigError: if an environment variable for the network is invalid.
        """
        self._endpoint.check_key()
        client = await self.prepare()
        import httpx2

        failure = CallFailed("silent", f"no answer within {limit:g} seconds")
        options: Any = {"timeout": limit, "follow_redirects": False}
        with anyio.move_on_after(limit):
            try:
                answer = await client.get(
                    path, cast_to=httpx2.Response, options=options
                )
                if (found := parse_object(answer.content)) is not None:
                    return found
                failure = CallFailed("no-stream", answer.text)
            except Exception as error:
                failure = _failure_of(error)
        line = log_line(failure, self._endpoint.secrets)
        _log.info("a GET request to %s was not answered: %s", self._endpoint.host, line)
        raise failure

    async def aclose(self) -> None:
        """Close the connections. A later request opens new ones."""
        if self._client is not None:
            client = self._client
            self._client = None
            await client.close()

    async def prepare(self) -> AsyncAnthropic | AsyncOpenAI:
        """Import the SDK, create its client and return it. Sends nothing and needs no
        key.

        :raises ConfigError: if an environment variable for the network is invalid.
        """
        async with self._making:
            if self._client is None:
                self._client = await to_thread.run_sync(
                    self._make, abandon_on_cancel=True, limiter=_loading[self._sdk]
                )
            return self._client

    def _make(self) -> AsyncAnthropic | AsyncOpenAI:
        """Import the SDK, and create its client."""
        is_new = self._sdk not in sys.modules
        settle_platform()
        try:
            return self._anthropic() if self._sdk == "anthropic" else self._openai()
        except (
            ImportError,
            AttributeError,
        ) as error:  # AttributeError: its version does not match another package's
            why = f"cannot be imported ({error}); reinstall acp-agent-server"
            raise ConfigError(why, source=f"The Python package {self._sdk}") from error
        finally:
            if is_new:
                # An SDK has a hundred thousand objects that live as long as the
                # process. Scanning them in a garbage collection would pause a turn for
                # 0.1 s.
                gc.freeze()

    def _anthropic(self) -> AsyncAnthropic:
        import anthropic

        key = self._endpoint.key
        token = self._endpoint.token
        headers = self._endpoint.headers
        client = anthropic.AsyncAnthropic(
            api_key=None if token else key or _NO_KEY,
            auth_token=token,
            base_url=self._endpoint.base_url,
            default_headers=headers,
            max_retries=0,
            http_client=_http_client(anthropic.DefaultAsyncHttpxClient),
        )
        if not (key or token) and any(name.lower() == "x-api-key" for name in headers):
            client.api_key = None  # the header carries the key
        return client

    def _openai(self) -> AsyncOpenAI:
        import openai

        client = openai.AsyncOpenAI(
            api_key=self._endpoint.key or _NO_KEY,
            base_url=self._endpoint.base_url,
            default_headers=self._endpoint.headers,
            max_retries=0,
            http_client=_http_client(openai.DefaultAsyncHttpxClient),
        )
        if self._endpoint.name != "openai" or not self._endpoint.required:
            # The SDK read these from OpenAI's environment variables, which are only for
            # OpenAI.
            client.organization = client.project = None
        return client


def _failure_of(error: Exception) -> CallFailed:
    """Convert an SDK's or httpx2's exception. Raise any other exception, since it is a
    bug in this package.
    """
    import httpx2

    status: object = getattr(error, "status_code", None)
    if isinstance(status, int):
        response: object = getattr(error, "response", None)
        assert isinstance(response, httpx2.Response)
        try:
            # The SDKs pass on only part of the body, and only if they know its shape.
            body = response.text
        except httpx2.StreamError:  # the body was not read
            body = ""
        message, code = read_error(body)
        return CallFailed(
            "status",
            message,
            status=status,
            code=code,
            headers=response.headers,
            named=names_in_error(body),
            body=body[:MAX_BODY],
        )
    # Not all of these are transport errors: a body may fail to decode, or redirects may
    # loop.
    cause = (
        error
        if isinstance(error, httpx2.RequestError | httpx2.StreamError)
        else error.__cause__
    )
    if not isinstance(cause, httpx2.RequestError | httpx2.StreamError):
        raise error
    message = str(cause) or type(cause).__name__
    kind: FailureKind = "dropped"
    if "CERTIFICATE_VERIFY_FAILED" in message:
        kind = "untrusted"
    elif isinstance(cause, httpx2.ReadTimeout):
        kind = "silent"
    elif isinstance(
        cause,
        httpx2.ConnectError
        | httpx2.ConnectTimeout
        | httpx2.ProxyError
        | httpx2.UnsupportedProtocol
        | httpx2.LocalProtocolError
        | httpx2.TooManyRedirects,
    ):
        kind = "connect"
    return CallFailed(kind, message)


def _http_client(default: type[httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """Return an SDK's HTTP client with this module's time limits.

    :param default: the SDK's class.
    :raises ConfigError: if the environment names unusable proxies or certificates.
    """
    import httpx2

    try:
        tls = _tls_context(
            os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        )
        return default(
            verify=tls, timeout=httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
        )
    except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
        # The error does not show the values, since they may contain a password.
        named = [
            each
            for name in _NETWORK_VARIABLES
            for each in (name, name.lower())
            if os.environ.get(each)
        ]
        raise ConfigError(
            "cannot be used; name a readable PEM file of certificates, write a proxy as http://host:port (a SOCKS proxy"
            " needs the Python package socksio installed next to acp-agent), or unset the variable",
            source=", ".join(named) or "the system's proxy settings",
        ) from error


@cache
def _tls_context(*_certificates: str | None) -> SSLContext:
    """Return the TLS context for all clients. It is cached, since reading the
    certificates takes 20 ms.
    """
    import httpx2

    return httpx2.create_ssl_context()


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read the rest of the body so that the connection can be reused."""
    with anyio.move_on_after(_DRAIN_SECONDS):
        async for _ in body:
            pass
