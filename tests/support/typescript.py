"""Editors made of the official TypeScript SDK, and what they saw.

facts = await talk("acp_client.mjs", repo.path, server.env(), tmp_path)
assert facts["problems"] == []
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio

from support.checkout import environment
from support.npm import NPM_FOLDER, node

TIME_LIMIT = 50


async def talk(
    client: str,
    directory: Path,
    env: dict[str, str],
    home: Path,
    words: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """Run a client, and return what it saw.

    :param client: its file in tests/npm.
    :param directory: that of the session; the file to be changed in it is shop/cart.py.
    :param words: what the client is told in place of these two.
    """
    words = (str(directory), "shop/cart.py") if words is None else words
    with anyio.fail_after(TIME_LIMIT):
        done = await anyio.run_process(
            [node(), NPM_FOLDER / client, *words, sys.executable, "-m", "acp_agent"],
            env={**environment(home), **env},
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return json.loads(done.stdout)


def of(updates: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [update for update in updates if update["sessionUpdate"] == kind]


def kinds(updates: list[dict[str, Any]]) -> set[str]:
    return {update["sessionUpdate"] for update in updates}


def said(updates: list[dict[str, Any]]) -> str:
    return "".join(
        chunk["content"]["text"] for chunk in of(updates, "agent_message_chunk")
    )


def statuses(updates: list[dict[str, Any]]) -> set[str]:
    last: dict[str, str] = {}
    for update in updates:
        if "toolCallId" in update:
            last[update["toolCallId"]] = (
                update.get("status") or last[update["toolCallId"]]
            )
    return set(last.values())
