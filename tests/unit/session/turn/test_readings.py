"""Implausible token counts: one is ignored, two similar ones are believed, and those of
a truncated request never are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import AssistantAnswered, LoggedEvent
from acp_agent.conversation.messages import AssistantMessage, Text
from acp_agent.conversation.messages import Usage as Counted
from support.client import AgentError, AgentProcess
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.http_server import Exchange, http_server
from support.memory import agent_in_memory, stage
from support.models import DialectName, ModelServer, Reply, Usage, model_server

WINDOW = 36_000
COUNT = count(1)


@pytest.fixture(autouse=True)
def the_same_items_in_each_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number the items of each test from one."""
    monkeypatch.setattr(sys.modules[__name__], "COUNT", count(1))


def size(body: Mapping[str, Any]) -> int:
    """Return the approximate number of tokens in a request."""
    return len(json.dumps({**body, "max_tokens": 0})) // 4


def items(number: int) -> str:
    """Return distinct lines of eight tokens each."""
    return "\n".join(
        f"The item {next(COUNT)} costs {next(COUNT) * 7} cents." for _ in range(number)
    )


def meters(agent: AgentProcess) -> list[tuple[int, int]]:
    return [
        (meter["used"], meter["size"]) for meter in agent.updates(kind="usage_update")
    ]


def notices(agent: AgentProcess) -> list[str]:
    return [str(update) for update in agent.updates(kind="notice")]


@pytest.mark.parametrize("factor", [2.0, 2.2, 10.0])
@pytest.mark.parametrize("dialect", ["chat", "openai", "anthropic"])
async def test_one_excessive_token_count_does_not_cause_a_compaction(
    tmp_path: Path, factor: float, dialect: DialectName
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        is_false = len(it.server.calls) == 5
        return Reply(
            items(200),
            usage=Usage(int(size(body) * (factor if is_false else 1)), 1_600),
        )

    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}
    async with stage(
        tmp_path, script=answer, dialect=dialect, editor=ZED_BETA, config={}, env=env
    ) as it:
        for _ in range(6):
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        used = [used for used, _ in meters(it.agent)]
        assert shown_compactions(it.agent) == []
        assert len(it.server.calls) == 6
        assert used == sorted(used)
        # The false count is replaced by the previous one plus our estimate of what was
        # added since.
        assert used[3] < used[4] < used[5] < used[3] * 1.5


FALSE: dict[str, Callable[[int], Usage]] = {
    "a trillion": lambda _: Usage(10**12, 500),
    "more than a trillion": lambda _: Usage(10**13, 10**13),
    "tenfold": lambda real: Usage(real * 10, 500),
    "below zero": lambda _: Usage(-1, -1),
    "zero": lambda _: Usage(0, 0),
    "a half": lambda real: Usage(real // 2, 500),
    "three quarters": lambda real: Usage(real * 3 // 4, 500),
    "a tenth": lambda real: Usage(real // 10, 500),
    "one": lambda _: Usage(1, 1),
    "an answer of a million": lambda real: Usage(real, 10**6),
    "a million from the cache": lambda real: Usage(real, 500, 10**6),
}
"""A false count of one request, by its real one."""


@pytest.mark.parametrize("rate", [0.6, 1.0, 1.7])
@pytest.mark.parametrize("kind", FALSE)
async def test_after_one_false_count_the_meter_goes_on_from_the_last_good_one(
    tmp_path: Path, kind: str, rate: float
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        real = int(size(body) * rate)
        is_false = len(it.server.calls) == 3
        usage = FALSE[kind](real) if is_false else Usage(real, int(900 * rate))
        return Reply(items(110), usage=usage)

    async with stage(
        tmp_path,
        script=answer,
        dialect="chat",
        editor=ZED_BETA,
        config={"context_window": 200_000, "compaction": {"prepare": False}},
    ) as it:
        for _ in range(5):
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        used = [used for used, _ in meters(it.agent)]
        calls = [call for call in it.server.calls if call.body.get("tools")]
        real = [int((size(call.body) + 900) * rate) for call in calls]
        assert used == sorted(used)
        assert len(used) == len(real)
        for shown, expected in zip(used, real, strict=True):
            assert expected * 0.8 <= shown <= expected * 1.25


async def test_two_similar_counts_are_believed(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        factor = 2.2 if len(it.server.calls) > 4 else 1
        return Reply(items(60), usage=Usage(int(size(body) * factor), 500))

    async with stage(
        tmp_path,
        script=answer,
        dialect="chat",
        editor=ZED_BETA,
        config={"context_window": 100_000},
    ) as it:
        for _ in range(6):
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        real = [size(call.body) for call in it.server.calls]
        used = [used for used, _ in meters(it.agent)]
        assert used[4] < real[4] * 1.5
        assert used[5] == int(real[5] * 2.2) + 500


async def test_two_counts_above_the_window_shorten_the_context(
    tmp_path: Path,
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        factor = 9 if len(it.server.calls) in (3, 4) else 1
        return Reply(items(60), usage=Usage(int(size(body) * factor), 500))

    config = {"context_window": WINDOW, "compaction": {"prepare": False}}
    async with stage(
        tmp_path, script=answer, dialect="chat", editor=ZED_BETA, config=config
    ) as it:
        for _ in range(4):
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        assert shown_compactions(it.agent) == []
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
        assert len(shown_compactions(it.agent)) == 1


@pytest.mark.parametrize("dialect", ["chat", "openai", "anthropic"])
@pytest.mark.parametrize(
    "usage", [Usage(-1, -1), Usage(-1, 5), Usage(0, -1), Usage(0, 5), Usage(4_000, -1)]
)
async def test_negative_counts_never_reach_the_editor_and_no_request_counts_as_empty(
    tmp_path: Path, usage: Usage, dialect: DialectName
) -> None:
    async with stage(
        tmp_path,
        script=lambda body: Reply("Yes.", usage=usage),
        dialect=dialect,
        editor=ZED_BETA,
        config={},
    ) as it:
        for _ in range(2):
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        assert all(used > 1_000 for used, _ in meters(it.agent))


async def test_a_count_of_a_tenth_is_not_believed_if_the_request_fits(
    tmp_path: Path,
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        part = 10 if len(it.server.calls) in (3, 4, 5) else 1
        return Reply(items(200), usage=Usage(size(body) // part, 1_600))

    async with stage(
        tmp_path,
        script=answer,
        dialect="chat",
        editor=ZED_BETA,
        config={"context_window": 100_000},
    ) as it:
        for _ in range(6):
            assert await it.prompt("What does the cart add?") == {
                "stopReason": "end_turn"
            }
        used = [used for used, _ in meters(it.agent)]
        assert used == sorted(used)
        assert notices(it.agent) == []


@asynccontextmanager
async def ollama(server: ModelServer, window: int) -> AsyncIterator[str]:
    """Ollama in front of the model server: the first request loads the model; after
    that it reports the window.
    """

    async def app(exchange: Exchange) -> None:
        if exchange.request.path == "/api/ps":
            loaded = {
                "name": "llama-test",
                "model": "llama-test",
                "context_length": window,
            }
            await exchange.respond(200, {"models": [loaded] if server.calls else []})
        elif exchange.request.path.endswith("/models"):
            models = [
                {"id": name, "object": "model", "owned_by": "library"}
                for name in server.windows
            ]
            await exchange.respond(200, {"object": "list", "data": models})
        else:
            await server.serve(exchange)

    async with http_server(app) as url:
        yield url


def cutting(window: int) -> Callable[[Mapping[str, Any]], Reply]:
    """Return a script for a server that truncates longer requests to half its window,
    and counts only the rest.
    """

    def answer(body: Mapping[str, Any]) -> Reply:
        whole = size(body)
        return Reply(
            "Yes.", usage=Usage(whole if whole <= window else window // 2 + 3, 5)
        )

    return answer


@pytest.mark.parametrize("name", ["ollama", "mine"])
async def test_a_server_that_silently_truncates_requests_is_asked_for_its_window(
    tmp_path: Path, name: str
) -> None:
    window = 8_192
    async with (
        model_server(cutting(window), "ollama") as server,
        ollama(server, window) as url,
    ):
        file = tmp_path / "state" / "config.yaml"
        file.parent.mkdir(mode=0o700)
        file.write_text(
            json.dumps(
                {"providers": {name: {"kind": "openai-chat", "base_url": f"{url}/v1"}}}
            )
        )
        env = {"ACP_AGENT_MODEL": f"{name}/llama-test"}
        async with agent_in_memory(
            home=tmp_path, env=env, capabilities=ZED_BETA
        ) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, f"Count these.\n{items(3_000)}") == {
                "stopReason": "end_turn"
            }
            [(used, known)] = meters(agent)
            assert known == window
            assert used > 20_000, (
                "the server's count of a truncated request is not the size of the context"
            )
            [notice] = notices(agent)
            assert "counted 4,099 tokens for a request of about" in notice
            assert "cut it to the model's context window (8,192)" in notice
            for _ in range(2):
                assert await agent.prompt(session, "And now?") == {
                    "stopReason": "end_turn"
                }
            assert all(size(call.body) <= window for call in server.calls[1:])
            assert len(shown_compactions(agent)) == 1
            assert len(notices(agent)) == 1
            assert meters(agent)[-1][0] < window


async def test_a_count_of_half_the_window_reveals_a_truncated_request(
    tmp_path: Path,
) -> None:
    window = 8_192

    def answer(body: Mapping[str, Any]) -> Reply:
        whole = size(body) * 3 // 2  # the tokens as the server counts them
        return Reply(
            "Yes.", usage=Usage(whole if whole <= window else window // 2 + 2, 5)
        )

    async with model_server(answer, "ollama") as server, ollama(server, window) as url:
        file = tmp_path / "state" / "config.yaml"
        file.parent.mkdir(mode=0o700)
        file.write_text(
            json.dumps({"providers": {"ollama": {"base_url": f"{url}/v1"}}})
        )
        env = {"ACP_AGENT_MODEL": "ollama/llama-test"}
        async with agent_in_memory(
            home=tmp_path, env=env, capabilities=ZED_BETA
        ) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, f"Count these.\n{items(500)}") == {
                "stopReason": "end_turn"
            }
            assert (
                size(server.calls[0].body)
                < window
                < size(server.calls[0].body) * 3 // 2
            )
            assert len(notices(agent)) == 1
            assert meters(agent)[-1][0] > window // 2 + 500
            assert await agent.prompt(session, "And now?") == {"stopReason": "end_turn"}
            assert size(server.calls[-1].body) * 3 // 2 <= window
            assert len(notices(agent)) == 1


async def test_a_request_too_long_for_a_truncating_server_is_not_sent_again(
    tmp_path: Path,
) -> None:
    window = 700  # smaller than the system prompt and the tools
    async with (
        model_server(cutting(window), "ollama") as server,
        ollama(server, window) as url,
    ):
        file = tmp_path / "state" / "config.yaml"
        file.parent.mkdir(mode=0o700)
        file.write_text(
            json.dumps({"providers": {"ollama": {"base_url": f"{url}/v1"}}})
        )
        env = {"ACP_AGENT_MODEL": "ollama/llama-test"}
        async with agent_in_memory(
            home=tmp_path, env=env, capabilities=ZED_BETA
        ) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello.") == {"stopReason": "end_turn"}
            assert len(notices(agent)) == 1
            with pytest.raises(
                AgentError, match=r"does not fit the model's context window \(700\)"
            ):
                await agent.prompt(session, "And now?")
            assert len(server.calls) == 1


async def test_the_user_is_told_what_to_set_if_a_truncating_server_hides_its_window(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        script=cutting(4_096),
        dialect="chat",
        editor=ZED_BETA,
        config={},
        env={"ACP_AGENT_MODEL": "local/other"},
    ) as it:
        for _ in range(2):
            assert await it.prompt(f"Count these.\n{items(2_000)}") == {
                "stopReason": "end_turn"
            }
        [notice] = notices(it.agent)
        assert (
            "Either the server has silently cut the request, or its counts are wrong"
            in notice
        )
        assert "context_window" in notice
        assert meters(it.agent)[-1][0] > 20_000


COUNTS = st.integers(-(10**9), 10**9)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_no_count_is_negative(
    read: int, written: int, cached: int, stored: int
) -> None:
    usage = Counted(read, written, cached, stored)
    assert (
        min(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        )
        >= 0
    )
    assert usage.total_tokens >= usage.prompt_tokens >= 0


@given(st.lists(st.tuples(st.integers(1, 10**6), st.booleans()), max_size=6))
def test_the_newest_believed_count_gives_the_size_of_a_context(
    counts: list[tuple[int, bool]],
) -> None:
    context = Context()
    for seq, (tokens, doubtful) in enumerate(counts, 1):
        usage = Counted(tokens, 1, cost=0.5)
        message = AssistantMessage(
            f"msg_{seq}", (Text("Yes."),), usage=usage, doubtful=doubtful
        )
        context = context.apply(LoggedEvent(seq, 0, AssistantAnswered(message)))
    believed = [
        (seq, tokens)
        for seq, (tokens, doubtful) in enumerate(counts, 1)
        if not doubtful
    ]
    seq, tokens = believed[-1] if believed else (0, -1)
    assert (context.baseline, context.baseline_seq) == (tokens + 1, seq)
    assert context.cost == len(counts) * 0.5, "the cost of a doubtful answer counts too"
    assert len(context.entries) == len(counts)


async def test_a_local_server_is_asked_for_its_window_before_each_prompt(
    tmp_path: Path,
) -> None:
    window = [8_192]

    asked: list[str] = []

    async def app(exchange: Exchange) -> None:
        asked.append(exchange.request.path)
        if exchange.request.path == "/api/ps":
            loaded = {
                "name": "llama-test",
                "model": "llama-test",
                "context_length": window[0],
            }
            await exchange.respond(200, {"models": [loaded]})
        else:
            await server.serve(exchange)

    script = [Reply("Yes.", usage=Usage(2_000, 5))] * 2
    async with model_server(script, "ollama") as server, http_server(app) as url:
        file = tmp_path / "state" / "config.yaml"
        file.parent.mkdir(mode=0o700)
        file.write_text(
            json.dumps({"providers": {"ollama": {"base_url": f"{url}/v1"}}})
        )
        env = {"ACP_AGENT_MODEL": "ollama/llama-test"}
        async with agent_in_memory(
            home=tmp_path, env=env, capabilities=ZED_BETA
        ) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "Hi.")
            assert meters(agent)[-1][1] == 8_192
            window[0] = 16_384
            asked.clear()
            await agent.prompt(session, "And now?")
            assert asked[:2] == ["/api/ps", "/v1/chat/completions"]
            assert meters(agent)[-1][1] == 16_384
