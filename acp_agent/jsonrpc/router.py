"""Finds the handler of a request with jsonrpcserver, whose only importer this is.

jsonrpcserver looks the method up and binds its params by name. It gets messages that are parsed and checked, and runs
nothing: its asynchronous dispatch would run handlers in `asyncio.gather`, which breaks anyio's shielded cleanup.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
from jsonrpcserver import Result, Success, dispatch_to_serializable

from acp_agent.jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, JsonObject, JsonValue, Request, RpcError

_AfterResponse: TypeAlias = Callable[[], Awaitable[None]]


class Call:
    """One request or notification while it is handled.

    :ivar id: the request's id; None for a notification.
    :ivar params: as received.
    :ivar scope: cancelling it ends the handler, and the request is answered with -32800.
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
        """Call `callback` once the response is in the outgoing queue, so that its messages follow the response.

        Callbacks run one after another; after an error response, or when the connection ends, they do not run.
        """
        self.followers.append(callback)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` on `$/cancel_request` instead of cancelling the scope.

        What the handler then returns or raises is the answer. The end of the connection still cancels the scope.
        """
        self._on_cancel = callback

    def request_cancel(self) -> None:
        """Cancel the request on behalf of the other end."""
        self.cancel_requested = True
        (self._on_cancel or self.scope.cancel)()


Handler: TypeAlias = Callable[[Call, Any], Awaitable[JsonValue]]
"""Called with validated params while the message is read, in the order of the wire; what it returns is awaited in a
task of its own. Those tasks begin in the order of the wire as well."""


ReadParams: TypeAlias = Callable[[str, JsonObject], Awaitable[Any]]
"""Validates the params of a method and returns them as its handler takes them; raises if they are invalid."""


class Router:
    """The methods that can be called.

    :param handlers: by the names of their methods.
    :param read_params: validates the params of a call; without it, handlers get them as received.
    """

    def __init__(self, handlers: Mapping[str, Handler], read_params: ReadParams | None = None) -> None:
        self._methods = {name: partial(_found, handler) for name, handler in handlers.items()}
        self._read_params = read_params

    async def begin(self, call: Call) -> Awaitable[JsonValue]:
        """Validate the params of a call and call its handler; return the awaitable of its result.

        :raises RpcError: -32601 for an unknown method, -32602 for params by position.
        """
        found: list[Handler] = []
        # A notification gets an id, too: jsonrpcserver returns no errors for a message without one.
        message: JsonObject = {"method": call.method, "params": call.params, "id": None}

        def checked(_: object) -> JsonObject:
            return message

        answered = dispatch_to_serializable("", self._methods, context=found, deserializer=checked, validator=checked)
        match cast("JsonObject", answered):
            case {"error": {"code": code}} if code == METHOD_NOT_FOUND:
                raise RpcError(METHOD_NOT_FOUND, f"There is no method {call.method[:100]!r} here.")
            case {"error": _}:
                raise RpcError(INVALID_PARAMS, f"Invalid params for {call.method}: they must be an object.")
            case _:
                params = call.params if self._read_params is None else await self._read_params(call.method, call.params)
                return found[0](call, params)


def _found(handler: Handler, found: list[Handler], /, **params: JsonValue) -> Result:
    found.append(handler)
    return Success()
