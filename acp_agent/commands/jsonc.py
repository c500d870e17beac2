"""JSON as editors let people write it, with comments and trailing commas: read, and changed without touching the rest.

    settings = JsonText.read(text)              # raises JsonTextError
    settings.get("agent_servers", "acp-agent")  # its value, or None
    settings.put(("agent_servers", "acp-agent"), {...}).text

Owns where a value stands in a text. Knows nothing of editors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeAlias

from acp_agent.frozen import frozen

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[^\s,:\[\]{}\"/]+")
_INDENT = "  "


class JsonTextError(ValueError):
    """A text is not what it should be; says in which line."""


@frozen
class _Node:
    """A value in the text.

    :ivar members: of an object, in order; of two with one name the last counts.
    """

    start: int
    end: int
    value: JsonValue
    members: dict[str, _Node] | None = None


@frozen
class JsonText:
    """A text that holds one object.

    :ivar text: as it was read, or with what was put into it.
    """

    text: str
    _root: _Node

    @classmethod
    def read(cls, text: str) -> JsonText:
        """Read a file's text; one that is empty, or holds nothing but comments, holds an empty object.

        :raises JsonTextError: it is no JSON, or no object.
        """
        if not text.strip("\ufeff \t\r\n"):
            text = "{\n}\n"
        elif not _Reader(text).blank():
            text = f"{text.rstrip()}\n{{\n}}\n"
        reader = _Reader(text)
        try:
            root = reader.value()
        except RecursionError:
            raise JsonTextError("it is nested too deeply") from None
        reader.blank()
        if reader.at < len(text):
            raise reader.wrong("there is something behind the value")
        if root.members is None:
            raise reader.wrong("it holds no object")
        return cls(text, root)

    def get(self, *path: str) -> JsonValue:
        """The value at a path of names; None where there is none."""
        node: _Node | None = self._root
        for name in path:
            node = None if node is None or node.members is None else node.members.get(name)
        return None if node is None else node.value

    def put(self, path: Sequence[str], value: JsonValue) -> JsonText:
        """The text with a value at a path, all the rest of it as it was. Objects on the way are made, also of null.

        :param path: names, at least one.
        :raises JsonTextError: there is something else than an object on the way.
        """
        node = self._root
        for depth, name in enumerate(path):
            if node.members is None:
                above = ".".join(path[:depth])
                raise JsonTextError(f"line {self._line(node.start)}: `{above}` holds no object")
            inner = node.members.get(name)
            if inner is None or (inner.value is None and depth + 1 < len(path)):
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                if inner is None:
                    return self._inserted(node, name, value, depth + 1)
                return self._with(inner.start, inner.end, _dumped(value, depth + 1))
            node = inner
        return self._with(node.start, node.end, _dumped(value, len(path)))

    def _inserted(self, into: _Node, name: str, value: JsonValue, depth: int) -> JsonText:
        """With a first member: what stands behind it, comments and all, stays as it is."""
        indent = _INDENT * depth
        comma = "," if into.members else ""
        rest = self.text[into.start + 1 :]
        end = (
            "" if rest.lstrip(" \t")[:1] in ("\r", "\n") else f"\n{indent if into.members else indent[len(_INDENT) :]}"
        )
        member = f"\n{indent}{json.dumps(name, ensure_ascii=False)}: {_dumped(value, depth)}{comma}{end}"
        return self._with(into.start + 1, into.start + 1, member)

    def _with(self, start: int, end: int, new: str) -> JsonText:
        new = new.replace("\n", "\r\n") if "\r\n" in self.text else new
        return JsonText.read(self.text[:start] + new + self.text[end:])

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1


class _Reader:
    """Reads values from a place in the text on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self, what: str) -> JsonTextError:
        """An error at the place that was reached."""
        return JsonTextError(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def blank(self) -> str:
        """Pass over blanks and comments.

        :returns: the character that comes, or an empty string.
        """
        found = _BLANK.match(self.text, self.at)
        self.at = self.at if found is None else found.end()
        return self.text[self.at : self.at + 1]

    def value(self) -> _Node:
        """The value that comes."""
        sign = self.blank()
        start = self.at
        if sign == "{":
            members = self._members()
            return _Node(start, self.at, {name: node.value for name, node in members.items()}, members)
        if sign == "[":
            items = self._items()
            return _Node(start, self.at, items)
        found = (_STRING if sign == '"' else _WORD).match(self.text, start)
        try:
            value: JsonValue = json.loads(found[0] if found is not None else "")
        except ValueError:
            line = self.text[start:].split("\n", 1)[0][:30]
            raise self.wrong(f"there should be a value, and there is {line!r}") from None
        self.at = start if found is None else found.end()
        return _Node(start, self.at, value)

    def _members(self) -> dict[str, _Node]:
        members: dict[str, _Node] = {}
        self.at += 1
        while self.blank() != "}":
            name = self.value().value
            if not isinstance(name, str):
                raise self.wrong("a name should stand in double quotes")
            if self.blank() != ":":
                raise self.wrong(f"a colon is missing behind {name!r}")
            self.at += 1
            members[name] = self.value()
            self._next("}")
        self.at += 1
        return members

    def _items(self) -> list[JsonValue]:
        items: list[JsonValue] = []
        self.at += 1
        while self.blank() != "]":
            items.append(self.value().value)
            self._next("]")
        self.at += 1
        return items

    def _next(self, end: str) -> None:
        """Pass over the comma behind an element, which the last one may do without."""
        sign = self.blank()
        if sign == ",":
            self.at += 1
        elif sign != end:
            raise self.wrong(f"a comma or `{end}` is missing")


def _dumped(value: JsonValue, depth: int) -> str:
    """As it stands in the text at this depth."""
    return json.dumps(value, ensure_ascii=False, indent=len(_INDENT)).replace("\n", f"\n{_INDENT * depth}")
