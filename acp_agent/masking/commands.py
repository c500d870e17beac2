"""`mask_command`, `mask_argument`, `mask_address`: what a program is started with and where something is asked for,
without what its options, variables and parameters give it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from acp_agent.masking.names import is_harmless_header, is_secret_name, is_weak_parameter
from acp_agent.masking.texts import MASK, hidden, hide, mask, settled
from acp_agent.masking.values import is_given

_GIVEN = re.compile(r"(?<![\w$-])(-{0,2}[A-Za-z_][\w-]{0,80})(=|\s{1,5}(?!-))")
_VALUE = re.compile(r"(\\?[\"']|)((?<=\")(?:[^\"\\]|\\.)*|(?<=')[^']*|[^\s;&|\"']+)")
_GIVEN_HEADER = re.compile(r"((?:-H|--headers?)[= ]?\s{0,5}([\"'])([\w-]{1,80}):\s{0,5})((?:(?!\2).)*)")
_PARAMETER = re.compile(r"([?&#;]([A-Za-z][\w.-]{0,60})=)([^&\s#;]+)")
_HEADER_FLAG = re.compile(r"-H|--headers?|--http-headers?", re.IGNORECASE)
_SCHEME = re.compile(r"(?:basic|bearer|token)\s+(?=\S)", re.IGNORECASE)
_LONG_VALUE = 2_000
_SHELL_FLAG = re.compile(r"-[a-z]*c")


def mask_command(text: str, secrets: Sequence[str]) -> str:
    """A line for a shell without what is given to options and variables that are called like secrets, and to headers.
    What comes from a variable stays."""

    def find(readable: str) -> Iterator[tuple[int, int, int, int]]:
        for start, end in _given(readable):
            yield start, end, start, end
        yield from findings(readable)

    from acp_agent.masking.forms import findings

    return hide(text, settled(text, hidden(text, secrets), find)[0])


def mask_argument(text: str, before: str | None, secrets: Sequence[str]) -> str:
    """One argument of a program, as `--token=x`, `TOKEN=x`, `Name: value`, or `x` behind `--token`.

    :param before: the argument before it.
    """
    if before is not None:
        if _HEADER_FLAG.fullmatch(before):
            return mask_header(text, secrets)
        if _SHELL_FLAG.fullmatch(before):
            return mask_command(text, secrets)
        if before.startswith("-") and "=" not in before and is_secret_name(before) and not text.startswith("-"):
            return MASK if is_given(text, before) else mask(text, secrets)
    name, equals, value = text.partition("=")
    if equals and value:
        if re.fullmatch(r"-{0,2}[A-Za-z_][\w.-]*", name) and is_secret_name(name):
            return mask(name, secrets) + equals + MASK if is_given(value, name) else mask(text, secrets)
        if _HEADER_FLAG.fullmatch(name):
            return name + equals + mask_header(value, secrets)
    name, colon, value = text.partition(":")
    if colon and value.strip() and re.fullmatch(r"[A-Za-z][\w-]*", name) and is_secret_name(name):
        return mask(name, secrets) + colon + _space(value) + MASK
    return mask_command(text, secrets) if " " in text else mask(text, secrets)


def mask_header(text: str, secrets: Sequence[str]) -> str:
    """A header as `Name: value` without its value, but for one that lets nobody in."""
    name, colon, value = text.partition(":")
    if _stays(name.strip(), value.strip()):
        return mask(text, secrets)
    return mask(name, secrets) + colon + _space(value) + MASK


def _given(text: str) -> Iterator[tuple[int, int]]:
    for header in _GIVEN_HEADER.finditer(text):
        if not _stays(header[3], header[4]):
            yield header.span(4)
    at = 0
    while found := _GIVEN.search(text, at):
        (name, between), at = found.groups(), found.end()
        if not (is_secret_name(name) and (between == "=" or name[0] == "-")):
            continue
        value = _VALUE.match(text, at)
        if value and is_given(value[2], name):
            yield value.span(2)
            at = value.end()
        elif value and len(value[2]) > _LONG_VALUE:  # else each of its own names would have it read again
            at = value.end()


def mask_address(text: str, secrets: Sequence[str]) -> str:
    """An address without its login and its parameters that may let one in, but for numbers that a count has."""

    def without(found: re.Match[str]) -> str:
        start, name, value = found.groups()
        opens = is_secret_name(name) or is_weak_parameter(name)
        return start + MASK if opens and is_given(value, name) and not re.fullmatch(r"\d{1,5}", value) else found[0]

    return mask(_PARAMETER.sub(without, text), secrets)


def _stays(header: str, value: str) -> bool:
    return is_harmless_header(header) or not is_given(_SCHEME.sub("", value), header)


def _space(value: str) -> str:
    return " " if value.startswith(" ") else ""
