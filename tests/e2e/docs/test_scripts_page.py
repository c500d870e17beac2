"""docs/scripts.md: its GitHub Action does what is said of it, and the tables say what
`acp-agent run` does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import anyio
import pytest
import yaml

from acp_agent.cli.terminal.output import EXIT_STATUSES, TurnResult
from support.checkout import environment
from support.compactions import asked_last
from support.models import Reply, model_server
from support.pages import DOCS, examples, section
from support.repo import make_repo
from support.terminal import Ran

PAGE = DOCS / "scripts.md"


def step() -> dict[str, str]:
    """The step of the action that calls the agent."""
    [(_, text)] = examples("yaml action", PAGE)
    [found] = [
        each
        for each in yaml.safe_load(text)["jobs"]["review"]["steps"]
        if "acp-agent run" in each.get("run", "")
    ]
    assert (found["shell"], [*found["env"]]) == ("bash", ["ANTHROPIC_API_KEY", "BASE"])
    return found


async def review(tmp_path: Path, reply: Reply) -> tuple[Ran, str, str]:
    """Run the step as GitHub does, on a branch that changes a file.

    :returns: how it ended, the summary of the run, and what the model was asked.
    """
    repo = make_repo(tmp_path / "project")
    programs = tmp_path / "bin"
    temp = tmp_path / "temp"
    base = repo.git("rev-parse", "HEAD").strip()
    (repo.path / "cart.py").write_text("total = 0\n")
    repo.git("add", "cart.py")
    repo.git("commit", "-q", "-m", "A cart.")
    for folder in (programs, temp):
        folder.mkdir()
    (programs / "acp-agent").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m acp_agent "$@"\n'
    )
    (programs / "acp-agent").chmod(0o755)
    (temp / "step.sh").write_text(step()["run"])
    async with model_server([reply], "anthropic") as server:
        env = {
            **environment(tmp_path / "home"),
            **server.env(),
            "BASE": base,
            "RUNNER_TEMP": str(temp),
        }
        env |= {
            "GITHUB_STEP_SUMMARY": str(temp / "summary"),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        shell = [
            "bash",
            "--noprofile",
            "--norc",
            "-eo",
            "pipefail",
            str(temp / "step.sh"),
        ]
        done = await anyio.run_process(shell, cwd=repo.path, env=env, check=False)
        asked = asked_last(server.calls[0].body)
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    return ran, (temp / "summary").read_text(), asked


@pytest.mark.process
async def test_the_action_writes_the_review_of_the_changes_into_the_summary(
    tmp_path: Path,
) -> None:
    ran, summary, asked = await review(tmp_path, Reply("The total is never added up."))
    assert (ran.code, summary) == (0, "The total is never added up.\n"), ran
    assert asked.startswith("Review this diff. ")
    assert "+total = 0\n" in asked
    # Between these GitHub obeys nothing that the model may have said.
    first, *_, last = ran.out.splitlines()
    assert first == f"::stop-commands::{last.strip(':')}"
    assert "::error" not in ran.out
    assert "::warning" not in ran.out


@pytest.mark.process
@pytest.mark.parametrize(
    ("stop", "code", "summary", "said"),
    [
        (
            "refusal",
            3,
            "",
            r"^::error::acp-agent: The model refused to answer\..*--model",
        ),
        (
            "max_tokens",
            0,
            "The total\n",
            r"^::warning::The review is not complete. acp-agent: The answer was cut off",
        ),
    ],
)
async def test_the_action_says_why_there_is_no_review_or_not_all_of_it(
    tmp_path: Path, stop: str, code: int, summary: str, said: str
) -> None:
    ran, written, _ = await review(tmp_path, Reply("The total", stop=stop))
    assert (ran.code, written) == (code, summary), ran
    assert re.search(said, ran.out, re.MULTILINE), ran.out


def test_the_tables_have_every_exit_status_and_every_key_of_the_result() -> None:
    table = (
        (DOCS / "cli.md")
        .read_text()
        .partition("\n### Exit status\n")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", table, re.MULTILINE)
    assert {name: int(status) for status, name in rows} == EXIT_STATUSES
    keys = [*TurnResult().as_json()]
    as_json = section("scripts.md", "As JSON")
    assert re.findall(r"^\| `(\w+)` \|", as_json, re.MULTILINE) == keys
    [(_, lines)] = examples("json", PAGE)
    update, result = map(json.loads, lines.splitlines())
    assert ([*update], [*result]) == (["sessionId", "update"], keys)
