"""Decides who may connect: with a token, whoever sends it; without one, programs of this machine.

A web page can make a browser connect to loopback, also under a name of its own that resolves to it (DNS rebinding), so
names other than loopback's are refused, and pages of origins that the user has not named.
"""

from __future__ import annotations

from collections.abc import Collection
from hmac import compare_digest
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from acp_agent.errors import AgentError
from acp_agent.frozen import frozen


@frozen
class AccessPolicy:
    """Decides whether a request may open a connection.

    :ivar token: what clients have to send; None lets in every program of this machine.
    :ivar hosts: the addresses that are listened on.
    :ivar origins: of the web pages that may connect, as `parse_origin` returns them.
    """

    token: str | None
    hosts: Collection[str]
    origins: Collection[str] = ()

    def refusal(self, headers: Headers) -> PlainTextResponse | None:
        """Return the response to a request that is refused, or None where it may connect."""
        if self.token is not None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer" and compare_digest(token.strip().encode(), self.token.encode()):
                return None
            challenge = {"WWW-Authenticate": "Bearer"}
            return PlainTextResponse("Send the token in Authorization, behind Bearer.\n", 401, challenge)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if _split(f"//{host}").hostname not in ("localhost", "127.0.0.1", "::1", *self.hosts):
            return PlainTextResponse("This is no name of this server: use localhost, or set a token.\n", 421)
        if origin is None or origin.lower() in self.origins or _split(origin.lower()).netloc == host:
            return None
        return PlainTextResponse("Pages of other origins may not connect: name this one with --origin.\n", 403)


def parse_origin(text: str) -> str:
    """Return the origin of a web page as browsers send it.

    :param text: as http://localhost:2718.
    :raises AgentError: it is none.
    """
    origin = text.strip().lower().removesuffix("/")
    scheme, _, authority = origin.partition("://")
    if scheme not in ("http", "https") or not authority or "@" in authority or authority != _split(origin).netloc:
        raise AgentError(
            f"{text!r} is no origin of a page: write its address without a path, as http://localhost:2718."
        )
    return origin


def _split(url: str) -> SplitResult:
    """Return the parts of a URL, all of them empty where it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
