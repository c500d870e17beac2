"""`mask`: a text without what looks like a secret, for logs, pages, terminals and recordings.

What a text says has to stay readable, so that only what can hardly be anything else is taken for one: values that are
known, the forms that providers give their keys, logins in addresses, headers that let one in, and what is assigned to a
name that says so. In a program's arguments more is, see `mask_command` and `mask_arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from acp_agent.masking.names import is_secret_name, is_secret_parameter

MASK = "***"
_MIN_SECRET = 8
_VARIABLE = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|PASSWD|PASSPHRASE|COOKIE|(?:^|_)(?:PASS|PAT|JWT|AUTH)$|_PWD$", re.IGNORECASE
)
_FORMS = re.compile(
    r"\b(?:(?:sk|rk|xai|gsk|nvapi|pplx)[-_][A-Za-z0-9_-]{8,}|AIza[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|ya29\.[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})"
    r"|(?i:(?<=bearer ))(?=\S{0,200}\d|\S{20})[A-Za-z0-9._~+/=-]{8,}"
)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?:[^-]|-(?!----)){1,20000}(?=-----END)")
_LOGIN = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,30})://"
    r"(?:[^\s/?#@:\"'<>`]{0,200}:(?!\d{1,5}(?:[/?#]|$))[^\s\"'<>`]{0,500}?@(?=[^\s@/?#\"'<>`]{1,255}(?:[/?#\s\"'<>`]|$))"
    r"|(?P<user>[^\s/?#@:\"'<>`]{1,200})@)",
    re.IGNORECASE,
)
_NO_LOGIN = re.compile(r"(?:.*\+)?(?:ssh|sftp|scp|svn)|mailto|acct", re.IGNORECASE)
"""Schemes in which a name alone opens nothing."""
_PARAMETER = re.compile(r"(?<=[?&#;])([A-Za-z][\w.-]{0,60})=([^&\s\"'<>#;)`]+)")
_HEADER = re.compile(
    r"(\b(?:proxy-)?authorization[\"']?\s{0,5}[:=]\s{0,5}[\"']?(?:basic|bearer|digest|token|negotiate|apikey)\s{1,5}"
    r"|\bx-(?:[a-z0-9]{1,40}-){0,5}(?:key|token|secret|auth|password)(?:[\"']:\s{0,5}[\"']|:\s{0,5})"
    r"|\b(?:set-)?cookie:\s{0,5}(?=[^\s=;]{1,100}=))([^\s\"',;`${}<>()\[\]][^\s\"',;`{}]*)",
    re.IGNORECASE,
)
_HEADERS = ("authorization", "x-", "cookie:")
_ASSIGNED = re.compile(
    r"(?<![\w$-])((?:[A-Z][A-Z0-9]{0,30}_){0,6}(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PAT|(?:API|ACCESS|SECRET|PRIVATE)_?KEY)"
    r"=[\"']?|--(?:[a-z0-9]{1,30}-){0,6}(?:token|secret|password|passphrase|api-?key|access-key|auth)=[\"']?)"
    r"([^\s\"'$&;|()<>\[\]{}`,]{4,})(?=[\s\"'&;|`,)]|$)"
)
_MEMBER = re.compile(r"\"([A-Za-z_][\w-]{0,80})\"(\s{0,9}:\s{0,9}\")((?:[^\"\\]|\\.)+)")
_GIVEN = re.compile(r"(?<![\w$-])(-{0,2}[A-Za-z_][\w-]{0,80})(=|\s{1,5}(?!-))")
_VALUE = re.compile(r"([\"']?)((?<=\")(?:[^\"\\]|\\.)*|(?<=')[^']*|[^\s;&|\"']+)")
_GIVEN_HEADER = re.compile(r"((?:-H|--headers?)[= ]?\s{0,5}([\"'])[\w-]{1,80}:\s{0,5})((?:(?!\2).)*)")
_HEADER_FLAG = re.compile(r"-H|--headers?|--http-headers?", re.IGNORECASE)
_SHELL_FLAG = re.compile(r"-[a-z]*c")


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """Values of environment variables that look like secrets, the longest first."""
    secrets = {value for name, value in env.items() if _VARIABLE.search(name) and len(value) >= _MIN_SECRET}
    return sorted(secrets, key=len, reverse=True)


def mask(text: str, secrets: Sequence[str]) -> str:
    """The text without these secrets and without what has the form of one."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "://" in text:
        text = _LOGIN.sub(_without_login, text)
    if "=" in text:
        text = _PARAMETER.sub(_without_parameter, _ASSIGNED.sub(rf"\1{MASK}", text))
    lowered = text.lower()
    if any(name in lowered for name in _HEADERS):
        text = _HEADER.sub(rf"\1{MASK}", text)
    return _FORMS.sub(MASK, text)


def mask_broken(text: str, secrets: Sequence[str]) -> str:
    """What should have been JSON, without the values of members that are called like secrets, or `value`."""
    return mask(_MEMBER.sub(_without_member, text), secrets)


def mask_command(text: str, secrets: Sequence[str]) -> str:
    """A line for a shell without what is given to options and variables that are called like secrets, and to headers.
    What comes from a variable stays."""
    text = _GIVEN_HEADER.sub(rf"\1{MASK}", text)
    kept, at = "", 0
    while found := _GIVEN.search(text, at):
        name, between = found.groups()
        kept, at = kept + text[at : found.end()], found.end()
        value = _VALUE.match(text, at)
        if value and is_secret_name(name) and (between == "=" or name[0] == "-") and _is_given(value[2]):
            kept, at = f"{kept}{value[1]}{MASK}", value.end()
    return mask(kept + text[at:], secrets)


def mask_argument(text: str, before: str | None, secrets: Sequence[str]) -> str:
    """One argument of a program, as `--token=x`, `TOKEN=x`, `Name: value`, or `x` behind `--token`.

    :param before: the argument before it.
    """
    if before is not None:
        if _HEADER_FLAG.fullmatch(before):
            name, colon, value = text.partition(":")
            return mask(name, secrets) + colon + _space(value) + MASK if value.strip() else mask(text, secrets)
        if _SHELL_FLAG.fullmatch(before):
            return mask_command(text, secrets)
        if before.startswith("-") and "=" not in before and is_secret_name(before) and not text.startswith("-"):
            return MASK if _is_given(text) else text
    name, equals, value = text.partition("=")
    if equals and value:
        if re.fullmatch(r"-{0,2}[A-Za-z_][\w.-]*", name) and is_secret_name(name):
            return name + equals + (MASK if _is_given(value) else value)
        if _HEADER_FLAG.fullmatch(name):
            return name + equals + mask_argument(value, "-H", secrets)
    name, colon, value = text.partition(":")
    if colon and value.strip() and re.fullmatch(r"[A-Za-z][\w-]*", name) and is_secret_name(name):
        return name + colon + _space(value) + MASK
    return mask_command(text, secrets) if " " in text else mask(text, secrets)


def _without_login(found: re.Match[str]) -> str:
    if found["user"] and (_NO_LOGIN.fullmatch(found["scheme"]) or found["user"].lower() == "git"):
        return found[0]
    return f"{found['scheme']}://{MASK}@"


def _without_parameter(found: re.Match[str]) -> str:
    return f"{found[1]}={MASK}" if is_secret_parameter(found[1]) else found[0]


def _without_member(found: re.Match[str]) -> str:
    hidden = found[1] == "value" or is_secret_name(found[1])
    return f'"{found[1]}"{found[2]}{MASK}' if hidden else found[0]


def _is_given(value: str) -> bool:
    """Whether it is the secret itself, and not where it is to be taken from."""
    return bool(value) and value[0] not in "$`<"


def _space(value: str) -> str:
    return " " if value.startswith(" ") else ""
