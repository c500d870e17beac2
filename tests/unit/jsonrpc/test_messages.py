from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.messages import (
    InvalidMessageError,
    JsonValue,
    Request,
    Response,
    RpcError,
    encode,
    error_object,
    parse,
)

surrogates = st.characters(categories=["Cs"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)

PADDING = b" " * (1 << 20)


def value_in(line: bytes) -> JsonValue:
    """What a message holds."""
    message = parse(line)
    assert isinstance(message, Request)
    assert isinstance(message.params, dict)
    return message.params["x"]


def holding(value: JsonValue) -> bytes:
    return encode(method="m", params={"x": value})


@given(json_values)
def test_what_is_encoded_is_one_line_for_every_reader_and_parsed_as_the_same_value(
    value: JsonValue,
) -> None:
    line = holding(value)
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert value_in(line) == value


@given(st.lists(st.text() | surrogates).map("".join))
def test_a_text_with_lone_surrogates_can_be_written_and_keeps_all_other_characters(
    text: str,
) -> None:
    assert value_in(holding(text)) == text.encode("utf-16-le", "surrogatepass").decode(
        "utf-16-le", "replace"
    )


@given(
    json_values,
    st.sampled_from(
        [
            b"",
            b"NaN",
            b"\\ud800",
            b"1" * 5_000,
            b"1e999",
            b"[" * 300 + b"]" * 300,
            b"\xff",
            b"-0",
        ]
    ),
)
def test_a_large_line_is_parsed_and_refused_as_a_small_one(
    value: JsonValue, odd: bytes
) -> None:
    def outcome(line: bytes) -> str:
        try:
            return repr(parse(line))
        except InvalidMessageError as error:
            return repr(error)

    for small in (
        holding(value).rstrip(),
        b'{"jsonrpc": "2.0", "method": "m", "params": [%s, "%s"]}' % (odd or b"0", odd),
    ):
        assert outcome(small) == outcome(small + PADDING)


def test_numbers_that_json_does_not_have_are_written_as_null() -> None:
    assert value_in(holding({"a": math.nan, "b": [math.inf, 1.5], "c": "x"})) == {
        "a": None,
        "b": [None, 1.5],
        "c": "x",
    }


@given(
    st.lists(
        st.sampled_from(
            [r"\ud83d", r"\uDE00", r"\\", r"\\ud800", r"\"", "u", "x", r"\n", "é"]
        )
    ).map("".join)
)
def test_lone_surrogates_that_arrive_as_escapes_become_replacement_characters(
    text: str,
) -> None:
    expected = (
        json.loads(f'"{text}"')
        .encode("utf-16-le", "surrogatepass")
        .decode("utf-16-le", "replace")
    )
    assert (
        value_in(f'{{"jsonrpc":"2.0","method":"m","params":{{"x":"{text}"}}}}'.encode())
        == expected
    )


@pytest.mark.parametrize("unit", ["[],", "{},", '"",', "1,", '{"a":1},'])
def test_a_long_line_of_too_many_values_is_refused_and_one_with_a_long_text_is_read(
    unit: str,
) -> None:
    text = r"[{,\", \\" * 1_000_000
    line = b'{"jsonrpc":"2.0","method":"m","params":{"x":"%b","y":[%b 0]}}'
    assert value_in(line % (text.encode(), b"")) == json.loads(f'"{text}"')
    with pytest.raises(InvalidMessageError, match="500,000 values"):
        parse(line % (text.encode(), unit.encode() * 500_000))


@given(
    st.lists(
        st.binary(max_size=2)
        | st.sampled_from([b"{", b"}", b'"', b":", b"[1]", b"\\ud8"])
    ).map(b"".join)
)
def test_any_bytes_are_a_message_or_refused(line: bytes) -> None:
    with suppress(InvalidMessageError):
        parse(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": 1}}',
            Request(1, "m", {"a": 1}, False),
        ),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}',
            Request(1, "m", [1], False),
        ),
        (
            b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": "x", "method": "m"}\r',
            Request("x", "m", {}, False),
        ),
        (
            b'{"jsonrpc": "2.0", "id": null, "method": "m", "params": null}',
            Request(None, "m", {}, False),
        ),
        (b'{"jsonrpc": "2.0", "method": "m"}', Request(None, "m", {}, True)),
        (b'{"jsonrpc": "2.0", "id": 1, "result": null}', Response(1, None, None)),
        (b'{"id": 1, "result": {"a": 1}}', Response(1, {"a": 1}, None)),
    ],
)
def test_requests_notifications_and_responses_are_told_apart(
    line: bytes, expected: Any
) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        ({"code": -1, "message": "no", "data": [1]}, -1, [1]),
        ({"code": -32601}, -32601, None),
        ({"code": "x"}, -32603, {"code": "x"}),
        ("broken", -32603, "broken"),
    ],
)
def test_an_error_response_of_any_shape_becomes_an_error(
    error: Any, code: int, data: Any
) -> None:
    response = parse(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode())
    assert isinstance(response, Response)
    assert response.error is not None
    assert (response.error.code, response.error.data) == (code, data)


def test_an_error_without_data_is_its_code_and_its_sentence() -> None:
    assert json.loads(
        encode(id=7, error=error_object(RpcError(-32603, "It broke.")))
    ) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32603, "message": "It broke."},
    }
