"""What must be right before a client is made: keys that HTTP can carry, base URLs, and the network's variables.

An SDK would find these out late, and in words that name no variable or repeat the key. Knows no provider; loads
httpx2 and urllib.request on use.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from urllib.parse import urlsplit

from acp_agent.errors import ConfigError, ModelAuthError

_CARRIED = re.compile(r"[\t -~]*")
"""Printable ASCII: what the SDKs' HTTP client can put into a header."""


def check_key(provider: str, key: str | None, hint: str) -> None:
    """Refuse a key that no header can carry.

    :param provider: name of the provider, for the message.
    :param hint: the variable that holds the key, or in words where it is from.
    :raises ModelAuthError: it has a line break, another control character or one outside ASCII in it.
    """
    if key is not None and not _CARRIED.fullmatch(key):
        is_variable = hint.isidentifier()
        advice = f"Set {hint} to" if is_variable else f"Check {hint}: it should be"
        raise ModelAuthError(
            f"The key for {provider} cannot be sent: there is a line break, a typographic quote or another character in"
            f" it that no key has. {advice} the key alone{' and start the agent again' if is_variable else ''}."
        )


def no_key(provider: str, hint: str) -> ModelAuthError:
    """The error of a call that would have to have a key.

    :param hint: the variable that may hold one.
    """
    return ModelAuthError(
        f"No key for {provider}: run `acp-agent login {provider}`, or set {hint} and start the agent again."
    )


def check_base_url(url: str | None, variable: str, default: str) -> str | None:
    """The base URL in an environment variable; None where it is not set, and the SDK's own holds.

    :param url: the variable's value; an empty one counts as not set.
    :param default: what stands for an empty one, which the SDK would read itself and take for a URL.
    :raises ConfigError: it is no http or https URL. The value is not shown, as a password may stand in it.
    """
    if not url:
        return None if url is None else default
    if not is_base_url(url, secrets=True):
        raise ConfigError("should be an http or https URL, such as https://gateway.example/v1", source=variable)
    return url


def is_base_url(url: str, *, secrets: bool = False) -> bool:
    """Whether a text is an http or https URL.

    :param secrets: whether a user and a password may stand in it.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return good and (secrets or "@" not in parts.netloc)


def check_network() -> None:
    """Refuse proxies and certificates in the environment that the SDKs' HTTP client cannot use.

    It takes all of them in when it is made, whichever it would need later. May read a file: run it in a thread.

    :raises ConfigError: names the variable; the value is not shown, as a password may stand in it.
    """
    from urllib.request import getproxies

    import httpx2

    # As httpx2 reads them.
    proxies = getproxies()
    bypassed = any(host.strip() == "*" for host in proxies.get("no", "").split(","))
    for scheme in () if bypassed else ("http", "https", "all"):
        given = proxies.get(scheme)
        if not given:
            continue
        try:
            url = httpx2.Proxy(given if "://" in given else f"http://{given}").url
        except (ValueError, httpx2.InvalidURL) as error:
            raise ConfigError(
                "is not a proxy's URL; write http://host:port or https://host:port, or unset it",
                source=_proxy_variable(scheme),
            ) from error
        if url.scheme.startswith("socks") and find_spec("socksio") is None:
            raise ConfigError(
                "names a SOCKS proxy, which needs the Python package socksio: install it next to acp-agent, name an"
                " HTTP proxy (http://host:port), or unset the variable",
                source=_proxy_variable(scheme),
            )
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        from acp_agent.llm.connecting import certificates

        try:
            certificates()
        except OSError as error:
            raise ConfigError(
                "names no file of certificates in PEM form that can be read; correct it or unset it",
                source="SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR",
            ) from error


def _proxy_variable(scheme: str) -> str:
    """The variable that a proxy comes from; the lower case one wins where both are set."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
    return next((name for name in names if os.environ.get(name)), f"the system's {scheme} proxy")
