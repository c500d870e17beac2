"""The secrets known to this process, which are masked wherever they occur: values of
environment variables whose name marks a secret, and values that were remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acp_agent.secrets.names import is_secret_variable

MASK = "***"
MIN_SECRET = 8
"""Minimum length of a known value; masking shorter values would garble ordinary text.
"""

_remembered: set[str] = set()


def remember_secret(value: str) -> None:
    """Add a value to the known secrets of this process."""
    if len(value) >= MIN_SECRET:
        _remembered.add(value)


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """Return the known secrets, from the environment and from `remember_secret`, the
    longest first.
    """
    found = {
        value
        for name, value in env.items()
        if is_secret_variable(name) and len(value) >= MIN_SECRET
    }
    return sorted(found | _remembered, key=len, reverse=True)


def mask_known(text: str, secrets: Sequence[str]) -> str:
    """Mask every occurrence of the known secrets. Overlapping occurrences are masked as
    one.
    """
    parts: list[str] = []
    done = 0
    for start, end in known_spans(text, secrets):
        parts += (text[done:start], MASK)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def known_spans(text: str, secrets: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of known secrets in order. Overlapping secrets form one span."""
    found: list[tuple[int, int]] = []
    for secret in secrets:
        at = text.find(secret) if secret else -1
        while at >= 0:
            found.append((at, at + len(secret)))
            at = text.find(secret, at + 1)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
