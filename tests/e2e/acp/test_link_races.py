"""A sandboxed command of one session exchanges links while another session of the same
agent reads and writes files.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.exclusion import without_editor
from support.editors import ZED, Editor
from support.exchanged import exchange
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import results

SECRET = "hunter2-private-key"
NO_FILES = replace(ZED, files=False, terminal=False)
WITH_FILES = replace(ZED, terminal=False)
FILES = {"src/key": "harmless\n", "src/config": "harmless\n"}
ROUNDS = 25
LOOP = """
import ctypes, os
rename = ctypes.CDLL(None).renameat2
open("begun", "w").close()
while not os.path.exists("stop"):
    for _ in range(1001):
        rename(-100, b"src", -100, b"link", 2)
"""


def outside_of(tmp_path: Path, folder: Path) -> Path:
    """A folder of the user's with files of the same names, and a link to it in the
    project.
    """
    outside = tmp_path / "secret"
    outside.mkdir()
    for name in ("key", "config"):
        (outside / name).write_text(f"{SECRET}\n")
    (folder / "link").symlink_to(outside)
    return outside


def state_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
@pytest.mark.parametrize(
    "editor", [NO_FILES, WITH_FILES], ids=["the disk", "the editor's files"]
)
async def test_a_command_that_exchanges_links_leads_no_other_session_out_of_its_folder(
    tmp_path: Path, editor: Editor
) -> None:
    attack = ToolCall(
        "shell",
        {
            "command": f"{shlex.quote(str(Path(sys.executable).resolve()))} -c {shlex.quote(LOOP)}"
        },
    )
    round_ = [
        ToolCall("read", {"path": "src/key"}),
        ToolCall("grep", {"path": "src", "pattern": "."}),
        ToolCall("write", {"path": "src/authorized_keys", "content": "evil\n"}),
        ToolCall("read", {"path": "src/config"}),
        ToolCall("write", {"path": "src/config", "content": "evil\n"}),
    ]

    def script(body: Mapping[str, Any]) -> Reply:
        text = json.dumps(body)
        if "Done." in text or results(body):
            return Reply("Done.")
        return Reply(tool_calls=[attack] if "Attack!" in text else round_ * ROUNDS)

    config = {"mode": "accept-edits"}
    async with stage(
        tmp_path, script=script, editor=editor, files=FILES, config=config
    ) as it:
        outside = outside_of(tmp_path, it.folder)
        before = state_of(outside)
        it.agent.permission_answer = "reject_once"
        other = await it.agent.new_session(it.folder)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.agent.prompt, other, "Attack!", 120)
            with anyio.fail_after(30):
                while not (it.folder / "begun").exists():  # noqa: ASYNC110 - a file, of which nobody tells
                    await anyio.sleep(0.01)
            await it.prompt("Work.", 120)
            (it.folder / "stop").touch()
        read = "".join(
            result.text for call in it.server.calls for result in results(call.body)
        )
        assert "harmless" in read
        assert SECRET not in read
        assert state_of(outside) == before


@pytest.mark.parametrize(
    "running", [True, False], ids=["while a command runs", "while none runs"]
)
async def test_what_is_not_saved_in_the_editor_is_relied_on_where_no_command_could_have_led_it_elsewhere(
    tmp_path: Path, running: bool
) -> None:
    calls = [
        ToolCall("read", {"path": "src/key"}),
        ToolCall("read", {"path": "src/config"}),
    ]
    async with stage(
        tmp_path, Reply(tool_calls=calls), Reply("Done."), files=FILES
    ) as it:
        it.agent.desk.unsaved[str(it.folder / "src" / "key")] = "unsaved\n"
        with without_editor((it.folder,) if running else (tmp_path / "elsewhere",)):
            await it.prompt()
        one, other = (result.text for result in results(it.server.calls[1].body))
        assert "harmless" in other
        assert ("unsaved" in one) is not running
        assert ("differs between the editor and the disk" in one) is running


async def test_a_command_begins_when_the_editor_has_read_the_file_that_it_could_lead_elsewhere(
    tmp_path: Path,
) -> None:
    call = ToolCall("read", {"path": "src/key"})
    async with stage(
        tmp_path, Reply(tool_calls=[call]), Reply("Done."), files=FILES
    ) as it:
        outside_of(tmp_path, it.folder)

        def attack() -> None:
            with without_editor((it.folder,)):
                exchange(it.folder / "src", it.folder / "link")

        async with anyio.create_task_group() as tasks:

            async def read(params: Mapping[str, Any]) -> Any:
                tasks.start_soon(anyio.to_thread.run_sync, attack)
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                return {"content": Path(params["path"]).read_text()}

            it.agent.handlers["fs/read_text_file"] = read
            await it.prompt()
        [result] = results(it.server.calls[1].body)
        assert SECRET not in result.text


@pytest.mark.parametrize(
    "editor", [NO_FILES, WITH_FILES], ids=["the disk", "the editor's files"]
)
async def test_undo_follows_no_link_that_a_command_made_since(
    tmp_path: Path, editor: Editor
) -> None:
    calls = [
        ToolCall("write", {"path": "src/profile", "content": "evil\n"}),
        ToolCall("write", {"path": "src/profile", "content": "as installed\n"}),
        ToolCall("write", {"path": "src/made", "content": "made\n"}),
    ]
    answers = [
        Reply(tool_calls=calls[:1]),
        Reply("Done."),
        Reply(tool_calls=calls[1:]),
        Reply("Done."),
    ]
    async with stage(
        tmp_path, *answers, editor=editor, files=FILES, mode="accept-edits"
    ) as it:
        outside = outside_of(tmp_path, it.folder)
        (outside / "profile").write_text("as installed\n")
        (outside / "made").write_text("made\n")
        before = state_of(outside)
        await it.prompt()
        await it.prompt()
        exchange(it.folder / "src", it.folder / "link")
        await it.prompt("/undo")
        assert "outside the session's directories" in it.agent.text()
        assert state_of(outside) == before
        exchange(it.folder / "src", it.folder / "link")
        await it.prompt("/undo")
        assert (it.folder / "src" / "profile").read_text() == "evil\n"
        assert not (it.folder / "src" / "made").exists()
