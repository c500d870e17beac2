"""Errors in words that the agent does not know, from a server whose window is assumed.
They may mean that the request is too long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.lines import AgentError
from support.memory import stage
from support.replies import Reply
from support.stage import Stage

OWN_WORDS = {"error": {"message": "KV slots exhausted at n_past"}}
ENV = {"ACP_AGENT_MODEL": "local/other"}
HOW = {"a refusal": 400, "an error event": 200, "a body with status 200": 200}
"""How the server reports its error, and with which status."""
LONG = "The cart adds prices. " * 9_000
"""About 50,000 tokens of an assumed window of 128,000."""


UNPREPARED = {"compaction": {"prepare": False}}


def local_server(
    tmp_path: Path,
    script: Callable[[Mapping[str, Any]], Reply],
    config: Mapping[str, Any],
) -> AbstractAsyncContextManager[Stage]:
    """Open a session with a server whose window is assumed, unless `config` names it."""
    return stage(
        tmp_path,
        script=script,
        dialect="chat",
        editor=ZED_BETA,
        config=config,
        env=ENV,
    )


def size(body: Mapping[str, Any]) -> int:
    return len(json.dumps(body)) // 4


def known(window: int) -> dict[str, Any]:
    return {"models": {"local/other": {"context_window": window}}}


def failing(how: str, *, above: int) -> Callable[[Mapping[str, Any]], Reply]:
    """Return a script for a server that fails for longer requests, in its own words.

    :param how: see `HOW`.
    """

    def answer(body: Mapping[str, Any]) -> Reply:
        if body.get("tools") and size(body) > above:
            headers = {"retry-after-ms": "1"}
            if how == "an error event":
                return Reply("No.", sse_error="slots_exhausted", headers=headers)
            return Reply(http_status=HOW[how], body=OWN_WORDS, headers=headers)
        return Reply("Yes.")

    return answer


@pytest.mark.parametrize("how", HOW)
async def test_an_unknown_error_near_the_assumed_window_makes_room_once(
    tmp_path: Path, how: str
) -> None:
    script = failing(how, above=60_000)
    async with local_server(tmp_path, script, UNPREPARED) as it:
        assert await it.prompt(f"One? {LONG}") == {"stopReason": "end_turn"}
        assert await it.prompt(f"Two? {LONG}") == {"stopReason": "end_turn"}
        assert len(shown_compactions(it.agent)) == 1
        assert await it.prompt("Three?") == {"stopReason": "end_turn"}


@pytest.mark.parametrize("how", HOW)
async def test_an_unknown_error_for_what_cannot_be_shortened_names_the_window_to_set(
    tmp_path: Path, how: str
) -> None:
    script = failing(how, above=60_000)
    async with local_server(tmp_path, script, UNPREPARED) as it:
        with pytest.raises(AgentError, match="Set `context_window` for the model"):
            await it.prompt(f"One? {LONG}{LONG}")
        assert await it.prompt("Two?") == {"stopReason": "end_turn"}


async def test_an_unknown_error_event_far_below_the_assumed_window_names_it_as_well(
    tmp_path: Path,
) -> None:
    script = failing("an error event", above=20_000)
    async with local_server(tmp_path, script, {}) as it:
        with pytest.raises(AgentError, match="Set `context_window` for the model"):
            await it.prompt(f"One? {LONG}")
        assert shown_compactions(it.agent) == []
        it.server.write_config(it.home, known(20_000))
        assert await it.prompt("Two?") == {"stopReason": "end_turn"}


async def test_an_unknown_error_says_nothing_of_a_window_that_is_known(
    tmp_path: Path,
) -> None:
    script = failing("a refusal", above=40_000)
    config = known(60_000)
    async with local_server(tmp_path, script, config) as it:
        with pytest.raises(AgentError, match="KV slots") as failed:
            await it.prompt(f"One? {LONG}")
        assert "context_window" not in str(failed.value)
