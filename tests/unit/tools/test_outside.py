"""The paths outside the session's directories that a command names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.tools.shell.outside import outside_in_command, outside_in_output

CWD = Path("/work/shop/src")
ROOTS = (Path("/work/shop"), Path("/work/lib"))


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("cat ../../other/a.txt", ["/work/other/a.txt"]),
        ("cat ../a.txt /work/lib/b.c ./c", []),
        ("cp a.py '/data/my files/a.py'", ["/data/my files/a.py"]),
        ("make --prefix=/data/out install", ["/data/out"]),
        ("echo a > /data/log && ls /data", ["/data/log", "/data"]),
        ("ls ~/notes", ["{home}/notes"]),
        ("ls ~ / .. ../..", []),
        ("/usr/bin/env python3 </dev/null", []),
        ("curl https://example.com/data", []),
        ("echo 'unclosed /data/a", []),
        ("git commit -m 'and/or'", []),
    ],
)
def test_paths_outside_are_found_in_a_command_line(line: str, paths: list[str]) -> None:
    named = [path.format(home=Path.home()) for path in paths]
    assert [str(path) for path in outside_in_command(line, CWD, ROOTS)] == named


@pytest.mark.parametrize(
    ("output", "paths"),
    [
        (
            "touch: cannot touch '/data/my files/x': Read-only file system",
            ["/data/my files/x"],
        ),
        (
            "sh: 1: cannot create ../../other/f: Read-only file system",
            ["/work/other/f"],
        ),
        (
            "npm ERR! EROFS: read-only file system, mkdir '/data/_cacache/tmp'",
            ["/data/_cacache/tmp"],
        ),
        ("OSError: [Errno 30] Read-only file system: '/data/x.db'", ["/data/x.db"]),
        ("rm: cannot remove ‘/data/x’: Read-only file system", ["/data/x"]),
        ("ssh: connect to host example.com port 22", []),
        ("error: cannot lock /usr/lib/x: Read-only file system", []),
    ],
)
def test_paths_outside_are_found_in_a_programs_messages(
    output: str, paths: list[str]
) -> None:
    assert [str(path) for path in outside_in_output(output, CWD, ROOTS)] == paths


@given(text=st.text(st.characters() | st.sampled_from("/.~'\"\0= \n‘’")))
def test_only_absolute_paths_outside_are_found_in_any_text(text: str) -> None:
    for search in (outside_in_command, outside_in_output):
        for path in search(text, CWD, ROOTS):
            assert path.is_absolute()
            assert not any(path.is_relative_to(root) for root in ROOTS)
