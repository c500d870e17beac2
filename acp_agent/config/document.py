"""Reads small YAML files that users write, with the line of every key, and validates
them with pydantic.

Mistakes are reported as `DocumentError` with line and key; the caller adds the file. A
file may come from an untrusted repository, so it may be a device, huge, endless or not
UTF-8.

PyYAML's own `safe_load` is not used. It does not report lines, silently keeps the last
of two equal keys, and shares one object among all aliases of an anchor, so that walking
the data of a small file may never end. Unquoted words are text unless they are JSON
literals: YAML 1.1 would read `no` as false, `12:30` as 750 and `007` as 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, get_args, get_origin

from acp_agent.config.forms import ConfigSection
from acp_agent.frozen import frozen
from acp_agent.regular import NotRegularError, open_regular, open_resolved
from acp_agent.sandbox.ownership import ForeignError, open_own

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails
    from yaml import Node, SafeLoader, Token

T = TypeVar("T")

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_TOKENS = 10_000
"""Maximum number of YAML tokens in a document. `key: value` has four tokens, and PyYAML
takes 20 µs for each.
"""

Place: TypeAlias = tuple[str | int, ...]
_YAML = "tag:yaml.org,2002:"
_NUMBERS = tuple(f"{_YAML}{kind}" for kind in ("bool", "float", "int"))
_TAGS = {
    f"{_YAML}{kind}"
    for kind in ("map", "merge", "null", "seq", "str", "timestamp", "value")
} | {*_NUMBERS}
_JSON_WORD = re.compile(
    r"true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
)


class DocumentError(Exception):
    """A mistake in a document. The caller that catches it adds the file and raises an
    error for the user.

    :param message: what is wrong, and what would be right.
    :param line: line in the file, from 1, if known.
    :param key: dotted path of the key, if known.
    """

    def __init__(
        self, message: str, line: int | None = None, key: str | None = None
    ) -> None:
        self.message = message
        self.line = line
        self.key = key
        super().__init__(message)


@frozen
class Document:
    """A YAML mapping.

    :ivar data: the content, with JSON types only.
    :ivar lines: maps the path of every key and list item to its line in the file, from
        1. The empty path maps to the line at which the mapping begins.
    """

    data: Mapping[str, object]
    lines: Mapping[Place, int]

    def at(self, place: Place) -> object:
        """Return the value at a place, or None if there is none or it is null."""
        value: object = self.data
        for key in place:
            if isinstance(value, Mapping):
                value = cast("Mapping[object, object]", value).get(key)
            else:
                value = (
                    cast("list[object]", value)[key] if isinstance(key, int) else None
                )
        return value

    def line(self, place: Place) -> int | None:
        """Return the line of a key, or of its nearest parent with a known line."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    def error_at(self, message: str, *place: str | int) -> DocumentError:
        """Return an error about the value at a place, with its line and key."""
        return DocumentError(message, self.line(place), dotted(place))


def read_text(
    path: Path, *, within: Path | None = None, own: bool = False
) -> str | None:
    """Read a small UTF-8 file.

    :param path: the file.
    :param within: a folder that must contain the file after symbolic links are
        resolved; None for no limit.
    :param own: whether the file must belong to the user; needs `within`.
    :return: its text without a byte order mark, or None if the file does not exist.
    :raises ForeignError: if the file belongs to another user.
    :raises DocumentError: if the file is not regular, too large, binary, not UTF-8,
        outside `within`, or unreadable.
    """
    try:
        if within is None:
            opened = open_regular(path)
        else:
            real = path.resolve()
            if not real.is_relative_to(within.resolve()):
                raise DocumentError(
                    f"is a link to a file outside {within}; replace it with a copy of the file"
                )
            opened = open_own(path, real) if own else open_resolved(real)
        with opened as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except ForeignError:
        raise
    except NotRegularError as error:
        raise DocumentError("is not a regular file") from error
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (
        OSError,
        RuntimeError,
    ) as error:  # Python 3.11 raises RuntimeError for a loop of links
        raise DocumentError(
            f"cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise DocumentError(f"is larger than {MAX_FILE_BYTES // 1024} KiB")
    if b"\0" in content:
        raise DocumentError("is not a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            "is not UTF-8 text; save it with that encoding", line
        ) from error


@lru_cache(64)
def parse_mapping(
    text: str, first_line: int = 1, is_text: Callable[[Place], bool] = lambda _: False
) -> Document:
    """Parse YAML whose top level is a mapping or empty. Results are cached, since every
    session reads the same recipes, which takes 10 ms.

    :param text: the YAML.
    :param first_line: the line of the file at which `text` begins.
    :param is_text: returns whether a word at this place is always text. Otherwise
        `1.10` would become the number 1.1.
    :raises DocumentError: if the YAML is invalid; the error includes the line.
    """
    return _mapping(*_parse("\n" * (first_line - 1) + text, is_text))


def parse_mappings(text: str) -> list[Document]:
    """Parse YAML whose top level is a mapping or a list of mappings.

    :raises DocumentError: if the YAML is invalid; the error includes the line.
    """
    data, lines = _parse(text, lambda _: False)
    if not isinstance(data, list):
        return [_mapping(data, lines)]
    items = cast("list[object]", data)
    lines_of: list[dict[Place, int]] = [{} for _ in items]
    for at, line in lines.items():
        if at and isinstance(at[0], int):
            lines_of[at[0]][at[1:]] = line
    return [
        _mapping(item, lines_of_item)
        for item, lines_of_item in zip(items, lines_of, strict=True)
    ]


def _mapping(data: object, lines: dict[Place, int]) -> Document:
    if not isinstance(data, Mapping):
        raise DocumentError("should be a mapping: `key: value` lines", lines[()])
    return Document(cast("Mapping[str, object]", data), lines)


def _parse(
    text: str, is_text: Callable[[Place], bool]
) -> tuple[object, dict[Place, int]]:
    """Return the data and the line of every place in it. The data of an empty document
    is an empty mapping.
    """
    import yaml
    from yaml.reader import ReaderError

    # JSON may be indented with tabs, which YAML does not allow.
    bare = ((line, line.lstrip("\t")) for line in text.split("\n"))
    text = "\n".join("  " * (len(line) - len(rest)) + rest for line, rest in bare)
    try:
        node = _loader()(text).get_single_node()
        lines: dict[Place, int] = {} if node else {(): 1}
        return _value(node, (), lines, set(), is_text) if node else {}, lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise DocumentError(
            f"is not valid YAML: {reason}", mark.line + 1 if mark else None
        ) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(
            f"is not valid YAML: the character #x{error.character:02x} is not allowed",
            line,
        ) from error
    except ValueError as error:  # a number with thousands of digits
        raise DocumentError(f"is not valid YAML: {error}") from error
    except RecursionError as error:
        raise DocumentError("is nested too deeply") from error


@cache
def _loader() -> type[SafeLoader]:
    """Return a loader class that limits the number of tokens and the depth of nested
    brackets. Each open bracket slows PyYAML down for the rest of the document.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        flow_level: int
        line: int
        tokens_taken: int

        def fetch_more_tokens(self) -> None:
            if self.tokens_taken >= MAX_TOKENS:
                limit = f"about {MAX_TOKENS // 4:,} keys with values"
                raise DocumentError(f"is too long; the limit is {limit}", self.line + 1)
            super().fetch_more_tokens()  # pyright: ignore[reportUnknownMemberType]

        def fetch_flow_collection_start(self, TokenClass: type[Token]) -> None:  # noqa: N803 - PyYAML's name
            if self.flow_level > MAX_DEPTH:
                raise DocumentError("is nested too deeply", self.line + 1)
            super().fetch_flow_collection_start(TokenClass)  # pyright: ignore[reportUnknownMemberType]

    return Loader


def _value(
    node: Node,
    place: Place,
    lines: dict[Place, int],
    seen: set[int],
    is_text: Callable[[Place], bool],
) -> object:
    """Return the value of a node, and record the line of every key and item below it.

    :raises DocumentError: if a value would silently be lost or misread.
    """
    import yaml

    line = node.start_mark.line + 1
    lines.setdefault(place, line)
    if len(place) > MAX_DEPTH:
        raise DocumentError("is nested too deeply", line, dotted(place[:3]))
    if id(node) in seen:
        raise DocumentError(
            "anchors (&name) and aliases (*name) are not supported",
            line,
            dotted(place),
        )
    if node.tag not in _TAGS:
        raise DocumentError(
            f"tags ({node.tag.removeprefix(_YAML)}) are not supported",
            line,
            dotted(place),
        )
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(item, (*place, index), lines, seen, is_text)
            for index, item in enumerate(node.value)
        ]
    if not isinstance(node, yaml.MappingNode):
        text = str(node.value)
        if node.tag == f"{_YAML}null":
            return None
        is_word = (
            node.tag in _NUMBERS and _JSON_WORD.fullmatch(text) and not is_text(place)
        )
        return json.loads(text) if is_word else text
    data: dict[str, object] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError(
                "a key should be text, not a list or a mapping", line, dotted(place)
            )
        inner = (*place, str(key.value))
        if inner in lines:
            raise DocumentError(
                f"is set twice, first in line {lines[inner]}; remove one of the two",
                line,
                dotted(inner),
            )
        lines[inner] = line
        data[str(key.value)] = _value(value, inner, lines, seen, is_text)
    return data


def validate(
    type_: type[T], document: Document, *place: str | int, data: object = None
) -> T:
    """Validate the value at a place of a document against a pydantic model or a class
    of `settings`.

    :param data: a value to validate instead of the document's.
    :raises DocumentError: if the value is invalid. Only the first mistake in the file
        is reported, with line and key.
    """
    from pydantic import ValidationError

    try:
        return _adapter(type_).validate_python(
            document.at(place) if data is None else data
        )
    except ValidationError as error:
        found = [
            ((*place, *details["loc"]), details)
            for details in error.errors(include_url=False)
        ]
        where, details = min(found, key=lambda each: document.line(each[0]) or 0)
        key = [part for part in where if part != "[key]"]
        raise DocumentError(
            _sentence(details, type_), document.line(where), dotted(key)
        ) from error


@cache
def _adapter(type_: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(type_)


def _sentence(details: ErrorDetails, type_: type) -> str:
    """Return our message for an error from pydantic. The message never quotes text from
    the file, which may be a misplaced secret.
    """
    message = (
        details["msg"].removeprefix("Value error, ").replace("Input should", "should")
    )
    match details["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            word = str(details["loc"][-1]).replace("-", "_")
            return f"unknown key; {did_you_mean(word, _keys_at(type_, details['loc'][:-1]))}"
        case "missing":
            return "is required"
        case "dict_type" | "mapping_type" | "model_type" | "dataclass_type":
            return "should be a mapping: `key: value` lines, indented below the key"
        case "list_type" | "tuple_type":
            return "should be a list, such as [one, two]"
        case _:
            value = details["input"]
            return (
                f"{message}, not {value}" if isinstance(value, int | float) else message
            )


def _keys_at(annotation: object, place: Place) -> list[str]:
    """Return the names of the valid keys at a place, for a class or a type that
    contains one.
    """
    if isinstance(annotation, type) and (
        fields := _fields(cast("type[object]", annotation))
    ):
        return _keys_at(fields[str(place[0])], place[1:]) if place else list(fields)
    arguments = get_args(annotation)
    if get_origin(annotation) in (dict, list, Mapping, tuple):
        return _keys_at(
            arguments[0 if get_origin(annotation) is tuple else -1], place[1:]
        )
    for argument in arguments:  # X | None, Annotated and the like
        if keys := _keys_at(argument, place):
            return keys
    return []


def _fields(cls: type[object]) -> dict[str, object]:
    """Return the annotations of the keys that a file may set, or nothing if the class
    is not a mapping in a file.
    """
    from pydantic import BaseModel

    if issubclass(cls, BaseModel):
        return {
            field.alias or name: field.annotation
            for name, field in cls.model_fields.items()
        }
    return cls.file_keys() if issubclass(cls, ConfigSection) else {}


def dotted(place: Iterable[str | int]) -> str | None:
    """Return a path in dotted notation, such as `compaction.threshold`, or None for the
    top of the file.
    """
    return ".".join(str(part) for part in place) or None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return the end of an error message about an unknown word: the most similar known
    word, or all of them if none is similar.
    """
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=3)
    # `modle` is `model` with two letters swapped, though difflib finds `mode` to be
    # nearer.
    near.sort(key=lambda each: sorted(each) != sorted(word))
    return (
        f"did you mean `{near[0]}`?"
        if near
        else f"use one of: {', '.join(sorted({*known}))}"
    )
