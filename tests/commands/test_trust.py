"""`acp-agent trust`, and the question at a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import anyio

from support.checkout import REPOSITORY
from support.models import Reply, model_server
from support.terminal import run_command

LOOK = "---\nallowed_commands: ['touch*']\n---\nLook{{ shell('touch', 'ran') }}."


def repository(folder: Path) -> Path:
    for name, text in {".acp-agent/recipes/look.md": LOOK, ".claude/commands/see.md": "See."}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


async def test_a_project_is_trusted_listed_and_revoked(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop")
    ran = await run_command(tmp_path, "trust", "shop")
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
    ran = await run_command(tmp_path, "trust", "--list")
    assert [line.split("  ")[0] for line in ran.out.splitlines()] == [
        str(folder / ".acp-agent"),
        str(folder / ".claude"),
    ]
    ran = await run_command(tmp_path, "trust", "--revoke", "shop")
    assert (ran.code, ran.out.count("Not trusted any more: ")) == (0, 2)
    ran = await run_command(tmp_path, "trust", "--revoke", "shop")
    assert (ran.code, ran.err) == (
        1,
        f"acp-agent: Nothing of {folder} was trusted. `acp-agent trust --list` shows what is.\n",
    )


async def test_what_has_changed_stands_first_and_what_is_left_out_is_called_no_command(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop")
    recipes, commands = folder / ".acp-agent" / "recipes", folder / ".claude" / "commands"
    for name in ("README.md", "Bad.md", "loud.MD", "help.md", "a/b/c/d/e/six.md", "a/fine.md"):
        (recipes / name).parent.mkdir(parents=True, exist_ok=True)
        (recipes / name).write_text("x")
    for name in ("See It.md", "compact.md", "\x1b[31mred.md"):
        (commands / name).write_text("x")
    ran = await run_command(tmp_path, "trust", "shop")
    assert "\x1b" not in ran.out
    lines = [line.strip() for line in ran.out.splitlines()]
    running = {line.rpartition(" ")[2] for line in lines if ": the command " in line}
    assert running == {"`/look`", "`/a:fine`", "`/see`", "`/see-it`"}
    assert len([line for line in lines if line.endswith(": a file beside the recipes")]) == 7
    env = {"ACP_AGENT_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    listed = await run_command(folder, "recipe", "list", "--json", env=env)
    offered = {f"`{entry['command']}`" for entry in json.loads(listed.out)["recipes"] if entry["origin"] == "project"}
    assert running == offered

    (recipes / "look.md").write_text("Other.")
    (recipes / "zebra.md").write_text("x")
    (commands / "see.md").unlink()
    ran = await run_command(tmp_path, "trust", "shop")
    lines = [line.strip() for line in ran.out.splitlines()]
    assert lines[1:4] == [
        "Changed: `.acp-agent/recipes/look.md`: the command `/look`",
        "New: `.acp-agent/recipes/zebra.md`: the command `/zebra`",
        "`.acp-agent/recipes/Bad.md`: a file beside the recipes",
    ]
    assert "Gone: `.claude/commands/see.md`" in lines
    assert (await run_command(tmp_path, "trust", "shop")).out.count("Changed: ") == 0


async def test_what_cannot_be_trusted_is_said(tmp_path: Path) -> None:
    ran = await run_command(tmp_path, "trust")
    assert (ran.code, ran.out) == (0, f"{tmp_path} brings no hooks and no recipes.\n")
    assert not (tmp_path / "state").exists()
    ran = await run_command(tmp_path, "trust", "nowhere")
    assert (ran.code, ran.err) == (
        1,
        f"acp-agent: {tmp_path / 'nowhere'} is not a directory. Name the project's folder.\n",
    )
    repository(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text("{")
    ran = await run_command(tmp_path, "trust")
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
