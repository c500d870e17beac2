"""The command lines in the documentation: each is one that the agent understands, and
what a reader copies works.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from acp_agent.cli.main import build_parser, parse
from acp_agent.config.permission_rules import PermissionRules
from support.checkout import environment
from support.compactions import asked_last, is_summary_request
from support.models import Reply, model_server
from support.pages import FENCE, PAGES, examples, section
from support.repo import make_repo

IN_TEXT = re.compile(r"`(?:git diff \\?\| )?(?P<line>acp-agent [a-z][^`]*)`")
SUMMARY = "# Goal\nA summary."
LONG = "The cart adds prices. " * 900


def fenced(page: Path) -> list[str]:
    """The lines of a page's examples that call the agent, as they are copied."""
    lines = [
        line.strip()
        for found in FENCE.finditer(page.read_text())
        for line in found["text"].splitlines()
    ]
    return [line for line in lines if line.startswith("acp-agent ")]


def mentioned(page: Path) -> list[str]:
    """The command lines in a page's sentences and tables."""
    return [
        found["line"] for found in IN_TEXT.finditer(FENCE.sub("", page.read_text()))
    ]


def parsers(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """All sub-commands that something can be given to, by name: `recipe-show`."""
    below = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    for action in below:
        for word, inner in action.choices.items():
            yield from parsers(inner, f"{name}-{word}".lstrip("-"))
    if name and any(
        not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        for action in parser._actions
    ):
        yield name, parser


LINES = sorted(
    {(page.name, line) for page in PAGES for line in (*fenced(page), *mentioned(page))}
)


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_command_line_in_the_documentation_is_understood(
    page: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del page
    words = shlex.split(line, comments=True)
    words = words[
        1 : next((at for at, word in enumerate(words) if word in ("|", ">")), None)
    ]
    try:
        asked = parse(words)
    except SystemExit:
        pytest.fail(capsys.readouterr().err)
    action = getattr(asked, "action", None)
    known = dict(parsers(build_parser()))
    parser = known.get(f"{asked.command}-{action}", known.get(asked.command))
    options = (
        {option for action in parser._actions for option in action.option_strings}
        if parser
        else set[str]()
    )
    # argparse understands the beginning of an option too; what is printed has to be
    # whole.
    assert {word for word in words if word.startswith("-") and word != "-"} <= options


def place(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder in which the examples are at home, and the environment for them:
    `acp-agent` is a program there.
    """
    home = tmp_path / "home"
    programs = tmp_path / "bin"
    repo = make_repo(tmp_path / "project")
    for project in (repo.path, home / "src" / "shop"):
        (project / ".acp-agent" / "recipes").mkdir(parents=True)
        (project / ".acp-agent" / "recipes" / "tell.md").write_text("Tell it.\n")
        for subject in ("shell: make test", "edit"):
            PermissionRules(home / "agent").allow(project, subject)
    [tour] = [
        text for _, text in examples("markdown recipe") if "\nname: tour\n" in text
    ]
    (home / "agent" / "recipes").mkdir(mode=0o700)
    (home / "agent" / "recipes" / "tour.md").write_text(tour)
    programs.mkdir()
    program = programs / "acp-agent"
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m acp_agent "$@"\n'
    )
    program.chmod(0o755)
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ACP_AGENT_HOME": str(home / "agent"),
    }
    return repo.path, {**environment(home), **env}


async def run_all(lines: Sequence[str], tmp_path: Path) -> tuple[list[str], list[str]]:
    """Run lines as a shell does, one after the other.

    :returns: what each printed, and what the model was asked.
    """
    folder, env = place(tmp_path)
    printed: list[str] = []
    async with model_server(
        lambda body: Reply(SUMMARY if is_summary_request(body) else LONG), "openai"
    ) as server:
        for line in lines:
            command = line
            if line.startswith("acp-agent trust") and " --" not in line:
                # There is no terminal to ask at, so say yes beforehand.
                command = line.replace(" trust", " trust --yes", 1)
            done = await anyio.run_process(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env={**env, **server.env()},
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr.decode())
            printed.append(done.stdout.decode())
    return printed, [asked_last(call.body) for call in server.calls]


RUN = ["README.md", "cli.md", "hooks.md", "permissions.md", "trust.md"]
"""Pages whose examples are run; those of compact-eval.md have recorded sessions of the
reader's.
"""


@pytest.mark.process
@pytest.mark.parametrize("name", RUN)
async def test_what_a_reader_copies_runs_in_the_order_in_which_it_stands(
    name: str, tmp_path: Path
) -> None:
    lines = [line for page in PAGES if page.name == name for line in fenced(page)]
    printed, asked = await run_all(lines, tmp_path)
    assert len(lines) > 1
    assert len(asked) == sum(
        line.startswith(("acp-agent run ", "acp-agent compact ")) for line in lines
    )
    if name == "trust.md":
        assert ["shop" in text for text in printed] == [False, True, True, True]


@pytest.mark.process
async def test_the_examples_of_arguments_mean_what_is_said_of_them(
    tmp_path: Path,
) -> None:
    typed = next(FENCE.finditer(section("recipes.md", "Arguments")))[
        "text"
    ].splitlines()
    lines = [
        line if line.startswith("acp-agent ") else f"acp-agent run {shlex.quote(line)}"
        for line in typed
    ]
    _, asked = await run_all(lines, tmp_path)
    deep = [
        text.partition("Show how this works, ")[2].partition(", to a newcomer")[0]
        for text in asked
    ]
    assert deep == ["3 deep", "three levels deep", "three levels deep"]
    assert all("code base: the session log\n" in text for text in asked)
