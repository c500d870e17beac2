"""Which names say that their value is a secret: of variables, headers, options, parameters, fields and members."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_PASSWORDS = re.compile(r"secret|passw(?:or)?d|passphrase|passcode|(?:^|-)(?:pwd|pin|otp|cvv)$|-pass$")
_ANYWHERE = re.compile(r"api-?key|token(?!iz)|credential|authorization|cookie")
_AT_THE_END = re.compile(
    r"(?:^|-)(?:auth|bearer|pat|jwt|(?:access|private|signing|encryption|session|master)-?key(?:-id)?)$|-key(?:-[0-9]{1,3})?$"
)
_SURE = re.compile(
    r"(?:secret|token|passw(?:or)?d|passphrase|passcode|-(?:pwd|pass)|(?:^|-)(?:auth|pat|jwt)"
    r"|(?:api|access|secret|private|encryption|signing|master|account|storage)-?key(?:-[a-z0-9]{1,10})?)"
    r"(?:-(?:[0-9]{1,3}|base|prod|production|dev|test|live|staging))?$|secret-key-base$"
)
_VARIABLE = re.compile(rf"{_PASSWORDS.pattern}|{_ANYWHERE.pattern}|key|(?:^|-)(?:pass|pat|jwt|auth)$")
_DIRECTORY = "PWD"
"""The shell's: where it is."""
_OPEN_KEYS = re.compile(
    r"(?:^|-)(?:public|primary|foreign|cache|sort|partition|hash|range|row|map|dict|idempotency)-key(?:-token)?$"
)
"""What many may know, and what things are found by."""
_IN_A_QUERY = re.compile(r"(?:^|-)(?:key|sig|signature|code|hmac|sid|session)$")
_COUNTS = re.compile(
    r"(?:^|-)(?:max|min|input|output|total|used|cached|count|limit|budget)-.*tokens?$"
    r"|(?:^|-)tokens?-(?:count|limit|usage|budget)s?$"
)
_ABOUT = re.compile(
    r"-(?:endpoint|ur[il]|host|type|kind|hint|expir(?:y|es|ation)|expires-(?:in|at)|expired|lifetime|ttl|age|name|label"
    r"|title|description|placeholder|field|file|path|dir|directory|count|limit|length|size|index|position|policy"
    r"|strength|required|enabled|supported|allowed|method|format|header|param|parameter|variable|env|var"
    r"|provider|source|issuer|scope|status|storage|store|manager|parser|handler|class|server"
    r"|decoder|encoder)s?$|-(?:per|map)-?[a-z]*$"
    r"|(?:^|-)(?:eos|bos|pad|unk|sep|cls|mask|stop|start|end|eot|eom|special|added|progress|prompt|completion|image|audio"
    r"|video|fim|prefix|suffix|middle)-tokens?$|(?:^|-)tokens?-(?:type-)?ids?$|^-*(?:no|has|needs|is|show|hide|forgot)-.*"
)
"""Names of what is known of a secret and lets nobody in, and of a language model's own tokens."""
_HARMLESS_HEADERS = re.compile(
    r"accept(?:-[a-z]+)*|content-[a-z-]+|user-agent|host|date|etag|if-[a-z-]+|cache-control|connection|keep-alive|server"
    r"|vary|origin|referer|range|accept-ranges|retry-after|expires|last-modified|age|allow|pragma|upgrade|via|te|dnt|expect"
    r"|max-forwards|prefer|priority|trailer|transfer-encoding|location|link|alt-svc|forwarded|traceparent|warning"
    r"|www-authenticate|access-control-[a-z-]+|sec-[a-z-]+|x-(?:requested-with|request-id|correlation-id|powered-by"
    r"|forwarded-[a-z]+|frame-options|content-type-options|ratelimit-[a-z-]+|github-api-version|github-media-type"
    r"|goog-api-client|stainless-[a-z-]+)|[a-z]+-version|[a-z]+-beta|mcp-protocol-version|last-event-id",
    re.IGNORECASE,
)


def is_harmless_header(name: str) -> bool:
    """Whether it is the name of a header that lets nobody in. All others may."""
    return _HARMLESS_HEADERS.fullmatch(name) is not None


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Whether what it names is a secret, such as `X-Api-Key`, `DB_PASS` or `accessToken`, and not what is said about
    one, such as `token_endpoint`, nor a model's tokens."""
    words = said(name)
    if name == _DIRECTORY or not (_PASSWORDS.search(words) or _ANYWHERE.search(words) or _AT_THE_END.search(words)):
        return False
    return not (_COUNTS.search(words) or _OPEN_KEYS.search(words) or is_about(name))


def is_sure_name(name: str) -> bool:
    """Whether it is a secret's name that is hardly anything else's in a text, where nothing is known of the place."""
    return is_secret_name(name) and _SURE.search(said(name)) is not None


def is_secret_variable(name: str) -> bool:
    """Whether a variable of the environment with this name may be a secret that has to be known wherever it stands,
    also one that a place would not be hidden for, as `KEY_OF_SHOP`."""
    return name != _DIRECTORY and _VARIABLE.search(said(name)) is not None


def is_about(name: str) -> bool:
    """Whether it names what is known of a secret and lets nobody in, such as `tokenUrl` or `token_type`."""
    return _ABOUT.search(said(name)) is not None


def is_password_name(name: str) -> bool:
    """Whether what it names is a secret of which a person may have chosen a number."""
    return bool(_PASSWORDS.search(said(name))) and is_secret_name(name)


def counts_tokens(name: str) -> bool:
    """Whether a number with this name is of a language model's tokens, such as `thoughtTokens`."""
    return "tokens" in said(name).split("-")


def is_weak_parameter(name: str) -> bool:
    """Whether a parameter of an address with this name may let one in, or be anything else."""
    return bool(_IN_A_QUERY.search(said(name)))


def said(name: str) -> str:
    """A name's words in lower case with `-` between them, however it writes them."""
    return "-".join(word for word in _WORD_ENDS.split(name[:200]) if word).lower()
