"""The stdio transport: messages of any length in both directions, how a server ends,
and all that it has started.
"""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.mcp.launch import Launch
from acp_agent.mcp.stdio import over_stdio
from acp_agent.mcp.transports import Streams, Watch
from support.processes import marked, outlive

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b"no message\\n\\n{}\\n" + line)
    sys.stdout.flush()
"""


def python(code: str, watch: Watch) -> AbstractAsyncContextManager[Streams]:
    return over_stdio(
        Launch((sys.executable, "-I", "-S", "-c", code), {"PATH": "/usr/bin"}), watch
    )


def message(text: str) -> SessionMessage:
    params: dict[str, Any] = {"text": text}
    return SessionMessage(
        types.JSONRPCNotification(jsonrpc="2.0", method="say", params=params)
    )


async def test_messages_of_any_length_go_in_and_out_whole_and_what_is_none_is_passed_over() -> (
    None
):
    sent = [message("short"), message("x" * 300_000), message("ä")]
    async with python(ECHO, Watch()) as (received, to_server):
        with anyio.fail_after(20):
            for each in sent:
                await to_server.send(each)
                got = await received.receive()
                assert isinstance(got, SessionMessage)
                assert got.message == each.message


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "import sys; sys.stderr.write('\\x1b[31mno\\x1b[0m\\nkey'); sys.exit(4)",
            "it ended with status 4 and said: no key",
        ),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by signal 9"),
        ("import os, time; os.close(1); time.sleep(600)", "it closed its output"),
    ],
)
async def test_why_a_server_is_gone_is_known(code: str, reason: str) -> None:
    watch = Watch()
    async with python(code, watch) as (received, _):
        with anyio.fail_after(20):
            async for _ in received:
                pass
    assert watch.reason == reason


SAID = {
    "npm": (
        [
            "npm error code E404",
            "npm error 404 Not Found - GET https://registry/server-filesystemx",
            "npm error 404",
            "npm error 404  The requested resource 'server-filesystemx@*' could not be found.",
            "npm error 404",
            "npm error 404 Note that you can also install from a",
            "npm error 404 tarball, folder, http url, or git url.",
            "npm notice",
            "npm notice New major version of npm available! 10.8.2 -> 11.6.0",
            "npm notice Changelog: https://github.com/npm/cli/releases/tag/v11.6.0",
            "npm notice To update run: npm install -g npm@11.6.0",
            "npm notice",
            "npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log",
        ],
        ["404 Not Found", "'server-filesystemx@*' could not be found"],
    ),
    "node": (
        [
            "node:internal/modules/cjs/loader:1228",
            "  throw err;",
            "  ^",
            "Error: Cannot find module '/no/server.js'",
            "    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)",
            "    at Module._load (node:internal/modules/cjs/loader:1051:27)",
            "    at node:internal/main/run_main_module:28:49 {",
            "  code: 'MODULE_NOT_FOUND',",
            "  requireStack: []",
            "}",
            "",
            "Node.js v20.20.2",
        ],
        ["Cannot find module '/no/server.js'"],
    ),
    "a long line of a program": (
        [
            "import{Command as e}" * 100,
            " " * 50 + "^^^^",
            "SyntaxError: no export named 'x'",
        ],
        ["no export named 'x'"],
    ),
    "pip": (
        [
            "ERROR: No matching distribution found for mcp-server-tme",
            "",
            "[notice] A new release of pip is available: 24.0 -> 25.3",
            "[notice] To update, run: pip install --upgrade pip",
            "WARNING: There was an error checking the latest version of pip.",
        ],
        ["No matching distribution found for mcp-server-tme"],
    ),
    "nothing else": (["npm notice New version"], ["npm notice New version"]),
}


@pytest.mark.parametrize("program", SAID)
async def test_the_reason_is_told_and_not_the_news_behind_it(program: str) -> None:
    lines, told = SAID[program]
    watch = Watch()
    text = "\n".join(lines)
    async with python(
        f"import sys; sys.stderr.write({text!r}); sys.exit(1)", watch
    ) as (received, _):
        with anyio.fail_after(20):
            async for _ in received:
                pass
    assert all(each in watch.reason for each in told)
    assert ("notice" in watch.reason) is (program == "nothing else")


async def test_what_a_server_has_started_ends_with_it(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}"
    ready = '{"jsonrpc":"2.0","method":"up"}'
    command = f"trap '' TERM; sleep 600 & echo '{ready}'; wait"
    env = {"PATH": "/usr/bin:/bin", "MCP_MARK": mark}
    async with over_stdio(Launch(("/bin/sh", "-c", command), env), Watch()) as (
        received,
        _,
    ):
        with anyio.fail_after(20):
            await received.receive()
        found = marked(mark)
        assert len(found) == 2
    assert not await outlive(found, seconds=2)
