"""Keys taken out of what a provider or the network said. Pure: knows no provider."""

from __future__ import annotations

import json
import re


def scrub(text: str, secrets: tuple[str, ...]) -> str:
    """A text without the secrets in it, also where a provider shortened a key to its two ends."""
    for secret in sorted(secrets, key=len, reverse=True):
        for form in sorted(_forms(secret), key=len, reverse=True) if len(secret) >= 4 else ():
            text = text.replace(form, "[key]")
    return _BEARER.sub(r"\1[key]", _KEY_LIKE.sub("[key]", text))


def _forms(secret: str) -> set[str]:
    """A secret as it stands, and as error messages escape it: as Python's text and bytes, and as JSON."""
    return {
        secret,
        repr(secret)[1:-1],
        repr(secret.encode("utf-8", "surrogateescape"))[2:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }


_BEARER = re.compile(r"(\bBearer\s+)(?=[^\s'\",]*\d)[^\s'\",]{8,}", re.IGNORECASE)
"""A token in an `Authorization` header, which has a digit in it; words that follow "bearer" in a sentence have none."""

_KEY_LIKE = re.compile(r"\b(?:sk|pk|xai|gsk|AIza)[-_]?[A-Za-z0-9*_\-]{8,}")
