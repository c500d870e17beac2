"""A provider that counts more tokens than we do: a refusal that states both numbers is a calibration as well as a
window, and the one retry fits by the provider's own measure."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentProcess, connected_agent
from support.compactions import shown_compactions
from support.dialogues import check_legal, pieces, system_of, texts
from support.editors import ZED_BETA
from support.models import ModelServer, Reply, ToolCall, Usage, model_server

WINDOW = 14_000
KNOWN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "the environment": ({}, {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}),
    "the configuration": ({"models": {"anthropic/claude-test": {"context_window": WINDOW}}}, {}),
    "the refusal alone": ({}, {}),
}
"""How the window is known: configuration and environment."""
Answer = Callable[[Mapping[str, Any]], Reply]


def size(body: Mapping[str, Any]) -> int:
    """Tokens of a prompt, about, as we count them."""
    said = sum(len(piece.text) for piece in pieces(body)) + len(system_of(body))
    return (said + len(json.dumps(body.get("tools", [])))) // 4


def refusal(prompt: int, says: str) -> Reply:
    """A refusal in these words; one that states both numbers where there are none."""
    message = says or f"prompt is too long: {prompt} tokens > {WINDOW} maximum"
    said = {"type": "invalid_request_error", "message": message}
    return Reply(http_status=400, body={"type": "error", "error": said})


@asynccontextmanager
async def reading(
    home: Path, answer: Answer, known: str = "the environment", env: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[ModelServer, AgentProcess, str]]:
    """A session in a folder with large files, in which nothing is prepared."""
    config, given = KNOWN[known]
    env = given if env is None else env
    folder = home / "project"
    folder.mkdir()
    for name in ("big", "other"):
        (folder / f"{name}.txt").write_text(f"A line of the {name} file.\n" * 3_000)
    async with model_server(answer, "anthropic") as server:
        server.write_config(home, {"compaction": {"prepare": False}, **config})
        async with connected_agent(home=home, env=server.env() | {**env}, capabilities=ZED_BETA) as agent:
            yield server, agent, await agent.new_session(folder)


def counting(factor: float, *files: str, says: str = "") -> tuple[Answer, list[int]]:
    """A provider that counts by this factor and reads these files, one a step; and the prompts that it refused.

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
            return Reply("Next.", tool_calls=[ToolCall("read", {"path": left.pop(0)})], usage=Usage(prompt, 20))
        return Reply("Done.", usage=Usage(prompt, 5))

    return answer, refused


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("factor", [1.25, 1.3, 1.6, 2.5])
async def test_a_file_that_the_provider_counts_larger_is_made_to_fit_by_its_own_measure(
    tmp_path: Path, factor: float, known: str
) -> None:
    answer, refused = counting(factor, "big.txt")
    async with reading(tmp_path, answer, known) as (server, agent, session):
        assert await agent.prompt(session, "Read the big file.", 60) == {"stopReason": "end_turn"}
        assert len(refused) <= 1
        assert len(refused) == 1 or factor < 1.6
        check_legal(server.calls[-1].body)
        [result] = texts(server.calls[-1].body, "result")
        # No more is taken away than the window demands, with room for an answer.
        assert WINDOW * 0.6 < factor * size(server.calls[-1].body) < WINDOW * (0.8 if refused else 1)
        assert "left out" in result
        assert await agent.prompt(session, "And now?", 60) == {"stopReason": "end_turn"}
        assert len(refused) <= 1
        if refused:
            assert agent.updates(kind="usage_update")[-1]["size"] == WINDOW


async def test_what_a_refusal_shows_of_our_count_holds_for_the_next_results_of_the_turn(tmp_path: Path) -> None:
    answer, refused = counting(2.5, "big.txt", "other.txt")
    async with reading(tmp_path, answer, "the refusal alone") as (server, agent, session):
        assert await agent.prompt(session, "Read both files.", 60) == {"stopReason": "end_turn"}
        assert len(refused) == 1
        assert "other file" in texts(server.calls[-1].body, "result")[-1]
        assert {tuple(shown.statuses) for shown in shown_compactions(agent)} == {("in_progress", "completed")}


@pytest.mark.parametrize("says", ["prompt is too long", f"maximum context length is {WINDOW} tokens"])
async def test_where_a_refusal_does_not_count_a_third_more_than_we_do_is_allowed_for(tmp_path: Path, says: str) -> None:
    answer, refused = counting(1.6, "big.txt", says=says)
    async with reading(tmp_path, answer, "the refusal alone") as (server, agent, session):
        assert await agent.prompt(session, "Read the big file.", 60) == {"stopReason": "end_turn"}
        assert len(refused) == 1
        assert 0.4 * refused[0] < 1.6 * size(server.calls[-1].body)


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (1.8, "prompt is too long"),
        (2.2, "prompt is too long"),
        (2, "maximum context length is 10000 tokens"),
        (2.5, "prompt is too long: {} tokens"),
    ],
)
async def test_a_small_window_is_used_turn_after_turn_whatever_its_refusals_say_of_our_count(
    tmp_path: Path, factor: float, says: str
) -> None:
    window, refused, left = 10_000, list[int](), list[str]()

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = int(factor * size(body))
        if prompt > window:
            refused.append(prompt)
            return refusal(prompt, says.format(prompt))
        if left:
            return Reply("R", tool_calls=[ToolCall("read", {"path": left.pop()})], usage=Usage(prompt, 20))
        return Reply("Done, and it is long enough. " * 30, usage=Usage(prompt, 300))

    async with reading(tmp_path, answer, env={"ACP_AGENT_CONTEXT_WINDOW": str(window)}) as (server, agent, session):
        (tmp_path / "project" / "big.txt").write_text("A line of the big file.\n" * 400)
        for _ in range(6):
            left.append("big.txt")
            assert await agent.prompt(session, "Read on.", 60) == {"stopReason": "end_turn"}
            check_legal(server.calls[-1].body)
        assert len(refused) == 1, "what was refused teaches, and is not sent again"


async def test_a_refusal_for_want_of_room_for_the_answer_calibrates_our_count_too(tmp_path: Path) -> None:
    refused, left = list[int](), list[str]()

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt, wanted = int(1.1 * size(body)), int(body["max_tokens"])
        if prompt + wanted > WINDOW:
            refused.append(prompt)
            said = f"input length and `max_tokens` exceed context limit: {prompt} + {wanted} > {WINDOW}"
            return refusal(prompt, f"{said}, decrease input length or `max_tokens` and try again")
        if left:
            return Reply("R", tool_calls=[ToolCall("read", {"path": left.pop()})], usage=Usage(prompt, 20))
        return Reply("Done.", usage=Usage(prompt, 5))

    async with reading(tmp_path, answer, "the refusal alone") as (_, agent, session):
        (tmp_path / "project" / "big.txt").write_text("A line of the big file.\n" * 500)
        for _ in range(5):
            left.append("big.txt")
            assert await agent.prompt(session, "Read on.", 60) == {"stopReason": "end_turn"}
        assert len(refused) <= 2, "the window is learned with the first, and not each turn anew"


async def test_a_named_window_is_filled_as_far_as_it_goes_where_doubting_our_count_leaves_no_room(
    tmp_path: Path,
) -> None:
    window, refused = 3_600, list[int]()

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = size(body)
        if prompt > window:
            refused.append(prompt)
            return refusal(prompt, f"This model's maximum context length is {window} tokens.")
        if texts(body, "result"):
            return Reply("Done.", usage=Usage(prompt, 5))
        return Reply("Next.", tool_calls=[ToolCall("read", {"path": "big.txt"})], usage=Usage(prompt, 20))

    async with reading(tmp_path, answer, "the refusal alone") as (_, agent, session):
        assert await agent.prompt(session, "Read the big file.", 60) == {"stopReason": "end_turn"}
        assert len(refused) == 1


@pytest.mark.parametrize(("window", "factor"), [(9_000, 2.2), (9_000, 2.5), (5_000, 1.5)])
async def test_a_prompt_that_was_cut_and_refused_leaves_a_window_that_the_next_turns_fit(
    tmp_path: Path, window: int, factor: float
) -> None:
    """What was counted by estimate behind the compaction is not taken for what the provider counts."""
    left = list[str]()

    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = int(factor * size(body))
        if prompt > window:
            return refusal(prompt, "prompt is too long")
        if left:
            return Reply("R", tool_calls=[ToolCall("read", {"path": left.pop()})], usage=Usage(prompt, 20))
        return Reply("Done, and the answer is long enough. " * 30, usage=Usage(prompt, 300))

    async with reading(tmp_path, answer, env={"ACP_AGENT_CONTEXT_WINDOW": str(window)}) as (_, agent, session):
        (tmp_path / "project" / "big.txt").write_text("line 1 of file 1 is here\n" * (window // 28))
        for prompt in ("Hello.", "pasted log line 12345 lorem ipsum\n" * (window // 9), "And now?"):
            assert await agent.prompt(session, prompt, 60) == {"stopReason": "end_turn"}
        for _ in range(2):
            left.append("big.txt")
            assert await agent.prompt(session, "Read the big file.", 60) == {"stopReason": "end_turn"}
            assert await agent.prompt(session, "Say hi.", 60) == {"stopReason": "end_turn"}
