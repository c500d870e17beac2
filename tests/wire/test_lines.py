"""Recorded messages become lines in which requests and responses belong together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.commands.wire.lines import Matcher, OneSession, WireLine


def lines(*records: dict[str, Any]) -> list[WireLine]:
    """The lines of one process's records, a second between two."""
    matcher = Matcher("p1")
    return [line for at, record in enumerate(records) for line in matcher.lines({"at": at, **record})]


def test_a_response_has_the_method_the_session_and_the_time_of_its_request() -> None:
    seen = lines(
        {"dir": "in", "message": {"id": 1, "method": "session/new", "params": {"cwd": "/"}}},
        {"dir": "out", "message": {"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s2"}}},
        {"dir": "in", "message": {"id": "1", "method": "session/list"}},
        {"dir": "out", "message": {"id": 1, "result": {"sessionId": "s1"}}},
        {"dir": "in", "message": {"id": 1, "error": {"code": -32002, "message": "no file"}}},
        {"dir": "out", "message": {"method": "session/update", "params": {"sessionId": "s1"}}},
        {"dir": "in", "message": {"id": 9, "result": None}},
    )
    assert [(line.kind, line.method, line.session, line.seconds, line.failed) for line in seen] == [
        ("request", "session/new", "", None, False),
        ("request", "fs/read_text_file", "s2", None, False),
        ("request", "session/list", "", None, False),
        ("response", "session/new", "s1", 3, False),
        ("response", "fs/read_text_file", "s2", 3, True),
        ("notification", "session/update", "s1", None, False),
        ("response", "", "", None, False),
    ]


def test_what_is_no_message_is_a_line_all_the_same() -> None:
    seen = lines(
        {"dir": "in", "invalid": "{half"},
        {"dir": "in", "message": [{"method": "a"}, 5, {}]},
        {"dir": "sideways", "message": {"method": "b"}},
        {"at": "now", "dir": "in", "message": {"method": "c"}},
    )
    assert [(line.kind, line.message) for line in seen] == [
        ("invalid", "{half"),
        ("notification", {"method": "a"}),
        ("invalid", 5),
        ("invalid", {}),
    ]


def test_a_session_is_shown_with_what_its_process_said_of_none() -> None:
    begun = {"dir": "in", "message": {"id": 0, "method": "initialize"}}
    one, two = ({"dir": "out", "message": {"method": "session/update", "params": {"sessionId": s}}} for s in "ab")
    other = list(Matcher("p2").lines({"at": 0, **begun}))
    seen = [*lines(begun, one, two), *other]
    assert [(line.process, line.method, line.session) for line in OneSession("a").lines(seen)] == [
        ("p1", "initialize", ""),
        ("p1", "session/update", "a"),
    ]
    assert [*OneSession("c").lines(seen)] == []
    assert [*OneSession("").lines(seen)] == seen[:-1], "whatever session it is"


def test_a_session_is_shown_with_the_request_about_another_one_that_made_it() -> None:
    seen = lines(
        {"dir": "in", "message": {"id": 0, "method": "initialize"}},
        {"dir": "in", "message": {"id": 1, "method": "session/fork", "params": {"sessionId": "a"}}},
        {"dir": "in", "message": {"id": 2, "method": "session/fork", "params": {"sessionId": "a"}}},
        {"dir": "out", "message": {"id": 2, "result": {"sessionId": "c"}}},
        {"dir": "out", "message": {"id": 1, "result": {"sessionId": "b"}}},
        {"dir": "out", "message": {"id": 1, "result": {"sessionId": "b"}}},
    )
    assert [*OneSession("b").lines(seen)] == [seen[0], seen[1], seen[4], seen[5]]
    assert [*OneSession("c").lines(seen)] == [seen[0], seen[2], seen[3]]
    assert [*OneSession("a").lines(seen)] == seen[:5], "the other's own too"


@given(
    st.lists(st.tuples(st.sampled_from(["in", "out"]), st.integers(0, 3) | st.sampled_from(["0", "1"])), unique=True),
    st.randoms(),
)
def test_whatever_the_order_every_response_finds_its_own_request(asked: list[tuple[str, Any]], random: Any) -> None:
    answered = asked.copy()
    random.shuffle(answered)
    requests = [{"dir": d, "message": {"id": i, "method": f"{d}{i!r}"}} for d, i in asked]
    back = {"in": "out", "out": "in"}
    responses = [{"dir": back[d], "message": {"id": i, "result": f"{d}{i!r}"}} for d, i in answered]
    seen = lines(*requests, *responses)
    for line in seen[len(asked) :]:
        assert isinstance(line.message, dict)
        assert line.method == line.message["result"]
        assert line.seconds == pytest.approx(line.at - next(each.at for each in seen if each.method == line.method))
