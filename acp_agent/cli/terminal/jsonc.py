"""JSON with comments and trailing commas, as editors keep their settings: read it, and
put a member into it.

What a person wrote stays as it is: text is only inserted, or a single value replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from acp_agent.conversation.messages import JsonValue
from acp_agent.frozen import frozen

_LENIENT = re.compile(
    r'("(?:[^"\\\n]|\\.)*+(?:"|(?=\n|\Z)))|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?'
    r"|,(?=\s*+(?:(?://[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/)\s*+)*+[}\]])",
    re.DOTALL,
)
"""A text, which is kept, or a comment or trailing comma, which is left out."""
_TOKEN = re.compile(
    r'(?P<skip>\s++|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/)|(?P<text>"(?:[^"\\\n]|\\.)*+")|(?P<mark>[{}\[\]:,])'
    r'|(?P<word>[^\s{}\[\]:,"/]++)',
    re.DOTALL,
)


@frozen
class _Member:
    """:ivar start: where its value begins; `end` is behind it."""

    key: str
    start: int
    end: int


def parse_jsonc(text: str) -> JsonValue:
    """Return what a text with comments and trailing commas says; an empty object for a
    blank one.

    :raises ValueError: it is not JSON.
    :raises RecursionError: it is nested too deeply.
    """
    bare = _LENIENT.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
    return json.loads(bare if bare.strip() else "{}")


def with_member(text: str, path: Sequence[str], value: JsonValue) -> str:
    """Return a text with this value at a path of keys; objects on the way that are
    missing are made.

    A new member is put at the beginning of its object, so that no comma or comment
    behind the last one matters.

    :raises ValueError: the text is not JSON with comments, or something on the way is
        no object.
    :raises RecursionError: it is nested too deeply.
    """
    before = parse_jsonc(text)
    if not text.removeprefix("\ufeff").strip():
        text = "{}\n"
    made = _edited(text, path, value)
    if parse_jsonc(made) != _expected(before, path, value):
        raise ValueError("the change would affect other settings")
    return made


def _expected(before: JsonValue, path: Sequence[str], value: JsonValue) -> JsonValue:
    if not path:
        return value
    if not isinstance(before, Mapping):
        raise ValueError("a parent of the setting is not an object")
    inside = before.get(path[0], {})
    return {**before, path[0]: _expected(inside, path[1:], value)}


def _edited(text: str, path: Sequence[str], value: JsonValue) -> str:
    unit, newline = _layout(text)
    place = next(match.start() for match in _tokens(text, 0))  # of the outermost object
    end = len(text)
    for depth, key in enumerate(path):
        found = [member for member in _members(text, place) if member.key == key]
        if not found:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, place, depth + 1, unit, newline, key, value)
        place = found[-1].start
        end = found[-1].end
    return text[:place] + _dumped(value, len(path), unit, newline) + text[end:]


def _inserted(
    text: str,
    brace: int,
    depth: int,
    unit: str,
    newline: str,
    key: str,
    value: JsonValue,
) -> str:
    """Return a text with a member behind the brace of an object.

    :param depth: of the member; 1 in the outermost object.
    """
    inner = newline + unit * depth
    outer = newline + unit * (depth - 1)
    head = text[: brace + 1]
    rest = text[brace + 1 :]
    member = f"{inner}{json.dumps(key, ensure_ascii=False)}: {_dumped(value, depth, unit, newline)}"
    line = rest.partition("\n")[0].strip()  # what stands behind the brace in its line
    if next(iter(_members(text, brace)), None) is not None:
        between = inner if line and not line.startswith("/") else ""
        return f"{head}{member},{between}{rest.lstrip(' ') if between else rest}"
    closes = "}" in line
    return (
        f"{head}{member}{outer if closes else ''}{rest.lstrip(' ') if closes else rest}"
    )


def _dumped(value: JsonValue, depth: int, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace(
        "\n", newline + unit * depth
    )


def _layout(text: str) -> tuple[str, str]:
    """Return the indentation of one level, and the line end."""
    indented = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return (indented[1] if indented else "  "), ("\r\n" if "\r\n" in text else "\n")


def _tokens(text: str, at: int) -> Iterator[re.Match[str]]:
    """Yield the tokens from a place on, without blanks and comments.

    :raises ValueError: there is something else.
    """
    at = max(at, len(text) - len(text.removeprefix("\ufeff")))
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError("the text is not JSON with comments")
        at = token.end()
        if token.lastgroup != "skip":
            yield token


def _members(text: str, brace: int) -> Iterator[_Member]:
    """Yield the members of the object that begins at a brace.

    :raises ValueError: there is no object.
    """
    tokens = _tokens(text, brace)
    if next(tokens)[0] != "{":
        raise ValueError("a parent of the setting is not an object")
    for token in tokens:
        if token[0] == "}":
            return
        if token[0] == ",":
            continue
        next(tokens)  # the colon
        depth = 0
        first = next(tokens)
        last = first
        while True:
            depth += (
                (last[0] in "{[") - (last[0] in "}]") if last.lastgroup == "mark" else 0
            )
            if depth == 0:
                break
            last = next(tokens)
        yield _Member(cast("str", json.loads(token[0])), first.start(), last.end())
