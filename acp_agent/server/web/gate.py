"""`Gate`: who may come in.

With a token, whoever knows it. Without one, which is for loopback alone, only programs of this machine: a web page can
make a browser connect to loopback, also under a name of its own that it has point there (DNS rebinding), so names other
than loopback's are refused, and so is what pages of other origins ask that the user has not named.
"""

from __future__ import annotations

from collections.abc import Iterable
from hmac import compare_digest
from urllib.parse import urlsplit

from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class RepeatedHeaderError(Exception):
    """A header that has one value came more than once. For the client to read."""


class Headers:
    """The headers of a request, by their names in lower case.

    :param pairs: as they came.
    """

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())

    def get(self, name: str) -> str | None:
        """The value; None where there is none.

        :raises RepeatedHeaderError: there is more than one, and nobody could say which one counts.
        """
        values = self._values.get(name, [])
        if len(values) > 1:
            raise RepeatedHeaderError(f"The header {name.title()} came {len(values)} times: send it once.")
        return values[0] if values else None

    def listed(self, name: str) -> str:
        """The values of one that may come more than once, as if it had come once."""
        return ", ".join(self._values.get(name, []))

    def has(self, name: str) -> bool:
        """Whether there is any."""
        return name in self._values


@frozen
class Refusal:
    """Why a request is not answered.

    :ivar status: of HTTP.
    :ivar sentence: for the person at the other end.
    """

    status: int
    sentence: str


class Gate:
    """:param token: what a client has to know; None for whoever can reach loopback.
    :param hosts: the names or addresses that are listened on.
    :param origins: of the pages that may connect, as `read_origin` returns them.
    """

    def __init__(self, token: str | None, hosts: Iterable[str], origins: Iterable[str] = ()) -> None:
        self._token = None if token is None else token.encode()
        self._names = {*LOOPBACK_NAMES, *(host.lower() for host in hosts)}
        self._origins = frozenset(origins)

    def refusal(self, headers: Headers, *, preflight: bool = False) -> Refusal | None:
        """Why a request with these headers is refused; None where it is not.

        :param preflight: it is a browser's question, which has no token and does nothing.
        :raises RepeatedHeaderError: one that decides came more than once.
        """
        if self._token is not None:
            if preflight or self._knows_token(headers):
                return None
            return Refusal(401, "Send the token in Authorization, behind Bearer.")
        host = headers.get("host") or ""
        if _name(host) not in self._names:
            return Refusal(421, "This is no name of this server: use localhost, or set a token.")
        if headers.has("origin") and not self._is_let_in(headers.get("origin") or "", host.lower()):
            return Refusal(403, "Pages of other origins may not connect: name this one with --origin.")
        return None

    def named_origin(self, headers: Headers) -> str | None:
        """The origin that a request comes from, where the user has named it.

        :raises RepeatedHeaderError: it comes from several.
        """
        origin = headers.get("origin")
        return origin if origin is not None and origin.lower() in self._origins else None

    def _is_let_in(self, origin: str, host: str) -> bool:
        return origin.lower() in self._origins or _authority(origin) == host

    def _knows_token(self, headers: Headers) -> bool:
        scheme, _, token = (headers.get("authorization") or "").partition(" ")
        known = compare_digest(token.strip().encode(), self._token or b"")
        return known and scheme.lower() == "bearer"


def read_origin(text: str) -> str:
    """The origin of a page, as browsers write it.

    :param text: as http://localhost:2718.
    :raises AgentError: it is none.
    """
    origin = text.strip().lower().removesuffix("/")
    scheme, _, authority = origin.partition("://")
    if scheme not in ("http", "https") or not authority or authority != _authority(origin) or "@" in authority:
        raise AgentError(
            f"{text!r} is no origin of a page: write its address without a path, as http://localhost:2718."
        )
    return origin


def _name(host: str) -> str:
    """A `Host` without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
