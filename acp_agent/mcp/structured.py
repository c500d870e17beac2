"""Finds the parts of a tool result's structured content that its texts do not contain.

MCP asks servers to repeat the structured content in the texts. Servers do so in several
forms: as JSON, as one text for each item, as one line for each item, or as one member.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.tools.text import clean

_LONG = 200
"""Minimum number of characters of a part that is left out if the texts contain it."""
_NOTHING: JsonObject = {"": ""}
"""Sentinel for a member that the texts already contain."""
_MAX_LINES = 2_000
"""Maximum number of lines that are read as JSON, one value each."""
_SEPARATORS = ("\n", "", " ", ", ")
"""The separators with which servers join texts."""
_SEE_TEXT = "[see the text]"
"""Replaces each item of a list that the texts contain, if they do not contain all items
of the list.
"""
_MAX_MISSES = 100
"""Number of strings of a list that may be missing before the search is given up."""
_BULLET = re.compile(r"(?:[-*•]|[0-9]{1,4}[.)])[ \t]")
_decoder = json.JSONDecoder()


class ResultTexts:
    """The values in the texts of a result.

    :param texts: the texts of the result. A list may have one text for each item.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        parsed = [_parsed(text) for text in texts]
        by_line = [_parsed_lines(text) for text in texts]
        values: list[JsonValue] = [
            *parsed,
            *(lines for lines in by_line if lines),
            [*texts],
            [*parsed],
        ]
        self._objects = [value for value in values if isinstance(value, dict)]
        self._values = {_canonical(value) for value in values}
        strings = [value for value in values if isinstance(value, str)]
        joined = [separator.join(texts) for separator in _SEPARATORS]
        self._strings: dict[str, list[str]] = {}
        for text in (*texts, *joined, *strings):
            self._strings.setdefault(_squeezed(text), []).append(_trimmed(text))
        whole = "\n".join(texts)
        self._whole = _trimmed(whole)
        self._lists = {
            _items(lines)
            for text in (*texts, whole)
            for lines in (text.splitlines(), _without_bullets(text))
        }

    def missing(self, structured: JsonValue) -> JsonValue:
        """Return the part of a structured result that the texts do not contain, or None
        if they contain all of it.
        """
        if structured is None or self._has(structured):
            return None
        if not isinstance(structured, dict):
            return structured
        if len(structured) == 1:
            [(key, value)] = structured.items()
            # A number has no meaning without its key, unless the key is `result`, in
            # which the SDKs wrap every result.
            if self._has(value) and (
                key == "result" or isinstance(value, str | list | dict)
            ):
                return None
        rest = {
            key: more
            for key, value in structured.items()
            if (more := self._rest(key, value)) is not _NOTHING
        }
        return rest or None

    def is_one_member_of(self, structured: JsonValue) -> bool:
        """Return whether the only text is the JSON of one member of an object, so that
        the object contains all of it.
        """
        if not isinstance(structured, dict) or len(self._texts) != 1:
            return False
        try:
            value: JsonValue = json.loads(self._texts[0])
        except (ValueError, RecursionError):
            return False
        if not isinstance(value, list | dict):
            return False
        canonical = _canonical(value)
        return any(_canonical(member) == canonical for member in structured.values())

    def _rest(self, key: str, value: JsonValue) -> JsonValue:
        """Return the missing part of a member. A short member is returned whole, since
        it is quick to read, unless an object in the texts has the same member.
        """
        canonical = _canonical(value)
        if any(
            key in told and _canonical(told[key]) == canonical for told in self._objects
        ):
            return _NOTHING
        is_long = len(value if isinstance(value, str) else json.dumps(value)) >= _LONG
        if not is_long:
            return value
        if self._has(value):
            return _NOTHING
        if isinstance(value, str):
            return (
                _NOTHING
                if any(value.strip() in text for text in self._texts)
                else value
            )
        if isinstance(value, dict):
            more = self.missing(value)
            return _NOTHING if more is None else more
        if isinstance(value, list):
            more, _ = _ListSearch(self._whole).rest(value, 0)
            return more
        return value

    def _has(self, value: JsonValue) -> bool:
        if isinstance(value, str):
            text = clean(value)
            trimmed = _trimmed(text)
            return any(
                _keeps_layout(told, trimmed)
                for told in self._strings.get(_squeezed(text), ())
            )
        if _canonical(value) in self._values:
            return True
        if not isinstance(value, list):
            return False
        blocks: list[JsonValue] = [_text_of_block(item) for item in value]
        if blocks and None not in blocks:
            return _canonical(blocks) in self._values
        lines = [_line_of(item) for item in value]
        return bool(lines) and None not in lines and _items(lines) in self._lists


class _ListSearch:
    """Searches a text for the long strings of one list.

    Each search begins after the strings of the previous items. So the text has the
    strings that are left out of the list in the same order and number.

    :param text: the text, as `_trimmed` returns it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._misses = 0

    def rest(self, value: JsonValue, start: int) -> tuple[JsonValue, int]:
        """Return the part of a value that the text does not contain, and the position
        at which to begin the search for the next item. The part is `_NOTHING` if the
        text contains the whole value.

        :param start: the position in the text at which to begin the search.
        """
        match value:
            case str() if len(value) >= _LONG:
                end = self._end_of(_trimmed(clean(value)), start)
                return (value, start) if end is None else (_NOTHING, end)
            case list() if value:
                return self._rest_of_list(value, start)
            case dict() if value:
                return self._rest_of_object(value, start)
            case _:
                return value, start

    def _rest_of_list(
        self, items: list[JsonValue], start: int
    ) -> tuple[JsonValue, int]:
        rest: list[JsonValue] = []
        is_told = True
        for item in items:
            more, start = self.rest(item, start)
            is_told = is_told and more is _NOTHING
            rest.append(_SEE_TEXT if more is _NOTHING else more)
        return (_NOTHING if is_told else rest), start

    def _rest_of_object(self, members: JsonObject, start: int) -> tuple[JsonValue, int]:
        """Return the same as `rest` for an object. The text may have its members in any
        order.
        """
        rest: JsonObject = {}
        last = start
        for key, value in members.items():
            more, end = self.rest(value, start)
            last = max(last, end)
            if more is not _NOTHING:
                rest[key] = more
        return (rest or _NOTHING), last

    def _end_of(self, value: str, start: int) -> int | None:
        """Return the position after the string in the text, or None if the text does
        not contain it.
        """
        if self._misses >= _MAX_MISSES:
            return None
        at = self._text.find(value, start)
        if at < 0:
            self._misses += 1
            return None
        return at + len(value)


def _text_of_block(item: JsonValue) -> str | None:
    """Return the text of one of MCP's own text blocks, or None for any other item."""
    if not isinstance(item, dict) or item.keys() != {"type", "text"}:
        return None
    text = item["text"]
    return clean(text) if item["type"] == "text" and isinstance(text, str) else None


def _parsed(text: str) -> JsonValue:
    """Return the JSON value in a text, which may start with a few introductory words.
    If there is none, return the text.
    """
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    for at in (0, *sorted(starts)[:1]):
        try:
            value, end = _decoder.raw_decode(text.strip() if at == 0 else text, at)
        except (ValueError, RecursionError):
            continue
        if at or end == len(text.strip()):
            return value
    return text


def _parsed_lines(text: str) -> list[JsonValue]:
    """Return the JSON values of a text that has one on each line, or an empty list for
    any other text.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not 1 < len(lines) <= _MAX_LINES:
        return []
    values: list[JsonValue] = []
    for line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            return []
    return values


def _canonical(value: JsonValue) -> str:
    """Return a text that is the same for equal JSON values, regardless of the order of
    their members and the form of their numbers.
    """
    try:
        return json.dumps(_with_plain_numbers(value), sort_keys=True)
    except RecursionError:
        return repr(id(value))


def _with_plain_numbers(value: JsonValue) -> JsonValue:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_plain_numbers(each) for each in value]
        case dict():
            return {key: _with_plain_numbers(each) for key, each in value.items()}
        case _:
            return value


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _trimmed(text: str) -> str:
    """Return a text without white space at its ends and at the ends of its lines, and
    with LF as the only line end.
    """
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _keeps_layout(told: str, value: str) -> bool:
    """Return whether a text has at least the words, lines and indentation of a value.
    Blank lines are ignored.

    :param told: the text, which differs from the value in white space at most.
    """
    have = [line for line in told.split("\n") if line]
    wanted = [line for line in value.split("\n") if line]
    if have == wanted:
        return True
    if [each.split() for each in have] == [each.split() for each in wanted]:
        return all(
            len(line) >= len(other) for line, other in zip(have, wanted, strict=True)
        )
    # The value has a single line, so only its words must be in the text.
    return len(wanted) == 1 and told.split() == value.split()


def _line_of(item: JsonValue) -> str | None:
    """Return the line for an item of a list, or None if the item may take several
    lines.
    """
    if isinstance(item, str):
        return None if "\n" in item.strip() else clean(item)
    if isinstance(item, list | dict):
        return None
    return json.dumps(_with_plain_numbers(item))


def _items(lines: Iterable[str | None]) -> tuple[str, ...]:
    """Return lines for comparison, without blank lines and surrounding white space."""
    return tuple(line.strip() for line in lines if line is not None and line.strip())


def _without_bullets(text: str) -> list[str]:
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        bullet = _BULLET.match(line)
        lines.append(line if bullet is None else line[bullet.end() :])
    return lines
