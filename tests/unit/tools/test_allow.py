"""Which command lines a recipe's `allowed_commands` allow."""

from __future__ import annotations

import fnmatch
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.tools.shell.allow import refusal
from acp_agent.tools.shell.syntax import parse

COMMIT = (
    "git commit *",
    "!git commit --amend",
    "!git commit -n",
    "!git commit --no-verify",
)


@pytest.mark.parametrize(
    ("command", "pattern", "allowed"),
    [
        ("git log --oneline", "git log*", True),
        ("git push", "git log*", False),
        ("git log", "git log *", False),
        ("git  log   'a b'", "git log 'a b'", True),
        ("git log 'a b'", "git log a b", False),
        # Between two words of a pattern stands no word of another kind.
        ("git -c alias.x=!touch log", "git log*", False),
        ("find . -name ' -exec grep '", "find * -exec grep *", False),
        ("find . -exec grep y {} \\;", "find * -exec grep *", True),
        # Of a line that is not understood nothing is allowed but the very line.
        ("make test > log", "make test > log", True),
        ("git log $(rm x)", "git log*", False),
        ("sudo git log", "*git log", False),
        ("git log 'unfinished", "git *", False),
        ("git log\nrm x", "git *", False),
        ("rm -rf x #.sh", "*.sh", False),
        ("anything; at > all", "*", True),
        # Nothing means anything between single quotes.
        ("git add 'routes/$id.tsx' '[a]/`b`'", "git add *", True),
        ("git add '\t' $(rm x) ' b'", "git *", False),
        ('git add "\'" $(rm x) "\'"', "git *", False),
        ("git add \\' $(rm x) \\'", "git *", False),
    ],
)
def test_a_pattern_allows_only_its_words(
    command: str, pattern: str, allowed: bool
) -> None:
    assert (refusal(command, [pattern]) == "") == allowed


@pytest.mark.parametrize(
    "command",
    [
        "git log >/etc/passwd", "git log 2>&1", "cat <(rm x)", 'git "$(rm x)"', "git `rm x`",
        'git "`rm x`"', "git log # x", "git status\rrm x", "git log $'\\'' ; rm x #'", "{ rm x",
        "FOO=1 git status", "$TOOL x", "/usr/bin/env rm x", "bash -c 'rm x'", "xargs rm", "'rm x' y", "g* x",
        "foo:bar x", "", ";",
    ],
)  # fmt: skip
def test_a_line_that_may_run_other_programs_is_not_understood(command: str) -> None:
    assert parse(command).commands == ()


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git log; git diff", True),
        ("git log && git diff || ls -la", True),
        ("git log --grep 'a; b && c' \"d | e\" && ls", True),
        ("git log; rm -rf /", False),
        ("git log&rm x", False),
        ("git log \\' ; rm x", False),
        ("git log | xargs rm", False),
        ("ls '&'& rm x", False),
        ("ls '|' | rm x", False),
        ("ls \\; rm x; ls", True),
        ("ls \\' ; rm x #'", False),
        ("ls;", True),
        ("ls |& rm", False),
        ("(ls)", False),
        ("if ls; then ls; fi", False),
    ],
)
def test_every_simple_command_of_a_line_must_be_allowed(
    command: str, allowed: bool
) -> None:
    assert (refusal(command, ["git log*", "git diff*", "ls*"]) == "") == allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git commit -m 'Count every piece' -m '- no piece is left out'", True),
        ("git commit -am x", True),
        ("git commit --no-edit -m x", True),
        ("git commit --amend -m x", False),
        ("git commit --amend=x", False),
        ("git commit -m x --am", False),
        ("git commit -m x '--amend'", False),
        ("git commit -m -- --amend", False),
        ("git commit -anm x", False),
        ("git commit --no-ver -m x", False),
        ("git commit -m x *", False),
        ("git commit -m x && git commit --amend", False),
        ("git push", False),
    ],
)
def test_a_negated_pattern_forbids_every_spelling_of_an_option(
    command: str, allowed: bool
) -> None:
    assert (refusal(command, COMMIT) == "") == allowed


def test_a_line_that_is_not_understood_is_refused_if_anything_is_forbidden() -> None:
    patterns = ["*", "!git push --f*"]
    assert (
        refusal("git push --dry-run; git push", patterns)
        == refusal("rm *", patterns)
        == ""
    )
    assert "`!git push --f*`" in refusal("git push > x", patterns)
    assert "`!git push --f*`" in refusal("ls; git push origin --force", patterns)
    assert "`!git push --f*`" in refusal("if ls; then git push --force; fi", patterns)


PIECES = [
    "'",
    '"',
    "; ",
    "&& ",
    "| ",
    "\\;",
    "\\",
    "{}",
    "(",
    " ",
    "a",
    "&",
    "#",
    "$(echo z)",
    "\n",
]
RAN = "ls() { :; }; touch() { echo ran; }; command_not_found_handle() { echo ran; }\n"


@pytest.mark.process
@given(
    st.lists(
        st.sampled_from(["#", "a", "'", '"', " ", "*", "-", "b#", "'#'", "?x"]),
        max_size=10,
    )
    | st.lists(
        st.sampled_from(
            ["'", '"', ";", "\\;", "\\", "{}", "(", "\\(", " ", "a", "&", "|", "<"]
        ),
        max_size=8,
    )
    | st.lists(
        st.sampled_from(
            ["'", "'", '"', "$(echo z)", "$0", "\\", "`echo y`", " ", "a", "\n", "$'x"]
        ),
        max_size=8,
    )
)
def test_bash_sees_exactly_these_words(pieces: list[str]) -> None:
    line = "echo " + "".join(pieces)
    commands = parse(line).commands
    if len(commands) != 1:
        return
    words = commands[0]
    printed = subprocess.run(
        ["bash", "-fc", line.replace("echo", "printf '%s\\0'", 1)],
        capture_output=True,
        check=True,
        timeout=10,
    ).stdout
    expected = "".join(f"{word}\0" for word in words[1:]) or "\0"
    assert printed.decode() == expected


@pytest.mark.process
@given(st.lists(st.sampled_from(PIECES)))
def test_bash_runs_only_programs_that_a_pattern_allows(pieces: list[str]) -> None:
    line = "ls " + "".join(pieces) + " touch ran"
    if refusal(line, ["ls*"]) == "":
        done = subprocess.run(
            ["bash", "-c", RAN + line], capture_output=True, check=False, timeout=10
        )
        assert done.stdout == b"", line


@pytest.mark.process
@pytest.mark.parametrize(
    "line",
    ["git diff *", "git diff -*", "git diff ?", "git diff '-'*", "git diff [-]*"],
)
def test_a_line_that_expands_to_a_forbidden_option_is_refused(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "--output=x").touch()
    if not fnmatch.fnmatch("--output=x", shlex.split(line)[-1]):
        (tmp_path / "-").touch()
    found = subprocess.run(
        ["bash", "-c", line.replace("git diff", "echo")],
        cwd=tmp_path,
        capture_output=True,
        env=os.environ,
        check=True,
    )
    assert found.stdout.startswith(b"-")
    assert "a wildcard in it" in refusal(line, ["git *", "!git diff --output"])
    assert refusal(line, ["git *"]) == ""
