"""`assignments`: what a text gives to names that are called like secrets, in settings, scripts, code and JSON.

`PASSWORD=x` and `--token=x` are how a program is given one. What code does with such names is most often no secret
(`token = next_token()`), so that anywhere else the value has to look like one as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from acp_agent.masking.names import is_password_name, is_secret_name, is_sure_name
from acp_agent.masking.values import is_drawn, is_given, is_odd, is_plain, is_random, is_worded

MOST_QUOTED = 200
"""Characters between quotes."""

_LONGEST_NAME = 80
_FEWEST, _MOST_JUDGED = 4, 500
"""Characters of a value."""
_QUOTE = r"\\?[\"']"
_NAME = rf"(?:(?<![\w-])|(?<=\\[nrt]))(?P<name>-{{0,2}}[A-Za-z_][\w-]{{0,{_LONGEST_NAME}}}+)"
_BLANKS = r"[ \t]{0,5}"
_SIGN = r"(?P<sign>:=|=>|=(?![=>])|:(?![:=/]))"
_GIVEN = re.compile(rf"{_NAME}(?:{_QUOTE})?+{_BLANKS}{_SIGN}{_BLANKS}", re.ASCII)
_BY_COMMAND = re.compile(
    r"(?<![\w$-])(?:ENV|setenv|set(?:[ \t]{1,5}(?:-[A-Za-z]{1,4}|--[a-z]{1,12})){1,4})[ \t]{1,5}"
    rf"{_NAME}[ \t]{{1,5}}",
    re.ASCII,
)
"""How Docker, csh and fish set a variable."""
_ENCLOSED = re.compile(
    rf"\"((?:[^\"\\\n]|\\[^\n]){{1,{MOST_QUOTED}}})\"|'([^'\n]{{1,{MOST_QUOTED}}})'"
    rf"|\\\"((?:[^\"\\\n]){{1,{MOST_QUOTED}}})\\\"",
    re.ASCII,
)
_BARE = re.compile(
    rf"(?:{_QUOTE})?((?:[^\s\"'`<>;|,\\\[\]{{}}&]|\\(?![nrt\"])|&(?![&\s]|[\w.-]{{1,60}}=))++)", re.ASCII
)
_ENDS = re.compile(r"[\s\"'&;|`,)\\]|\Z", re.ASCII)
"""Behind anything else it is code."""
_LAST = re.compile(r"[ \t]{0,8}(?:[\r\n#]|\Z)|&[\w.-]{1,60}=", re.ASCII)
_SEEN = re.compile(r"[ \t]{0,9}[^ \t]?")
"""Behind a value: what tells whether it is the last of its line."""
_PATH = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_CALL = re.compile(r"(?:[A-Za-z_][\w.:]*)?\(", re.ASCII)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*|--.*")
_BEGUN = re.compile(
    rf"{_NAME}(?:{_QUOTE})?+{_BLANKS}(?:{_SIGN}{_BLANKS}(?:\"(?:[^\"\\\n]|\\[^\n]){{0,{MOST_QUOTED}}}"
    rf"|'[^'\n]{{0,{MOST_QUOTED}}}|\\\"[^\"\\\n]{{0,{MOST_QUOTED}}}\\?)?)?\Z",
    re.ASCII,
)
_SET_BY_COMMAND = re.compile(rf"{_BY_COMMAND.pattern}\Z", re.ASCII)
_FLAGS = r"(?:[ \t]{1,5}--?[A-Za-z]{0,12})"
_BEGUN_BY_COMMAND = re.compile(
    rf"(?<![\w$-])(?:set{_FLAGS}{{0,4}}[ \t]{{1,5}}"
    rf"|(?:ENV|setenv|set{_FLAGS}{{1,4}})[ \t]{{1,5}}(?:[\w-]{{0,{_LONGEST_NAME + 2}}}+[ \t]{{0,5}})?)\Z",
    re.ASCII,
)
_LONGEST_BEGINNING = 2 * MOST_QUOTED + _LONGEST_NAME + 20
_MOST_BLANKS = 8
_SHORTEST_PASSWORD, _SHORTEST_KEY = 6, 20


def assignments(text: str) -> Iterator[tuple[int, int, int, int]]:
    """What is given to names that are called like secrets, as `forms.Finding`s."""
    begin = done = 0  # the last value: one that begins within it ends there too, and is not read to there once more
    for found in chain(_GIVEN.finditer(text), _BY_COMMAND.finditer(text)):
        if not is_secret_name(found["name"]):
            continue
        sign = found["sign"] if found.re is _GIVEN else ""
        start, at = found.start(), found.end()
        if enclosed := _ENCLOSED.match(text, at):
            group = enclosed.lastindex or 0
            opens = len(enclosed[group]) >= _FEWEST and _opens(found, enclosed[group], sign, quoted=True, last=True)
            yield start, enclosed.end(), *(enclosed.span(group) if opens else (start, start))
            continue
        if not begin <= at < done:
            if (bare := _BARE.match(text, at)) is None:
                continue
            begin, done = bare.span(1)
            at = begin
        value = _without_bracket(text[at : min(done, at + _MOST_JUDGED)])
        if len(value) < _FEWEST:
            continue
        end = done if len(value) == _MOST_JUDGED else at + len(value)
        is_last = _LAST.match(text, end) is not None
        opens_here, opens_last = (
            bool(_ENDS.match(text, end)) and _opens(found, value, sign, quoted=False, last=last)
            for last in (is_last, True)
        )
        if opens_last:  # else it makes no difference what is seen behind it
            seen = _SEEN.match(text, end)
            yield start, seen.end() if seen else end, *((at, end) if opens_here else (start, start))


def begun(text: str, at: int) -> int:
    """Where something begins that more text may make an assignment of; the text's length where nothing does.

    :param at: where the last line begins.
    """
    done = text.rstrip(" \t")
    word = max(done.rfind(blank, at) for blank in " \t\r\v\f") + 1 or at
    start = _beginning(text, at, len(text))
    if len(text) - len(done) <= _MOST_BLANKS:  # what the last word is given to, and what stands behind it, decides
        start = min(start, _beginning(text, at, word, signed=True) if word > at else len(text))
        names = (found.start() for found in _GIVEN.finditer(text, word, len(done)) if is_secret_name(found["name"]))
        start = min(start, next(names, start))
    return start


def _beginning(text: str, at: int, end: int, *, signed: bool = False) -> int:
    """Where a name begins that is given what follows at `end`.

    :param signed: there is already what says that it is given something.
    """
    at = max(at, end - _LONGEST_BEGINNING)
    by_command = (_SET_BY_COMMAND if signed else _BEGUN_BY_COMMAND).search(text, at, end)
    first = by_command.start() if by_command else len(text)
    while found := _BEGUN.search(text, at, end):
        if is_secret_name(found["name"]) and (found["sign"] or not signed):
            return min(first, found.start())
        at = found.end("name")
    return first


def _without_bracket(value: str) -> str:
    """Without a bracket that begins before it, and what is behind that."""
    opening, closing = value.find("("), value.find(")")
    return value[:closing] if closing >= 0 and not 0 <= opening < closing else value


def _opens(found: re.Match[str], value: str, sign: str, *, quoted: bool, last: bool) -> bool:
    """Whether it is a secret, and not what code does with one."""
    name = found["name"]
    if not is_given(value, name) or (not quoted and _CALL.match(value)):
        return False
    is_sure = is_sure_name(name)
    straight = sign == "=" and found.end() == found.end("sign") and found.start("sign") == found.end("name")
    if straight and _VARIABLE.fullmatch(name):
        return is_sure or is_drawn(value)
    if not is_sure:
        return False
    if not sign:
        return not is_plain(value)
    is_code = not quoted and not straight and _PATH.fullmatch(value) and is_worded(value.rpartition(".")[2])
    if is_random(value) and not is_code:
        return True
    if is_password_name(name):
        return last and is_odd(value) and len(value) >= _SHORTEST_PASSWORD
    return last and is_odd(value) and len(value) >= _SHORTEST_KEY and not is_code
