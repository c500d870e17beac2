"""An editor that has gone when it is to be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from acp_agent.conversation.events import CallView
from acp_agent.jsonrpc.peer import Peer
from acp_agent.server.handshake import Capabilities
from acp_agent.server.mcp_messages import EditorServers
from acp_agent.server.v1.client import EditorClient
from acp_agent.server.v2.client import EditorClient as SecondClient
from support.ends import serving

Made: TypeAlias = EditorClient | SecondClient


def first(peer: Peer, cwd: Path) -> Made:
    """The client of a version 1 session."""
    return EditorClient(peer, "sess_1", Capabilities(), EditorServers(peer))


def second(peer: Peer, cwd: Path) -> Made:
    """The client of a version 2 session."""
    return SecondClient(peer, "sess_1", str(cwd), Capabilities.of(2, {}), EditorServers(peer))


@pytest.mark.parametrize("make", [first, second])
async def test_a_call_for_which_a_gone_editor_is_to_be_asked_is_cancelled_and_has_not_failed_inside_the_agent(
    tmp_path: Path, make: Callable[[Peer, Path], Made]
) -> None:
    async with serving({}) as client:
        await client.end_input()
        await client.finished.wait()
        editor = make(client.peer, tmp_path)
        asked = editor.ask_permission("call_1", "write", CallView("Write a.txt", "edit"), {"path": "a.txt"}, "a.txt")
        assert await asked == "cancelled"
