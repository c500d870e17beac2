"""What the SDKs' connections share: the certificates, and a limit on the time until one stands, the proxy's answer and
TLS included.

httpx2's own limit for connecting ends with the TCP connection, and begins again for TLS; a proxy's answer to CONNECT it
awaits for as long as a model may think. Knows no provider; is imported with the SDKs, since it imports httpx2.
"""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import anyio
import httpx2


def certificates() -> ssl.SSLContext:
    """The authorities that are trusted, those of `SSL_CERT_FILE` or `SSL_CERT_DIR` where it is set: read once for all
    clients, since it takes 40 ms and 2 MiB.

    :raises OSError: they cannot be read.
    """
    return _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _certificates(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


async def send_within(
    limit: float, request: httpx2.Request, send: Callable[[], Awaitable[httpx2.Response]]
) -> httpx2.Response:
    """Send a request, for which a connection has to stand in time; the answer may take as long as it likes.

    :param limit: seconds from the first step towards a new connection to the first byte of the request in it.
    :param send: what the client does with the request.
    :raises httpx2.ConnectTimeout: it did not.

    Source: httpcore2's `trace` extension, which tells of each step.
    """
    scope = anyio.CancelScope()

    async def trace(step: str, about: dict[str, Any]) -> None:
        if step.endswith(".connect_tcp.started"):
            scope.deadline = anyio.current_time() + limit
        elif step.endswith(".send_request_headers.started") and about["request"].method != b"CONNECT":
            scope.deadline = math.inf

    request.extensions = {**request.extensions, "trace": trace}
    with scope:
        return await send()
    raise httpx2.ConnectTimeout(f"no connection within {limit:g} seconds", request=request)
