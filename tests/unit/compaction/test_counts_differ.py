"""A provider that counts more tokens than we do. A refusal that states both numbers
calibrates our estimate, so that the only retry fits.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentProcess
from support.dialogues import check_legal, pieces, system_of, texts
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import ModelServer, Reply, ToolCall, Usage, model_server

WINDOW = 14_000
KNOWN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "the environment": ({}, {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}),
    "the configuration": (
        {"models": {"anthropic/claude-test": {"context_window": WINDOW}}},
        {},
    ),
    "the refusal alone": ({}, {}),
}
"""How the window is known: configuration and environment."""
Answer = Callable[[Mapping[str, Any]], Reply]


def size(body: Mapping[str, Any]) -> int:
    """Return the approximate tokens of a prompt, as we count them."""
    said = sum(len(piece.text) for piece in pieces(body)) + len(system_of(body))
    return (said + len(json.dumps(body.get("tools", [])))) // 4


def refusal(prompt: int, says: str) -> Reply:
    """A refusal in these words; one that states both numbers where there are none."""
    message = says or f"prompt is too long: {prompt} tokens > {WINDOW} maximum"
    said = {"type": "invalid_request_error", "message": message}
    return Reply(http_status=400, body={"type": "error", "error": said})


@asynccontextmanager
async def reading(
    home: Path,
    answer: Answer,
    known: str = "the environment",
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[tuple[ModelServer, AgentProcess, str]]:
    """Return a session without background summaries, in a folder with large files."""
    config, given = KNOWN[known]
    env = given if env is None else env
    folder = home / "project"
    folder.mkdir()
    for name in ("big", "other"):
        (folder / f"{name}.txt").write_text(f"A line of the {name} file.\n" * 3_000)
    async with model_server(answer, "anthropic") as server:
        server.write_config(home, {"compaction": {"prepare": False}, **config})
        async with agent_in_memory(
            home=home, env=server.env() | {**env}, capabilities=ZED_BETA
        ) as agent:
            yield server, agent, await agent.new_session(folder)


def counting(factor: float, *files: str, says: str = "") -> tuple[Answer, list[int]]:
    """A provider that counts by this factor and reads these files, one a step; and the
    prompts that it refused.

    :param says: its refusal, where that does not state both numbers.
    """
    refused: list[int] = []
    left = list(files)

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = int(factor * size(body))
        if prompt > WINDOW:
            refused.append(prompt)
            return refusal(prompt, says.format(prompt))
        if left:
            return Reply(
                "Next.",
                tool_calls=[ToolCall("read", {"path": left.pop(0)})],
                usage=Usage(prompt, 20),
            )
        return Reply("Done.", usage=Usage(prompt, 5))

    return answer, refused


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("factor", [1.25, 1.3, 1.6, 2.5])
async def test_a_file_that_the_provider_counts_higher_is_shortened_by_its_count(
    tmp_path: Path, factor: float, known: str
) -> None:
    answer, refused = counting(factor, "big.txt")
    async with reading(tmp_path, answer, known) as (server, agent, session):
        assert await agent.prompt(session, "Read the big file.", 60) == {
            "stopReason": "end_turn"
        }
        assert len(refused) <= 1
        assert len(refused) == 1 or factor < 1.6
        check_legal(server.calls[-1].body)
        [result] = texts(server.calls[-1].body, "result")
        # No more is taken away than the window demands, with room for an answer.
        assert (
            WINDOW * 0.6
            < factor * size(server.calls[-1].body)
            < WINDOW * (0.8 if refused else 1)
        )
        assert "left out" in result
        assert await agent.prompt(session, "And now?", 60) == {"stopReason": "end_turn"}
        assert len(refused) <= 1
        if refused:
            assert agent.updates(kind="usage_update")[-1]["size"] == WINDOW


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (2.05, "prompt is too long"),
        (2.2, "prompt is too long"),
        (2, "maximum context length is 10000 tokens"),
        (2.4, "prompt is too long: {} tokens"),
    ],
)
async def test_a_small_window_stays_usable_whatever_counts_its_refusals_state(
    tmp_path: Path, factor: float, says: str
) -> None:
    window = 10_000
    refused = list[int]()
    left = list[str]()

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = int(factor * size(body))
        if prompt > window:
            refused.append(prompt)
            return refusal(prompt, says.format(prompt))
        if left:
            return Reply(
                "R",
                tool_calls=[ToolCall("read", {"path": left.pop()})],
                usage=Usage(prompt, 20),
            )
        return Reply("Done, and it is long enough. " * 30, usage=Usage(prompt, 300))

    async with reading(
        tmp_path, answer, env={"ACP_AGENT_CONTEXT_WINDOW": str(window)}
    ) as (server, agent, session):
        (tmp_path / "project" / "big.txt").write_text("A line of the big file.\n" * 400)
        for _ in range(6):
            left.append("big.txt")
            assert await agent.prompt(session, "Read on.", 60) == {
                "stopReason": "end_turn"
            }
            check_legal(server.calls[-1].body)
        assert len(refused) == 1, "what was refused teaches, and is not sent again"


FALSE: dict[str, tuple[float, Callable[[int], int]]] = {
    "a third": (2, lambda prompt: prompt // 3),
    "two thirds": (2, lambda prompt: prompt * 2 // 3),
    "a tenth": (1.2, lambda prompt: prompt // 10),
    "a quarter of a language with many tokens": (3.5, lambda prompt: prompt // 4),
    "always the same": (1.5, lambda prompt: 300),
}


@pytest.mark.parametrize("kind", FALSE)
async def test_a_turn_survives_refusals_that_count_more_than_answers_do(
    tmp_path: Path, kind: str
) -> None:
    factor, said = FALSE[kind]
    refused: list[int] = []
    left = list(range(12))

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = int(factor * size(body))
        if prompt > WINDOW:
            refused.append(prompt)
            return refusal(prompt, "")
        usage = Usage(said(prompt), 20)
        if left:
            lines = {"path": "big.txt", "offset": 220 * left.pop() + 1, "limit": 220}
            return Reply("Next.", tool_calls=[ToolCall("read", lines)], usage=usage)
        return Reply("Done.", usage=usage)

    async with reading(tmp_path, answer, "the refusal alone") as (
        server,
        agent,
        session,
    ):
        assert await agent.prompt(session, "Read the big file.", 60) == {
            "stopReason": "end_turn"
        }
        assert not left
        assert len(refused) <= 2
        check_legal(server.calls[-1].body)
        assert await agent.prompt(session, "And now?", 60) == {"stopReason": "end_turn"}
        assert len(refused) <= 2
