"""What a browser wants to hear before it lets a page read what another origin answers: for the origins that the user
has named, and for no others. Does not know who is named.

Fetch Standard, "CORS protocol".
"""

from __future__ import annotations

from typing import TypeAlias

HeaderPairs: TypeAlias = list[tuple[bytes, bytes]]

_METHODS = b"GET, POST, DELETE"
_SENT = b"Accept, Acp-Connection-Id, Acp-Protocol-Version, Acp-Session-Id, Authorization, Cache-Control, Content-Type"
_READ = b"Acp-Connection-Id"
_SECONDS = b"600"


def shared_with(origin: str | None) -> HeaderPairs:
    """What every answer to a page has.

    :param origin: where it is from; None where that is not named, or it is no page.
    """
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _READ),
        (b"vary", b"Origin"),
    ]


def preflight_headers() -> HeaderPairs:
    """What is allowed, besides: what the requests of the transport are made of."""
    return [
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _SENT),
        (b"access-control-max-age", _SECONDS),
    ]
