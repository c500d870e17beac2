"""`acp-agent help`, `completion` and `--help`: what a person finds out without the checkout and without a browser."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_agent.cli.main import build_parser, parse
from acp_agent.cli.terminal.usage import sub_commands
from support.called import call_command
from support.pages import DOCS
from support.terminal import at_a_terminal


def all_below(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for word, below, _ in sub_commands(parser):
        yield f"{name} {word}".lstrip(), below
        yield from all_below(below, f"{name} {word}".lstrip())


COMMANDS = dict(all_below(build_parser()))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_sub_command_says_what_it_does_and_has_an_example_of_it_that_works(name: str) -> None:
    printed, description = COMMANDS[name].format_help(), COMMANDS[name].description
    assert description
    assert description in printed
    _, _, example = printed.partition("\nexample:\n  ")
    line = example.partition(" > ")[0].rpartition(" | ")[2].strip()
    assert line.startswith(f"acp-agent {name}")
    asked = parse(shlex.split(line)[1:])
    assert f"{asked.command} {getattr(asked, 'action', None) or ''}".startswith(name)


async def test_a_page_of_the_documentation_is_printed_as_it_is_where_stdout_is_no_terminal(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "help", "trust")
    assert (ran.code, ran.out, ran.err) == (0, (DOCS / "trust.md").read_text(), "")


async def test_at_a_terminal_a_page_is_rendered(tmp_path: Path) -> None:
    async with at_a_terminal(tmp_path, "help", "doctor", env={"TERM": "xterm"}) as person:
        await person.until("key that is set here can be missing there.")
        assert await person.ended() == 0
    assert "Is all well?" in person.shown
    assert "# Is all well?" not in person.shown


async def test_without_a_topic_every_page_is_listed_with_its_first_line(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "help")
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in ran.out.splitlines()}
    assert listed == {page.stem: page.read_text().splitlines()[0][2:] for page in DOCS.glob("*.md")}


async def test_a_sub_command_that_has_no_page_shows_its_options(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "help", "schema")
    assert (ran.code, ran.out) == (0, COMMANDS["schema"].format_help())


@pytest.mark.parametrize(("typed", "meant"), [("docter", "doctor"), ("compacton", "compaction"), ("shema", "schema")])
async def test_an_unknown_topic_says_which_one_may_be_meant(tmp_path: Path, typed: str, meant: str) -> None:
    ran = await call_command(tmp_path, "help", typed)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"acp-agent: There is no page {typed!r}; did you mean `{meant}`?\n"


COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
COMPREPLY=()
_shtab_acp_agent
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["doc"], "doctor"),
        (["doctor", "--off"], "--offline"),
        (["setup", "ze"], "zed"),
        (["recipe", "sh"], "show"),
        (["recipe", "check", "not"], "notes.md"),
    ],
    ids=" ".join,
)
async def test_bash_completes_commands_options_choices_and_files(
    tmp_path: Path, words: list[str], completed: str
) -> None:
    (tmp_path / "notes.md").touch()
    script = tmp_path / "script"
    script.write_text((await call_command(tmp_path, "completion", "bash")).out)
    command = ["bash", "--norc", "-c", COMPLETE, "bash", str(script), "acp-agent", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == [completed]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_the_script_of_a_shell_can_be_read_by_it(tmp_path: Path, shell: str) -> None:
    script = (await call_command(tmp_path, "completion", shell)).out
    assert "compact-eval" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=30)
