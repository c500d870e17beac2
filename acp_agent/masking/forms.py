"""`findings`: what in a text has the form of a secret, and where.

Each form has a place of its own (a header, an address, an assignment) or a shape that nothing else has (a provider's
key), and what stands there is judged by its value as well. None but a private key goes over a line's end, none but the
value of a header or within quotes goes over a blank: what `streams` cuts by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from acp_agent.masking.assigned import assignments, begun
from acp_agent.masking.names import is_secret_name, is_weak_parameter
from acp_agent.masking.private_keys import private_keys, unfinished_key
from acp_agent.masking.values import is_drawn, is_given, is_plain, is_random

Finding: TypeAlias = tuple[int, int, int, int]
"""Where it begins and ends, which cannot be parted, and where what is hidden of it does; the same place twice where
nothing is."""

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Not within a word, but behind a line's end that is written as an escape."""
_TELEGRAM = r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"
_KEYS = re.compile(
    _START + r"(?:"
    r"(?P<judged>(?<!sha256=)(?:sk|rk|xai|gsk|csk|nvapi|pplx|tvly|fw|r8|lsv2|dckr_pat|lin_api|ntn|whsec|figd|shp(?:at|ca|pa|ss))[-_]"
    r"[A-Za-z0-9_-]{16,})"
    r"|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|gl(?:pat|dt|rt|ptt|cbt)-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-AgE[A-Za-z0-9_-]{40,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|do[opr]_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}|hvs\.[A-Za-z0-9_-]{24,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}|Signature=(?P<signature>[a-f0-9]{64})|"
    + _TELEGRAM
    + r"|hooks\.slack\.com/(?:services|workflows|triggers)/(?P<hook>[A-Za-z0-9_/-]{20,})"
    r"|xox[abeoprs]-(?=[A-Za-z-]{0,10}[0-9])[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})|(?<=/bot)" + _TELEGRAM,
    re.ASCII,
)
_LONG = re.compile(r"[A-Za-z0-9]{16}")
_BEARER = re.compile(_START + r"bearer ([a-z0-9._~+/=-]{8,})", re.ASCII | re.IGNORECASE)
_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9+.-])[a-z][a-z0-9+.-]{1,30}://[^\s\"'<>`]+|(?<![^\s\"'(=\x80-\U0010ffff])/[^\s\"'<>`?(=]{0,2000}\?[^\s\"'<>`]+",
    re.ASCII | re.IGNORECASE,
)
_LOGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{1,30})://(?:"
    r"[^\s/?#@:\"'<>`]{0,200}:(?!\d{1,5}(?:[/?#]|$))(?P<password>[^\s\"'<>`]{0,500}?)"
    r"@(?=[^\s@/?#\"'<>`]{1,255}(?:[/?#\s\"'<>`]|$))"
    r"|(?P<user>[^\s/?#@:\"'<>`]{1,200})@)",
    re.ASCII | re.IGNORECASE,
)
_NO_LOGIN = re.compile(r"(?:.*\+)?(?:ssh|sftp|scp|svn)|mailto|acct", re.IGNORECASE)
"""Schemes in which a name alone opens nothing."""
_PARAMETER = re.compile(r"(?<=[?&#;])([A-Za-z][\w.-]{0,60})=([^&\s\"'<>#;)`]+)", re.ASCII)
_QUOTE = r"(?:\\?[\"'])"
_AUTHORIZATION = _START + rf"(?:proxy-)?authorization{_QUOTE}?[ \t]{{0,5}}[:=][ \t]{{0,5}}{_QUOTE}?"
_X_HEADER = _START + r"x-(?:[a-z0-9]{1,40}-){0,5}(?:key|token|secret|auth|password)"
_SET_COOKIE = _START + rf"set-cookie{_QUOTE}?:[ \t]{{0,5}}{_QUOTE}?"
_HEADER = re.compile(
    rf"(?:{_AUTHORIZATION}(?:basic|bearer|digest|token|negotiate|apikey)[ \t]{{1,5}}"
    rf"|(?P<bare>(?:{_AUTHORIZATION}(?!aws4-)|{_START}(?:private-token|api-key):[ \t]{{0,5}})(?=[a-z0-9_+/=.-]{{16}}))"
    rf"|{_X_HEADER}(?:{_QUOTE}:[ \t]{{0,5}}{_QUOTE}|:[ \t]{{0,5}})|{_SET_COOKIE}(?=[^\s=;]{{1,100}}=))"
    r"(?P<value>[^\s\"',;`${}<>()\[\]\x80-\U0010ffff][^\s\"',;`{}\x80-\U0010ffff]*)",
    re.ASCII | re.IGNORECASE,
)
_PAIR = r"[^\s=;,\"'`\x80-\U0010ffff]{1,100}=[^\s;\"'`\x80-\U0010ffff]*"
_COOKIE = r"(?:(?<![a-z0-9-])|(?<=\\[nrt]))cookie" + rf"{_QUOTE}?:[ \t]{{0,5}}{_QUOTE}?"
_COOKIES = re.compile(rf"{_COOKIE}({_PAIR}(?:; ?{_PAIR}){{0,50}})", re.ASCII | re.IGNORECASE)
_HEADERS = ("authorization", "x-", "cookie", "private-token", "api-key")
_UNFINISHED = re.compile(
    rf"(?:{_START}bearer|{_AUTHORIZATION}(?:[a-z]{{1,9}}[ \t]{{0,5}})?|{_START}(?:proxy-)?authorization{_QUOTE}?"
    rf"|{_X_HEADER}{_QUOTE}?:[ \t]{{0,5}}|{_START}(?:private-token|api-key):"
    rf"|{_SET_COOKIE}|{_COOKIE}(?:{_PAIR}; ?){{0,50}})[ \t]{{0,5}}\S*\Z",
    re.ASCII | re.IGNORECASE,
)


def findings(text: str) -> Iterator[Finding]:
    """All that may be a secret by its form, in no order; some overlap."""
    yield from private_keys(text)
    if "://" in text:
        yield from _logins(text)
    if "=" in text:
        yield from _parameters(text)
    if "=" in text or ":" in text or "ENV" in text or "set" in text:
        yield from assignments(text)
    lowered = text.lower()
    if any(name in lowered for name in _HEADERS):
        for found in _HEADER.finditer(text):
            value = found["value"]
            opens = is_drawn(value) if found["bare"] else is_given(value, "token")
            yield *found.span(), *(found.span("value") if opens else (found.start(), found.start()))
        for found in _COOKIES.finditer(text):
            yield *found.span(), *found.span(1)
    if "bearer" in lowered:
        for found in _BEARER.finditer(text):
            yield *found.span(), *_hidden(found, 1, is_drawn(found[1]))
    for found in _KEYS.finditer(text):
        yield *found.span(), *_hidden(found, found.lastgroup or 0, _is_key(found))


def unfinished(text: str) -> int:
    """Where something begins that more text may make a finding of over a blank or a line's end; its length where
    nothing does."""
    at = text.rfind("\n") + 1
    found = _UNFINISHED.search(text, at)
    return min(found.start() if found else len(text), unfinished_key(text, at), begun(text, at))


def _is_key(found: re.Match[str]) -> bool:
    """Whether it is a key and no name of C, as `sk_ASN1_UTF8STRING_num`, nor one that stands for another."""
    match found.lastgroup:
        case "judged":
            return is_random(found[0]) and (not found[0].startswith("sk_") or _LONG.search(found[0]) is not None)
        case "hook":
            return is_random(found["hook"])
        case _:
            return True


def _logins(text: str) -> Iterator[Finding]:
    for found in _LOGIN.finditer(text):
        user, password = found["user"], found["password"]
        opens = is_given(user or password)
        if user and (_NO_LOGIN.fullmatch(found["scheme"]) or user.lower() == "git"):
            opens = False
        start = found.end("scheme") + 3
        yield *found.span(), start, found.end() - 1 if opens else start


def _parameters(text: str) -> Iterator[Finding]:
    for address in _ADDRESS.finditer(text):
        for found in _PARAMETER.finditer(text, *address.span()):
            name, value = found.groups()
            opens = is_given(value, name) and not (value.isdigit() and len(value) < 6)
            if not is_secret_name(name):
                opens = opens and is_weak_parameter(name) and not is_plain(value)
            yield *found.span(), *_hidden(found, 2, opens)


def _hidden(found: re.Match[str], group: int | str, is_secret: bool) -> tuple[int, int]:
    return found.span(group) if is_secret else (found.start(), found.start())
