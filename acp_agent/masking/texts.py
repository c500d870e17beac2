"""`mask`: a text without what looks like a secret, for logs, pages, terminals and recordings.

What is known to be a secret, as the values of the environment's variables, is hidden wherever it stands. Of all else
only what can hardly be anything but a secret is, by its place and its form: whoever looks for an error has to be able
to read the rest. In a program's arguments and in the members of a message more is, see `commands` and `messages`: where
a place is known to let somebody in, what is in doubt is hidden as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from acp_agent.masking.names import is_about, is_secret_name, is_secret_variable

# What the forms are found with takes tens of milliseconds to be made, and an agent that starts says nothing: it is
# imported where the first text is masked.

MASK = "***"
MIN_SECRET = 8
"""Characters of a known value; hiding a shorter one would garble all that is said."""
_MOST_ROUNDS = 5
_SOLID = re.compile(r"\S", re.ASCII)
_MEMBER = re.compile(r"\"([A-Za-z_][\w-]{0,80})\"(\s{0,9}:\s{0,9}\")((?:[^\"\\]|\\.)+)")

_remembered: set[str] = set()


def remember_secret(value: str) -> None:
    """Count this among the secrets of the process, wherever it came from."""
    if len(value) >= MIN_SECRET:
        _remembered.add(value)


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """Values of environment variables that look like secrets, and what is remembered as one, the longest first; not the
    file that a secret is in."""
    from acp_agent.masking.values import is_random

    secrets = {
        value
        for name, value in env.items()
        if is_secret_variable(name) and len(value) >= MIN_SECRET and (not is_about(name) or is_random(value))
    }
    return sorted(secrets | _remembered, key=len, reverse=True)


def mask(text: str, secrets: Sequence[str]) -> str:
    """The text without these secrets and without what has the form of one.

    :param secrets: values that are known, whatever they look like.
    """
    return hide(text, hidden(text, secrets))


def mask_broken(text: str, secrets: Sequence[str]) -> str:
    """What should have been JSON, without the values of members that are called like secrets, or `value`."""
    return mask(_MEMBER.sub(_without_member, text), secrets)


def hide(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with these parts hidden; those that overlap as one."""
    shown: list[str] = []
    done = 0
    for start, end in _joined(spans):
        shown += (text[done:start], MASK)
        done = end
    return "".join((*shown, text[done:])) if shown else text


def hidden(text: str, secrets: Sequence[str]) -> list[tuple[int, int]]:
    """The parts of a text that `mask` hides, in order."""
    from acp_agent.masking.forms import findings

    return settled(text, _joined(_known(text, secrets)), findings)[0]


def settled(
    text: str, known: list[tuple[int, int]], find: Callable[[str], Iterable[tuple[int, int, int, int]]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What of a text is hidden, and what has to be seen together for that: until nothing more is found beside what is
    hidden already, so that masking once more would hide nothing else.

    :param known: hidden in any case.
    :param find: gives `forms.Finding`s of a text.
    """
    hidden = together = known
    for _ in range(_MOST_ROUNDS):
        found = list(find(filled(text, hidden)))
        before, hidden = hidden, _joined([*hidden, *((start, end) for *_, start, end in found)])
        together = _joined([*together, *((start, end) for start, end, *_ in found)])
        if hidden == before:
            break
    return hidden, together


def filled(text: str, known: Iterable[tuple[int, int]]) -> str:
    """The text with what is known made unreadable, as long as it was: a word beside it begins and ends there, as it
    does once that is hidden."""
    parts: list[str] = []
    done = 0
    for start, end in known:
        parts += (text[done:start], _SOLID.sub("*", text[start:end]))
        done = end
    return "".join((*parts, text[done:])) if parts else text


def whole(text: str, secrets: Sequence[str], sure: int) -> tuple[list[tuple[int, int]], int]:
    """The parts of a text that have to be seen together to know what of them is hidden, in order; and where something
    begins that more text may make one of.

    :param sure: from here on it may become one of the secrets, and cannot be read as anything else.
    """
    from acp_agent.masking.forms import findings, unfinished

    known = _joined(_known(text, secrets))
    readable = filled(text, known)
    return settled(text, known, findings)[1], min(unfinished(readable), unfinished(readable[:sure]))


def _known(text: str, secrets: Sequence[str]) -> Iterable[tuple[int, int]]:
    for secret in secrets:
        at = text.find(secret) if secret else -1
        while at >= 0:
            yield at, at + len(secret)
            at = text.find(secret, at + 1)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _without_member(found: re.Match[str]) -> str:
    hidden = found[1] == "value" or is_secret_name(found[1])
    return f'"{found[1]}"{found[2]}{MASK}' if hidden else found[0]
