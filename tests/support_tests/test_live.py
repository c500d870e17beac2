"""The tests of `make live`, which need keys and the network elsewhere, are tried here with a server of the tests."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio

from support.checkout import REPOSITORY, environment
from support.models import KEY, ModelServer, Reply, ToolCall, model_server

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
            return Reply("Halcyon")


async def make_live(home: Path, server: ModelServer, *args: str) -> str:
    """Run what the target of the Makefile runs, and return what it prints."""
    env = environment(home) | server.env("anthropic") | server.env("openai")
    command = [sys.executable, "-m", "pytest", "-m", "live", "-p", "no:cacheprovider", "tests/live", *args]
    ran = await anyio.run_process(command, cwd=REPOSITORY, env=env, check=False)
    assert ran.stderr == b""
    return ran.stdout.decode()


async def test_providers_with_a_key_are_tried_others_are_skipped_and_no_key_is_printed(tmp_path: Path) -> None:
    async with model_server(answer) as server:
        printed = await make_live(tmp_path, server, "-k", "anthropic or google or own")
        assert "6 passed, 6 skipped" in printed
        assert "google wants a key in GEMINI_API_KEY or GOOGLE_API_KEY" in printed
        costs = re.findall(r"^(\w+)/\S+: \$(\S+) by the agent's own figures \(sessions: (\d)\)$", printed, re.MULTILINE)
        assert [(provider, float(cost) > 0, sessions) for provider, cost, sessions in costs] == [
            ("anthropic", True, "5"),
            ("openai", True, "1"),
        ]
        native = [call for call in server.calls if "compaction" in call.body or call.path.endswith("/compact")]
        assert len(native) == 2
    async with model_server(lambda _: Reply(f"An apple; your key is {KEY}.")) as server:
        failed = await make_live(tmp_path, server, "-k", "question and anthropic")
        assert "1 failed" in failed
        assert "an apple; your key is " in failed
        assert KEY not in printed + failed
