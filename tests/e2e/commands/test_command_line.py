"""Command lines that make no sense: each error has the usage of the sub-command and
says what may be meant.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from support.called import call_command
from support.checkout import environment
from support.terminal import at_a_terminal


@pytest.mark.parametrize(
    ("words", "usage", "advice"),
    [
        (("hlep",), "acp-agent", "there is no command 'hlep'; did you mean `help`?"),
        (
            ("fix the bug",),
            "acp-agent",
            'to send a prompt, type `acp-agent run "fix the bug"`',
        ),
        (
            ("fix", "the", "$bug"),
            "acp-agent",
            'to send a prompt, type `acp-agent run "fix the \\$bug"`',
        ),
        (("-p", "Fix it."), "acp-agent", 'did you mean `acp-agent run "…"`?'),
        (("--continue",), "acp-agent", "did you mean `acp-agent chat --follow`?"),
        (("exec", "Fix it."), "acp-agent", 'did you mean `acp-agent run "…"`?'),
        (
            ("run", "--modle", "x", "hi"),
            "acp-agent run",
            "--modle; did you mean `--model`?",
        ),
        (
            ("chat", "hello", "there"),
            "acp-agent chat",
            "quote words that belong together",
        ),
        (
            ("sessions", "lst"),
            "acp-agent sessions",
            "there is no 'lst'; did you mean `list`?",
        ),
        (
            ("sessions", "rm", "--forse", "x"),
            "acp-agent sessions rm",
            "unrecognized arguments: --forse",
        ),
        (
            ("setup", "zedd"),
            "acp-agent setup",
            "there is no 'zedd'; did you mean `zed`?",
        ),
        (
            ("run", "--output", "jsno", "x"),
            "acp-agent run",
            "there is no 'jsno'; did you mean `json`?",
        ),
        (
            ("recipe", "shwo", "x"),
            "acp-agent recipe",
            "there is no 'shwo'; did you mean `show`?",
        ),
    ],
)
async def test_an_unknown_word_gets_the_usage_of_its_sub_command_and_a_suggestion(
    tmp_path: Path, words: tuple[str, ...], usage: str, advice: str
) -> None:
    ran = await call_command(tmp_path, *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"usage: {usage} [-h]")
    assert advice in ran.err


async def test_setup_alone_lists_the_editors_and_where_their_settings_are(
    tmp_path: Path,
) -> None:
    (tmp_path / ".jetbrains").mkdir()
    (tmp_path / ".jetbrains" / "acp.json").write_text("{}")
    ran = await call_command(tmp_path, "setup", env={"HOME": str(tmp_path)})
    rows = {line.split()[0]: line for line in ran.out.splitlines()}
    assert ran.code == 0
    assert {"zed", "jetbrains", "vscode", "neovim", "emacs"} <= {*rows}
    assert rows["zed"].endswith(
        f"{tmp_path}/.config/zed/settings.json (does not exist yet)"
    )
    assert rows["jetbrains"].endswith(f"{tmp_path}/.jetbrains/acp.json")
    assert "`acp-agent setup EDITOR` sets one up" in ran.err


@pytest.mark.process
async def test_without_a_command_at_a_terminal_chat_is_named(tmp_path: Path) -> None:
    async with at_a_terminal(tmp_path, env={}) as person:
        with anyio.fail_after(30):
            await person.until("run `acp-agent chat`")
            person.type("\x03")


@pytest.mark.process
def test_on_windows_one_sentence_says_that_wsl_is_needed(tmp_path: Path) -> None:
    code = "import sys; sys.platform = 'win32'; from acp_agent.__main__ import main; main()"
    for words in ((), ("run", "Hi.")):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        [line] = done.stderr.splitlines()
        assert "WSL" in line
