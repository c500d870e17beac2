"""Recognises the names of secrets: variables, options, headers, parameters, fields and
members.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
# `re` compiles these patterns when the first name is checked, since compiling them
# takes 2 ms, which would delay the start.
_SECRET = (
    r"secret|passw(?:or)?d|passphrase|passcode|credential|authorization$|cookie|api-?key|token(?!s|iz)"
    r"|(?:^|-)(?:pass|pwd|pin|otp|cvv|auth|bearer|pat|jwt)$|(?:^|-)private-key|-key(?:-id|-[0-9]{1,3})?$"
)
_ABOUT = (
    r"-(?:endpoint|ur[il]|host|type|kind|hint|expir(?:y|es|ation)|expires-(?:in|at)|lifetime|ttl|age|name|label|title"
    r"|description|placeholder|file|path|dir|directory|count|limit|length|size|index|position|policy|required|enabled"
    r"|supported|allowed|method|format|header|param|parameter|variable|env|var|provider|source|issuer|scope|status"
    r"|storage|store|manager|class|server|usage|budget)s?$"
    r"|(?:^|-)(?:max|min|input|output|total|cached|eos|bos|pad|unk|sep|cls|mask|stop|start|end|progress|prompt"
    r"|pagination|continuation|next-page|page|sync)-token(?:-id)?$"
    r"|(?:^|-)(?:public|primary|foreign|cache|sort|partition|hash|range|row|map|dict|idempotency)-key(?:-token)?$"
    r"|^-*(?:no|has|needs|is|show|hide|forgot)-|^(?:terminal-auth|pwd)$"
)
_HARMLESS_HEADERS = (
    r"accept(?:-[a-z]+)*|content-[a-z-]+|user-agent|host|date|etag|if-[a-z-]+|cache-control|connection|keep-alive|server"
    r"|origin|referer|range|retry-after|expires|last-modified|age|location|link|traceparent|transfer-encoding|vary"
    r"|www-authenticate|access-control-[a-z-]+|sec-[a-z-]+|x-(?:requested-with|request-id|ratelimit-[a-z-]+|stainless-[a-z-]+)"
    r"|[a-z-]+-version|[a-z]+-beta|last-event-id"
)
_IN_A_QUERY = frozenset({"key", "sig", "signature", "code", "hmac", "sid", "session"})


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Return whether a name denotes a secret (`X-Api-Key`, `DB_PASS`, `accessToken`),
    rather than information about a secret (`token_endpoint`) or a count of a model's
    tokens.
    """
    words = _words(name)
    return re.search(_SECRET, words) is not None and re.search(_ABOUT, words) is None


def is_secret_variable(name: str) -> bool:
    """Return whether the value of this environment variable must be masked wherever it
    occurs.
    """
    words = _words(name)
    return is_secret_name(name) or (
        "key" in words.split("-") and re.search(_ABOUT, words) is None
    )


def is_harmless_header(name: str) -> bool:
    """Return whether a header of this name never authenticates anybody. All others may."""
    return re.fullmatch(_HARMLESS_HEADERS, name, re.IGNORECASE) is not None


def is_query_parameter(name: str) -> bool:
    """Return whether a query parameter of this name may be a credential, even though
    the name has other uses too.
    """
    return _words(name).rpartition("-")[2] in _IN_A_QUERY


def _words(name: str) -> str:
    """Return the words of a name in lower case, joined by `-`, regardless of how the
    name joins them.
    """
    return "-".join(word for word in _WORD_ENDS.split(name[:200]) if word).lower()
