"""Where there is a sandbox, and what stays covered while processes of a command end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from acp_agent.errors import SandboxError
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.sandbox import Sandbox

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")


@needs_bubblewrap
def test_what_holds_the_home_or_is_the_directory_of_a_repository_has_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, bare = tmp_path / "home", tmp_path / "bare"
    (home / "project").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    monkeypatch.setenv("HOME", str(home))
    told = {root: Sandbox((root,), ()).usable() for root in (home, tmp_path, bare, home / "project")}
    assert [why.removeprefix(f"{root} ").partition(",")[0] for root, (_, why) in told.items()] == [
        "holds your home directory",
        "holds your home directory",
        "is the directory of a repository",
        "",
    ]
    with pytest.raises(SandboxError, match="No command runs without a sandbox"):
        Sandbox((home,), (), required=True).usable()


@needs_bubblewrap
def test_what_covers_a_missing_path_stays_while_a_process_of_the_command_is_left(tmp_path: Path) -> None:
    sandbox, root = Sandbox((tmp_path,), ()), tmp_path.resolve()
    with sandbox.wrap(("sh", "-c", "echo begun; exec sleep 1000"), root, network=False) as (_, words):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
    assert (root / ".vscode").is_dir()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with sandbox.wrap(("true",), root, network=False):
        pass
    assert list(root.iterdir()) == []
