"""How images are made with Pillow: beside the turn, once, one after the other, and whatever becomes of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from support.pictures import encoded, png
from support.replies import Reply
from support.stage import stage
from support.waiting import read_pipe, write_pipe

ROOT = Path(__file__).parents[3]
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
    (FOLDER / "opened").write_text("yes")
    (FOLDER / "go").read_text()
    raise OSError
"""


async def test_a_cancel_does_not_wait_for_an_image(tmp_path: Path) -> None:
    slow = pillow_in(tmp_path, SLOW_PILLOW)
    os.mkfifo(slow / "opened")
    os.mkfifo(slow / "go")
    program = {"argv": (sys.executable, "-m", "acp_agent"), "env": {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}}
    async with stage(tmp_path, Reply("Gone on."), dialect="anthropic", **program) as it:
        prompt = await it.agent.start_prompt(it.session, [LOOK, IMAGE])
        await read_pipe(slow / "opened")
        await it.agent.cancel(it.session)
        assert await prompt.result() == {"stopReason": "cancelled"}
        await write_pipe(slow / "go")
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
