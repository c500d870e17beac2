"""`acp-agent help`, `completion` and `--help`: what a person finds out without the
checkout and without a browser.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_agent.cli.main import build_parser, parse
from acp_agent.cli.terminal.usage import sub_commands
from support.called import call_command
from support.checkout import REPOSITORY
from support.pages import DOCS
from support.terminal import at_a_terminal


def all_below(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for word, below, _ in sub_commands(parser):
        yield f"{name} {word}".lstrip(), below
        yield from all_below(below, f"{name} {word}".lstrip())


COMMANDS = dict(all_below(build_parser()))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_sub_command_says_what_it_does_and_has_an_example_of_it_that_works(
    name: str,
) -> None:
    printed = COMMANDS[name].format_help()
    description = COMMANDS[name].description
    assert description
    assert description in printed
    _, _, example = printed.partition("\nexample:\n  ")
    line = example.partition(" > ")[0].rpartition(" | ")[2].strip()
    assert line.startswith(f"acp-agent {name}")
    asked = parse(shlex.split(line)[1:])
    assert f"{asked.command} {getattr(asked, 'action', None) or ''}".startswith(name)


async def test_a_page_of_the_documentation_is_printed_as_it_is_where_stdout_is_no_terminal(
    tmp_path: Path,
) -> None:
    ran = await call_command(tmp_path, "help", "trust")
    assert (ran.code, ran.out, ran.err) == (0, (DOCS / "trust.md").read_text(), "")


@pytest.mark.process
async def test_at_a_terminal_a_page_is_rendered(tmp_path: Path) -> None:
    async with at_a_terminal(
        tmp_path, "help", "doctor", env={"TERM": "xterm"}
    ) as person:
        await person.until(
            "Check the installation"
        )  # a long page goes through the pager
        person.type("G")
        await person.until("(END)")
        person.type("q")
        assert await person.ended() == 0
    assert "Check the installation" in person.shown
    assert "# Check the installation" not in person.shown


async def test_without_a_topic_every_page_is_listed_once_in_groups_with_its_first_line(
    tmp_path: Path,
) -> None:
    ran = await call_command(tmp_path, "help")
    rows = [line for line in ran.out.splitlines() if line.startswith("  ")]
    listed = {row.split()[0]: row.split(maxsplit=1)[1] for row in rows}
    assert len(rows) == len(listed)
    assert listed == {
        page.stem: page.read_text().splitlines()[0][2:] for page in DOCS.glob("*.md")
    }
    assert ran.out.startswith("Start:\n  start ")
    assert "`acp-agent help start`" in ran.err


async def test_the_readme_groups_the_pages_as_the_help_does(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "help")
    of_help = {
        title: [line.split()[0] for line in rows.splitlines()]
        for title, rows in re.findall(r"^(\w+):\n((?:  .+\n)+)", ran.out, re.MULTILINE)
    }
    readme = (REPOSITORY / "README.md").read_text()
    table = re.findall(r"^\| \*\*(\w+)\*\* \| (.+) \|$", readme, re.MULTILINE)
    of_readme = {
        title: re.findall(r"\(docs/([\w-]+)\.md\)", row) for title, row in table
    }
    assert of_readme == of_help
    assert list(of_readme) == ["Start", "Use", "Extend", "Operate"]


@pytest.mark.process
async def test_a_short_page_and_a_terminal_without_a_pager_get_the_page_as_it_is(
    tmp_path: Path,
) -> None:
    for env in ({"PAGER": "cat"}, {"PAGER": "no-such-pager"}, {"PAGER": "'"}):
        async with at_a_terminal(
            tmp_path, "help", "doctor", env={"TERM": "xterm", **env}
        ) as person:
            await person.until("key that is set here can be missing there.")
            assert await person.ended() == 0


async def test_a_sub_command_that_has_no_page_shows_its_options(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "help", "schema")
    assert (ran.code, ran.out) == (0, COMMANDS["schema"].format_help())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("docter", "doctor"), ("compacton", "compaction"), ("shema", "schema")],
)
async def test_an_unknown_topic_says_which_one_may_be_meant(
    tmp_path: Path, typed: str, meant: str
) -> None:
    ran = await call_command(tmp_path, "help", typed)
    assert (ran.code, ran.out) == (1, "")
    assert (
        ran.err == f"acp-agent: There is no page {typed!r}; did you mean `{meant}`?\n"
    )


COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
COMPREPLY=()
_shtab_acp_agent
printf '%s\\n' "${COMPREPLY[@]}"
"""


LISTING = """#!/bin/sh
case $1 in
sessions) printf 'sess_abc  2026-01-01 10:00  /x  One\\nsess_def  2026-01-01 10:00  /x  Two\\n' ;;
recipe) printf 'builtin  commit  Commit\\n         /commit.md\\n' ;;
models) printf 'openai: the key\\n  ▸ openai/gpt-6.2-sol  1 token\\n    openai/other  2\\n' ;;
esac
"""
"""The program in place of the agent; its rows are like those of the agent."""


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["doc"], "doctor"),
        (["doctor", "--off"], "--offline"),
        (["setup", "ze"], "zed"),
        (["recipe", "sh"], "show"),
        (["recipe", "check", "not"], "notes.md"),
        (["help", "comp-x"], ""),
        (["help", "compactio"], "compaction"),
        (["run", "-c", "sess_a"], "sess_abc"),
        (["sessions", "rm", "sess_d"], "sess_def"),
        (["inspect", "sess_d"], "sess_def"),
        (["run", "--recipe", "comm"], "commit"),
        (["recipe", "show", "comm"], "commit"),
        (["chat", "--model", "openai/gpt-6"], "openai/gpt-6.2-sol"),
    ],
    ids=" ".join,
)
async def test_bash_completes_commands_options_choices_and_files(
    tmp_path: Path, words: list[str], completed: str
) -> None:
    (tmp_path / "notes.md").touch()
    program = tmp_path / "acp-agent"
    program.write_text(LISTING)
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text((await call_command(tmp_path, "completion", "bash")).out)
    command = [
        "bash",
        "--norc",
        "-c",
        COMPLETE,
        "bash",
        str(script),
        "acp-agent",
        *words,
    ]
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == completed.split()


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_the_script_of_a_shell_can_be_read_by_it(
    tmp_path: Path, shell: str
) -> None:
    script = (await call_command(tmp_path, "completion", shell)).out
    assert "compact-eval" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=30)
