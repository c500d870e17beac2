"""Splits a conversation into passages with their speakers, splits passages into lines,
and finds facts in texts.

Facts are paths, names, error names, options, URLs, numbers, versions and hashes.
Excerpts are selected by these facts, and summaries are checked against them.

A text is split into runs, which are pieces without white space or quotes. Each distinct
run is classified only once, so this takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    JsonValue,
    RecipePrompt,
    Resource,
    ResourceLink,
    Text,
    ToolCall,
    UserMessage,
    address_of,
)
from acp_agent.frozen import frozen

Kind: TypeAlias = Literal[
    "path", "name", "error", "option", "url", "number", "version", "hash"
]

LONGEST = 260
"""Maximum length of a fact in characters. A longer run is data, such as base64."""

RUNS = re.compile(
    r"(?:https?|ftp|file|ssh|wss?)://[^\s<>\"'`|\\^{}]+"
    r"|[A-Za-z0-9_\u00c0-\u052f./@~+-]+"
    # A separate run, since scripts without spaces would otherwise hide an ASCII name
    # between their characters.
    r"|[^\W\x00-\u052f]+"
)
_VERSION = re.compile(r"v?\d+(?:\.\d+)+(?:[-+.]?[A-Za-z]+[\d.]*)?")
_HASH = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}")
_FILE = re.compile(r"[\w+-]+(?:\.[\w+-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")
_ERRORS = ("Error", "Exception", "Warning", "Failure")
_INNER = re.compile(
    r"\w_\w|_\w+_|^_\w|[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]"
)
_PIECES = re.compile(r"[A-Za-z0-9_\u00c0-\u052f]+")
_FEWEST_DIGITS = 3
_SHORTEST_NAME = 3
_LONGEST_ABBREVIATION = 3  # "e.g", "i.e", "z.B"
LONGEST_UNIT = 240
"""Maximum length of a line in characters. A longer line is split at the end of a
sentence, or at white space.
"""

_FACTS_A_LINE = 0.15
"""Minimum number of facts per line in a conversation that is about code. Sessions of
coding agents have 0.5 to 2.
"""
_SAMPLED = 60
"""Maximum number of entries in a sample."""
_SAMPLED_CHARACTERS = 400
"""Maximum number of characters at the beginning of each passage in a sample."""

_SENTENCE_END = re.compile(r"[.!?;][\"')\]]*\s+|[。！？]\s*")


def key_of(run: str) -> str:
    """Return the form in which facts are compared: without leading `./`, without the
    `a/` and `b/` of a diff, and without closing punctuation.
    """
    key = run.rstrip(".,;:!?)-+@~/")
    return key[2:] if key.startswith(("./", "a/", "b/")) else key


@lru_cache(maxsize=50_000)
def facts_of_run(run: str) -> tuple[tuple[str, int, int, Kind], ...]:
    """Return the facts in one match of `RUNS`.

    The names inside a path or a dotted name are also facts. All mentions of a fact have
    the same key.

    :returns: tuples of the key, its start and end in the run, and its kind.
    """
    if len(run) > LONGEST:
        return ()
    key = key_of(run)
    start = run.find(key)
    end = start + len(key)
    if not key:
        return ()
    kind = _kind(key)
    if kind is None:
        return tuple(_names(key, start))
    whole = (key, start, end, kind)
    return (whole, *_names(key, start)) if kind in ("path", "name") else (whole,)


def _kind(key: str) -> Kind | None:
    """Return the kind of a whole run, or None if the run as a whole is not a fact."""
    if "://" in key:
        return "url"
    if "/" in key:
        return "path" if _is_path(key) else None
    if key[0].isdigit() or (key[0] == "v" and key[1:2].isdigit()):
        if key.isdecimal():
            return "number" if len(key) >= _FEWEST_DIGITS else None
        if _VERSION.fullmatch(key):
            return "version"
    if _HASH.fullmatch(key):
        return "hash"
    if "." in key:
        if len(key) <= _LONGEST_ABBREVIATION:
            return None
        return (
            "path"
            if _FILE.fullmatch(key)
            else "name"
            if key.strip(".") == key
            else None
        )
    return (
        "option" if len(key) > 3 and key.startswith("--") and key[2].isalpha() else None
    )


def _is_path(key: str) -> bool:
    """Return whether a run with a slash is a path, and not two words such as `and/or`."""
    parts = [part for part in key.split("/") if part]
    has_name = any(_PIECES.search(part) and not part.isdecimal() for part in parts)
    return has_name and (
        key[0] in "/~." or len(parts) > 2 or "." in parts[-1] or "_" in key
    )


def _names(key: str, start: int) -> Iterator[tuple[str, int, int, Kind]]:
    """Yield the identifiers and numbers that are pieces of a run."""
    for match in _PIECES.finditer(key):
        piece = match[0]
        if len(piece) == len(key) and "." in key:
            continue
        kind: Kind | None = None
        if piece.isdecimal():
            kind = "number" if len(piece) >= _FEWEST_DIGITS else None
        elif piece[0].isupper() and piece[1:].endswith(_ERRORS):
            kind = "error"
        elif len(piece) >= _SHORTEST_NAME and _INNER.search(piece):
            kind = "name"
        if kind:
            yield piece, start + match.start(), start + match.end(), kind


@frozen
class Speaker:
    """The origin of a passage. Texts from tools, files and recipes are never labelled
    as the user's.
    """

    label: str
    is_participant: bool = False  # the user or the model


USER = Speaker("user", True)
_MODEL = Speaker("you", True)
_RESULT, _ATTACHED, _RECIPE, _NOTE = map(
    Speaker, ("result", "attached file", "recipe", "note of the program")
)


def passages(entry: Entry) -> Iterator[tuple[Speaker, str]]:
    """Yield the texts of an entry with their speakers, without reasoning, which
    providers do not keep.
    """
    message = entry.message
    if isinstance(message, UserMessage):
        speaker = (
            _RECIPE
            if isinstance(message, RecipePrompt)
            else _NOTE
            if entry.note
            else USER
        )
        typed = message.typed if isinstance(message, RecipePrompt) else ()
        for part in (*typed, *message.parts):
            origin = USER if part in typed else speaker
            if isinstance(part, Text):
                yield origin, part.text
            elif isinstance(part, Resource | ResourceLink):
                yield origin, address_of(part)
            if isinstance(part, Resource):
                yield _ATTACHED, part.text or ""
    elif isinstance(message, AssistantMessage):
        for part in message.parts:
            if isinstance(part, Text):
                yield _MODEL, part.text
            elif isinstance(part, ToolCall):
                text = "\n".join(_strings(part.arguments)) or part.invalid or ""
                yield Speaker(f"call of {' '.join(part.name.split())[:80]}", True), text
    else:
        yield _RESULT, message.text


def units(text: str) -> Iterator[str]:
    """Yield the lines of a text. Long lines are split into pieces."""
    for line in text.splitlines():
        start = 0
        while start < len(line):
            end = _end_of_piece(line, start)
            if piece := line[start:end].strip():
                yield piece
            start = end


def names_little(entries: Sequence[Entry]) -> bool:
    """Return whether a conversation has few facts per line, as is usual if it is not
    about code.

    Only a sample is examined: entries at equal distances, and the beginning of each
    passage in them.
    """
    lines = facts = 0
    for entry in entries[:: -(-len(entries) // _SAMPLED) or 1]:
        for _, text in passages(entry):
            sampled = _lines_and_facts(text[:_SAMPLED_CHARACTERS])
            lines += sampled[0]
            facts += sampled[1]
    return facts < lines * _FACTS_A_LINE


@lru_cache(maxsize=1024)
def _lines_and_facts(text: str) -> tuple[int, int]:
    """Return the number of lines in a text, and the number of facts in them.

    The result is cached, since a compaction needs the same samples several times.
    """
    lines = facts = 0
    for line in units(text):
        lines += 1
        facts += sum(len(facts_of_run(run)) for run in RUNS.findall(line))
    return lines, facts


def _end_of_piece(line: str, start: int) -> int:
    """Return the end of the piece that begins at `start`: after its last sentence, or
    after its last white space.
    """
    limit = start + LONGEST_UNIT
    if limit >= len(line):
        return len(line)
    ends = [match.end() for match in _SENTENCE_END.finditer(line, start, limit)]
    if ends:
        return ends[-1]
    space = line.rfind(" ", start + LONGEST_UNIT // 2, limit)
    return space + 1 if space >= 0 else limit


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
