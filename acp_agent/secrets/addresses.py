"""Strips everything that may grant access from web addresses: logins, parameters,
fragments, and words of the path or host.

Many services put a key into the path of an address (the webhooks of Slack and Discord,
the MCP servers of Zapier and Pipedream), where no name identifies it as a key. So only
words that are known not to be keys are kept.

RFC 3986, 3, "Syntax Components".
"""

from __future__ import annotations

import re

from acp_agent.secrets.known import MASK

_SENTENCE_END = ").,;:]}*"
"""Characters at the end of an address that belong to the surrounding sentence."""
_ADDRESS = re.compile(
    r"\b([a-z][a-z0-9+.-]{1,20})://([^\s\"'<>`\\]{1,4000})", re.ASCII | re.IGNORECASE
)
_PLAIN = re.compile(
    r"anthropic|apis?|azure|beta|chat|completions|compact|count_tokens|deployments|docs|embeddings|generate|healthz?"
    r"|https?|inference|invoke|issues|llm|mcps?|messages?|models|openai|proxy|ready|responses|rest|rpc|servers?"
    r"|spec(?:ification)?|sse|stream(?:able)?|streamable-http|tags|tools|ws"
    r"|v[0-9]{1,2}(?:(?:alpha|beta)[0-9]{0,2})?|20[0-9]{2}-[0-9]{2}-[0-9]{2}|",
    re.ASCII | re.IGNORECASE,
)
"""Matches words of a path that are not keys: kinds of services, their methods and
versions.
"""
_OPAQUE_LABEL = re.compile(
    r"(?=[^.]*[0-9])(?=[^.]*[a-z])[a-z0-9-]{16,}", re.ASCII | re.IGNORECASE
)
_LOCAL = ("file", "unix", "data")


def without_access(text: str) -> str:
    """Return a text in which all web addresses are reduced to the host and the plain
    words of the path.
    """
    return _ADDRESS.sub(_reduced, text) if "://" in text else text


def _reduced(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    if scheme.lower() in _LOCAL:
        return found[0]
    tail = rest[len(rest.rstrip(_SENTENCE_END)) :]
    if MASK in tail:
        tail = ""
    rest = rest.removesuffix(tail)
    rest, hash_mark, _ = rest.partition("#")
    rest, question, query = rest.partition("?")
    authority, *path = rest.split("/")
    login, at, host = authority.rpartition("@")
    host = ".".join(
        MASK if _OPAQUE_LABEL.fullmatch(label) else label for label in host.split(".")
    )
    words = [word if _PLAIN.fullmatch(word) else MASK for word in path]
    shown = f"{scheme}://{MASK if login else ''}{at}{'/'.join((host, *words))}"
    if question:
        shown += f"?{'&'.join(_without_value(each) for each in query.split('&'))}"
    return f"{shown}{hash_mark}{MASK if hash_mark else ''}{tail}"


def _without_value(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}={MASK}" if equals else MASK
