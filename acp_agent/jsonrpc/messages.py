"""JSON-RPC 2.0 messages: parsing and checking a line, encoding a line, and the errors.

Source: https://www.jsonrpc.org/specification; `$/cancel_request` and -32800 as in the
Agent Client Protocol and LSP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from acp_agent.frozen import frozen
from acp_agent.json_bounds import MAX_VALUES, has_too_many_values

JsonValue: TypeAlias = (
    "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
)
JsonObject: TypeAlias = "dict[str, JsonValue]"
RequestId: TypeAlias = "int | str | None"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

CANCEL_METHOD = "$/cancel_request"

_LARGE = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = re.compile(
    r"\\u[dD](?:[89abAB]\w\w(?!\\u[dD][c-fC-F]\w\w)|[c-fC-F]\w\w(?<!\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w))"
)
# Valid in a JSON string, but some line readers (Node's readline, Python's splitlines)
# break lines there.
_LINE_BREAKS = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class RpcError(Exception):
    """An error on the wire, sent or received.

    :param message: one sentence for the person at the other end.
    :param data: additional data.
    """

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)

    def __repr__(self) -> str:
        return f"RpcError({self.code}, {self.message!r})"


class InvalidMessageError(RpcError):
    """Raised for a line that is not a valid message.

    :ivar request_id: the ID to answer with, if one could be read.
    """

    def __init__(
        self, message: str, request_id: RequestId = None, *, code: int = INVALID_REQUEST
    ) -> None:
        super().__init__(code, message)
        self.request_id = request_id


class PeerClosedError(ConnectionError):
    """The other end is gone, so the request was not answered."""


@frozen
class Request:
    """A request, or a notification, which is not answered.

    :ivar id: None for a notification, and for a request whose ID is null.
    """

    id: RequestId
    method: str
    params: JsonValue
    is_notification: bool


@frozen
class Response:
    """The answer to one of our requests: a result or an error."""

    id: JsonValue
    result: JsonValue
    error: RpcError | None


def parse(line: bytes) -> Request | Response:
    """Parse one line, with or without its line ending, and check that it is a message.

    Lone surrogates (`"\\ud800"`) become U+FFFD, so that everything that was read can be written again.

    :raises InvalidMessageError: if the line is not UTF-8, not JSON (NaN and Infinity
        are invalid), or not a message.
    """
    value = _decode(line)
    if isinstance(value, list):
        raise InvalidMessageError(
            "Batches are not supported: send each message in a line of its own."
        )
    if not isinstance(value, dict):
        raise InvalidMessageError("A message must be a JSON object.")
    if "method" not in value and ("result" in value or "error" in value):
        return _response(value)
    request_id = value.get("id")
    method = value.get("method")
    params = value.get("params")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str | None):
        raise InvalidMessageError('"id" must be a string, an integer or null.')
    if value.get("jsonrpc") != "2.0":
        raise InvalidMessageError('"jsonrpc" must be "2.0".', request_id)
    if not isinstance(method, str):
        raise InvalidMessageError('"method" must be a string.', request_id)
    if not isinstance(params, dict | list | None):
        raise InvalidMessageError('"params" must be an object.', request_id)
    return Request(request_id, method, params or {}, is_notification="id" not in value)


def id_at_start(line: bytes) -> RequestId:
    """Return the ID of a request from the start of its line, or None if it does not
    precede the params.
    """
    before, params, _ = line.partition(b'"params"')
    try:
        message = parse(before.rstrip(b", ") + b"}")
    except InvalidMessageError as error:
        return error.request_id
    return message.id if params and isinstance(message, Request) else None


def error_object(error: RpcError) -> JsonObject:
    """Return the error object for a response."""
    shown: JsonObject = {"code": error.code, "message": error.message}
    return shown if error.data is None else {**shown, "data": error.data}


def encode(**members: JsonValue) -> bytes:
    """Encode a message with these members as compact UTF-8 JSON on exactly one line, including `\\n`.

    Values that JSON cannot represent are replaced: lone surrogates by U+FFFD (the
    halves of a pair that meet in joined text become the character), NaN and infinities
    by null.

    :raises TypeError: for a value that has no JSON type.
    :raises RecursionError: for a value nested too deeply.
    """
    message: JsonObject = {"jsonrpc": "2.0", **members}
    try:
        text = _encoder.encode(message)
    except ValueError:
        text = _encoder.encode(_finite(message))
    if not text.isascii():
        for character, escape in _LINE_BREAKS.items():
            text = text.replace(character, escape)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return (
            text.encode("utf-16-le", "surrogatepass")
            .decode("utf-16-le", "replace")
            .encode()
            + b"\n"
        )


def encode_notification(method: str, params: JsonObject) -> bytes:
    """Encode a notification like `encode`, but several times as fast: loading a session
    sends thousands of them.
    """
    _, to_json = _pydantic_json()
    try:
        line = to_json(
            {"jsonrpc": "2.0", "method": method, "params": params}, inf_nan_mode="null"
        )
    except ValueError:
        return encode(method=method, params=params)
    if not line.isascii() and any(
        character.encode() in line for character in _LINE_BREAKS
    ):
        return encode(method=method, params=params)
    return line + b"\n"


def _pydantic_json() -> tuple[Callable[..., JsonValue], Callable[..., bytes]]:
    # Imported late, since importing it would delay the first answers.
    from pydantic_core import from_json, to_json

    return from_json, to_json


def _decode(line: bytes) -> JsonValue:
    if has_too_many_values(line):
        text = f"The message has more than {MAX_VALUES:,} values, which are the most. It was not read; send less."
        raise InvalidMessageError(text, id_at_start(line))
    if len(line) >= _LARGE:
        # Several times as fast, and without a copy. Input that this refuses is parsed
        # below, which repairs it or says what is wrong.
        from_json, _ = _pydantic_json()
        with suppress(ValueError):
            return from_json(line, allow_inf_nan=False)
    try:
        text = line.removeprefix(_BOM).decode("utf-8")
        if ("\\ud" in text or "\\uD" in text) and "\0" not in text:
            # Without escaped backslashes, every backslash begins an escape. NUL never
            # occurs in JSON.
            text = _LONE_SURROGATE.sub(
                r"\\ufffd", text.replace("\\\\", "\0\0")
            ).replace("\0\0", "\\\\")
        return _decoder.decode(text)
    except UnicodeDecodeError as error:
        problem = f"The line is not UTF-8 (byte {error.start})."
    except RecursionError:
        problem = "The line is not readable as JSON: it is nested too deeply."
    except json.JSONDecodeError as error:
        problem = f"The line is not JSON: {error.msg} (character {error.pos})."
    except (
        ValueError
    ):  # a constant such as NaN, or an integer with more digits than Python converts
        problem = "The line is not JSON: it holds a number that JSON does not have."
    raise InvalidMessageError(problem, code=PARSE_ERROR)


def _response(value: JsonObject) -> Response:
    match value.get("error"):
        case None:
            return Response(value.get("id"), value.get("result"), None)
        case {"code": int(code), **more}:
            message = str(
                more.get("message") or "The response is an error without a message."
            )
            error = RpcError(code, message, more.get("data"))
        case other:
            error = RpcError(
                INTERNAL_ERROR,
                "The response is an error without a code and a message.",
                other,
            )
    return Response(value.get("id"), None, error)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _finite(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float() if value - value != 0:
            return None
        case _:
            return value


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
