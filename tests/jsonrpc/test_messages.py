from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.messages import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JsonValue,
    Rejected,
    Request,
    Response,
    RpcError,
    classify,
    decode,
    encode,
    error_message,
)

surrogates = st.characters(categories=["Cs"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_what_is_encoded_decodes_to_the_same_value(value: JsonValue) -> None:
    assert decode(encode(value)) == value


@given(json_values)
def test_an_encoded_message_is_exactly_one_line_for_every_reader_of_lines(value: JsonValue) -> None:
    line = encode(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line.decode().splitlines()) == 1


@given(st.lists(st.text() | surrogates).map("".join))
def test_a_text_with_lone_surrogates_can_be_written_and_keeps_all_other_characters(text: str) -> None:
    written = decode(encode(text))
    assert isinstance(written, str)
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert written == expected
    kept = [char for char in written if char != "\ufffd" and ord(char) < 0x10000]
    assert kept == [
        char for char in text if not 0xD800 <= ord(char) < 0xE000 and char != "\ufffd" and ord(char) < 65536
    ]


def test_the_two_halves_of_a_pair_that_met_in_joined_text_are_written_as_their_character() -> None:
    assert encode("\ud83d" + "\ude00") == '"😀"\n'.encode()


@given(
    st.lists(st.binary(max_size=2) | st.sampled_from([b"{", b"}", b'"', b":", b"[1]", b"\\ud8", b"1e999"])).map(
        b"".join
    )
)
def test_any_bytes_are_decoded_or_refused_as_a_parse_error(line: bytes) -> None:
    try:
        encode(decode(line))
    except RpcError as error:
        if error.code != PARSE_ERROR:
            raise


def test_lone_surrogates_that_arrive_as_escapes_become_replacement_characters_in_values_and_keys() -> None:
    value = decode(rb'{"a\uD800": ["x\udc00", {"b": "\ud83d\ude00 \uD83D"}], "c": "\ud800"}')
    assert value == {"a\ufffd": ["x\ufffd", {"b": "😀 \ufffd"}], "c": "\ufffd"}
    json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"", b"{", b'{"a":1} x', b"NaN", b'{"a": Infinity}', b"[-Infinity]", b'"\xff"', b"\xed\xa0\x80"],
)
def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        decode(line)
    assert caught.value.code == PARSE_ERROR


def test_very_deep_nesting_is_a_parse_error_and_not_a_crash() -> None:
    with pytest.raises(RpcError) as caught:
        decode(b"[" * 200_000 + b"]" * 200_000)
    assert caught.value.code == PARSE_ERROR


def test_surrogates_are_replaced_at_any_depth_that_can_be_parsed() -> None:
    depth = 900
    value = decode(b"[" * depth + rb'"\ud800"' + b"]" * depth)
    for _ in range(depth):
        assert isinstance(value, list)
        value = value[0]
    assert value == "\ufffd"


def test_a_huge_integer_survives_the_round_trip() -> None:
    assert decode(encode(10**300)) == 10**300


def test_an_integer_of_more_digits_than_python_converts_is_a_parse_error() -> None:
    with pytest.raises(RpcError, match="number"):
        decode(b"1" * 10_000)


def test_a_byte_order_mark_and_a_carriage_return_are_no_part_of_the_message() -> None:
    assert decode(b'\xef\xbb\xbf{"a":1}\r') == {"a": 1}


def test_numbers_that_json_does_not_have_are_written_as_null() -> None:
    assert encode({"a": math.nan, "b": [math.inf, 1.5], "c": "x"}) == b'{"a":null,"b":[null,1.5],"c":"x"}\n'


@pytest.mark.parametrize(
    ("value", "id"),
    [
        (42, None),
        ("text", None),
        (None, None),
        ({}, None),
        ([], None),
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"jsonrpc": "1.0", "id": 1, "method": "m"}, 1),
        ({"id": "a", "method": "m"}, "a"),
        ({"jsonrpc": "2.0", "id": 1, "method": 2}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": "text"}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}, 1),
        ({"jsonrpc": "2.0", "method": "m", "params": "text"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": [1], "method": "m"}, None),
    ],
)
def test_what_is_no_message_is_rejected_with_the_id_where_one_can_be_read(value: Any, id: Any) -> None:
    rejected = classify(value)
    assert isinstance(rejected, Rejected)
    assert (rejected.id, rejected.error.code) == (id, INVALID_REQUEST)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": 1}}, Request(1, "m", {"a": 1}, False)),
        ({"jsonrpc": "2.0", "id": "x", "method": "m"}, Request("x", "m", {}, False)),
        ({"jsonrpc": "2.0", "id": None, "method": "m", "params": None}, Request(None, "m", {}, False)),
        ({"jsonrpc": "2.0", "method": "m"}, Request(None, "m", {}, True)),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, Response(1, None, None)),
        ({"id": 1, "result": {"a": 1}}, Response(1, {"a": 1}, None)),
    ],
)
def test_requests_notifications_and_responses_are_told_apart(value: Any, expected: Any) -> None:
    assert classify(value) == expected


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        ({"code": -1, "message": "no", "data": [1]}, -1, [1]),
        ({"code": "x"}, -32603, None),
        ("broken", -32603, "broken"),
    ],
)
def test_an_error_response_of_any_shape_becomes_an_error(error: Any, code: int, data: Any) -> None:
    response = classify({"jsonrpc": "2.0", "id": 1, "error": error})
    assert isinstance(response, Response)
    assert response.error is not None
    assert (response.error.code, response.error.data) == (code, data)


def test_an_error_without_data_repeats_its_sentence_as_details() -> None:
    assert error_message(7, RpcError(-32603, "It broke.")) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32603, "message": "It broke.", "data": {"details": "It broke."}},
    }
