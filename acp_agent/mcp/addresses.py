"""Checks the addresses that an MCP server asks the user to open.

Browsers accept many spellings of the same host, such as `0x7f.1` for 127.0.0.1, which a
person cannot recognise. So a host must be written as browsers display it. An address is
also refused if it grants access to something or contains one of the user's secrets.

Source: URL standard, "Host parsing" and "Host serializing"; RFC 3986, section 3.2.2;
RFC 5952; RFC 6943, section 3.1; RFC 4291, section 2.5.5; RFC 6052; Model Context
Protocol, "Elicitation", "Safe URL handling"
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Iterator, Sequence
from urllib.parse import SplitResult, parse_qsl, unquote_plus, urlsplit

from acp_agent.authority import parse_authority
from acp_agent.errors import ToolError
from acp_agent.secrets.names import is_secret_name
from acp_agent.secrets.text import mask
from acp_agent.visible import visible

_LOGIN = re.compile(
    r"e?-?mail|login[_-]hint|session[_-]?(id)?|sid|sig|(.*[_-])?signature",
    re.IGNORECASE,
)
"""More names of parameters that grant access or identify the user."""
_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*")
_EMAIL = re.compile(r"[^\s@/]+@[^\s@/]+\.[A-Za-z]{2,}")
_SIGNED = ("state", "request")
"""OAuth parameters whose value may be a JSON Web Token that grants no access (RFC 9101,
section 4).
"""
_MISREAD = re.compile(r"[\s\\]")
_AUTHORITY = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SAME_MACHINE = ("localhost", "127.0.0.1", "::1")
_WITH_IPV4 = tuple(
    map(
        ipaddress.IPv6Network,
        ("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"),
    )
)
"""IPv6 addresses that contain an IPv4 address: mapped, translated, 6to4 and Teredo.
`::/96` is checked separately.
"""
_MOST_DECODED = 4


def check_address(url: str, secrets: Sequence[str] = ()) -> None:
    """Refuse an address that the user must not be sent to.

    :param secrets: known secrets, which the address may not contain; see
        `secrets.known`.
    :raises ToolError: with a reason that the server's developer can act on.
    """
    if visible(url) != url or _MISREAD.search(url):
        raise _refused(
            "it contains a space, a backslash or an invisible character; percent-encode them"
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _refused("it is not a URL") from None
    if parts.scheme not in ("https", "http"):
        raise _refused("only `https` addresses are allowed")
    written = _AUTHORITY.match(url)
    if "@" in parts.netloc:
        raise _refused("it contains a user name or a password before the host")
    authority = (
        None
        if written is None or written[1] != parts.netloc
        else parse_authority(parts.netloc)
    )
    if authority is None:
        raise _refused(
            "its host or port is not valid; write a host in ASCII (IDNs in punycode), without percent-encoding"
        )
    host, port = _parts_of(parts.netloc)
    if fault := _fault_of_host(host):
        raise _refused(f"its host {fault}")
    if port is not None and (not port or port != str(int(port))):
        raise _refused(
            "its port is empty or begins with a zero; leave it out, or write it as a plain number"
        )
    if parts.scheme == "http" and authority.host not in _SAME_MACHINE:
        raise _refused(
            "with `http` it may only lead to the user's own machine (`localhost`); use `https`"
        )
    if fault := _access_in(parts, secrets):
        raise _refused(fault)


def _refused(reason: str) -> ToolError:
    return ToolError(f"this address is not passed on to the user: {reason}")


def _parts_of(netloc: str) -> tuple[str, str | None]:
    """Return the host and the port as written. The port is None if there is no colon."""
    host, colon, port = netloc.rpartition(":")
    if not colon or port.endswith("]"):
        return netloc, None
    return host, port


def _fault_of_host(host: str) -> str:
    """Return why a host is not written in its canonical form; empty if it is."""
    if host.startswith("["):
        return _fault_of_ipv6(host[1:-1])
    if host != host.lower():
        return f"is not in lower case; write `{host.lower()}`"
    if host.endswith("."):
        return "ends with a dot; leave it out"
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return (
            ""
            if _is_dotted_decimal(host)
            else "is a number; write an IPv4 address as four decimal numbers, or a name"
        )
    wrong = [label for label in labels if not _LABEL.fullmatch(label)]
    return (
        f"has a part that is empty, too long or begins or ends with a hyphen (`{wrong[0]}`)"
        if wrong
        else ""
    )


def _is_dotted_decimal(host: str) -> bool:
    try:
        return str(ipaddress.IPv4Address(host)) == host
    except ValueError:
        return False


def _fault_of_ipv6(text: str) -> str:
    address = ipaddress.IPv6Address(text)
    has_ipv4 = (
        any(address in network for network in _WITH_IPV4) or 1 < int(address) < 2**32
    )
    if has_ipv4 or "." in text:
        return "is an IPv6 address that contains an IPv4 address; write the IPv4 address, or a name"
    return (
        ""
        if text == str(address)
        else f"is not in the shortest form; write `[{address}]`"
    )


def _access_in(parts: SplitResult, secrets: Sequence[str]) -> str:
    """Return which part of an address grants access or identifies the user; empty if
    none does.
    """
    for name, value in parse_qsl(f"{parts.query}&{parts.fragment}"):
        if is_secret_name(name) or _LOGIN.fullmatch(name):
            return f"the parameter `{name}` grants access or identifies the user; let the user sign in at the address"
        if _EMAIL.fullmatch(value) or (name not in _SIGNED and _TOKEN.fullmatch(value)):
            return f"the parameter `{name}` contains a token or an email address; let the user sign in at the address"
    readings = list(_readings(parts.geturl()))
    if any(_holds(reading, secrets) for reading in readings):
        return "it contains one of the user's secrets"
    words = (word for reading in readings for word in re.split(r"[/?&#=:;,]", reading))
    if any(not _TOKEN.fullmatch(word) and mask(word, ()) != word for word in words):
        return "it contains something that looks like a key; let the user sign in at the address"
    return ""


def _readings(url: str) -> Iterator[str]:
    """Yield an address, and its percent-decoded form, which may itself be encoded
    again.
    """
    for _ in range(_MOST_DECODED):
        yield url
        decoded = unquote_plus(url)
        if decoded == url:
            return
        url = decoded


def _holds(text: str, secrets: Sequence[str]) -> bool:
    """Return whether a text contains a secret, plain, in hexadecimal digits or in
    Base64.
    """
    folded = text.casefold()
    plain = text.translate(_FROM_URL_SAFE)
    for secret in secrets:
        data = secret.encode(errors="surrogatepass")
        if (
            secret.casefold() in folded
            or data.hex() in folded
            or any(each in plain for each in _base64_of(data))
        ):
            return True
    return False


_FROM_URL_SAFE = str.maketrans("-_", "+/")


def _base64_of(data: bytes) -> Iterator[str]:
    """Yield the Base64 encoding of data at each of the three possible offsets, without
    the characters that depend on the neighbouring data.
    """
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
        first = -(-offset * 8 // 6)
        last = (offset + len(data)) * 8 // 6
        yield encoded[first:last]
