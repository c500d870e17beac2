"""What a template may ask of the place it is rendered in, and what its commands may do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import anyio
import pytest

from acp_agent.errors import RecipeError
from acp_agent.recipes import Argument, Recipe, render
from acp_agent.recipes.surroundings import MAX_COMMAND_OUTPUT, CommandError, CommandRunner
from acp_agent.recipes.template import check
from acp_agent.session.commands import RecipeRun
from acp_agent.session.surroundings import surroundings
from support.waiting import read_pipe

SH = "sh -c *"


def recipe(body: str, *commands: str, is_template: bool = True) -> Recipe:
    path = Path("/r/note.md")
    return Recipe("note", "", body, 11, path, "user", "", allowed_commands=commands, is_template=is_template)


def rendered(made: Recipe, cwd: Path, typed: str = "") -> str:
    return render(made, {}, typed, surroundings("sess_1", str(cwd), made))


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip()


def test_a_template_knows_its_session_the_day_and_the_repository(tmp_path: Path) -> None:
    body = "{{ conversation_id }}|{{ cwd }}|{{ date }}|{{ git.branch }}|{{ git.head }}|{{ git.root }}|{{ git.dirty }}"
    start = f"sess_1|{tmp_path / 'sub'}|{date.today().isoformat()}|"  # noqa: DTZ011
    folder = tmp_path / "sub"
    folder.mkdir()
    assert rendered(recipe(body), folder) == f"{start}|||"
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert rendered(recipe(body), folder) == f"{start}main|{head}|{tmp_path}|False"
    (tmp_path / "new.txt").write_text("x")
    assert rendered(recipe("{% if git.dirty %}Changed.{% endif %}"), folder) == "Changed."


def test_a_command_runs_without_a_shell_in_the_sessions_folder_and_its_output_is_a_value(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("")
    body = "<{{ shell('ls', instructions) }}|{{ shell('echo', '{{ 1/0 }} $1; $HOME') | upper }}>"
    assert rendered(recipe(body, "ls*", "echo *"), tmp_path, "a b") == "<a b|{{ 1/0 }} $1; $HOME>"


@pytest.mark.parametrize(
    ("body", "commands", "line", "words"),
    [
        ("\n{{ shell('touch', 'ran') }}", ["git log*"], 12, "`touch ran` may not run here: it is none of the recipe's"),
        ("{{ shell('git', 'log') }}\n{{ shell('ls', '/nowhere') }}", ["*"], None, "exit status"),
        ("x\n{{ shell('ls', '/nowhere') }}", ["ls *"], 12, "`ls /nowhere` ended with exit status"),
        ("{{ shell('no-such-program') }}", ["*"], 11, "`no-such-program` cannot be started: No such file"),
        ("{{ shell('ls', 1) }}", ["*"], 11, "shell() takes texts"),
        ("{{ shell() }}", ["*"], 11, "shell() takes texts"),
        ("{{ shell('echo', 'a\\0b') }}", ["*"], 11, "cannot be started"),
    ],
)
def test_a_command_that_may_not_run_or_fails_is_named_with_file_and_line(
    tmp_path: Path, body: str, commands: list[str], line: int | None, words: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        rendered(recipe(body, *commands), tmp_path)
    assert caught.value.source == "/r/note.md"
    assert line in (caught.value.line, None)
    assert words in str(caught.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "typed", "code"),
    [
        ("'ls', instructions", "/nowhere", -32602),
        ("'ls', '/nowhere'", "", -32603),
        ("'ls', '/nowhere'", "please", -32603),
        # It is among the command's words, or within one, and yet it was not typed for them.
        ("'ls', '/nowhere'", "see /nowhere", -32603),
        ("'ls', '/nowhere'", "/nowhere", -32603),
        ("'ls', '/nowhere'", "s", -32603),
        ("'ls', '/nowhere/' ~ cwd", "where", -32603),
        ("'ls', instructions if instructions else '.'", "/nowhere", -32602),
        ("'ls', instructions | lower", "/NOWHERE", -32602),
        ("'ls', ('/nowhere', instructions)[0]", "x", -32602),
        # There is no such program, whatever it would have been given.
        ("'./ls ', instructions", ".", -32603),
        ("'./' ~ instructions, 'x'", "ls ", -32602),
        ("'ls', instructions ~ '\\0'", "x", -32602),
        ("'ls', '--' ~ instructions", "no-such-option", -32602),
        ("instructions, 'x'", "touch", -32602),
    ],
)
def test_a_command_that_failed_with_what_was_typed_is_a_mistake_in_the_arguments(
    tmp_path: Path, words: str, typed: str, code: int
) -> None:
    with pytest.raises(RecipeError) as caught:
        rendered(recipe(f"{{{{ shell({words}) }}}}", "ls *", "./ls*", "'./ls '*"), tmp_path, typed)
    assert caught.value.code == code


def test_a_default_and_what_a_loop_goes_through_are_told_from_what_was_typed(tmp_path: Path) -> None:
    made = replace(recipe("{{ shell('ls', where) }}", "ls *"), arguments=(Argument("where", default="/nowhere"),))
    around = surroundings("sess_1", str(tmp_path), made)
    loop = recipe("{% for letter in instructions %}{{ shell('ls', letter) }}{% endfor %}", "ls *")
    for code, failing in (
        (-32603, lambda: render(made, {}, "/nowhere", around)),
        (-32602, lambda: render(made, {"where": "/nowhere"}, "", around)),
        (-32602, lambda: rendered(loop, tmp_path, "ab")),
    ):
        with pytest.raises(RecipeError) as caught:
            failing()
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("\n{{ shell('git', 'log') }}", "shell() needs `allowed_commands` in the front matter"),
        ("\n{% if git.dirty %}{{ shell('git', 'log') }}{% endif %}", "shell() needs `allowed_commands`"),
    ],
)
def test_a_recipe_that_lists_no_commands_runs_none_and_that_is_seen_when_it_is_read(body: str, words: str) -> None:
    with pytest.raises(RecipeError, match=r"note\.md:12: ") as caught:
        check(recipe(body))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "{{ shell }}",
        "{{ [shell][0]('ls') }}",
        "{{ shell.__call__('ls') }}",
        "{{ shell('ls', cwd='/') }}",
        "{{ shell(*['ls']) }}",
        "{{ shell(**{}) }}",
        "{{ shell('ls').upper() }}",
        "{{ (shell)('ls')('x') }}",
        "{% for shell in ['a'] %}{% endfor %}",
        "{{ git }}",
        "{{ git['_runner'] }}",
        "{{ git._runner }}",
        "{{ git.runner }}",
        "{{ [git][0] }}",
        "{{ git.branch() }}",
        "{{ cwd.join('x') }}",
        "{{ date('x') }}",
    ],
)
def test_of_all_calls_and_facts_only_the_plain_forms_are_let_through(body: str) -> None:
    with pytest.raises(RecipeError, match="the template is wrong: "):
        check(recipe(body, "*"))


def test_checking_a_recipe_runs_nothing(tmp_path: Path) -> None:
    check(recipe(f"{{{{ shell('touch', '{tmp_path / 'ran'}') }}}}", "*"))
    assert not (tmp_path / "ran").exists()


def test_long_output_is_cut_with_a_note(tmp_path: Path) -> None:
    program = f"print('a' * {MAX_COMMAND_OUTPUT * 3})"
    code, output, _ = CommandRunner(str(tmp_path)).run([sys.executable, "-c", program])
    assert code == 0
    assert output == "a" * MAX_COMMAND_OUTPUT + "\n[cut at 64 KiB]"


async def test_the_time_limit_is_for_all_commands_of_a_text_and_leaves_no_process(tmp_path: Path) -> None:
    runner = CommandRunner(str(tmp_path), 0.4)
    with pytest.raises(CommandError, match=r"the commands of a recipe have 0\.4 seconds in all"):
        runner.run(["sh", "-c", "sleep 60 & echo $! > pid; wait"])
    await until(lambda: not alive(int((tmp_path / "pid").read_text())))
    with pytest.raises(CommandError, match="in all"):
        runner.run(["sleep", "60"])


async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    code, output, _ = CommandRunner(str(tmp_path)).run(["sh", "-c", "sleep 60 & echo $!"])
    assert code == 0
    await until(lambda: not alive(int(output)))


def test_who_waits_no_more_ends_the_command_that_runs(tmp_path: Path) -> None:
    runner = CommandRunner(str(tmp_path))
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(runner.run(["sleep", "60"])))
    begun = time.monotonic()
    thread.start()
    thread.join(0.05)
    runner.close()
    thread.join(20)
    assert not thread.is_alive()
    assert time.monotonic() - begun < 20
    with pytest.raises(CommandError, match="nobody waits"):
        runner.run(["true"])


async def test_a_run_that_is_given_up_ends_its_commands(tmp_path: Path) -> None:
    made = recipe("{{ shell('sh', '-c', 'echo $$ > pid; exec sleep 60') }}", SH, "*")
    around = surroundings("sess_1", str(tmp_path), made)
    os.mkfifo(tmp_path / "pid")
    pid = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(RecipeRun(made, "", ()).rendered, around=around))
        pid = int(await read_pipe(tmp_path / "pid"))
        tasks.cancel_scope.cancel()
    await until(lambda: not alive(pid))


def test_a_command_in_claude_codes_form_is_run_where_it_may_and_else_stays(tmp_path: Path) -> None:
    body = "Now: !`git status $1`\n- !`ls | wc`\n- !`touch ran` and x!`ls`"
    (tmp_path / "a.txt").write_text("")
    git(tmp_path, "init", "-q")
    made = recipe(body, "git status*", is_template=False)
    text = rendered(made, tmp_path, "--short")
    assert text == "Now: ?? a.txt\n- !`ls | wc`\n- !`touch ran` and x!`ls`\n".strip()
    with pytest.raises(RecipeError, match=r"note\.md:11: .* did not succeed: `git status --no-such`") as caught:
        rendered(made, tmp_path, "--no-such")
    assert caught.value.code == -32602
    assert render(made, {}, "x").startswith("Now: !`git status x`")
    with pytest.raises(RecipeError) as caught:
        rendered(recipe("!`git status --no-such`", "git status*", is_template=False), tmp_path, "see --no-such status")
    assert caught.value.code == -32603


@pytest.mark.parametrize(
    ("command", "typed", "words"),
    [
        ("x$ARGUMENTS.", "a 'b c' d", ["xa", "b c", "d."]),
        ("$ARGUMENTS", "-1 HEAD", ["-1", "HEAD"]),
        ("$ARGUMENTS -- x", "", ["--", "x"]),
        ("$1 $2 -- x", "-1", ["-1", "--", "x"]),
        ("'$ARGUMENTS' \"$ARGUMENTS\"", "a b", ["a b", "a b"]),
        ("$1 x$2", "'a b' c", ["a b", "xc"]),
        ("$ARGUMENTS", "a; touch ran $(touch ran) *", ["a;", "touch", "ran", "$(touch", "ran)", "*"]),
        ("$ARGUMENTS", "it's $1", ["it's", "$1"]),
        ("$ARGUMENTS,$ARGUMENTS", "a b", ["a", "b,a", "b"]),
    ],
)
def test_what_was_typed_is_as_many_words_of_a_command_in_claude_codes_form_as_a_shell_would_see(
    tmp_path: Path, command: str, typed: str, words: list[str]
) -> None:
    made = recipe(f"Now: !`printf '%s/' {command}`", "printf *", is_template=False)
    assert rendered(made, tmp_path, typed) == "Now: " + "".join(f"{word}/" for word in words)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("git status", True),
        ("git diff HEAD", True),
        ("git log --oneline -10", True),
        ("git show --stat", True),
        ("git branch --show-current", True),
        ("git rev-parse HEAD", True),
        ("git branch other", False),
        ("git add .", False),
        ("git diff --output=ran", False),
        ("git log --outp ran", False),
        ("git -c alias.x=!ran log", False),
        ("git diff --no-index a b", False),
        ("git diff /etc/passwd /etc/group", False),
        ("git diff ~/a b", False),
        ("git diff -- ../a b", False),
        ("git diff a/../../b c", False),
        ("git diff .. a", False),
        ("git diff -- ./.. a", False),
        ("git diff main..HEAD -- a", True),
        ("ls", False),
    ],
)
@pytest.mark.parametrize("allowed", [(), ("git add *",)])
def test_git_tells_a_command_of_claude_code_of_the_repository_and_does_nothing_else(
    tmp_path: Path, command: str, runs: bool, allowed: tuple[str, ...]
) -> None:
    made = recipe("x", *allowed, is_template=False)
    assert (surroundings("s", str(tmp_path), made).refuses(command.split()) == "") == (
        runs or (bool(allowed) and command == "git add .")
    )
    made = recipe("x", *allowed)
    assert surroundings("s", str(tmp_path), made).refuses(command.split()) != "" or not runs


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
        return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
    except (FileNotFoundError, ProcessLookupError):  # it was reaped between the two looks
        return False


def test_what_a_command_prints_holds_no_colours_and_nothing_that_no_model_takes(tmp_path: Path) -> None:
    printing = r"printf 'a\033[31mred\033[0m\000\007\r\nb\tc'"
    made = recipe(f'<{{{{ shell("sh", "-c", "{printing.replace(chr(92), chr(92) * 2)}") }}}}>', SH)
    assert rendered(made, tmp_path) == "<ared\ufffd\ufffd\nb\tc>"
    failing = recipe("{{ shell('sh', '-c', 'printf \"\\\\033[31mred\" >&2; false') }}", SH)
    with pytest.raises(RecipeError, match=r"ended with exit status 1: red$"):
        rendered(failing, tmp_path)


def test_to_ask_whether_anything_has_changed_starts_no_program_that_the_repository_names(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    watcher = tmp_path / ".git" / "watcher"
    watcher.write_text("#!/bin/sh\ntouch .git/ran\n")
    watcher.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(watcher))
    assert rendered(recipe("{{ git.dirty }}"), tmp_path) == "False"
    assert not (tmp_path / ".git" / "ran").exists()
    git(tmp_path, "status")
    assert (tmp_path / ".git" / "ran").exists()
