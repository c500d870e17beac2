"""Terminals' bytes without secrets."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.masking.terminals import with_masked_output

SECRET = "a-known-value"


def update(**members: Any) -> Any:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": members}}


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_bytes_lose_the_secret_and_nothing_else(before: bytes, after: bytes) -> None:
    data = encoded(before + SECRET.encode() + after)
    for members in ({"data": data}, {"output": {"data": data}}):
        masked: Any = with_masked_output(update(terminalId="t", **members), [SECRET])
        shown = masked["params"]["update"]
        assert b64decode(shown.get("data") or shown["output"]["data"]) == before + b"***" + after


@given(st.binary(max_size=40))
def test_bytes_without_a_secret_and_other_messages_stay_as_they_are(data: bytes) -> None:
    said = update(terminalId="t", data=encoded(data), output=None)
    assert with_masked_output(said, [SECRET]) == said
    other = update(sessionUpdate="x", data=encoded(SECRET.encode()))
    assert with_masked_output(other, [SECRET]) == other


def test_what_is_no_base64_is_hidden() -> None:
    assert with_masked_output(update(terminalId="t", data="no base64!"), []) == update(terminalId="t", data="***")
