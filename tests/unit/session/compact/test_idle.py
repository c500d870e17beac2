"""While the user pauses, a summary is prepared shortly before the provider's prompt
cache expires.

The models' window is 200,000 tokens, so a context of more than 60,000 tokens is large
enough. A million tokens of Sonnet 5 cost 2 dollars as input, 0.20 read from the cache,
2.50 written to it, and 10 as output.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.session.compact.idle import SHORTEST_PAUSE
from support.clock import StoppedClock, stopped_clock
from support.compactions import (
    RECIPE_TEXT,
    ShownCompaction,
    messages,
    said,
    shown_compactions,
)
from support.dialogues import asks_for_summary
from support.editors import ZED_BETA
from support.memory import AgentInMemory, agent_in_memory
from support.models import ModelServer, Reply, Usage, model_server
from support.waiting import Changes, all_blocked

SONNET = "anthropic/claude-sonnet-5"
LONG = "The cart adds prices. " * 9_000
SUMMARY = Reply("# Goal\nA cart.", usage=Usage(1_000, 60, cache_read=64_000))
LARGE = 64_000
SMALL = 59_000
LATER = Reply("Yes.", usage=Usage(100, 5, cache_read=64_000))
CACHED = 300
"""Seconds for which Anthropic keeps a prompt."""
READY = "a summary is ready"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoppedClock:
    return stopped_clock(monkeypatch)


@pytest.fixture
def said_in_log() -> Iterator[Callable[[str, int], Awaitable[None]]]:
    """Return a function that waits until the agent's log has this many lines with these
    words.
    """
    lines: list[str] = []
    changes = Changes()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            changes.notify()

    async def wait(words: str, count: int) -> None:
        await changes.until(
            lambda: sum(words in line for line in lines) >= count,
            5,
            lambda: "\n".join(lines),
        )

    handler = Handler()
    logger = logging.getLogger("acp_agent.session.compact")
    logger.addHandler(handler)
    yield wait
    logger.removeHandler(handler)


@dataclass(slots=True)
class Desk:
    """A session whose model has separate scripts of answers for turns and for
    summaries.
    """

    home: Path
    clock: StoppedClock
    agent: AgentInMemory = field(init=False)
    server: ModelServer = field(init=False)
    session: str = field(init=False)
    answers: list[Reply] = field(default_factory=list[Reply])
    summaries: list[Reply] = field(default_factory=list[Reply])

    def answer(self, body: Mapping[str, Any]) -> Reply:
        return (self.summaries if _summarises(body) else self.answers).pop(0)

    async def prompt(self, text: str, *answers: Reply) -> None:
        self.answers += answers
        assert await self.agent.prompt(self.session, text, 30) == {
            "stopReason": "end_turn"
        }
        assert self.answers == []

    async def filled(self, used: int = LARGE) -> None:
        """Get a long and a short answer, so that the next request has this many tokens."""
        await self.prompt("One?", Reply(LONG, usage=Usage(8_000, 50_000)))
        await self.prompt("More?", Reply("No.", usage=Usage(used - 10, 10)))

    async def status(self) -> str:
        start = len(self.agent.lines)
        await self.prompt("/compact status")
        return self.agent.text(since=start)

    async def pause(self, seconds: float) -> None:
        """Let this many seconds pass after the pause has begun."""
        await all_blocked()
        self.clock.advance(seconds)
        await all_blocked()

    async def asked_for_summary(self, count: int = 1) -> None:
        """Wait until this many summaries were written, after the turns that the script
        has answered.
        """
        with anyio.fail_after(5):
            while self.asked < count:
                await self.server.wait_calls(len(self.server.calls) + 1)
        await self.server.wait_finished(len(self.server.calls))

    async def ready(self, count: int = 1) -> None:
        """Wait until the last of this many summaries is ready."""
        await self.asked_for_summary(count)
        with anyio.fail_after(5):
            while READY not in await self.status():
                pass

    @property
    def asked(self) -> int:
        return sum(_summarises(call.body) for call in self.server.calls)

    @property
    def compactions(self) -> list[ShownCompaction]:
        return shown_compactions(self.agent)


def _summarises(body: Mapping[str, Any]) -> bool:
    return "compaction" in body or asks_for_summary(body)


@asynccontextmanager
async def desk(
    tmp_path: Path,
    clock: StoppedClock,
    *summaries: Reply,
    model: str = SONNET,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Desk]:
    it = Desk(tmp_path, clock, summaries=list(summaries))
    dialect = "openai" if model.startswith("openai") else "anthropic"
    async with model_server(it.answer, dialect) as it.server:
        it.server.write_config(tmp_path, {"context_window": 200_000, **(config or {})})
        own = {"ACP_AGENT_MODEL": model, **(env or {})}
        async with agent_in_memory(
            home=tmp_path, env=it.server.env() | own, capabilities=ZED_BETA
        ) as it.agent:
            it.session = await it.agent.new_session(tmp_path)
            yield it


async def test_a_summary_is_requested_once_in_a_pause_shortly_before_the_cache_expires(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, SUMMARY) as it:
        await it.filled()
        await it.pause(SHORTEST_PAUSE)
        assert await clock.waited_for() == pytest.approx(CACHED - 30 - SHORTEST_PAUSE)
        await it.pause(CACHED - 31 - SHORTEST_PAUSE)
        assert it.asked == 0
        await it.pause(2)
        await it.asked_for_summary()
        # The request is the live one with one more message, so the provider reads it
        # from its cache.
        [_, turn, summary] = it.server.calls
        assert messages(summary.body)[: len(messages(turn.body))] == messages(turn.body)
        await it.pause(10 * 3_600)
        assert it.asked == 1
        assert it.compactions == []


async def test_after_the_cache_expired_the_conversation_continues_with_the_summary(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, SUMMARY) as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await it.ready()
        # The request for the summary has refreshed the cache.
        await it.pause(CACHED + 1)
        await it.prompt("Two?", Reply("Yes."))
        [compaction] = it.compactions
        assert compaction.statuses == ["in_progress", "completed"]
        assert compaction.text == "# Goal\nA cart."
        assert not it.server.calls[-1].mentions(LONG)
        assert said(messages(it.server.calls[-1].body)[-1]).endswith("Two?")
        # The summary's cost: 1,000 tokens of input, 64,000 read from the cache and 60
        # of output.
        assert " · $0.0154 · " in compaction.receipt
        assert (
            "The provider's prompt cache had expired: the next request costs about $0.0"
            in compaction.receipt
        )
        assert " instead of $0.16." in compaction.receipt


@pytest.mark.parametrize(
    "away", [60, CACHED - 1], ids=["at once", "before the refreshed cache expires"]
)
async def test_a_prompt_before_the_cache_expires_keeps_the_conversation_and_the_summary(
    tmp_path: Path, clock: StoppedClock, away: int
) -> None:
    async with desk(tmp_path, clock, SUMMARY) as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await it.ready()
        await it.pause(away)
        await it.prompt("Two?", LATER)
        assert it.compactions == []
        assert it.server.calls[-1].mentions(LONG)
        assert READY in await it.status()
        # In the next pause the summary is still usable, and no other one is requested.
        await it.pause(CACHED - 29)
        await it.pause(CACHED)
        assert it.asked == 1
        await it.prompt("Three?", Reply("Yes."))
        assert len(it.compactions) == 1


async def test_a_prompt_before_the_summary_is_requested_restarts_the_pause(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, SUMMARY) as it:
        await it.filled()
        await it.pause(200)
        await it.prompt("Two?", LATER)
        await it.pause(200)
        assert it.asked == 0
        await it.pause(71)
        await it.asked_for_summary()


async def test_only_a_long_enough_pause_counts_as_one(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock) as it:
        await it.filled()
        await it.pause(SHORTEST_PAUSE - 2)
        await it.prompt("And?", LATER)
        await it.pause(SHORTEST_PAUSE - 1)
        assert await clock.waited_for() == 1


async def test_a_command_that_calls_no_model_does_not_refresh_the_cache(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, SUMMARY) as it:
        await it.filled()
        await it.pause(200)
        assert (
            "Prepared while you pause: 4.5 minutes after the last request"
            in await it.status()
        )
        await it.pause(71)
        await it.ready()
        assert (
            "a summary is ready, prepared for $0.0154 while you paused"
            in await it.status()
        )


async def test_no_summary_is_requested_if_the_machine_slept_until_the_cache_expired(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock) as it:
        await it.filled()
        await it.pause(CACHED + 1)
        assert it.asked == 0
        await it.prompt("Two?", Reply("Yes."))
        assert it.compactions == []


@pytest.mark.parametrize(
    ("model", "config", "usage", "words"),
    [
        (SONNET, {}, SMALL, "above 60,000 tokens"),
        (SONNET, {"compaction": {"idle": "off"}}, LARGE, "off"),
        (SONNET, {"compaction": {"auto": False}}, LARGE, "off"),
        (SONNET, {"models": {SONNET: {"compaction": {"idle": "off"}}}}, LARGE, "off"),
        (
            SONNET,
            {"compaction": {"strategy": "excerpts"}},
            LARGE,
            "the strategy `excerpts` does not call a model",
        ),
        (
            SONNET,
            {
                "models": {
                    SONNET: {
                        "prices": {"input": 0, "cached_input": 0, "cache_write": 0}
                    }
                }
            },
            LARGE,
            "4.5",
        ),
        (
            "local/chat-test",
            {},
            LARGE,
            "unknown how long the provider keeps its prompt cache",
        ),
        (
            "ollama/llama-test",
            {},
            LARGE,
            "unknown how long the provider keeps its prompt cache",
        ),
        (
            "openai/gpt-5.2",
            {},
            LARGE,
            "unknown how long the provider keeps its prompt cache",
        ),
        (
            "openai/gpt-5.5",
            {},
            LARGE,
            "the provider keeps its prompt cache for 24 hours",
        ),
        ("openai/gpt-5.6", {}, LARGE, "29 minutes after the last request"),
        ("anthropic/claude-9", {}, LARGE, "would lose reasoning that is still valid"),
        (
            "anthropic/claude-opus-5-5",
            {"compaction": {"strategy": "summary"}},
            LARGE,
            "would lose reasoning",
        ),
        ("anthropic/claude-opus-5-5", {}, LARGE, "4.5 minutes after the last request"),
    ],
)
async def test_nothing_is_prepared_if_it_is_switched_off_or_cannot_save_money(
    tmp_path: Path,
    clock: StoppedClock,
    model: str,
    config: dict[str, Any],
    usage: int,
    words: str,
) -> None:
    async with desk(
        tmp_path, clock, model=model, config=config, env={"LOCAL_API_KEY": "key"}
    ) as it:
        await it.filled(usage)
        assert words in await it.status()
        if "minutes" not in words:
            await it.pause(CACHED - 29)
            await it.pause(3_600)
            assert it.asked == 0


async def test_a_hook_may_veto_the_summary_and_is_asked_again_in_the_next_pause(
    tmp_path: Path,
    clock: StoppedClock,
    said_in_log: Callable[[str, int], Awaitable[None]],
) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    rule = "on: before_compaction\nwhen: {reason: idle}\nthen: {block: Not while I am away.}\n"
    (hooks / "veto.yaml").write_text(rule)
    async with desk(tmp_path, clock) as it:
        await it.filled()
        for pause in (1, 2):
            await it.pause(CACHED - 29)
            await said_in_log("Not while I am away.", pause)
            assert READY not in await it.status()
            await it.prompt("Again?", LATER)
        assert it.asked == 0


async def test_a_summary_that_fails_in_a_pause_does_not_prevent_the_next_one(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, Reply("", usage=Usage(5, 0)), SUMMARY) as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await it.asked_for_summary()
        await it.prompt("Two?", LATER)
        await it.pause(CACHED - 29)
        await it.ready(2)


async def test_the_provider_compacts_if_reasoning_is_bound_to_its_request(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, SUMMARY, model="anthropic/claude-opus-5-5") as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await it.ready()
        [call] = [call for call in it.server.calls if _summarises(call.body)]
        assert call.body["compaction"]["type"] == "summarize"
        assert RECIPE_TEXT in call.body["compaction"]["instructions"]
        await it.pause(CACHED + 1)
        await it.prompt("Two?", Reply("Yes."))
        [compaction] = it.compactions
        assert (compaction.statuses[-1], compaction.text) == (
            "completed",
            "# Goal\nA cart.",
        )
        [block] = it.server.calls[-1].body["messages"][0]["content"]
        assert block["type"] == "compaction"


async def test_if_the_providers_compaction_fails_no_summary_that_loses_reasoning_is_made(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(
        tmp_path, clock, Reply("", usage=Usage(5, 0)), model="anthropic/claude-opus-5-5"
    ) as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await it.asked_for_summary()
        await it.prompt("Two?", LATER)
        assert it.asked == 1
        assert it.compactions == []


async def test_compact_uses_the_summary_prepared_in_the_pause(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock, SUMMARY) as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await it.ready()
        await it.prompt("/compact")
        [compaction] = it.compactions
        assert compaction.statuses[-1] == "completed"
        assert it.asked == 1
        assert "had expired" not in compaction.receipt


async def test_a_model_chosen_in_the_pause_has_nothing_in_its_cache(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock) as it:
        await it.filled()
        await clock.waited_for()
        await it.agent.set_config_option(it.session, "model", "anthropic/claude-opus-5")
        await it.pause(CACHED - 29)
        assert "Prepared while you pause: after the next answer" in await it.status()
        assert it.asked == 0


async def test_a_separate_summary_model_must_save_money_without_the_cache(
    tmp_path: Path,
    clock: StoppedClock,
    said_in_log: Callable[[str, int], Awaitable[None]],
) -> None:
    # 15 dollars for a million tokens.
    config = {"compaction": {"model": "anthropic/claude-opus-4-1"}}
    async with desk(tmp_path, clock, config=config) as it:
        await it.filled()
        await it.pause(CACHED - 29)
        await said_in_log("it would cost", 1)
        assert it.asked == 0


async def test_closing_the_session_ends_the_pause(
    tmp_path: Path, clock: StoppedClock
) -> None:
    async with desk(tmp_path, clock) as it:
        await it.filled()
        await clock.waited_for()
        await it.agent.request("session/close", {"sessionId": it.session})
        assert clock.moments == []
        await it.pause(CACHED - 29)
        assert it.asked == 0
