"""`masked`: a value of JSON without what looks like a secret, in the same shape.

Beside the texts, their place tells: members that are called like secrets, `env` and `headers` of whatever is started or
asked, a program's arguments, addresses, and what a person answers to a form. These places are known to let somebody in,
so that there all is hidden but what is known to let nobody in: a header such as `Accept`, the `type` of an `auth`.

A number under the name of something that people choose, as a password or a PIN, is one. Under another secret's name, as
`token`, only one of six digits or more is, as codes that are used once: a shorter one counts or tells a place, and so
does every number of `tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from acp_agent.frozen import frozen
from acp_agent.masking.commands import mask_address, mask_argument, mask_command, mask_header
from acp_agent.masking.names import (
    counts_tokens,
    is_about,
    is_harmless_header,
    is_password_name,
    is_secret_name,
    said,
)
from acp_agent.masking.texts import MASK, mask
from acp_agent.masking.values import is_random

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Choices: TypeAlias = Mapping[str, frozenset[str]]
"""By field of a form, what it may be answered with beside texts of one's own."""

_DEEPEST = 200
_SHORTEST_CODE = 100_000
_ARGUMENTS = frozenset({"args", "arguments", "argv"})
_COMMANDS = frozenset({"command", "cmd", "script"})
_ADDRESSES = frozenset({"url", "uri"})
_DESCRIBES = frozenset(
    {"type", "kind", "scheme", "method", "in", "name", "title", "description", "format", "label", "required", "status"}
    | {"domain", "path", "expires", "sameSite"}
)
"""Members of an object with a secret in it that say what it is; of a cookie, where it is sent and how long."""
_MOST_OF_A_TOKEN = 8
"""Characters of a word that may be a language model's token."""


@frozen
class _Way:
    secrets: Sequence[str]
    short: Callable[[str], str]
    hidden: bool = False
    """Texts are."""
    least: float | None = None
    """Numbers from this one on are."""
    command: bool = False
    address: bool = False
    arguments: bool = False
    described: bool = False
    """What says of which kind it is stays."""
    depth: int = 0


def masked(
    value: JsonValue,
    secrets: Sequence[str],
    short: Callable[[str], str] = str,
    *,
    choices: Choices | None = None,
) -> JsonValue:
    """A value without what looks like a secret. Texts, keys and a number that a name says is one become `***`; nothing
    else changes.

    :param secrets: what is masked besides, the longest first.
    :param short: what makes a text that was masked fit to be kept.
    :param choices: what could be chosen in a form that this is the answer to.
    :raises RecursionError: it is nested too deeply to be of use.
    """
    return _value(value, _Way(secrets, short), choices or {})


def choices_of(schema: JsonValue) -> Choices:
    """What can be chosen in a form.

    :param schema: a flat object's, as ACP has it.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found: dict[str, frozenset[str]] = {}
    for name, asked in properties.items() if isinstance(properties, dict) else ():
        if isinstance(asked, dict) and asked.get("format") != "password":
            items = asked.get("items")
            found[name] = _offered(asked) | (_offered(items) if isinstance(items, dict) else frozenset())
    return found


def _offered(asked: Mapping[str, JsonValue]) -> frozenset[str]:
    offered: list[JsonValue] = []
    for key in ("enum", "oneOf", "anyOf"):
        listed = asked.get(key)
        offered += listed if isinstance(listed, list) else []
    values = (each.get("const") if isinstance(each, dict) else each for each in offered)
    return frozenset(each for each in values if isinstance(each, str))


def _value(value: JsonValue, way: _Way, choices: Choices) -> JsonValue:
    if way.depth > _DEEPEST:
        raise RecursionError
    inner = replace(way, depth=way.depth + 1)
    match value:
        case str():
            return _text(value, way)
        case list():
            if not way.arguments:
                return [_value(item, inner, choices) for item in value]
            before = [None, *value]
            return [
                way.short(mask_argument(item, last if isinstance(last, str) else None, way.secrets))
                if isinstance(item, str) and not way.hidden
                else _value(item, inner, choices)
                for last, item in zip(before, value, strict=False)
            ]
        case dict():
            return _members(value, inner, choices)
        case bool() | None:
            return value
        case _:
            return value if way.least is None or abs(value) < way.least else MASK


def _text(value: str, way: _Way) -> str:
    if way.hidden:
        return value and MASK
    masks = mask_command if way.command else mask_address if way.address else mask
    return way.short(masks(value, way.secrets))


def _members(value: dict[str, JsonValue], way: _Way, choices: Choices) -> JsonValue:
    name = value.get("name")
    is_pair = isinstance(name, str) and "value" in value and is_secret_name(name)
    is_answer = value.get("action") in ("accept", "decline", "cancel") and isinstance(value.get("content"), dict)
    is_call = "toolCallId" in value
    is_models = "logprob" in value
    shown: dict[str, JsonValue] = {}
    for key, item in value.items():
        if key == "env" and not way.hidden:
            masked_item = _environment(item, way, choices)
        elif not way.hidden and said(key).endswith("headers"):
            masked_item = _headers(item, way, choices)
        elif key == "properties" and isinstance(item, dict) and not way.hidden:
            masked_item = _schema(item, way, choices)
        elif is_answer and key == "content":
            masked_item = _answer(cast("dict[str, JsonValue]", item), way, choices)
        elif way.described and isinstance(item, str) and (key in _DESCRIBES or is_about(key)) and not is_random(item):
            masked_item = way.short(mask(item, way.secrets))
        elif way.described and key in _DESCRIBES and isinstance(item, int | float):
            masked_item = item
        elif key == "token" and isinstance(item, str) and not way.hidden and (is_models or _is_word(item)):
            masked_item = way.short(mask(item, way.secrets))
        else:
            inner = replace(
                _under(name, way) if is_pair and key == "value" and isinstance(name, str) else _under(key, way, item),
                command=key in _COMMANDS or (is_call and key == "title"),
                address=key in _ADDRESSES,
                arguments=key in _ARGUMENTS or (key in _COMMANDS and isinstance(item, list)),
            )
            masked_item = _value(item, inner, choices)
        shown[_free(mask(key, way.secrets), shown)] = masked_item
    return shown


def _under(name: str, way: _Way, item: JsonValue = None) -> _Way:
    """The way to what has this name."""
    # `terminal-auth` and the like describe a way to sign in.
    is_way_in = isinstance(item, dict | list) and said(name).endswith("-auth")
    is_cut = isinstance(item, list) and counts_tokens(name) and not any(is_random(str(each)) for each in item)
    if not is_secret_name(name) or is_way_in or is_cut:
        return way
    least = 0 if is_password_name(name) else None if counts_tokens(name) else _SHORTEST_CODE
    return replace(way, hidden=True, least=least, described=isinstance(item, dict | list))


def _is_word(token: str) -> bool:
    """Whether it is a language model's, which is a short word or a part of one, or signs; no other is."""
    return len(token) <= _MOST_OF_A_TOKEN and not any(map(str.isdigit, token))


def _environment(item: JsonValue, way: _Way, choices: Choices) -> JsonValue:
    """Variables as an object, as pairs or as `NAME=value`: whoever knows which of them let one in, it is not us."""
    inner = replace(way, depth=way.depth + 1)
    if isinstance(item, list):
        return [_variable(each, inner, choices) for each in item]
    return _value(item, replace(inner, hidden=True, least=0) if isinstance(item, dict) else inner, choices)


def _variable(item: JsonValue, way: _Way, choices: Choices) -> JsonValue:
    match item:
        case str():
            name, equals, value = item.partition("=")
            return mask(name, way.secrets) + equals + (value and MASK)
        case dict():
            hidden = {key: (each and MASK) if key == "value" else each for key, each in item.items()}
            return _members(hidden, replace(way, depth=way.depth + 1), choices)
        case _:
            return _value(item, replace(way, hidden=True), choices)


def _headers(item: JsonValue, way: _Way, choices: Choices) -> JsonValue:
    """Headers as an object, as pairs or as `Name: value`; a table has some as well, which are names alone."""
    inner = replace(way, depth=way.depth + 2)
    match item:
        case dict():
            shown: dict[str, JsonValue] = {}
            for name, value in item.items():
                way_on = inner if is_harmless_header(name) else replace(_under(name, inner), hidden=True)
                shown[_free(mask(name, way.secrets), shown)] = _value(value, way_on, choices)
            return shown
        case list():
            return [_header(each, inner, choices) for each in item]
        case _:
            return _value(item, inner, choices)


def _header(item: JsonValue, way: _Way, choices: Choices) -> JsonValue:
    match item:
        case str():
            return way.short(mask_header(item, way.secrets))
        case {"name": str(name), "value": _} if is_harmless_header(name):
            return _members(item, way, choices)
        case dict():
            return _variable(item, way, choices)
        case [str(name), str()] if not is_harmless_header(name):
            return [mask(name, way.secrets), MASK]
        case _:
            return _value(item, way, choices)


def _schema(properties: dict[str, JsonValue], way: _Way, choices: Choices) -> JsonValue:
    """The fields of a form or of a tool's arguments: names, whose values stand elsewhere."""
    inner = replace(way, depth=way.depth + 2, command=False, address=False, arguments=False)
    shown: dict[str, JsonValue] = {}
    for name, asked in properties.items():
        if isinstance(asked, dict):
            hidden = is_secret_name(name) or asked.get("format") == "password"
            field: JsonValue = {
                key: _value(item, replace(inner, hidden=hidden and key in ("default", "const")), choices)
                for key, item in asked.items()
            }
        else:
            field = _value(asked, _under(name, inner, asked), choices)
        shown[_free(mask(name, way.secrets), shown)] = field
    return shown


def _answer(content: dict[str, JsonValue], way: _Way, choices: Choices) -> JsonValue:
    """What a person typed may be anything; what was offered to be chosen is not theirs, nor is a number or a yes."""

    def answer(name: str, item: JsonValue) -> JsonValue:
        offered = choices.get(name, frozenset[str]())
        match item:
            case bool():
                return item
            case str():
                return item if item in offered else item and MASK
            case list():
                return [answer(name, each) for each in item]
            case dict():
                return _value(item, replace(way, hidden=True), choices)
            case _:
                return MASK if item is not None and is_secret_name(name) else item

    return {mask(name, way.secrets): answer(name, item) for name, item in content.items()}


def _free(key: str, taken: Mapping[str, object]) -> str:
    """Two names that are masked stay two."""
    while key in taken:
        key += MASK
    return key
