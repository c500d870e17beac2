"""The tests of `make live`, which need keys and the network elsewhere, are tried here
with a server of the tests.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.checkout import REPOSITORY, environment
from support.models import KEY, Binding, ModelServer, Reply, ToolCall, model_server
from support.reasoning import asks_to_compact

pytestmark = pytest.mark.process

PROMPTS = ("Answer with the one word", "Write the numbers", "Read notes.txt")


def answer(body: dict[str, Any]) -> Reply:
    said = json.dumps(body)
    match max(PROMPTS, key=said.rfind):
        case "Answer with the one word":
            return Reply("Pear.")
        case "Write the numbers":
            return Reply(["1\n", "2\n"], hold=anyio.Event(), hold_after=1)
        case _ if "Crate 400" not in said and "Halcyon" not in said:
            return Reply(tool_calls=[ToolCall("read", {"path": "notes.txt"})])
        case _:
            # Long enough for a summary.
            return Reply(f"Halcyon. {'The notes say so. ' * 15}")


async def make_live(home: Path, server: ModelServer, *args: str) -> str:
    """Run what the target of the Makefile runs, and return what it prints."""
    env = environment(home) | server.env("anthropic") | server.env("openai")
    env |= {
        "XAI_API_KEY": KEY,
        "XAI_BASE_URL": f"{server.base_url}/v1",
        "XAI_MODEL": "grok-test",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "live",
        "-p",
        "no:cacheprovider",
        "tests/live",
        *args,
    ]
    ran = await anyio.run_process(command, cwd=REPOSITORY, env=env, check=False)
    assert ran.stderr == b"", ran.stderr.decode()
    return ran.stdout.decode()


async def test_providers_with_a_key_are_tried_others_are_skipped_and_no_key_is_printed(
    tmp_path: Path,
) -> None:
    async with model_server(answer) as server:
        printed = await make_live(
            tmp_path,
            server,
            "-k",
            "((openai and not openrouter) or google or own) and not reasoning",
        )
        assert "6 passed, 6 skipped" in printed
        assert "google wants a key in GEMINI_API_KEY or GOOGLE_API_KEY" in printed
        costs = re.findall(
            r"^(\w+)/\S+: \$(\S+) by the agent's own figures \(sessions: (\d)\)$",
            printed,
            re.MULTILINE,
        )
        assert [
            (provider, float(cost) > 0, sessions) for provider, cost, sessions in costs
        ] == [
            ("openai", True, "5"),
            ("anthropic", True, "1"),
        ]
        native = [call for call in server.calls if asks_to_compact(call)]
        assert len(native) == 2
    async with model_server(lambda _: Reply(f"An apple; your key is {KEY}.")) as server:
        failed = await make_live(
            tmp_path,
            server,
            "-k",
            "question and openai and not openrouter and not reasoning",
        )
        assert "1 failed" in failed
        assert "an apple; your key is " in failed
        assert KEY not in printed + failed


def puzzled(body: dict[str, Any]) -> Reply:
    """Call the tool if the prompt asks for it, and else think and answer."""
    messages = body.get("messages") or body["input"]
    if "with the tool `look`" in str(messages[-1].get("content")):
        return Reply(tool_calls=[ToolCall("look", {"box": 1})])
    return Reply("89 and 97.")


async def test_open_questions_about_reasoning_are_answered_by_the_provider(
    tmp_path: Path,
) -> None:
    async with model_server(puzzled, binding=Binding()) as server:
        printed = await make_live(tmp_path, server, "-k", "test_reasoning")
    assert "10 passed" in printed
    assert KEY not in printed
    claude = "anthropic/claude-haiku-5-5, "
    gpt = "openai/gpt-6.2-sol, "
    assert (
        f"{claude}ids of calls: compared: refused with 400: messages.3.content.0: Invalid `signature`"
        in printed
    )
    assert f'{claude}compaction, by the Models API: "no word"' in printed
    assert f"{claude}compaction, by a request: makes a summary" in printed
    assert (
        f"{claude}inline-tools-2026-09-15: header accepted; with its members accepted"
        in printed
    )
    effort = (
        "left out with the same: nothing; with another: prefix_mismatch "
        "(accepted); with another by an item: nothing"
    )
    assert f"{gpt}effort of the request: {effort}" in printed
    inserted = (
        "left out without: nothing; between it and what was kept: "
        "prefix_mismatch (accepted); after what was kept: "
    )
    assert f"{gpt}a message behind a compaction: {inserted}nothing" in printed
    assert f"{gpt}cache of a compaction: an ordinary request: " in printed
    assert "tokens (accepted), which makes: compaction" in printed
    assert "xai/grok-test, reasoning over Responses: sent back: accepted" in printed


async def test_a_gateway_is_asked_which_betas_it_accepts(tmp_path: Path) -> None:
    async with model_server(puzzled, binding=Binding(refuse_header="header")) as server:
        gateway = {
            "kind": "anthropic",
            "base_url": server.base_url,
            "api_key_env": "ANTHROPIC_API_KEY",
        }
        config = tmp_path / "work.yaml"
        config.write_text(json.dumps({"providers": {"work": gateway}}))
        args = (
            "--config",
            str(config),
            "--model",
            "work/claude-haiku-5-5",
            "-k",
            "test_reasoning",
        )
        printed = await make_live(tmp_path, server, *args)
    assert "6 passed, 4 skipped" in printed
    assert (
        "work/claude-haiku-5-5, ids of calls: not answered: without a change it is refused with 400"
        in printed
    )
    assert (
        "thinking-binding-controls-2026-08-01: header refused with 400: Unexpected value(s)"
        in printed
    )
    assert (
        "mid-conversation-output-config-2026-07-01: header accepted; with its members accepted"
        in printed
    )
