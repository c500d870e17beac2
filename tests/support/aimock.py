"""aimock, a server of every provider's HTTP API that this project did not write, as a
real process.

    answer = fixture("Read it", {"content": "It is a cart."}, hasToolResult=True)
    async with aimock([answer], "openai", tmp_path) as server:
        async with connected_agent(home=tmp_path, env=server.env) as agent: ...
        [first, *_] = await server.journal()

A fixture is aimock's own: what the last user message contains, and what is answered. It
runs strict: a request that no fixture matches gets status 503, and one without the key
401. Its journal has every provider's requests in one form, that of Chat Completions.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from support.npm import node, npm_package

Dialect = Literal["anthropic", "openai", "chat"]
DIALECTS: tuple[Dialect, ...] = ("anthropic", "openai", "chat")
PATHS: dict[Dialect, str] = {
    "anthropic": "/v1/messages",
    "openai": "/v1/responses",
    "chat": "/v1/chat/completions",
}
KEY = "test-key"
_START_SECONDS = 15
_MODELS: dict[Dialect, str] = {
    "anthropic": "anthropic/claude-test",
    "openai": "openai/gpt-test",
    "chat": "mock/chat-test",
}


def fixture(prompt: str, response: Mapping[str, Any], /, **more: Any) -> dict[str, Any]:
    """One of aimock's fixtures.

    :param prompt: a text that the last user message contains.
    :param response: `content`, `toolCalls` or `error`, see aimock's documentation.
    :param more: `hasToolResult` and `sequenceIndex` narrow the match; all else is the
        fixture's own.
    """
    narrowing = {
        name: more.pop(name)
        for name in ("hasToolResult", "sequenceIndex")
        if name in more
    }
    return {"match": {"userMessage": prompt, **narrowing}, "response": response, **more}


@dataclass(frozen=True, slots=True)
class Entry:
    """One request in the journal.

    :ivar body: the request in the form of Chat Completions; empty for requests without
        one.
    :ivar status: of the answer; 0 where the connection was cut before there was one.
    :ivar interrupted: the stream was cut.
    """

    path: str
    body: Mapping[str, Any]
    status: int
    interrupted: bool

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return self.body["messages"]

    def text(self, role: str) -> str:
        return "\n".join(
            _text(message.get("content"))
            for message in self.messages
            if message["role"] == role
        )


@dataclass(frozen=True, slots=True)
class Aimock:
    """The running server; made by `aimock`.

    :ivar env: the variables that send an agent here.
    """

    url: str
    dialect: Dialect
    env: Mapping[str, str]

    async def journal(self) -> list[Entry]:
        """The model calls so far, in order of arrival."""
        entries: list[dict[str, Any]] = await anyio.to_thread.run_sync(
            _get, f"{self.url}/__aimock/journal"
        )
        return [
            Entry(
                path=entry["path"],
                body=entry["body"] or {},
                status=entry["response"]["status"],
                interrupted=entry["response"].get("interrupted", False),
            )
            for entry in entries
            if entry["method"] == "POST"
        ]


@asynccontextmanager
async def aimock(
    fixtures: Sequence[Mapping[str, Any]], dialect: Dialect, home: Path
) -> AsyncGenerator[Aimock, None]:
    """Run it until the block ends.

    :param dialect: which API the agent speaks; `chat` is a custom provider in the
        agent's `config.yaml`.
    :param home: what `start_agent` is given as `home`.
    :raises pytest.skip.Exception: it is not installed, and this is not CI.
    """
    script = npm_package("@copilotkit/aimock") / "dist" / "cli.js"
    file = home / "fixtures.json"
    file.write_text(json.dumps({"fixtures": list(fixtures)}))
    with subprocess.Popen(
        [
            node(),
            script,
            "--port",
            "0",
            "--fixtures",
            file,
            "--strict",
            "--validate-on-load",
        ],
        env={**os.environ, "AIMOCK_API_KEYS": KEY},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            with anyio.fail_after(_START_SECONDS):
                url = await anyio.to_thread.run_sync(
                    _address, process, abandon_on_cancel=True
                )
            yield Aimock(url, dialect, _environment(url, dialect, home))
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    raise AssertionError(f"aimock did not start:\n{''.join(said)}")


def _environment(url: str, dialect: Dialect, home: Path) -> dict[str, str]:
    env = {"ACP_AGENT_MODEL": _MODELS[dialect]}
    if dialect == "anthropic":
        return env | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}
    if dialect == "openai":
        return env | {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1"}
    config = home / "state" / "config.yaml"
    config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    config.write_text(
        f"providers:\n  mock:\n    kind: openai-chat\n    base_url: {url}/v1\n    api_key_env: MOCK_API_KEY\n"
    )
    return env | {"MOCK_API_KEY": KEY}


def _get(url: str) -> Any:
    # A proxy of the person who runs the tests must not be asked for a loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(
        urllib.request.Request(url, headers={"x-api-key": KEY}), timeout=5
    ) as answer:
        return json.load(answer)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())
