"""Parses the `Host` header and web origins strictly, accepting only the forms that
clients send.

A lenient URL parser finds `localhost` in `evil.example@localhost`. Neither header may
contain userinfo. Browsers send neither escapes nor non-ASCII letters: they write host
names in punycode and addresses in their canonical form.

Source: RFC 9110, section 7.2; RFC 9112, section 3.2; RFC 3986, section 3.2; RFC 6454,
section 7; URL standard, host serializing
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

from acp_agent.frozen import frozen

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::([0-9]{0,5}))?")
_PORTS = {"http": 80, "https": 443}
_MOST_PORTS = 65_535


@frozen
class Authority:
    """A host and a port.

    :ivar host: in lower case; an IPv6 address is written without brackets, in its
        shortest form.
    :ivar port: None for the scheme's default port.
    """

    host: str
    port: int | None = None


@frozen
class WebOrigin:
    """The origin of a web page: its scheme, host and port. The port is never None."""

    scheme: str
    authority: Authority


def parse_authority(text: str) -> Authority | None:
    """Parse a `Host` header. Return None if it is malformed.

    :param text: for example `localhost:8123` or `[::1]`.
    """
    matched = _AUTHORITY.fullmatch(text.lower()) if text.isascii() else None
    if matched is None:
        return None
    host = matched[1]
    port = int(matched[2]) if matched[2] else None
    if port is not None and not 0 < port <= _MOST_PORTS:
        return None
    if host.startswith("["):
        with suppress(ValueError):
            return Authority(str(ipaddress.IPv6Address(host[1:-1])), port)
        return None
    return Authority(host, port)


def parse_web_origin(text: str) -> WebOrigin | None:
    """Parse an `Origin` header. Return None if it does not name a web page, for example
    because it is `null`.

    :param text: for example `http://localhost:2718`.
    """
    scheme, _, rest = text.partition("://")
    default = _PORTS.get(scheme.lower())
    authority = parse_authority(rest)
    if default is None or authority is None:
        return None
    return WebOrigin(
        scheme.lower(), Authority(authority.host, authority.port or default)
    )
