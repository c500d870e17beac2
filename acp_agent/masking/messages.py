"""`masked`: a value of JSON without what looks like a secret, in the same shape.

Beside the texts, their place tells: members that are called like secrets, `env` and `headers` of whatever is started or
asked, a program's arguments, addresses, and what a person answers to a form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from acp_agent.frozen import frozen
from acp_agent.masking.commands import mask_address, mask_argument, mask_command
from acp_agent.masking.names import is_secret_name
from acp_agent.masking.texts import MASK, mask

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Choices: TypeAlias = Mapping[str, frozenset[str]]
"""By field of a form, what it may be answered with beside texts of one's own."""

_DEEPEST = 200
_WEAK = ("auth", "bearer", "pat", "pin", "otp", "jwt", "cvv", "pwd")
"""Names that are a secret's where they stand alone, and may be of anything where they are a part."""
_ARGUMENTS = frozenset({"args", "arguments", "argv"})
_COMMANDS = frozenset({"command", "cmd", "script"})
_ADDRESSES = frozenset({"url", "uri"})
_HIDDEN = frozenset({"env", "headers"})


@frozen
class _Way:
    secrets: Sequence[str]
    short: Callable[[str], str]
    hidden: bool = False
    command: bool = False
    address: bool = False
    arguments: bool = False
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
        case _:
            return cast("JsonValue", value)


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
    shown: dict[str, JsonValue] = {}
    for key, item in value.items():
        if key in _HIDDEN and not way.hidden:
            said = _environment(item, way, choices)
        elif key == "properties" and isinstance(item, dict) and not way.hidden:
            said = _schema(item, way, choices)
        elif is_answer and key == "content":
            said = _answer(cast("dict[str, JsonValue]", item), way, choices)
        elif _hides(key, item) and isinstance(item, int | float) and not isinstance(item, bool) and key in _WEAK:
            said = MASK
        else:
            inner = replace(
                way,
                hidden=way.hidden or _hides(key, item) or (is_pair and key == "value"),
                command=key in _COMMANDS or (is_call and key == "title"),
                address=key in _ADDRESSES,
                arguments=key in _ARGUMENTS,
            )
            said = _value(item, inner, choices)
        shown[_free(mask(key, way.secrets), shown)] = said
    return shown


def _environment(item: JsonValue, way: _Way, choices: Choices) -> JsonValue:
    """Variables or headers, as an object or as pairs: whoever knows which of them let one in, it is not us."""
    if isinstance(item, list):
        return [
            _members(
                {key: each if key != "value" else (each and MASK) for key, each in pair.items()},
                replace(way, depth=way.depth + 1),
                choices,
            )
            if isinstance(pair, dict)
            else _value(pair, replace(way, hidden=True), choices)
            for pair in item
        ]
    return _value(item, replace(way, hidden=isinstance(item, dict)), choices)


def _schema(properties: dict[str, JsonValue], way: _Way, choices: Choices) -> JsonValue:
    """The fields of a form or of a tool's arguments: names, whose values stand elsewhere."""
    inner = replace(way, depth=way.depth + 2, command=False, address=False, arguments=False)
    shown: dict[str, JsonValue] = {}
    for name, asked in properties.items():
        if isinstance(asked, dict):
            hidden = is_secret_name(name) or asked.get("format") == "password"
            said: JsonValue = {
                key: _value(item, replace(inner, hidden=hidden and key in ("default", "const")), choices)
                for key, item in asked.items()
            }
        else:
            said = _value(asked, replace(inner, hidden=_hides(name, asked)), choices)
        shown[_free(mask(name, way.secrets), shown)] = said
    return shown


def _answer(content: dict[str, JsonValue], way: _Way, choices: Choices) -> JsonValue:
    """What a person typed may be anything; what was offered to be chosen is not theirs, nor is a number or a yes."""

    def said(name: str, item: JsonValue) -> JsonValue:
        offered = choices.get(name, frozenset[str]())
        match item:
            case bool():
                return item
            case str():
                return item if item in offered else item and MASK
            case list():
                return [said(name, each) for each in item]
            case dict():
                return _value(item, replace(way, hidden=True), choices)
            case _:
                return MASK if item is not None and is_secret_name(name) else item

    return {mask(name, way.secrets): said(name, item) for name, item in content.items()}


def _hides(key: str, item: JsonValue) -> bool:
    if not is_secret_name(key):
        return False
    # `terminal-auth` and the like describe a way to sign in.
    return not isinstance(item, dict | list) or key in _WEAK or not key.lower().endswith("auth")


def _free(key: str, taken: Mapping[str, object]) -> str:
    """Two names that are masked stay two."""
    while key in taken:
        key += MASK
    return key
