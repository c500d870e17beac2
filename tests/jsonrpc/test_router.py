from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    Request,
    RpcError,
)
from acp_agent.jsonrpc.router import Call, Router


class Text(BaseModel):
    kind: Literal["text"]
    text: str


class Image(BaseModel):
    kind: Literal["image"]
    data: str


class Params(BaseModel):
    blocks: list[Annotated[Text | Image, Field(discriminator="kind")]] = []
    cwd: str = "/"
    limit: int = 1

    @field_validator("cwd")
    @classmethod
    def absolute(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return value


async def handle(call: Call, params: Params) -> JsonValue:
    return params.cwd


def bind(params: dict[str, Any], *, notification: bool = False, method: str = "m") -> Call:
    router = Router()
    router.register("m", Params.model_validate, handle)
    return router.bind(Request(None if notification else 1, method, params, notification))


async def test_binding_validates_and_calls_the_handler_whose_result_comes_later() -> None:
    call = bind({"cwd": "/x"})
    assert (call.id, call.method, call.is_notification) == (1, "m", False)
    assert await call.result() == "/x"


@pytest.mark.parametrize("notification", [False, True])
async def test_an_unknown_method_is_named(notification: bool) -> None:
    with pytest.raises(RpcError, match="session/nowhere") as caught:
        bind({}, method="session/nowhere", notification=notification)
    assert caught.value.code == METHOD_NOT_FOUND


@pytest.mark.parametrize("notification", [False, True])
@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"limit": "sk-secret"}, "limit"),
        ({"cwd": 5}, "cwd"),
        ({"cwd": "relative"}, "cwd: must be an absolute path"),
        ({"blocks": [{"kind": "sk-secret"}]}, "blocks.0: must be one of 'text', 'image'"),
        ({"blocks": [{"kind": "text", "text": ["sk-secret"]}]}, "blocks.0.text.text"),
        ({"blocks": [{"kind": "text"}], "limit": "sk-secret"}, "(1 more)"),
    ],
)
async def test_wrong_parameters_name_the_field_and_never_the_value(
    params: dict[str, Any], place: str, notification: bool
) -> None:
    with pytest.raises(RpcError) as caught:
        bind(params, notification=notification)
    assert caught.value.code == INVALID_PARAMS
    assert place in caught.value.message
    assert "sk-secret" not in repr((caught.value.message, caught.value.data))
    assert "\n" not in caught.value.message


async def test_a_plain_value_error_of_a_validator_is_sent_as_it_stands() -> None:
    def validate(params: JsonObject) -> None:
        raise ValueError("x must be positive.")

    async def never(call: Call, params: None) -> JsonValue:
        return None

    router = Router()
    router.register("m", validate, never)
    with pytest.raises(RpcError, match="Invalid params for m: x must be positive"):
        router.bind(Request(1, "m", {}, False))


async def test_any_name_can_be_a_parameter() -> None:
    def any_params(params: JsonObject) -> JsonObject:
        return params

    async def echo(call: Call, params: JsonObject) -> JsonValue:
        return params

    names: JsonObject = {"call": 1, "self": 2, "context": 3, "": 4, "a b": 5, "request": 6, "method": 7}
    router = Router()
    router.register("m", any_params, echo)
    assert await router.bind(Request(1, "m", names, False)).result() == names


async def test_what_a_handler_raises_before_there_is_anything_to_await_is_the_calls_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        raise KeyError("early")

    router = Router()
    router.register("m", dict, broken)
    with caplog.at_level(logging.DEBUG):
        call = router.bind(Request(1, "m", {}, False))
        with pytest.raises(KeyError, match="early"):
            await call.result()
    assert caplog.records == []


async def test_an_exception_of_a_validator_that_is_no_value_error_is_the_calls_result() -> None:
    def validate(params: JsonObject) -> None:
        raise LookupError("domain")

    async def never(call: Call, params: None) -> JsonValue:
        return None

    router = Router()
    router.register("m", validate, never)
    with pytest.raises(LookupError, match="domain"):
        await router.bind(Request(1, "m", {}, False)).result()


async def test_an_error_of_the_dispatching_library_itself_is_an_internal_error_and_not_its_server_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Odd(str):
        __slots__ = ()

        def __hash__(self) -> int:
            raise RuntimeError("unhashable name")

    with pytest.raises(RpcError) as caught:
        bind({}, method=Odd("m"))
    assert caught.value.code == INTERNAL_ERROR
    caplog.clear()
