"""Finds the handler of a request with jsonrpcserver. No other module imports
jsonrpcserver.

jsonrpcserver looks up the method and binds its params by name. It gets messages that
are already parsed and checked, and does not run handlers: its asynchronous dispatch
would use `asyncio.gather`, which breaks anyio's shielded cleanup.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
from jsonrpcserver import Result, Success, dispatch_to_serializable

from acp_agent.jsonrpc.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    Request,
    RpcError,
)

_AfterResponse: TypeAlias = Callable[[], Awaitable[None]]


class IncomingCall:
    """One request or notification that is being handled.

    :ivar id: the request's ID; None for a notification.
    :ivar params: as received.
    :ivar scope: cancelling it ends the handler, and the request is answered with
        -32800.
    :ivar followers: the callbacks of `after_response`, in order.
    :ivar cancel_requested: whether the other end has cancelled the request.
    """

    def __init__(self, request: Request) -> None:
        self.id = request.id
        self.method = request.method
        self.params = cast("JsonObject", request.params)
        self.is_notification = request.is_notification
        self.scope = anyio.CancelScope()
        self.followers: list[_AfterResponse] = []
        self.cancel_requested = False
        self._on_cancel: Callable[[], None] | None = None

    def after_response(self, callback: _AfterResponse) -> None:
        """Call `callback` once the response is in the outgoing queue, so that its
        messages follow the response.

        Callbacks run one after another. They do not run after an error response, or
        when the connection ends.
        """
        self.followers.append(callback)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` on `$/cancel_request` instead of cancelling the scope.

        The handler's result or exception is then the answer. The end of the connection
        still cancels the scope.
        """
        self._on_cancel = callback

    def request_cancel(self) -> None:
        """Cancel the request on behalf of the other end."""
        self.cancel_requested = True
        (self._on_cancel or self.scope.cancel)()


Handler: TypeAlias = Callable[[IncomingCall, Any], Awaitable[JsonValue]]
"""Called with validated params while the message is read, in the order of the wire. The
returned awaitable is awaited in a separate task. These tasks also start in the order of
the wire.
"""


ReadParams: TypeAlias = Callable[[str, JsonObject], Awaitable[Any]]
"""Validates the params of a method and returns them in the form that its handler
expects; raises if they are invalid.
"""


class Router:
    """Routes calls to the handlers of their methods.

    :param handlers: handlers by method name.
    :param read_params: validates the params of a call. Without it, handlers get the
        params as received.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], read_params: ReadParams | None = None
    ) -> None:
        self._methods = {
            name: partial(_found, handler) for name, handler in handlers.items()
        }
        self._read_params = read_params

    async def begin(self, call: IncomingCall) -> Awaitable[JsonValue]:
        """Validate the params of a call, call its handler, and return the awaitable of
        its result.

        :raises RpcError: with code -32601 for an unknown method, and -32602 for
            positional params.
        """
        found: list[Handler] = []
        # Notifications also get an ID, since jsonrpcserver returns no errors for a
        # message without one.
        message: JsonObject = {"method": call.method, "params": call.params, "id": None}

        def checked(_: object) -> JsonObject:
            return message

        answered = dispatch_to_serializable(
            "", self._methods, context=found, deserializer=checked, validator=checked
        )
        match cast("JsonObject", answered):
            case {"error": {"code": code}} if code == METHOD_NOT_FOUND:
                raise RpcError(
                    METHOD_NOT_FOUND, f"There is no method {call.method[:100]!r} here."
                )
            case {"error": _}:
                raise RpcError(
                    INVALID_PARAMS,
                    f"Invalid params for {call.method}: they must be an object.",
                )
            case _:
                params = (
                    call.params
                    if self._read_params is None
                    else await self._read_params(call.method, call.params)
                )
                return found[0](call, params)


def _found(handler: Handler, found: list[Handler], /, **params: JsonValue) -> Result:
    found.append(handler)
    return Success()
