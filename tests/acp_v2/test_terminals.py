"""What a slow editor is sent of a command that prints faster than it takes."""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path

import anyio
import pytest

from acp_agent.protocol import JsonObject, as_object
from acp_agent.server.v2.terminals import CHUNK, ShownCommands
from acp_agent.tools.local_commands import MISSING
from support.waiting import read_pipe


def data_of(update: JsonObject) -> bytes:
    """The bytes in an update of a terminal."""
    data = as_object(update.get("output")).get("data") or update.get("data")
    return b64decode(data) if isinstance(data, str) else b""


@pytest.mark.parametrize(("numbers", "whole"), [(100_000, True), (400_000, False)])
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
    result = await ShownCommands(send).run(command, tmp_path, 60, ignore, ignore)
    assert result.exit_code == 0
    assert max(len(data_of(update)) for update in sent) <= CHUNK
    shown = b""
    for update in sent:
        shown = data_of(update) if "output" in update else shown + data_of(update)
    assert ("output" in {key for update in sent for key in update}) is not whole
    assert (b"begun\n" + printed if whole else printed).endswith(shown)
    assert len(shown) == len(b"begun\n" + printed) if whole else 0 < len(shown) < len(printed)
    # The first of what is left is a whole line.
    assert whole or printed[-len(shown) - 1 : -len(shown)] == b"\n"


async def test_the_model_is_told_that_something_is_missing_of_a_command_that_was_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "on")
    os.mkfifo(tmp_path / "done")
    began = False

    async def send(update: JsonObject) -> None:
        nonlocal began
        if data_of(update) and not began:
            began = True
            async with await anyio.open_file(tmp_path / "on", "w"):
                pass
            await read_pipe(tmp_path / "done")
        elif "output" in update:  # it begins anew, behind what is missing
            assert commands.cancel(str(update["terminalId"]))

    async def ignore(told: str) -> None:
        pass

    command = "echo begun; cat on; seq 400000; echo > done; sleep 60"
    commands = ShownCommands(send)
    result = await commands.run(command, tmp_path, 60, ignore, ignore)
    assert (result.ended_by_user, result.merged, result.signal) == (True, True, "SIGTERM")
    assert result.stdout.startswith(f"begun\n{MISSING}")
    assert not commands.cancel("term_none")
