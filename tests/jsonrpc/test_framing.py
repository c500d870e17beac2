from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.framing import LineBuffer, LineTooLongError


def popped(buffer: LineBuffer) -> list[bytes | str]:
    lines: list[bytes | str] = []
    while True:
        try:
            line = buffer.pop()
        except LineTooLongError:
            lines.append("too long")
            continue
        if line is None:
            return lines
        lines.append(line)


def lines_of(data: bytes, cuts: list[int], limit: int) -> list[bytes | str]:
    buffer = LineBuffer(limit)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    lines: list[bytes | str] = []
    for start, end in pairwise(places):
        buffer.feed(data[start:end])
        lines += popped(buffer)
    buffer.feed_eof()
    return lines + popped(buffer)


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r", b"\xff", b"defgh"])).map(b"".join),
    st.lists(st.integers(min_value=0)),
)
def test_any_split_of_the_bytes_yields_the_same_lines(data: bytes, cuts: list[int]) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines_of(data, cuts, 1000) == expected


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"bc", b"defgh"])).map(b"".join),
    st.lists(st.integers(min_value=0)),
)
def test_any_split_of_the_bytes_reports_each_line_that_is_too_long_once_in_its_place(
    data: bytes, cuts: list[int]
) -> None:
    expected = ["too long" if len(line) > 3 else line for line in data.split(b"\n")]
    if not expected[-1]:
        expected.pop()
    assert lines_of(data, cuts, 3) == expected


def test_a_line_that_is_too_long_is_reported_before_its_end_arrives_and_does_not_pile_up() -> None:
    buffer = LineBuffer(10)
    buffer.feed(b"x" * 11)
    with pytest.raises(LineTooLongError, match="10 bytes"):
        buffer.pop()
    for _ in range(100):
        buffer.feed(b"x" * 1000)
    assert buffer.pop() is None
    buffer.feed(b"\nshort\n")
    assert buffer.pop() == b"short"
