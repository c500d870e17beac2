"""The parts of messages as models read them (text and images), and the arguments of
tool calls.

The readable form of an embedded file or link must never change for the same part, since
it belongs to the prefix that providers' caches compare.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from acp_agent.conversation.encoding import decoded, text_in
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    CompactedBlock,
    Data,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Resource,
    ResourceLink,
    Stored,
    Text,
    ToolCall,
    Usage,
    UserPart,
)
from acp_agent.conversation.strict_json import is_finite, parse_json
from acp_agent.json_bounds import has_too_many_values
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.llm.provider import Answered, ModelRequest

_FRAMES = re.compile(r"<\s*+(?:/\s*+)?(file(?:-\d+)?)\b", re.IGNORECASE)
"""Matches tags in a text that could be mistaken for the tags around that text."""
_NO_ADDRESS = re.compile(r'[\x00-\x1f\x7f\x85\u2028\u2029"<>]')
"""Characters that no valid address contains (RFC 3986, 2), and that would end the
address's line or quotes.
"""
EMPTY = "(empty)"
"""Replaces an empty message or result, which no provider accepts."""


def media_type(given: str | None) -> str:
    """Return a media type without its parameters, in lower case (RFC 9110, 8.3.1);
    empty if there is none.
    """
    return (given or "").partition(";")[0].strip().lower()


def picture_of(part: UserPart | AssistantPart) -> Image | None:
    """Return the image in a part, which may be an attached file; None if the part is
    not an image.

    A drawing in text form, such as an SVG, does not count as an image.
    """
    match part:
        case Image(data=data, mime_type=kind, uri=uri):
            return Image(data, media_type(kind), uri)
        case Resource(blob=str() | Stored() as blob) if _is_image(part):
            return Image(blob, media_type(part.mime_type), part.uri)
        case _:
            return None


def is_picture(part: UserPart | AssistantPart) -> bool:
    """Return whether a part is an image, or an attached file that is one."""
    return picture_of(part) is not None


def _is_image(file: Resource) -> bool:
    kind = media_type(file.mime_type)
    blob = file.blob
    if file.text is not None or blob is None or not kind.startswith("image/"):
        return False
    return kind in IMAGE_TYPES or not (
        blob.text if isinstance(blob, Stored) else _text_of(blob)
    )


def _text_of(data: Data) -> str | None:
    """Return the text of inline text data, or None for other data."""
    content = decoded(data) if isinstance(data, str) else None
    return None if content is None else text_in(content)


def user_parts(
    parts: Iterable[UserPart], *, images: bool, stored: bool = False
) -> list[Text | Image]:
    """Return a user's message or a tool's result as texts and images. The list is never
    empty and has no blank texts.

    :param images: whether the model reads images; if not, each image is replaced by a
        line that names it.
    :param stored: whether to keep images unchanged if their bytes are stored elsewhere.
    """
    readable = [_readable(part, images=images, stored=stored) for part in parts]
    return [
        part for part in readable if not isinstance(part, Text) or part.text.strip()
    ] or [Text(EMPTY)]


def image_url(image: Image) -> str:
    """Return an image as a data URL."""
    return f"data:{image.mime_type};base64,{base64_of(image)}"


def base64_of(part: Image) -> str:
    """Return an image's data. The data is always inline, since by default `user_parts`
    keeps no image that is stored elsewhere.
    """
    assert isinstance(part.data, str)
    return part.data


def image_left_out(uri: str | None, reason: str) -> Text:
    """Return the line that replaces an image.

    :param reason: why, as the end of a sentence.
    """
    return Text(f"[image{f' {address(uri)}' if uri else ''} left out: {_line(reason)}]")


REFUSED = "the model's provider refused it"
"""The reason to give for leaving out an image."""


def without_images(request: ModelRequest, first: int = 0) -> ModelRequest | None:
    """Return a request with each image replaced by a line of text, or None if there is
    nothing to replace.

    :param first: index of the first message whose images are replaced.
    """
    messages: list[Message] = [*request.messages[:first]]
    for message in request.messages[first:]:
        if not isinstance(message, AssistantMessage) and any(
            map(is_picture, message.parts)
        ):
            parts = [_left_out_if_picture(part) for part in message.parts]
            message = replace(message, parts=tuple(parts))  # noqa: PLW2901
        messages.append(message)
    changed = tuple(messages)
    return None if changed == request.messages else replace(request, messages=changed)


def _left_out_if_picture(part: UserPart) -> UserPart:
    picture = picture_of(part)
    return part if picture is None else image_left_out(picture.uri, REFUSED)


def framed(text: str, attributes: Mapping[str, str | None]) -> str:
    """Return a file's text between two tags that the text itself cannot close.

    If the text contains tags of the same name, the name gets a number.

    :param attributes: the attributes of the start tag; attributes that are None are
        left out.
    """
    taken = {name.lower() for name in _FRAMES.findall(text)}
    names = itertools.chain(
        ("file",), (f"file-{number}" for number in itertools.count(2))
    )
    name = next(name for name in names if name not in taken)
    said = "".join(
        f' {key}="{address(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{said}>\n{text}\n</{name}>"


def address(uri: str) -> str:
    """Return an address with line breaks and quotes escaped. A valid address is
    unchanged.
    """
    return _NO_ADDRESS.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), uri
    )


def estimated_usage(request: ModelRequest, answered: Answered) -> Usage:
    """Return an estimate for a server that does not count tokens: 4 characters per
    token, and 6,000 per image.

    Without an estimate, the context would never appear full.
    """
    asked = len(request.system) + len(str(request.tools))
    for message in request.messages:
        is_answer = isinstance(message, AssistantMessage)
        asked += _length(
            message.parts
            if is_answer
            else user_parts(message.parts, images=True, stored=True)
        )
    return Usage((asked + 3) // 4, (_length(answered.parts) + 3) // 4)


def cached_usage(request: ModelRequest) -> Usage:
    """Return an estimate for an answer that was stopped at its beginning.

    The request begins like the previous one, so it is assumed to be read from the
    cache.
    """
    estimated = estimated_usage(request, Answered((), "end_turn", Usage()))
    return Usage(cache_read_tokens=estimated.input_tokens)


def _length(parts: Iterable[AssistantPart | Image]) -> int:
    length = 0
    for part in parts:
        match part:
            case Image():
                length += 6_000
            case ToolCall():
                length += len(part.name) + len(arguments_text(part))
            case _:
                length += len(part.text)
    return length


def _readable(part: UserPart, *, images: bool, stored: bool) -> Text | Image:
    picture = picture_of(part)
    if picture is not None:
        return _image(picture, images=images, stored=stored)
    match part:
        case Text():
            return part
        case CompactedBlock():
            return Text(part.text)
        case Audio():
            return Text(
                f"[sound ({_line(part.mime_type)}) left out: this model does not take it]"
            )
        case ResourceLink():
            size = "" if part.size is None else f"{part.size} bytes"
            more = (_line(part.mime_type or ""), size, _line(part.description or ""))
            return Text(
                f"[link: {' | '.join([_line(part.title or part.name), address(part.uri), *filter(None, more)])}]"
            )
        case _:
            assert isinstance(part, Resource)
            text = _text_of(part.blob or "") if part.text is None else part.text
            if text is not None:
                return Text(
                    framed(text, {"uri": part.uri, "type": part.mime_type or None})
                )
            kind = f" ({_line(part.mime_type)})" if part.mime_type else ""
            return Text(f"[file {address(part.uri)} left out: it is binary{kind}]")


def _image(part: Image, *, images: bool, stored: bool) -> Text | Image:
    if not images:
        return image_left_out(part.uri, "this model does not read images")
    if isinstance(part.data, Stored) and not stored:
        return image_left_out(part.uri, "it is kept elsewhere")
    if part.mime_type in IMAGE_TYPES and part.data:
        return part
    return image_left_out(part.uri, f"{part.mime_type} is not a type that models read")


def _line(text: str) -> str:
    return " ".join(text.splitlines())


MAX_ARGUMENTS = 1024 * 1024
"""Maximum length of one call's arguments. Only a model that repeats itself endlessly
writes more.
"""
_MAX_VALUES = 20_000
_LONG = 64 * 1024
"""Maximum number of values in arguments. Values are counted only if the arguments are
longer than `_LONG` characters.
"""
_MAX_ENCODINGS = 3
"""How many times arguments may be encoded as JSON, one encoding inside another."""
_MAX_QUOTED = 1_000
"""Maximum length of the unreadable arguments that an error result quotes."""
_DROPPED = f"(dropped: longer than {MAX_ARGUMENTS:,} characters)"
"""Replaces longer arguments. The text is not JSON, so every reader treats the call as
invalid.
"""


class ArgumentsTooLongError(Exception):
    """A call's arguments are longer than `MAX_ARGUMENTS`; the rest of the stream must
    not be read.
    """


def check_arguments(length: int) -> None:
    """Check the length of a call's arguments while they stream. `tool_call` drops
    arguments that are too long.

    :raises ArgumentsTooLongError: if they are too long.
    """
    if length > MAX_ARGUMENTS:
        raise ArgumentsTooLongError


def tool_call(
    call_id: str, name: str, *readings: str, keep_raw: bool = True
) -> ToolCall:
    """Return a call with these arguments. If they are not a JSON object, they are
    stored in `invalid`.

    A JSON string that contains a JSON object counts as that object, because some models
    and servers encode arguments twice.

    :param readings: possible readings of the arguments, the likeliest first. The first
        that is an object is used.
    :param keep_raw: whether the arguments are sent back to the provider as text.
    """
    written = [
        each if len(each) <= MAX_ARGUMENTS else _DROPPED
        for each in readings
        if each.strip()
    ]
    if not written:
        return ToolCall(call_id, name)
    for arguments in written:
        value = _object_or_fault(arguments)
        if isinstance(value, str):
            continue
        call = ToolCall(call_id, name, value)
        # Arguments that were encoded twice are sent back encoded once, because servers
        # parse them as an object.
        is_same = (
            not keep_raw
            or arguments_text(call) == arguments
            or not arguments.lstrip().startswith("{")
        )
        return call if is_same else replace(call, raw=arguments)
    return ToolCall(call_id, name, invalid=written[0])


def is_whole_object(arguments: str) -> bool:
    """Return whether a text is one complete JSON object, or a JSON string that contains
    one.
    """
    return not isinstance(_object_or_fault(arguments), str)


def arguments_fault(invalid: str) -> str:
    """Tell the model what is wrong with arguments that `tool_call` could not read."""
    if invalid == _DROPPED:
        return (
            f"the arguments were longer than {MAX_ARGUMENTS:,} characters (1 MiB), so the call was cut off and did"
            " not run. None of the arguments were kept. Send less in one call, such as a long file in pieces."
        )
    shown = invalid if len(invalid) <= _MAX_QUOTED else f"{invalid[:_MAX_QUOTED]} …"
    return (
        f"the arguments are not a JSON object: {_object_or_fault(invalid)}. Send them again as one JSON object. They"
        f" were: {shown}"
    )


def arguments_of(call: ToolCall) -> JsonObject:
    """Return the arguments to send back. Old logs may contain invalid JSON, which is
    replaced by an empty object.
    """
    return call.arguments if call.invalid is None and is_finite(call.arguments) else {}


def arguments_text(call: ToolCall) -> str:
    """Return the arguments to send back as JSON text, always the same bytes."""
    return json.dumps(arguments_of(call), ensure_ascii=False, separators=(",", ":"))


def sent_arguments(call: ToolCall) -> str:
    """Return the arguments as the model wrote them, for a provider that accepts text.

    The provider may compare the text, and a model that sees its own mistake can correct
    the mistake.
    """
    if has_raw_arguments(call):
        return call.invalid or ""
    return call.raw if call.raw and is_finite(call.arguments) else arguments_text(call)


def has_raw_arguments(call: ToolCall) -> bool:
    """Return whether `sent_arguments` returns text that is not a JSON object.

    Arguments with a value that JSON does not allow, such as NaN, are not sent back:
    some servers parse them and forward a form that the next server refuses.
    """
    if call.invalid is None or call.invalid == _DROPPED:
        return False
    try:
        return not isinstance(json.loads(call.invalid), dict)
    except (ValueError, RecursionError):
        return True


def _object_or_fault(text: str) -> JsonObject | str:
    value: JsonValue = text
    for _ in range(_MAX_ENCODINGS):
        assert isinstance(value, str)
        try:
            found = parse_json(value)
        except ValueError as error:
            return str(error)
        if has_too_many_values(
            value.encode("utf-8", "surrogatepass"), _MAX_VALUES, _LONG
        ):
            return f"they have more than {_MAX_VALUES:,} values"
        if isinstance(found, dict):
            return found
        if not isinstance(found, str):
            break
        value = found
    return "they are another kind of JSON value"
