"""Which names say that their value is a secret: of variables, headers, options, parameters, fields and members."""

from __future__ import annotations

import re

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_ANYWHERE = re.compile(r"api-?key|token(?!iz)|secret|passw(?:or)?d|passphrase|passcode|credential|authorization|cookie")
_AT_THE_END = re.compile(
    r"(?:^|-)(?:pwd|auth|bearer|pat|pin|otp|jwt|cvv|(?:access|private|signing|encryption|session|master)-?key(?:-id)?)$"
    r"|-(?:pass|key)$"
)
_IN_A_QUERY = re.compile(r"(?:^|-)(?:key|sig|signature|code|hmac|sid|session)$")
_COUNTS = re.compile(
    r"(?:^|-)(?:max|min|input|output|total|used|cached|count|limit|budget)-.*tokens?$|(?:^|-)tokens?-(?:count|limit|usage|budget)s?$"
)


def is_secret_name(name: str) -> bool:
    """Whether what it names is a secret, such as `X-Api-Key`, `DB_PASS` or `accessToken`."""
    said = _said(name)
    return bool(_ANYWHERE.search(said) or _AT_THE_END.search(said)) and not _COUNTS.search(said)


def is_secret_parameter(name: str) -> bool:
    """Whether a parameter of an address with this name lets one in."""
    return is_secret_name(name) or bool(_IN_A_QUERY.search(_said(name)))


def _said(name: str) -> str:
    return "-".join(word for word in _WORD_ENDS.split(name[:200]) if word).lower()
