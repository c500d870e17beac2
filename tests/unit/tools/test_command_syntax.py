"""The simple commands of command lines, compared with bash."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.tools.shell.syntax import parse

PRINTABLE = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp")),
    max_size=12,
)


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("git status", [("git", "status")]),
        ("make && ./run.sh -x || echo 'it failed'; ls | wc -l &", None),
        ('git commit -m "a \'b\' \\"c\\""', [("git", "commit", "-m", "a 'b' \"c\"")]),
        ("grep -e 'a'\"b\"c\\ d f", [("grep", "-e", "abc d", "f")]),
        (
            "find . -name '*.py' -exec echo {} \\;",
            [("find", ".", "-name", "*.py", "-exec", "echo", "{}", ";")],
        ),
        ("ls\nrm x", [("ls",), ("rm", "x")]),
    ],
)
def test_words_are_the_arguments_that_programs_get(
    line: str, commands: list[tuple[str, ...]] | None
) -> None:
    expected = commands or [
        ("make",),
        ("./run.sh", "-x"),
        ("echo", "it failed"),
        ("ls",),
        ("wc", "-l"),
    ]
    assert list(parse(line).commands) == expected


@pytest.mark.parametrize(
    "line",
    [
        "", "] ]", "echo $(id)", "echo `id`", "echo $HOME", 'echo "$HOME"', "ls > out", "cat < in", "cat <<E\nx\nE",
        "A=1 make", "(ls)", "{ ls; }", "! ls", "if a; then b; fi", "f() { ls; }", "echo {a,b}", "echo $'a'", "echo 'a",
        "sudo ls", "/usr/bin/env ls", "sh -c ls", "[[ a ]]", "((1))", "eval ls", "echo \x01", "echo <(ls)", "a=1",
        "coproc ls",
    ],
)  # fmt: skip
def test_only_plain_commands_are_understood(line: str) -> None:
    assert parse(line).commands == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls *.py", True),
        ("ls '*.py'", False),
        ("ls \\*.py", False),
        ("ls a?", True),
        ("ls x[12]", True),
        ("ls", False),
    ],
)
def test_only_wildcards_that_the_shell_expands_count(line: str, expected: bool) -> None:
    assert parse(line).has_wildcard is expected


@given(st.lists(PRINTABLE, max_size=4))
def test_quoted_words_are_returned_unchanged(arguments: list[str]) -> None:
    assert parse(shlex.join(["echo", *arguments])).commands == (("echo", *arguments),)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@given(st.text("ab-'\"\\ =#~^%+:@,.{}[]!\t", min_size=1, max_size=14))
def test_an_understood_line_has_the_same_words_in_bash(rest: str) -> None:
    parsed = parse(f"show {rest}")
    if len(parsed.commands) != 1 or parsed.has_wildcard or "~" in rest:
        return
    script = f'show() {{ printf "%s\\0" show "$@"; }}\nshow {rest}'
    shown = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, check=True
    )
    assert tuple(shown.stdout.decode().split("\0")[:-1]) == parsed.commands[0]
