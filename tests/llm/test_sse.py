"""Server-sent events from bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.llm.sse import Decoder

STREAM = (
    'event: a\ndata: {"t": "grüße"}\n\n: ping\n\ndata: one\r\ndata: two\r\n\r\nid: 3\ndata:x\n\ndata: [DONE]\n\n'
).encode()
EVENTS = ['{"t": "grüße"}'.encode(), b"one\ntwo", b"x", b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int]) -> None:
    decoder = Decoder()
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in decoder.feed(STREAM[start:end])]
    assert events == EVENTS
    assert decoder.end() == []


def test_a_missing_last_empty_line_is_forgiven() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: last") == []
    assert decoder.end() == [b"last"]
