"""Git's configuration syntax, compared with git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.processes import environment_without
from acp_agent.sandbox.config_syntax import settings_in

pytestmark = pytest.mark.process

PIECES = (
    "[options]",
    "[a.b]",
    '[a "B\\"c"]',
    "[",
    "]",
    "strategy",
    "x-1",
    "=",
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    '"',
    "\\",
)
MORE = ("\\\n", "\\n", "#", ";", "ort", "évil", "1", "\n\tstrategy = ")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "config"


@given(
    st.lists(st.sampled_from(PIECES + MORE), max_size=12).map("".join), st.booleans()
)
@example("a \\", True)
@example("a \\\n b", True)
def test_settings_are_read_as_git_reads_them(
    file: Path, text: str, starts: bool
) -> None:
    data = (("[options]\n\tstrategy = " if starts else "") + text).encode()
    file.write_bytes(data)
    words = ("git", "config", "--file", str(file), "--null", "--list")
    done = subprocess.run(
        words, env=environment_without(()), capture_output=True, check=False
    )
    try:
        ours = list(settings_in(data))
    except ValueError:
        assert done.returncode != 0
        return
    assert done.returncode == 0, done.stderr
    shown = [name if value is None else name + b"\n" + value for name, value in ours]
    theirs = done.stdout.split(b"\0")[:-1]
    # Git before 2.45 turns each blank inside a value into a space.
    assert [_spaced(each) for each in shown] == [_spaced(each) for each in theirs]


def _spaced(text: bytes) -> bytes:
    name, end, value = text.partition(b"\n")
    return name + end + value.replace(b"\t", b" ").replace(b"\r", b" ")
