"""What a slow editor is sent of a command that prints faster than it takes."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from acp_agent.protocol import JsonObject, as_object
from acp_agent.server.channel import Channel
from acp_agent.server.v2.terminals import ShownCommands
from acp_agent.tools.shell.run import REPORT_LIMIT
from support.waiting import read_pipe


class Given(Channel):
    """Gives the updates to a function, in place of a connection."""

    def __init__(self, taker: Callable[[JsonObject], Awaitable[None]]) -> None:
        self._taker = taker

    async def send(self, update: JsonObject) -> None:
        await self._taker(update)


def data_of(update: JsonObject) -> bytes:
    """The bytes in an update of a terminal."""
    data = as_object(update.get("output")).get("data") or update.get("data")
    return b64decode(data) if isinstance(data, str) else b""


@pytest.mark.parametrize(("numbers", "whole"), [(10_000, True), (400_000, False)])
async def test_what_has_come_meanwhile_goes_out_in_lines_of_a_bounded_length(
    tmp_path: Path, numbers: int, whole: bool
) -> None:
    printed = "".join(f"{number}\n" for number in range(1, numbers + 1)).encode()
    os.mkfifo(tmp_path / "done")
    sent: list[JsonObject] = []

    async def send(update: JsonObject) -> None:
        waiting = data_of(update) and not any(map(data_of, sent))
        sent.append(update)
        if waiting:  # until all the rest has been printed
            await read_pipe(tmp_path / "done")

    async def ignore(told: str) -> None:
        pass

    command = f"echo begun; seq {numbers}; echo > done"
    result = await ShownCommands(Given(send)).run(command, tmp_path, 60, ignore, ignore)
    assert result.exit_code == 0
    assert max(len(data_of(update)) for update in sent) <= REPORT_LIMIT
    shown = b""
    for update in sent:
        shown = data_of(update) if "output" in update else shown + data_of(update)
    assert ("output" in {key for update in sent for key in update}) is not whole
    assert (b"begun\n" + printed if whole else printed).endswith(shown)
    assert len(shown) == len(b"begun\n" + printed) if whole else 0 < len(shown) < len(printed)
    # The first of what is left is a whole line.
    assert whole or printed[-len(shown) - 1 : -len(shown)] == b"\n"
