"""How images are made with Pillow: beside the turn, once, one after the other, and whatever becomes of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from support.client import AgentError
from support.pictures import encoded, png
from support.replies import Reply
from support.stage import stage
from support.waiting import read_pipe, write_pipe

ROOT = Path(__file__).parents[2]
IMAGE: dict[str, Any] = {"type": "image", "data": encoded(png(100, 100, seed=7)), "mimeType": "image/png"}
LOOK: dict[str, Any] = {"type": "text", "text": "Look: "}


def pillow_in(tmp_path: Path, code: str) -> Path:
    """A folder with another Pillow."""
    package = tmp_path / "pillow" / "PIL"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "Image.py").write_text(code)
    return package.parent


SLOW_PILLOW = """
import pathlib
FOLDER = pathlib.Path(__file__).parent.parent
def open(*given, **named):
    with (FOLDER / "calls").open("a") as file:
        file.write("x")
    (FOLDER / "opened").write_text("yes")
    (FOLDER / "go").read_text()
    raise OSError
"""


async def test_a_cancel_does_not_wait_for_an_image_and_what_is_made_of_it_is_made_once(tmp_path: Path) -> None:
    slow = pillow_in(tmp_path, SLOW_PILLOW)
    os.mkfifo(slow / "opened")
    os.mkfifo(slow / "go")
    program = {"argv": (sys.executable, "-m", "acp_agent"), "env": {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}}
    async with stage(tmp_path, Reply("Gone on."), dialect="anthropic", **program) as it:
        prompt = await it.agent.start_prompt(it.session, [LOOK, IMAGE])
        await read_pipe(slow / "opened")
        await it.agent.cancel(it.session)
        assert await prompt.result() == {"stopReason": "cancelled"}
        again = await it.agent.start_prompt(it.session, [LOOK, IMAGE])
        await write_pipe(slow / "go")
        with pytest.raises(AgentError, match="it is damaged"):
            await again.result()
        assert (slow / "calls").read_text() == "x"


TWO_AT_ONCE = """
import sys
from pathlib import Path
import anyio
from acp_agent.errors import InvalidParamsError
from acp_agent.conversation.messages import Image
from acp_agent.llm.profiles import ModelProfile
from acp_agent.session.attachments import Attachments
from acp_agent.storage.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    attachments = Attachments(store, "s1")

    async def refused(data):
        try:
            await attachments.check([Image(data, "image/png")], ModelProfile(), "gpt")
        except InvalidParamsError as error:
            print(error)

    async with anyio.create_task_group() as tasks:
        attachments.run_in(tasks)
        for data in ("AAAA", "BBBB"):
            tasks.start_soon(refused, data)
    await store.aclose()

anyio.run(main)
"""
MEETING_PILLOW = """
import threading
both = threading.Barrier(2)
def open(*given, **named):
    try:
        both.wait(0.5)
    except threading.BrokenBarrierError:
        raise OSError
    print("two at once")
"""


async def test_images_are_made_one_after_the_other(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": f"{pillow_in(tmp_path, MEETING_PILLOW)}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", TWO_AT_ONCE, str(tmp_path / "sessions.db")]
    with anyio.fail_after(30):
        ran = await anyio.run_process(command, env=environ)
    told = ran.stdout.decode().splitlines()
    assert len(told) == 2
    assert all("An image cannot be sent to gpt" in line for line in told)


ODD_PILLOW = """
class Image:
    width = height = 1
    def __enter__(self):
        return self
    def __exit__(self, *given):
        raise RuntimeError("nobody foresaw this")
def open(*given, **named):
    return Image()
"""


async def test_a_failure_that_is_not_the_images_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    environ = {"PYTHONPATH": f"{pillow_in(tmp_path, ODD_PILLOW)}{os.pathsep}{ROOT}"}
    program = {"argv": (sys.executable, "-m", "acp_agent"), "env": environ}
    async with stage(tmp_path, Reply("Gone on."), dialect="anthropic", **program) as it:
        for _ in range(2):
            with pytest.raises(AgentError, match=r"failed inside \(RuntimeError") as error:
                await it.prompt([LOOK, IMAGE])
            assert error.value.code == -32603
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
