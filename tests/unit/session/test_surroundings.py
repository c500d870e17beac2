"""The values that a recipe's template can use, and what its commands may do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import anyio
import pytest

from acp_agent.errors import RecipeError
from acp_agent.recipes.model import CommandError, Recipe
from acp_agent.recipes.template import render
from acp_agent.session.recipes.run import (
    MAX_COMMAND_OUTPUT,
    RecipeRun,
    _CommandRunner,
    surroundings,
)
from acp_agent.session.workspace import git_place
from acp_agent.tools.search.wildcards import Ignored
from support.repo import Repo
from support.waiting import read_pipe


def recipe(body: str, *commands: str, is_template: bool = True) -> Recipe:
    path = Path("/r/note.md")
    return Recipe(
        "note",
        "",
        body,
        11,
        path,
        "user",
        "",
        allowed_commands=commands,
        is_template=is_template,
    )


def rendered(made: Recipe, cwd: Path, typed: str = "") -> str:
    return render(made, {}, typed, surroundings("sess_1", str(cwd), made))


def git(folder: Path, *words: str) -> str:
    return Repo(folder).git(*words).strip()


def test_a_template_can_use_the_session_the_date_and_the_repository(
    tmp_path: Path,
) -> None:
    body = "{{ conversation_id }}|{{ cwd }}|{{ date }}|{{ git.branch }}|{{ git.head }}|{{ git.root }}|{{ git.dirty }}"
    start = f"sess_1|{tmp_path / 'sub'}|{date.today().isoformat()}|"  # noqa: DTZ011
    folder = tmp_path / "sub"
    folder.mkdir()
    assert rendered(recipe(body), folder) == f"{start}|||"
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert rendered(recipe(body), folder) == f"{start}main|{head}|{tmp_path}|False"
    (tmp_path / "new.txt").write_text("x")
    assert (
        rendered(recipe("{% if git.dirty %}Changed.{% endif %}"), folder) == "Changed."
    )
    for private in (
        "{{ git._runner }}",
        "{{ git['_runner'] }}",
        "{{ git.runner }}",
        "{{ shell.__self__ }}",
    ):
        with pytest.raises(RecipeError, match="the template failed: "):
            rendered(recipe(private), folder)


def test_checking_for_changes_runs_no_program_named_by_the_repository(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    watcher = tmp_path / ".git" / "watcher"
    watcher.write_text("#!/bin/sh\ntouch .git/ran\n")
    watcher.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(watcher))
    assert rendered(recipe("{{ git.dirty }}"), tmp_path) == "False"
    assert not (tmp_path / ".git" / "ran").exists()


def test_a_command_runs_without_a_shell_and_its_output_is_a_value(
    tmp_path: Path,
) -> None:
    (tmp_path / "a b").write_text("")
    body = "<{{ shell('ls', instructions) }}|{{ shell('echo', '{{ 1/0 }} $1; $HOME') | upper }}>"
    assert (
        rendered(recipe(body, "ls*", "echo *"), tmp_path, "a b")
        == "<a b|{{ 1/0 }} $1; $HOME>"
    )
    printing = r"printf 'a\033[31mred\033[0m\000\007\r\nb\tc'".replace("\\", "\\\\")
    assert (
        rendered(recipe(f'<{{{{ shell("sh", "-c", "{printing}") }}}}>', "*"), tmp_path)
        == "<ared\ufffd\nb\tc>"
    )


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (
            "\n{{ shell('touch', 'ran') }}",
            12,
            "`touch ran` may not run here: it is not among the recipe's",
        ),
        (
            "x\n{{ shell('ls', '/nowhere') }}",
            12,
            "`ls /nowhere` ended with exit status",
        ),
        (
            "{{ shell('sh', '-c', 'printf \"\\\\033[31mred\" >&2; false') }}",
            11,
            "ended with exit status 1: red",
        ),
        (
            "{{ shell('no-such-program') }}",
            11,
            "`no-such-program` cannot be started: No such file",
        ),
        ("{{ shell('ls', 1) }}", 11, "shell() takes strings"),
        ("{{ shell() }}", 11, "shell() takes strings"),
        ("{{ shell('ls', 'a\\0b') }}", 11, "cannot be started"),
    ],
)
def test_a_refused_or_failed_command_is_reported_with_file_and_line(
    tmp_path: Path, body: str, line: int, words: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        rendered(recipe(body, "ls *", "sh -c *", "no-such-program"), tmp_path)
    assert (caught.value.source, caught.value.line) == ("/r/note.md", line)
    assert words in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_commands_get_only_the_given_environment(
    tmp_path: Path,
) -> None:
    made = recipe("{{ shell('env') }}", "env")
    around = surroundings("sess_1", str(tmp_path), made, {"SHOP": "open"})
    assert render(made, {}, "", around) == "SHOP=open"


def test_long_output_is_cut_with_a_note(tmp_path: Path) -> None:
    program = f"print('a' * {MAX_COMMAND_OUTPUT * 3})"
    code, output, _ = _CommandRunner(str(tmp_path)).run([sys.executable, "-c", program])
    assert (code, output) == (0, "a" * MAX_COMMAND_OUTPUT + "\n[cut at 64 KiB]")


async def test_the_time_limit_covers_all_commands_and_leaves_no_process(
    tmp_path: Path,
) -> None:
    runner = _CommandRunner(str(tmp_path), 0.4)
    with pytest.raises(
        CommandError, match=r"the commands of a recipe have 0\.4 seconds in total"
    ):
        runner.run(["sh", "-c", "sleep 60 & echo $! > pid; wait"])
    await until(lambda: not alive(int((tmp_path / "pid").read_text())))
    with pytest.raises(CommandError, match="in total"):
        runner.run(["sleep", "60"])


async def test_an_abandoned_run_ends_its_commands(tmp_path: Path) -> None:
    made = recipe("{{ shell('sh', '-c', 'echo $$ > pid; exec sleep 60') }}", "sh -c *")
    around = surroundings("sess_1", str(tmp_path), made)
    os.mkfifo(tmp_path / "pid")
    pid = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(RecipeRun(made, "", ()).rendered, around=around))
        pid = int(await read_pipe(tmp_path / "pid"))
        tasks.cancel_scope.cancel()
    await until(lambda: not alive(pid))


LOOKS = [
    "git status",
    "git diff HEAD",
    "git log --oneline -10",
    "git show --stat",
    "git branch --show-current",
]
LOOKS += ["git rev-parse HEAD", "git diff main..HEAD -- a.txt"]
DOES_MORE = [
    "git branch other",
    "git add .",
    "git diff --output=ran",
    "git log --outp ran",
    "git -c alias.x=!ran log",
]
DOES_MORE += [
    "git diff --no-index a b",
    "git diff /etc/passwd /etc/group",
    "git diff ~/a b",
    "git diff -- ../a b",
]
DOES_MORE += [
    "git diff a/../../b c",
    "git diff .. a",
    "git diff -- ./.. a",
    "git log --ext-diff",
    "ls",
]


def test_claude_code_commands_may_only_read_the_repository_with_git(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    texts = [
        rendered(recipe(f"!`{line}`", "git stash *", is_template=False), tmp_path)
        for line in LOOKS
    ]
    assert [text for text in texts if text.startswith("!`")] == []
    given = rendered(
        recipe("Now: !`git status $1`", is_template=False), tmp_path, "--short"
    )
    assert given == "Now: !`git status --short`"  # typed text is never run
    for line in DOES_MORE:
        around = surroundings(
            "s", str(tmp_path), recipe("x", "git stash *", is_template=False)
        )
        with pytest.raises(CommandError, match="may not run here"):
            around.shell(*line.split())
    with pytest.raises(CommandError, match="may not run here"):
        surroundings("s", str(tmp_path), recipe("x")).shell("git", "status")


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - nobody tells when a process is gone
            await anyio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    try:
        return not (
            status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"
        )
    except (
        FileNotFoundError,
        ProcessLookupError,
    ):  # it was reaped in the meantime
        return False


def test_the_agent_does_not_run_a_git_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "project")
    project = tmp_path / "project"
    ran = tmp_path / "ran"
    program = project / ".venv" / "bin" / "git"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    (project / "sub").mkdir()
    assert git_place(str(project / "sub"))[0] == str(project.resolve())
    Ignored.at(project / "sub")
    assert not ran.exists()
