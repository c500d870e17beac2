"""What the agent asks an editor: one thing at a time where people answer, and nothing
for ever where programs do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from acp_agent.errors import ToolError
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.server.channel import Channel
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1.environment import EditorFiles, EditorTerminals
from acp_agent.tools.environment import Progress

PATIENCE = 60
"""Seconds; an editor that is silent for longer has not understood the question."""


class Deaf:
    """A connection to an editor that makes terminals and says nothing else: whoever
    waits for it runs out of time.

    :ivar limits: seconds that were waited for an answer, by method.
    """

    def __init__(self) -> None:
        self.limits: dict[str, float | None] = {}

    async def request(
        self, method: str, params: JsonObject, *, timeout: float | None = None
    ) -> JsonValue:
        self.limits[method] = timeout
        if method == "terminal/create":
            return {"terminalId": "t"}
        raise TimeoutError

    async def notify(self, method: str, params: JsonObject) -> None:
        raise AssertionError(method)


async def test_no_question_about_files_or_terminals_waits_for_ever_for_an_editor_that_ignores_it(
    tmp_path: Path,
) -> None:
    async def heard(progress: Progress) -> None:
        """What a terminal says."""

    editor = Deaf()
    path = tmp_path / "a.txt"
    path.write_text("on the disk")
    channel = Channel(cast(Any, editor), "s")
    files = EditorFiles(
        channel, Capabilities(read_text_file=True, write_text_file=True)
    )
    assert await files.read_text(path) == "on the disk"
    with pytest.raises(ToolError, match="did not answer"):
        await files.write_text(tmp_path / "b.txt", "new")
    with pytest.raises(ToolError, match="did not answer"):
        await EditorTerminals(channel).run(
            ("true",), tmp_path, 7.0, heard, shown="true"
        )
    assert editor.limits.keys() == {
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/output",
        "terminal/release",
    }
    assert editor.limits["terminal/wait_for_exit"] == 7.0
    assert [
        method
        for method, limit in editor.limits.items()
        if limit is None or not 0 < limit <= PATIENCE
    ] == []
