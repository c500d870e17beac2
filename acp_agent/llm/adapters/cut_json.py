"""Distinguishes arguments of a tool call that were cut off from malformed arguments.

Arguments that were cut off are the beginning of a JSON object, of which the rest was
lost. Malformed arguments cannot be completed to a JSON object by any further text, so
the model must have written them like this.
"""

from __future__ import annotations

import re

_BLANKS = " \t\n\r"
_WORD = re.compile(r"[-+.\w]++")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_CUT_NUMBER = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?(?:(?<=[0-9])[eE][-+]?[0-9]*+)?)?"
)
_LITERALS = ("true", "false", "null")
_CHARACTERS = re.compile(
    r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+', re.ASCII
)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")

_ALLOWED = {
    "value": '{["w',
    "first item": '{["w]',
    "first key": '"}',
    "key": '"',
    "colon": ":",
    "end of member": ",}",
    "end of item": ",]",
}
"""The tokens that may come next, keyed by the position in the grammar: punctuation
marks, `"` for a string, or `w` for a number, `true`, `false` or `null`.
"""


def is_cut_object(text: str) -> bool:
    """Return whether `text` is an incomplete JSON object, or an incomplete JSON string,
    which may contain an object.
    """
    text = text.lstrip(_BLANKS)
    if text.startswith('"'):
        return _after_string(text, 0) is None
    if not text.startswith("{"):
        return not text
    opened: list[str] = []
    expected = "value"
    at = 0
    while True:
        at = _after_blanks(text, at)
        if at == len(text):
            return True
        mark = text[at]
        word = _WORD.match(text, at)
        if (mark if word is None else "w") not in _ALLOWED[expected]:
            return False
        after = at + 1
        if word is not None:
            after = word.end()
            is_last = after == len(text)
            if is_last and _is_cut_word(word[0]):
                return True
            if not _is_value(word[0]):
                return False
        elif mark == '"':
            end = _after_string(text, at)
            if end is None:
                return True
            if end < 0:
                return False
            after = end
        at = after
        is_key = mark == '"' and expected in ("key", "first key")
        if mark in "{[":
            opened.append(mark)
            expected = "first key" if mark == "{" else "first item"
        elif mark == ":":
            expected = "value"
        elif mark == ",":
            expected = "key" if opened[-1] == "{" else "value"
        elif is_key:
            expected = "colon"
        else:
            if mark in "}]":
                opened.pop()
            if not opened:
                return False  # the object is complete
            expected = "end of member" if opened[-1] == "{" else "end of item"


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _after_string(text: str, at: int) -> int | None:
    """Return the position after the string that begins at `at`. Return None if the text
    ends inside the string, and -1 if the string is not valid.
    """
    found = _CHARACTERS.match(text, at)
    assert found is not None
    end = found.end()
    if end == len(text) or _CUT_ESCAPE.fullmatch(text, end):
        return None
    return end + 1 if text[end] == '"' else -1


def _is_value(word: str) -> bool:
    return word in _LITERALS or _NUMBER.fullmatch(word) is not None


def _is_cut_word(word: str) -> bool:
    """Return whether a word is a literal or number, or the beginning of one."""
    is_literal = any(literal.startswith(word) for literal in _LITERALS)
    return is_literal or _CUT_NUMBER.fullmatch(word) is not None
