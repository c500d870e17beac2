"""Finds the method of a request and binds its parameters: a request goes in, a bound `Call` comes out.

The only importer of jsonrpcserver, which parses nothing and runs nothing here: it looks the method up, binds, and
reports. Does not know what the methods do, and awaits none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec, module_from_spec
from typing import TypedDict, TypeVar, cast

import anyio

from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    Request,
    RequestId,
    RpcError,
)

# The package's own __init__ loads an HTTP server and builds a JSON Schema validator, neither of which is used here, and
# that takes as long as a third of all our imports. So its modules are loaded with the package in place but not run;
# whoever imports the package afterwards gets it whole.
_spec = find_spec("jsonrpcserver")
_in_place = "jsonrpcserver" in sys.modules
if _spec is not None and not _in_place:
    sys.modules["jsonrpcserver"] = module_from_spec(_spec)
try:
    from jsonrpcserver.dispatcher import dispatch_to_response_pure
    from jsonrpcserver.response import to_serializable_one
    from jsonrpcserver.result import Error, Result, Success
finally:
    if not _in_place:
        sys.modules.pop("jsonrpcserver", None)

P = TypeVar("P")
T = TypeVar("T")

AfterResponse = Callable[[], Awaitable[None]]
ToLoad = Callable[[JsonObject], "Callable[[], None] | None"]
"""Says what has to be loaded before such params can be bound; None where there is nothing."""


class Call:
    """One request or notification on its way: what its handler is given, and what runs it needs.

    :ivar id: the request's id; None for a notification.
    :ivar method: the method's name.
    :ivar is_notification: nobody waits for an answer.
    :ivar scope: cancelling it ends the handler, and the request is answered with -32800.
    :ivar cancel_requested: whether the other end has taken the request back.
    """

    __slots__ = (
        "_failure",
        "_followers",
        "_on_cancel",
        "_outcome",
        "cancel_requested",
        "id",
        "is_notification",
        "method",
        "scope",
    )

    def __init__(self, request_id: RequestId, method: str, *, is_notification: bool) -> None:
        self.id = request_id
        self.method = method
        self.is_notification = is_notification
        self.scope = anyio.CancelScope()
        self.cancel_requested = False
        self._outcome: Awaitable[JsonValue] | None = None
        self._failure: Exception | None = None
        self._followers: list[AfterResponse] = []
        self._on_cancel: Callable[[], None] | None = None

    def after_response(self, callback: AfterResponse) -> None:
        """Have something done once the response is in the outgoing queue, so that what it sends comes after it.

        Callbacks run one after another. After an error response, or when the connection ends, they do not run.
        For a notification: once its handler has returned.
        """
        self._followers.append(callback)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Take `$/cancel_request` over: the callback is called instead of cancelling the scope, and what the handler
        then returns or raises is the answer. To be called before the handler waits for the first time. The end of
        the connection cancels the scope all the same.
        """
        self._on_cancel = callback

    def request_cancel(self) -> None:
        """The other end takes the request back."""
        self.cancel_requested = True
        if self._on_cancel is None:
            self.scope.cancel()
        else:
            self._on_cancel()

    def bound(self, outcome: Awaitable[JsonValue]) -> None:
        """The handler was called; this is what it returned."""
        self._outcome = outcome

    def failed(self, error: Exception) -> None:
        """The handler was called and raised before there was anything to await."""
        self._failure = error

    @property
    def followers(self) -> tuple[AfterResponse, ...]:
        """What was given to `after_response`, in order."""
        return tuple(self._followers)

    async def result(self) -> JsonValue:
        """Run the handler to its end.

        :raises Exception: whatever the handler raises.
        """
        if self._failure is not None:
            raise self._failure
        if self._outcome is None:
            raise RuntimeError(f"{self.method} was not bound")
        return await self._outcome


class Router:
    """The methods that can be called."""

    def __init__(self) -> None:
        self._methods: dict[str, Callable[..., Result]] = {}
        self._to_load: dict[str, ToLoad] = {}

    def clear(self) -> None:
        """Forget all methods."""
        self._methods.clear()
        self._to_load.clear()

    def register(
        self,
        method: str,
        params_model_validator: Callable[[JsonObject], P],
        handler: Callable[[Call, P], Awaitable[JsonValue]],
        to_load: ToLoad | None = None,
    ) -> None:
        """Add a method.

        :param method: its name on the wire.
        :param params_model_validator: makes the handler's parameters from the JSON object. Its ValueError (such as
            pydantic's ValidationError) becomes -32602; the text of a plain ValueError is sent as it stands.
        :param handler: called in the order of the wire, while the message is read; what it returns is awaited in a
            task of its own. So what a plain function does before it returns its coroutine is done in that order.
        :param to_load: says what the validator needs; that is loaded in a worker thread before it is called.
        """
        if to_load is not None:
            self._to_load[method] = to_load

        def bind(call: Call, /, **params: JsonValue) -> Result:
            try:
                try:
                    model = params_model_validator(params)
                except ValueError as error:
                    return Error(INVALID_PARAMS, f"Invalid params for {method}: {_sentence(error)}")
                call.bound(handler(call, model))
            except Exception as error:  # the peer maps it; jsonrpcserver would print a traceback
                call.failed(error)
            return Success()

        self._methods[method] = bind

    def to_load(self, request: Request) -> Callable[[], None] | None:
        """What has to be loaded, in a worker thread, before a request is bound; None where there is nothing."""
        to_load = self._to_load.get(request.method)
        return to_load(request.params) if to_load is not None else None

    def bind(self, request: Request) -> Call:
        """Look the method up, validate the parameters, and call the handler without awaiting what it returns.

        :raises RpcError: -32601 for an unknown method, -32602 for wrong parameters, -32603 when the library fails.
        """
        call = Call(request.id, request.method, is_notification=request.is_notification)
        # With an id even for a notification: without one the library would keep its errors to itself.
        message: JsonObject = {"method": request.method, "params": request.params, "id": None}

        def parsed(_: str) -> JsonObject:
            return message

        answered: object = dispatch_to_response_pure(
            deserializer=parsed,
            validator=_accept,
            methods=self._methods,
            context=call,
            post_process=cast("Callable[[object], list[object]]", to_serializable_one),  # typed too narrowly there
            request="",
        )
        if not isinstance(answered, dict):
            raise RpcError(INTERNAL_ERROR, f"{request.method} could not be dispatched.")
        response = cast("dict[str, _Failure]", answered)
        if "error" in response:
            raise _error(request.method, response["error"]["code"], response["error"]["message"])
        return call


class _Failure(TypedDict):
    code: int
    message: str


def _accept(message: T) -> T:
    return message


def _error(method: str, code: int, message: str) -> RpcError:
    if code == METHOD_NOT_FOUND:
        return RpcError(METHOD_NOT_FOUND, f"There is no method {method[:100]!r} here.")
    if code == INVALID_PARAMS:
        return RpcError(INVALID_PARAMS, message)
    # The library calls its own failures -32000, which in ACP means "authentication required".
    return RpcError(INTERNAL_ERROR, f"{method} could not be dispatched ({message}).")


def _sentence(error: ValueError) -> str:
    """One sentence about a validation error that names the field, and never the value, which may be a secret."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error) or "they make no sense."
    details = error.errors(include_url=False, include_context=True, include_input=False)
    first = details[0]
    place = ".".join(str(step) for step in first["loc"]) or "params"
    if first["type"] == "union_tag_invalid":  # the one built-in message that repeats what was sent
        problem = f"must be one of {first.get('ctx', {}).get('expected_tags', 'the known kinds')}"
    else:
        problem = first["msg"].removeprefix("Value error, ")
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {problem.rstrip('.')}{more}."
