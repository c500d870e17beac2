"""Placeholders are made and removed where they are expected, whatever links are put in
their place meanwhile.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_agent.nofollow import temporary_folder
from acp_agent.sandbox.placeholders import placeholders
from acp_agent.sandbox.repositories import Closed
from support.exchanged import exchanged


@pytest.fixture
def key(tmp_path: Path) -> Iterator[Path]:
    """A secret of the user's, which stays as it is."""
    key = tmp_path / "home" / "id_rsa"
    key.parent.mkdir()
    key.write_text("hunter2-private-key")
    key.chmod(0o600)
    key.parent.chmod(0o700)
    yield key
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert key.read_text() == "hunter2-private-key"
    assert list(key.parent.iterdir()) == [key]


@pytest.mark.parametrize("name", [".vscode", ".git/config"])
def test_a_link_in_the_place_of_a_placeholder_changes_no_mode_of_what_it_leads_to(
    tmp_path: Path, key: Path, name: str
) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    with placeholders([Closed(root, (root / ".vscode",), (root / ".git" / "config",))]):
        path = root / name
        path.rename(tmp_path / "aside")
        path.symlink_to(key)


def test_a_link_in_the_place_of_the_folder_of_a_placeholder_leads_nowhere(
    tmp_path: Path, key: Path
) -> None:
    root = tmp_path / "project"
    (root / "objects").mkdir(parents=True)
    with placeholders(
        [
            Closed(
                root,
                (root / "objects" / "hooks",),
                (root / "objects" / "info" / "alternates",),
            )
        ]
    ):
        (root / "objects").rename(tmp_path / "aside")
        (root / "objects").symlink_to(key.parent)
    (root / "objects").unlink()
    (root / "objects").symlink_to(key.parent)
    with placeholders(
        [
            Closed(
                root,
                (root / "objects" / "hooks",),
                (root / "objects" / "info" / "alternates",),
            )
        ]
    ):
        pass


def test_folders_and_links_that_are_exchanged_meanwhile_change_nothing_elsewhere(
    tmp_path: Path, key: Path
) -> None:
    root = tmp_path / "project"
    (root / "own").mkdir(parents=True)
    (root / "link").symlink_to(key.parent)
    (root / "own" / "id_rsa").touch()
    with exchanged(root / "own", root / "link"):
        for _ in range(30):
            with placeholders(
                [Closed(root, (root / "own" / ".vscode",), (root / "own" / "id_rsa",))]
            ):
                pass


def test_what_a_command_leaves_in_a_temporary_folder_changes_no_mode_of_what_it_leads_to(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "closed").mkdir()
        (folder / "closed" / "file").symlink_to(key)
        (folder / "closed" / "folder").symlink_to(key.parent)
        (folder / "closed").chmod(0o500)
    if os.geteuid() == 0:  # whom no mode stops
        assert not folder.exists()
