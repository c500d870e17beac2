"""`private_keys`: the bodies of private keys in a text, between their marks as in PEM, or by how one begins.

No key is what stands behind such a mark where the text goes on in words or in code, which only speak of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_PRIVATE = 20_000
"""Characters of a private key."""

_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_UNBEGUN = re.compile(r"-----BEGIN [A-Z ]{0,50}-{0,5}\Z", re.ASCII)
_NO_BODY = r"(?<![A-Za-z0-9])[a-z]{1,15}[,.]? [a-z]{1,15}[,.]? [a-z]{1,15}[\s.,]|[(){}\u3040-\ud7ff]"
"""Three words of prose, a call or a block of code: no key has them."""
_BODY_HEADER = r"(?:(?<=\n)|(?<=\\n))[A-Z][A-Za-z-]{1,20}: (?:[^\n\\-]|-(?!----)){0,200}(?:\n|\\n|\\?\Z)"
_BODY = rf"(?>{_BODY_HEADER}|(?!{_NO_BODY})(?:[^-]|-(?!----)))"
"""One of its headers, or a character of a private key; quotes and signs in front of lines may be among them."""
_UNENDED = re.compile(rf"{_BEGINS.pattern}{_BODY}{{0,{MOST_PRIVATE}}}+-{{0,5}}E?N?D?\Z", re.ASCII)
_MARKED = re.compile(
    rf"{_BEGINS.pattern}(?:({_BODY}{{1,{MOST_PRIVATE}}}+)-----END"
    rf"|((?=\s{{0,9}}[A-Za-z0-9+/\\]{{40}})(?:(?!{_NO_BODY})[A-Za-z0-9+/=\\\s]){{40,{MOST_PRIVATE}}}+))",
    re.ASCII,
)
_SIGNS = r"[A-Za-z0-9+/]"
_BETWEEN = r"(?:[ \t\r\n>\"'+,]|\\[nr])"
_UNMARKED = re.compile(
    r"(?:(?<![A-Za-z0-9+/])|(?<=\\[nr]))(?:MII[A-Z][A-Za-z0-9+/]{2}IBA[AD]|MI[A-Z][A-Za-z0-9+/]AgEAM[BC]"
    r"|MI[A-Z][A-Za-z0-9+/]AgEBB[DE]|MHcCAQEEI|MC4CAQAwBQYDK2V|b3BlbnNzaC1rZXktdjEA)"
    rf"{_SIGNS}{{20,}}+={{0,2}}(?:{_BETWEEN}{{1,12}}+{_SIGNS}{{16,}}+={{0,2}}){{0,300}}+",
    re.ASCII,
)
"""How the versions in RSA's and elliptic curves' keys, PKCS #1 and #8, and OpenSSH's name look in base64."""
_GOES_ON = re.compile(rf"{_BETWEEN}{{0,12}}+\\?{_SIGNS}*+={{0,2}}\Z", re.ASCII)


def private_keys(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Those of a text, as `forms.Finding`s."""
    if "PRIVATE KEY" in text:
        for found in _MARKED.finditer(text):
            yield *found.span(), *found.span(found.lastindex or 0)
    for found in _UNMARKED.finditer(text):
        yield *found.span(), *found.span()


def unfinished_key(text: str, at: int) -> int:
    """Where one begins that is not over; the text's length where none does.

    :param at: where the last line begins.
    """
    unbegun = _UNBEGUN.search(text, at)
    start = unbegun.start() if unbegun else len(text)
    for found in _BEGINS.finditer(text):
        if _UNENDED.match(text, found.start()):
            return min(start, found.start())
    for found in _UNMARKED.finditer(text):
        if _GOES_ON.match(text, found.end()):
            return min(start, found.start())
    return start
