"""Recorded files as JSON values, and looking into values whose form nobody promised.

Reads whole files and JSON Lines; says which line is not JSON. Knows no agent's form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import AgentError, located
from acp_agent.frozen import frozen

MAX_FILE_BYTES = 512 * 1024 * 1024
FORMS = (
    "expected a session of this agent (its id), a transcript with `messages`, a trajectory of mini-swe-agent or "
    "SWE-agent, or a session file (JSON Lines) of Claude Code or Codex"
)

Object: TypeAlias = Mapping[str, object]


@frozen
class Line:
    """A JSON object of the file.

    :ivar number: the line that it begins in, from 1; None where the whole file is one value.
    """

    number: int | None
    value: Object


@frozen
class Document:
    """A file's contents.

    :ivar whole: the one value that the file is; None where it has a value in each line.
    :ivar lines: those values; for a file of one object, that one.
    :ivar cut_off: number of a broken last line, which is left out: its writer was killed; None where there is none.
    """

    path: Path
    whole: object
    lines: tuple[Line, ...]
    cut_off: int | None = None


def read_document(path: Path) -> Document:
    """Read a file of JSON or JSON Lines. A last line that was not written to its end, as that of a session that was
    killed, is left out.

    :raises AgentError: it is neither, or a line before the last is broken; names file and line.
    :raises OSError: it cannot be read.
    """
    if not path.is_file():
        raise AgentError(located(f"is not a file; {FORMS}", source=str(path)))
    if path.stat().st_size > MAX_FILE_BYTES:
        raise AgentError(located(f"is larger than {MAX_FILE_BYTES >> 20} MiB", source=str(path)))
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3\0"):
        raise AgentError(
            located("is a database; name it with --database, and a session in it by its id", source=str(path))
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        if error.reason != "unexpected end of data":
            raise AgentError(located(f"is not UTF-8 text; {FORMS}", source=str(path), line=line)) from error
        text = data.decode("utf-8-sig", "replace")  # cut off in the middle of a character
    if not text.strip():
        raise AgentError(located(f"is empty; {FORMS}", source=str(path), line=1))
    try:
        whole = _parsed(text)
    except ValueError as error:
        lines, cut_off = _lines(path, text, error)
        return Document(path, None, lines, cut_off)
    return Document(path, whole, (Line(None, value),) if (value := as_object(whole)) is not None else ())


def _lines(path: Path, text: str, whole_error: ValueError) -> tuple[tuple[Line, ...], int | None]:
    """The values of the lines, and the number of the last where that was cut off."""
    texts = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    found: list[Line] = []
    for number, line in texts:
        try:
            value = as_object(_parsed(line))
        except ValueError as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            if found and number == texts[-1][0]:
                return tuple(found), number
            if found:
                message = f"is not JSON ({why}), and more lines follow; mend this line or take it out"
                raise wrong(path, message, number) from error
            at = number
            if isinstance(whole_error, json.JSONDecodeError) and line.strip() in "{[":
                # One value over several lines; where it breaks is what helps.
                at, why = whole_error.lineno, whole_error.msg
            raise wrong(path, f"is not JSON ({why}); {FORMS}", at) from error
        if value is None:
            raise wrong(path, "should be a JSON object, as every line here", number)
        found.append(Line(number, value))
    return tuple(found), None


def _parsed(text: str) -> object:
    """:raises ValueError: it is not JSON, or none that can be read."""
    try:
        return cast("object", json.loads(text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def as_object(value: object) -> Object | None:
    """A JSON object, or None."""
    return cast("Object", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object]:
    """A JSON array; empty for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def objects(value: object) -> Iterator[Object]:
    """The objects of an array."""
    for each in as_list(value):
        found = as_object(each)
        if found is not None:
            yield found


def arguments(value: object) -> JsonObject:
    """Arguments of a call, which some record as JSON in a string."""
    if isinstance(value, str):
        try:
            value = _parsed(value)
        except ValueError:
            return {"input": value}
    found = as_object(value)
    return dict(cast("JsonObject", found)) if found is not None else {}


def block_text(value: object) -> str:
    """The text of content that is a string, or an array of blocks of which some have a `text`."""
    if isinstance(value, str):
        return value
    return "\n".join(_texts(value))


def _texts(value: object) -> Iterable[str]:
    for each in as_list(value):
        if isinstance(each, str):
            yield each
        elif (block := as_object(each)) is not None:
            if text := as_text(block.get("text")):
                yield text
            elif as_text(block.get("type")).endswith("image"):
                yield "[image]"


def wrong(path: Path, message: str, line: int | None = None, key: str | None = None) -> AgentError:
    """The error for a value that is not as it should be."""
    return AgentError(located(message, source=str(path), line=line, key=key))
