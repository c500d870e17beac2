"""Failures between the agent and a provider that are no lost connection: redirects,
damaged bodies, certificates.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_agent.errors import ModelError, ModelUnavailableError
from acp_agent.llm.provider import Answered, ModelEvent
from support.adapters import (
    BEGINNING,
    DIALECTS,
    ENDING,
    adapter,
    encoded,
    outcome,
    request,
)

CERTIFICATE = Path(__file__).with_name("self_signed.pem")


async def asked(
    dialect: str, base_url: str
) -> tuple[list[ModelEvent], ModelError | None]:
    """What comes of a call."""
    return await outcome(adapter(dialect, base_url), request())


@asynccontextmanager
async def tls_server(answer: bytes) -> AsyncIterator[str]:
    """Gives each request this body, behind a certificate that is signed by itself; its
    URL.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            + answer
        )
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_certificate_of_ones_own_is_not_trusted_until_it_is_named(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    async with tls_server(encoded(BEGINNING[dialect] + ENDING[dialect])) as url:
        seen, error = await asked(dialect, url)
        assert seen == [], "which does not pass by itself"
        assert isinstance(error, ModelUnavailableError)
        assert "certificate is not trusted" in str(error)
        assert "set SSL_CERT_FILE" in str(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        seen, error = await asked(dialect, url)
        assert error is None
        assert isinstance(seen[-1], Answered)
