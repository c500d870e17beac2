"""The pieces of a summary that can be looked up: paths, identifiers, numbers, addresses, quotes; and where they stand.

Knows Markdown's inline marks as far as a piece or a mark behind it must not break them. It does not know the source.

Not taken for pieces: words of prose, single digits that have no unit and count no results of tests, the numbers of
lists and of citations, ordinals, a few names of products and standards that look like code, and in headings everything
but code, paths and addresses (so that a year in a title is none).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, TypeAlias

from acp_agent.compaction.provenance_names import CODE_WORD, NAMES, is_coded, is_digest, is_path
from acp_agent.compaction.provenance_numbers import (
    GROUPED,
    NUMBER,
    RANGE,
    RATIO,
    UNIT_AFTER,
    WITH_COMMA,
    counted,
    is_whole,
    none_failed,
)
from acp_agent.compaction.sections import Block, blocks
from acp_agent.frozen import frozen

Kind: TypeAlias = Literal["path", "identifier", "number", "url", "quote"]

CITATION = re.compile(
    r"\[#(\d{1,18})(?:\s?[-–]\s?#?(\d{1,18}))?((?:[,;]\s?#\d{1,18}(?:\s?[-–]\s?#?\d{1,18})?)*)\](?!\()"
)

_URL = re.compile(r"\b[a-zA-Z][\w+.-]{1,15}://[^\s<>\"`“”„«»\x00]+")
_LINK = re.compile(r"!?\[[^\[\]\n]*\](?:\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?: \"[^\"\n]*\")?\)|\[[^\[\]\n]*\])")
_AUTOLINK = re.compile(r"<[a-zA-Z][\w+.-]{1,15}:[^\s<>]*>")
_QUOTE = re.compile(r"\"([^\"]*)\"|“([^“”\"]*)[”\"]|„([^„“”\"]*)[“”\"]|«([^«»]*)»")
_ATOM = re.compile(rf"{GROUPED}|{WITH_COMMA}|[\w./~@+$-]+")
_EMPHASISED = re.compile(r"(_{2,3})(\d[\w./-]*[^_])\1")
_ORDINALS = ("st", "nd", "rd", "th")
_SHORTEST_QUOTE = 2


@frozen
class Piece:
    """A piece at `[start, end)` of the summary.

    :ivar value: what is to be looked up; without marks, brackets of a call, units.
    :ivar code: for a quote, that it stands in code marks and so counts with its case.
    :ivar counts: of a number, the results (`pass`, `fail`, `error`) or the `exit` that it must stand beside.
    :ivar parts: pieces of it that may be looked up instead, where it is not found as a whole.
    """

    kind: Kind
    start: int
    end: int
    value: str
    code: bool = False
    counts: str = ""
    parts: tuple[Piece, ...] = ()


@frozen
class Layout:
    """Where the code, the links, the quotes and the fences of a text stand; the limits take in their marks.

    :ivar code: outer start, outer end, and between which offsets the code itself stands.
    """

    blocks: tuple[Block, ...]
    code: tuple[tuple[int, int, int, int], ...]
    links: tuple[tuple[int, int], ...]
    quotes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> Layout:
        """Read a text once."""
        found = tuple(blocks(text))
        code: list[tuple[int, int, int, int]] = []
        links: list[tuple[int, int]] = []
        quotes: list[tuple[int, int]] = []
        for block in found:
            if block.kind == "fence":
                continue
            spans = list(_code_spans(text, block.start, block.end))
            code += spans
            rest = _blank(text[block.start : block.end], [(a - block.start, b - block.start) for a, b, _, _ in spans])
            for pattern, into in ((_LINK, links), (_AUTOLINK, links), (_QUOTE, quotes)):
                into += [(block.start + match.start(), block.start + match.end()) for match in pattern.finditer(rest)]
        return cls(found, tuple(code), tuple(links), tuple(quotes))


def pieces(text: str, layout: Layout) -> Iterator[Piece]:
    """The pieces of a summary, block by block; quotes before what they contain, otherwise none overlaps another.

    :param text: without the marks that a check has left in it.
    """
    for block in layout.blocks:
        start, end = block.start, block.end
        if block.kind == "fence":
            yield from _fenced(text, start, end)
            continue
        heading = block.kind == "heading"
        spans = layout.code[bisect_left(layout.code, (start,)) : bisect_left(layout.code, (end,))]
        code = [(span[0] - start, span[1] - start) for span in spans]
        rest = _blank(text[start:end], code)
        if not heading:
            for match in _QUOTE.finditer(rest):
                inner = match.start() + 1, match.end() - 1
                value = text[start + inner[0] : start + inner[1]]
                if len(re.findall(r"\w+", value)) >= _SHORTEST_QUOTE:
                    yield Piece("quote", start + inner[0], start + inner[1], value)
        for _, _, inner_start, inner_end in spans:
            yield from _code(text, inner_start, inner_end)
        rest = _blank(rest, [match.span() for match in CITATION.finditer(rest)])
        for match in _URL.finditer(rest):
            address = _trim_url(match[0])
            yield Piece("url", start + match.start(), start + match.start() + len(address), address)
        rest = _blank(rest, [match.span() for match in _URL.finditer(rest)])
        if not heading:
            for first, last in none_failed(rest):
                yield Piece("number", start + first, start + last, "0", counts="fail")
        for piece in _atoms(rest, start):
            if not heading or piece.kind == "path":
                yield piece


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Runs of backticks paired with the next run of the same length, in one pass from each end."""
    runs = [match.span() for match in re.compile("`+").finditer(text, start, end)]
    partner: dict[int, int] = {}
    seen: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        if length in seen:
            partner[index] = seen[length]
        seen[length] = index
    index = 0
    while index < len(runs):
        other = partner.get(index)
        if other is None:
            index += 1
            continue
        yield runs[index][0], runs[other][1], runs[index][1], runs[other][0]
        index = other + 1


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with these spans, which are in order, made unreadable and as long as before."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += [text[at:start], "\0" * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def _trim_url(address: str) -> str:
    address = address.rstrip(".,;:!?'’*|]}")
    while address.endswith(")") and address.count("(") < address.count(")"):
        address = address[:-1].rstrip(".,;:!?'’*|]}")
    return address


def _code(text: str, start: int, end: int) -> Iterator[Piece]:
    """What stands in code marks: one piece, looked up as a whole and then by its parts where it has no white space."""
    said = text[start:end].strip()
    start += len(text[start:end]) - len(text[start:end].lstrip())
    end = start + len(said)
    digits = said.removeprefix("-")
    if digits.isdecimal() and counted(text, end - len(digits), end) == "exit":
        yield Piece("number", end - len(digits), end, digits, code=True, counts="exit")
        return
    if not re.search(r"\w", said) or len(said) < 2:
        return
    if len(said.split()) > 1:
        yield Piece("quote", start, end, said, code=True)
        return
    if _URL.fullmatch(said):
        yield Piece("url", start, end, said)
        return
    inner = tuple(_atoms(said, start, code=True))
    if len(inner) == 1 and inner[0].end - inner[0].start >= len(said) - 2:
        kind = inner[0].kind
    else:
        kind = "path" if inner and inner[0].kind == "path" else "identifier"
    if kind == "number" and not inner:
        return
    yield Piece(kind, start, end, said, code=True, parts=inner)


def _fenced(text: str, start: int, end: int) -> Iterator[Piece]:
    """The lines of a fence, each looked up as a whole and then by the pieces in it."""
    at = start
    for line in text[start:end].split("\n"):
        said = line.strip()
        if re.search(r"\w", said):
            first = at + len(line) - len(line.lstrip())
            urls = [Piece("url", first + m.start(), first + m.end(), _trim_url(m[0])) for m in _URL.finditer(said)]
            rest = _blank(said, [match.span() for match in _URL.finditer(said)])
            parts = (*urls, *_atoms(rest, first))
            if parts:
                yield Piece("quote", first, first + len(said), said, code=True, parts=parts)
        at += len(line) + 1


def _atoms(text: str, offset: int, *, code: bool = False) -> Iterator[Piece]:
    """Paths, identifiers and numbers in a text without white space or of prose.

    :param code: that every word in it is an identifier, and every number is one to look up.
    """
    for match in _ATOM.finditer(text):
        said, start = match[0], match.start()
        trimmed = said.rstrip(".-+@$~" if code else ".-+@$~*")
        if trimmed.startswith("_") and trimmed.endswith("_") and trimmed.count("_") == 2 and not code:
            start, trimmed = start + 1, trimmed[1:-1]
        if not code and (emphasised := _EMPHASISED.fullmatch(trimmed)):
            start, trimmed = start + len(emphasised[1]), emphasised[2]
        bare = trimmed.lstrip("+@$" if trimmed.lstrip("+@$").startswith((".", "/", "~", "-")) else "+@$-")
        if trimmed.startswith("--") and not trimmed.startswith("---"):
            bare = trimmed
        if re.match(r"-\d", bare):
            bare = bare[1:]
        start += len(trimmed) - len(bare)
        if bare and bare not in NAMES:
            yield from _classified(text, bare, start, offset, code)


def _classified(text: str, said: str, start: int, offset: int, code: bool) -> Iterator[Piece]:
    def piece(kind: Kind, value: str, first: int = start) -> Piece:
        return Piece(kind, offset + first, offset + first + len(value), value, code)

    if is_digest(said) or is_coded(said):
        yield piece("identifier", said)
    elif is_whole(said):
        yield piece("number", said)
    elif RATIO.fullmatch(said):
        yield from _parted(text, said, "/", start, offset, code)
    elif re.fullmatch(WITH_COMMA, said):
        yield from _parted(text, said, ",", start, offset, code)
    elif RANGE.fullmatch(said):
        at = start
        for part in said.split("-"):
            lead = 1 if part.startswith("L") else 0
            if part[lead:]:
                yield from _numbers(text, part[lead:], at + lead, offset, code)
            at += len(part) + 1
    elif NUMBER.fullmatch(said):
        yield from _numbers(text, said, start, offset, code)
    elif said.startswith("--"):
        if re.fullmatch(r"--[a-zA-Z][\w-]*", said):
            yield piece("identifier", said)
    elif is_path(said, code):
        if text[start - 1 : start] != "<":  # a closing tag
            yield piece("path", said)
    else:
        for word in re.finditer(r"[\w.]*\w" if not code else r"[\w.-]*\w", said):
            name = word[0].lstrip(".")
            first = start + word.start() + len(word[0]) - len(name)
            called = text[start + word.end() : start + word.end() + 2] == "()"
            if not code and _is_number(said, name, first - start):
                if is_whole(name):
                    yield piece("number", name, first)
                else:
                    yield from _numbers(text, name, first, offset, code)
                continue
            if name.isdecimal() and not code:
                continue
            dotted = "." in name and all(len(part) > 1 for part in name.split(".")) and not code
            named = (code and len(name) > 1) or called or dotted or CODE_WORD.fullmatch(name) or is_coded(name)
            if named and name not in NAMES and not name.strip("_").isdecimal():
                yield piece("identifier", name, first)


def _is_number(said: str, name: str, at: int) -> bool:
    """Whether a word at `at` of a longer one is a number of its own, as in `5432/tcp`, `12/-17` and `30-second`.

    Behind a letter and a hyphen it is a part of a name, and `~` says that it is not the number itself.
    """
    before, after = said[:at].removesuffix("-"), said[at + len(name) :]
    if before and not before.endswith(("/", "+", "$", "@")):
        return False
    if after.startswith("-"):
        return name.isdecimal() and not after.startswith("-bit")
    return NUMBER.fullmatch(name) is not None or is_whole(name)


def _parted(text: str, said: str, mark: str, start: int, offset: int, code: bool) -> Iterator[Piece]:
    """Numbers with slashes or a comma between them: one piece, as a whole or by each of its numbers."""
    end = start + len(said)
    parts: list[Piece] = []
    at = start
    for part in said.split(mark):
        number = part.lstrip("+-")
        counts = counted(text, start, end) if at == start else ""
        parts += _numbers(text, number, at + len(part) - len(number), offset, code, counts)
        at += len(part) + 1
    if parts:
        yield Piece("number", offset + start, offset + end, said, code, parts=tuple(parts))


def _numbers(text: str, said: str, start: int, offset: int, code: bool, counts: str | None = None) -> Iterator[Piece]:
    match = NUMBER.fullmatch(said)
    if match is None:
        yield Piece("identifier", offset + start, offset + start + len(said), said, code)
        return
    number, unit = match[1].rstrip(".,_'’"), match[2]
    if unit in _ORDINALS:
        return
    first = start + match.start(1)
    if counts is None:
        counts = counted(text, start, start + len(said))
    digits = len(re.sub(r"\D", "", number))
    uncounted = counts == "error" and number == "1"  # few tools count a single one
    if counts == "exit" or (counts and digits == 1 and not uncounted):
        yield Piece("number", offset + first, offset + first + len(number), number, code, counts)
    elif digits > 1 or unit or UNIT_AFTER.match(text, start + len(said)):
        yield Piece("number", offset + first, offset + first + len(number), number, code)
