"""Small files that people write: read safely, parsed as YAML with the line of every key, checked by a pydantic model.

Says what is wrong as a `DocumentError` with line and key. Knows neither settings nor recipes; they turn it into
their own error. Files may come from a stranger's repository, so nothing is assumed: not that a file is regular,
small or UTF-8, not that the YAML is flat, finite or free of repeated keys. PyYAML's own `safe_load` gives no lines,
lets the last of two equal keys win, and shares one object among all aliases of an anchor, which is small until
somebody walks over it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from acp_agent.frozen import frozen
from acp_agent.regular import NotRegularError, open_regular

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails
    from yaml import Node, SafeLoader

    M = TypeVar("M", bound=BaseModel)

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 20

Place: TypeAlias = tuple[str | int, ...]
IsText: TypeAlias = Callable[[tuple[str | int | None, ...], str], bool]

_TEXT = "tag:yaml.org,2002:str"
_GUESSED = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "merge", "timestamp", "value")}
"""What YAML 1.1 makes of a word without quotes, nothing at all left aside."""


class DocumentError(Exception):
    """What is wrong with a document. Whoever catches it adds the file and raises an error for the user.

    :param message: what is wrong, and what would be right.
    :param line: line in the file, from 1, where known.
    :param key: dotted path, where known.
    """

    def __init__(self, message: str, line: int | None = None, key: str | None = None) -> None:
        self.message = message
        self.line = line
        self.key = key
        super().__init__(message)


@frozen
class Document:
    """A YAML mapping.

    :ivar data: as YAML's safe types.
    :ivar lines: line in the file, from 1, of every key and list item by its path.
    """

    data: Mapping[str, object]
    lines: Mapping[Place, int]


def read_text(path: Path, *, within: Path | None = None) -> str | None:
    """Read a small UTF-8 file.

    :param path: the file.
    :param within: a folder that the file must be in, symbolic links followed; None for no such limit.
    :return: its text without a byte order mark, or None where there is no such file.
    :raises DocumentError: it is not a regular file, too large, no text, not UTF-8, outside of `within`, or unreadable.
    """
    try:
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            raise DocumentError(f"is a link that leads out of {within}; put a copy of the file here")
        with open_regular(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except NotRegularError as error:
        raise DocumentError("is not a regular file") from error
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError) as error:  # RuntimeError: Python 3.11's answer to a loop of links
        raise DocumentError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(content) > MAX_FILE_BYTES:
        raise DocumentError(f"is larger than {MAX_FILE_BYTES // 1024} KiB")
    if b"\0" in content:
        raise DocumentError("is no text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError("is not UTF-8 text; save it with that encoding", line) from error


def parse_mapping(text: str, first_line: int = 1, is_text: IsText = lambda _, __: False) -> Document:
    """Parse YAML whose top level is a mapping, or nothing.

    :param text: the YAML.
    :param first_line: the line of the file that `text` begins at.
    :param is_text: whether a word that stands at a place is text, as it is written: YAML 1.1 would make 1.1 of `1.10`,
        750 of `12:30`, 7 of `007` and false of `no`. It is asked about keys too, with a None behind their place.
    :raises DocumentError: with the line.
    """
    data, lines = _parse(text, first_line, is_text)
    begin = lines.pop(())
    if not isinstance(data, Mapping):
        raise DocumentError("should be `key: value` lines", begin)
    return Document(cast("Mapping[str, object]", data), lines)


def parse_mappings(text: str, words: Collection[str] = ()) -> list[tuple[int, Document]]:
    """Parse YAML whose top level is a mapping or a list of them.

    :param words: keys that are text, though YAML 1.1 reads them as true or false: `on`.
    :returns: each with the line that it begins at, which is also the line of its empty place.
    :raises DocumentError: with the line.
    """
    data, lines = _parse(text, 1, lambda place, word: place[-1:] == (None,) and word in words)
    if isinstance(data, Mapping):
        return [(lines[()], Document(cast("Mapping[str, object]", data), lines))]
    if not isinstance(data, list):
        raise DocumentError("should be `key: value` lines, or a list of such", lines[()])
    documents: list[tuple[int, Document]] = []
    for index, item in enumerate(cast("list[object]", data)):
        if not isinstance(item, Mapping):
            raise DocumentError("should be `key: value` lines", lines[index,])
        inner = {place[1:]: line for place, line in lines.items() if place[:1] == (index,)}
        documents.append((lines[index,], Document(cast("Mapping[str, object]", item), inner)))
    return documents


def _parse(text: str, first_line: int, is_text: IsText) -> tuple[object, dict[Place, int]]:
    """The data, an empty mapping where there is none, and its lines; that of the empty place is where it begins."""
    import yaml
    from yaml.reader import ReaderError

    lines: dict[Place, int] = {}
    try:
        loader = _loader()(text)
        node = loader.get_single_node()
        if node is None:
            return {}, {(): first_line}
        _walk(node, (), lines, first_line, set(), is_text)
        data = cast("object", loader.construct_document(node))  # pyright: ignore[reportUnknownMemberType]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise DocumentError(f"is not valid YAML: {reason}", mark.line + first_line if mark else None) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + first_line
        raise DocumentError(f"is not valid YAML: the character #x{error.character:02x} is not allowed", line) from error
    except (ValueError, ArithmeticError, LookupError, AttributeError) as error:  # what bad dates and tags become
        raise DocumentError(f"is not valid YAML: {error}") from error
    except RecursionError as error:
        raise DocumentError("is nested too deeply") from error
    return data, {(): node.start_mark.line + first_line, **lines}


@cache
def _loader() -> type[SafeLoader]:
    """PyYAML's, which also reads JSON that is indented by tabs: they stand between its words alone."""
    import yaml

    class Loader(yaml.SafeLoader):
        def scan_to_next_token(self) -> None:
            super().scan_to_next_token()  # pyright: ignore[reportUnknownMemberType]
            while self.flow_level and self.peek() == "\t":  # pyright: ignore[reportUnknownMemberType]
                self.forward()  # pyright: ignore[reportUnknownMemberType]
                super().scan_to_next_token()  # pyright: ignore[reportUnknownMemberType]

    return Loader


def _walk(node: Node, place: Place, lines: dict[Place, int], first_line: int, seen: set[int], is_text: IsText) -> None:
    """Note the line of every key and item below `node`, have text read as it is written, and refuse what would be
    silently lost or misread."""
    import yaml

    line = node.start_mark.line + first_line
    if len(place) > MAX_DEPTH:
        raise DocumentError("is nested too deeply", line, dotted(place[:3]))
    if id(node) in seen:
        raise DocumentError("anchors (&name) and aliases (*name) are not understood here", line, dotted(place))
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[*place, index] = item.start_mark.line + first_line
            _walk(item, (*place, index), lines, first_line, seen, is_text)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + first_line
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError("a key should be a word", line, dotted(place))
            if key.tag in _GUESSED and is_text((*place, None), str(key.value)):
                key.tag = _TEXT
            if key.tag != _TEXT:
                message = f"YAML does not read this key as text; put it in quotes: '{key.value}'"
                raise DocumentError(message, line, dotted(place))
            inner = (*place, str(key.value))
            if inner in lines:
                raise DocumentError(f"is set twice, first in line {lines[inner]}; keep one", line, dotted(inner))
            lines[inner] = line
            _walk(value, inner, lines, first_line, seen, is_text)
    elif isinstance(node, yaml.ScalarNode) and node.tag in _GUESSED and is_text(place, str(node.value)):
        node.tag = _TEXT


def validate(model: type[M], document: Document, context: object = None) -> M:
    """Check a document against a model.

    :param context: handed to the model's validators.
    :raises DocumentError: the first one from the top of the file, with line and key.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(document.data, context=context)
    except ValidationError as error:
        raise _first(error, model, document) from error


def _first(error: ValidationError, model: type[BaseModel], document: Document) -> DocumentError:
    problems = [
        (_line(details["loc"], document), index, details)
        for index, details in enumerate(error.errors(include_url=False))
    ]
    line, _, details = min(problems, key=lambda problem: problem[:2])
    place = tuple(part for part in details["loc"] if part != "[key]")
    return DocumentError(_sentence(details, model), line or None, dotted(place))


def _line(place: Place, document: Document) -> int:
    while place and place not in document.lines:
        place = place[:-1]
    return document.lines.get(place, 0)


def _sentence(details: ErrorDetails, model: type[BaseModel]) -> str:
    """What pydantic found, in our words. Repeats no text of the file: it may be a secret in the wrong place."""
    message = details["msg"].removeprefix("Value error, ").replace("Input should", "should")
    match details["type"]:
        case "extra_forbidden":
            from difflib import get_close_matches

            known = _keys_at(model, details["loc"][:-1])
            near = get_close_matches(str(details["loc"][-1]).replace("-", "_"), known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
            return f"unknown key; {hint}"
        case "missing":
            return "is required"
        case "dict_type" | "model_type":
            return "should be `key: value` lines of its own, indented below"
        case "list_type":
            return "should be a list, such as [one, two]"
        case _:
            value = details["input"]
            return f"{message}, not {value}" if isinstance(value, int | float) else message


def _keys_at(annotation: object, place: Place) -> list[str]:
    """Names of the keys that a model, or a type that holds models, knows at a place."""
    from typing import get_args, get_origin

    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not place:
            return [field.alias or name for name, field in annotation.model_fields.items()]
        named = {field.alias or name: field for name, field in annotation.model_fields.items()}
        return _keys_at(named[str(place[0])].annotation, place[1:])
    arguments = get_args(annotation)
    if get_origin(annotation) in (dict, list):
        return _keys_at(arguments[-1], place[1:])
    for argument in arguments:  # X | None and the like
        if keys := _keys_at(argument, place):
            return keys
    return []


def dotted(place: Place) -> str | None:
    """A path as people write it: `compaction.threshold`; None for the top of the file."""
    return ".".join(str(part) for part in place) or None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """The end of an error about a word that is none of the known ones."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are: {', '.join(sorted({*known}))}"
