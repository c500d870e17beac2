"""`acp-agent trust`, and the question at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import anyio

from support.called import call_command
from support.checkout import REPOSITORY
from support.models import Reply, model_server

LOOK = "---\nallowed_commands: ['touch*']\n---\nLook{{ shell('touch', 'ran') }}."


def repository(folder: Path) -> Path:
    for name, text in {".acp-agent/recipes/look.md": LOOK, ".claude/commands/see.md": "See."}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


async def test_a_project_is_trusted_listed_and_revoked(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop")
    ran = await call_command(tmp_path, "trust", "shop")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == f"""\
Trusted until something in it changes: {folder / ".acp-agent"}
  `.acp-agent/recipes/look.md`: the command `/look`
Trusted until something in it changes: {folder / ".claude"}
  `.claude/commands/see.md`: the command `/see`
"""
    )
    ran = await call_command(tmp_path, "trust", "--list")
    assert [line.split("  ")[0] for line in ran.out.splitlines()] == [
        str(folder / ".acp-agent"),
        str(folder / ".claude"),
    ]
    ran = await call_command(tmp_path, "trust", "--revoke", "shop")
    assert (ran.code, ran.out.count("Not trusted any more: ")) == (0, 2)
    ran = await call_command(tmp_path, "trust", "--revoke", "shop")
    assert (ran.code, ran.err) == (
        1,
        f"acp-agent: Nothing of {folder} was trusted. `acp-agent trust --list` shows what is.\n",
    )


async def test_what_cannot_be_trusted_is_said(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "trust")
    assert (ran.code, ran.out) == (0, f"{tmp_path} brings no hooks and no recipes.\n")
    assert not (tmp_path / "state").exists()
    ran = await call_command(tmp_path, "trust", "nowhere")
    assert (ran.code, ran.err) == (
        1,
        f"acp-agent: {tmp_path / 'nowhere'} is not a directory. Name the project's folder.\n",
    )
    repository(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text("{")
    ran = await call_command(tmp_path, "trust")
    assert (ran.code, "trust.json: cannot be understood" in ran.err) == (1, True)


async def test_at_a_terminal_it_is_asked_what_may_run(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop")
    async with model_server([Reply("Looked.")]) as server:
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
        env |= {"ACP_AGENT_HOME": str(tmp_path / "state"), **server.env()}
        keyboard, stdin = pty.openpty()
        try:
            os.write(keyboard, b"s\n")
            process = await anyio.run_process(
                [sys.executable, "-m", "acp_agent", "run", "-r", "look"],
                cwd=folder,
                env=env,
                stdin=stdin,
                stderr=subprocess.PIPE,
                check=False,
            )
        finally:
            os.close(keyboard)
            os.close(stdin)
        said = process.stderr.decode()
        assert (process.returncode, "the command `/look`" in said) == (0, True)
        assert process.stdout.decode().endswith("Looked.\n")
        assert (folder / "ran").exists()
        assert not (tmp_path / "state" / "trust.json").exists()
