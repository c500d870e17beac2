"""Guarded folders of which commands get a copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.copies import private_copies
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.sandbox import Sandbox
from support.keeper import Kept

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
SERVER = '{"name": "sbt", "argv": ["sbt", "-bsp"]}'
EVIL = '{"name": "sbt", "argv": ["./evil"]}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


def run(root: Path, line: str) -> tuple[subprocess.CompletedProcess[str], Kept]:
    keeper = Kept()
    sandbox = Sandbox((root,), (), keeper=keeper)
    with sandbox.wrap(("bash", "-c", line), root, network=False) as (_, words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done, keeper


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        f"mkdir -p .bsp && echo '{EVIL}' > .bsp/sbt.json && cat .bsp/sbt.json",
        f"echo '{EVIL}' > .bsp/mill.json && rm -f .bsp/sbt.json",
        f"echo '{EVIL}' > x && mv x .bsp/sbt.json",
        f"echo '{EVIL}' > x && ln -s $PWD/x .bsp/other.json && ln -f x .bsp/hard.json; true",
    ],
)
def test_a_build_server_s_file_is_written_to_a_copy_that_is_gone_after_the_command(
    root: Path, line: str, is_there: bool
) -> None:
    if is_there:
        (root / ".bsp").mkdir()
        (root / ".bsp" / "sbt.json").write_text(SERVER)
    done, keeper = run(root, line)
    assert done.returncode == 0, done.stderr
    assert keeper.blocked == []
    assert (root / ".bsp").exists() == is_there
    if is_there:
        assert [*(root / ".bsp").iterdir()] == [root / ".bsp" / "sbt.json"]
        assert (root / ".bsp" / "sbt.json").read_text() == SERVER


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize(
    "line",
    ["mv .bsp moved", "rm -rf .bsp", "rmdir .bsp; ln -s /tmp .bsp"],
)
def test_the_folder_of_build_servers_keeps_its_place(root: Path, line: str) -> None:
    (root / ".bsp").mkdir()
    (root / ".bsp" / "sbt.json").write_text(SERVER)
    run(root, line)
    assert (root / ".bsp" / "sbt.json").read_text() == SERVER


@pytest.mark.process
@needs_bubblewrap
def test_a_folder_that_cannot_be_copied_as_a_whole_is_read_only(root: Path) -> None:
    (root / ".bsp" / "inner").mkdir(parents=True)
    done, _ = run(root, "echo x > .bsp/sbt.json")
    assert done.returncode
    assert [*(root / ".bsp").iterdir()] == [root / ".bsp" / "inner"]


def test_only_ordinary_small_folders_are_copied(root: Path) -> None:
    policy = Policy((root,), (), ())
    folder = root / ".bsp"
    (root / "other").mkdir()
    folder.symlink_to("other")
    with private_copies(policy) as copies:
        assert copies == {}
    folder.unlink()
    folder.mkdir()
    (folder / "sbt.json").write_text(SERVER)
    with private_copies(policy) as copies:
        assert (copies[folder] / "sbt.json").read_text() == SERVER
        place = copies[folder]
    assert not place.exists()
    (folder / "link").symlink_to("sbt.json")
    with private_copies(policy) as copies:
        assert copies == {}
