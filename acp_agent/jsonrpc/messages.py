"""JSON-RPC 2.0 messages: the codec between one line of bytes and one JSON value, what a value is, and the errors.

Owns the shapes on the wire and the checks that make a value a request, a notification or a response. Does not know
which methods exist, who sends the bytes, or what any parameter means.

Source: https://www.jsonrpc.org/specification; `$/cancel_request` and -32800 as in the Agent Client Protocol and LSP.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias, cast

from acp_agent.frozen import frozen

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"
RequestId: TypeAlias = "int | str | None"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

CANCEL_METHOD = "$/cancel_request"

_BOM = b"\xef\xbb\xbf"
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Legal inside a JSON string, but some readers of lines (Node's readline, Python's splitlines) would break there.
_LINE_BREAKS = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class RpcError(Exception):
    """An error as it stands on the wire, sent or received.

    :param code: JSON-RPC error code.
    :param message: one sentence for the person at the other end.
    :param data: anything more; when absent, the sentence is repeated as `data.details`, where some clients look.
    """

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)

    def __repr__(self) -> str:
        return f"RpcError({self.code}, {self.message!r})"


class PeerClosedError(ConnectionError):
    """The other end is gone: the request was not, or will not be, answered."""


@frozen
class Request:
    """A request, or a notification, which nobody answers.

    :param id: None for a notification, and for a request whose id is null.
    """

    id: RequestId
    method: str
    params: JsonObject
    is_notification: bool


@frozen
class Response:
    """The answer to a request of ours: a result, or an error."""

    id: JsonValue
    result: JsonValue
    error: RpcError | None


@frozen
class Rejected:
    """A JSON value which is no JSON-RPC message, with the error to answer and the id, where one could be read."""

    id: RequestId
    error: RpcError


def decode(line: bytes) -> JsonValue:
    """Parse one line. Lone surrogates (`"\\ud800"`) become U+FFFD, so that the value can always be written again.

    :param line: UTF-8, with or without its line ending.
    :raises RpcError: -32700, when the line is not JSON (NaN and Infinity are not), not UTF-8, or nested too deeply.
    """
    try:
        text = line.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RpcError(PARSE_ERROR, f"The line is not UTF-8 (byte {error.start}).") from None
    try:
        value: JsonValue = _decoder.decode(text)
    except RecursionError:
        raise RpcError(PARSE_ERROR, "The line is not readable as JSON: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise RpcError(PARSE_ERROR, f"The line is not JSON: {error.msg} (character {error.pos}).") from None
    except ValueError:  # a constant such as NaN, or an integer of more digits than Python converts
        raise RpcError(PARSE_ERROR, "The line is not JSON: it holds a number that JSON does not have.") from None
    if _SURROGATE_ESCAPE.search(line):
        return _without_surrogates(value)
    return value


def encode(message: JsonValue) -> bytes:
    """Write one message as compact UTF-8 JSON in exactly one line, `\\n` included.

    What JSON cannot hold is replaced instead of failing: lone surrogates by U+FFFD (halves of a pair that met in
    joined text become the character), and NaN or an infinity by null.

    :raises TypeError: for a value of no JSON type.
    :raises RecursionError: for a value nested too deeply.
    """
    try:
        text = _encoder.encode(message)
    except ValueError:
        text = _encoder.encode(_finite(message))
    for character, escape in _LINE_BREAKS.items():
        if character in text:
            text = text.replace(character, escape)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode() + b"\n"


def classify(value: JsonValue) -> Request | Response | Rejected:
    """Say what a decoded value is. Batches are not known here: give each element on its own.

    `params` may be missing or null (ACP's schema allows null), otherwise it must be an object. No method here
    takes the list that JSON-RPC allows; a notification with one is not answered all the same, and somebody's own method
    is unknown first.
    """
    if not isinstance(value, dict):
        return Rejected(None, RpcError(INVALID_REQUEST, "A message must be a JSON object."))
    if "method" not in value and ("result" in value or "error" in value):
        return _response(value)
    request_id = value.get("id")
    if request_id is not None and (isinstance(request_id, bool) or not isinstance(request_id, (int, str))):
        return Rejected(None, RpcError(INVALID_REQUEST, '"id" must be a string, an integer or null.'))
    method = value.get("method")
    params = value.get("params")
    if value.get("jsonrpc") != "2.0":
        problem = '"jsonrpc" must be "2.0".'
    elif not isinstance(method, str):
        problem = '"method" must be a string.'
    elif isinstance(params, list) and ("id" not in value or method.startswith("_")):
        return Request(request_id, method, {}, is_notification="id" not in value)
    elif params is not None and not isinstance(params, dict):
        problem = '"params" must be an object.'
    else:
        return Request(request_id, method, params or {}, is_notification="id" not in value)
    return Rejected(request_id, RpcError(INVALID_REQUEST, problem))


def request_message(request_id: int, method: str, params: JsonObject) -> JsonObject:
    """A request of ours, ready for `encode`."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification_message(method: str, params: JsonObject) -> JsonObject:
    """A notification of ours, ready for `encode`."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result_message(request_id: RequestId, result: JsonValue) -> JsonObject:
    """The answer to a request that succeeded."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_message(request_id: RequestId, error: RpcError) -> JsonObject:
    """The answer to a request that failed; without data of its own the sentence also stands in `data.details`."""
    data: JsonValue = {"details": error.message} if error.data is None else error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": error.code, "message": error.message, "data": data}}


def internal_error(error: Exception) -> RpcError:
    """The plain mapping of an unexpected exception to the wire: its own text, -32603, no traceback."""
    return RpcError(INTERNAL_ERROR, str(error) or type(error).__name__)


def encode_error(request_id: RequestId, error: RpcError) -> bytes:
    """An error response as one line; without its `data`, where JSON has no form for that."""
    try:
        return encode(error_message(request_id, error))
    except (TypeError, RecursionError):
        return encode(error_message(request_id, RpcError(error.code, error.message)))


def only_cause(error: Exception) -> Exception:
    """What a task group wrapped, when it is one exception only."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    return only_cause(group.exceptions[0]) if len(group.exceptions) == 1 else group


def _response(value: JsonObject) -> Response:
    error = value.get("error")
    if error is None:
        return Response(value.get("id"), value.get("result"), None)
    fields = error if isinstance(error, dict) else {"data": error}
    code, message = fields.get("code"), fields.get("message")
    return Response(
        value.get("id"),
        None,
        RpcError(
            code if isinstance(code, int) else INTERNAL_ERROR,
            message if isinstance(message, str) else "The response is an error without a message.",
            fields.get("data"),
        ),
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _without_surrogates(value: JsonValue) -> JsonValue:
    # Two lists instead of recursion: the parser's depth limit is not the limit of Python functions.
    root: list[JsonValue] = [value]
    containers: list[dict[str, JsonValue] | list[JsonValue]] = [root]
    while containers:
        container = containers.pop()
        if isinstance(container, dict):
            entries = list(container.items())
            container.clear()
            container.update((_SURROGATE.sub("\ufffd", key), _repaired(item)) for key, item in entries)
            containers.extend(item for item in container.values() if isinstance(item, (dict, list)))
        else:
            container[:] = [_repaired(item) for item in container]
            containers.extend(item for item in container if isinstance(item, (dict, list)))
    return root[0]


def _repaired(value: JsonValue) -> JsonValue:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


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
