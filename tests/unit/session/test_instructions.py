"""The system prompt: which instruction files it contains."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import anyio
import pytest

from acp_agent.conversation.events import InstructionsLoaded
from acp_agent.sandbox.reading import ReadLimits
from acp_agent.sandbox.roots import repository_root
from acp_agent.session.workspace import (
    MAX_FILE_BYTES,
    ProjectInstructions,
    _load_instructions,
)
from support.repo import make_git_directory

TODAY = date(2026, 1, 2)
SECRET = "a secret of somebody else's"


class Places:
    """A home, a repository with a folder in it, and a file outside both."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.repo = root / "repo"
        self.outside = root / "secret"
        self.below = self.repo / "src"
        self.home.mkdir()
        self.below.mkdir(parents=True)
        make_git_directory(self.repo)
        self.outside.write_text(SECRET)

    def load(self, cwd: Path | None = None, *additional: Path) -> InstructionsLoaded:
        root = repository_root(cwd or self.below)
        return _load_instructions(
            (cwd or self.below, *additional), self.home, root, TODAY
        )


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_files_are_read_from_the_home_and_then_from_the_repository_root_down(
    places: Places,
) -> None:
    files = [
        places.home / "AGENTS.md",
        places.repo / "CLAUDE.md",
        places.below / "AGENTS.md",
    ]
    for number, file in enumerate(files):
        file.write_text(f"Rule {number}.\n")
    (places.repo.parent / "AGENTS.md").write_text("Above the repository.")
    loaded = places.load()
    assert loaded.sources == tuple(str(file) for file in files)
    assert [loaded.text.index(f"Rule {number}.") for number in range(3)] == sorted(
        loaded.text.index(f"Rule {number}.") for number in range(3)
    )
    assert "Above the repository." not in loaded.text


async def test_a_repository_created_later_is_in_the_next_system_prompt(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    instructions = ProjectInstructions()
    before = await instructions.read((folder,), tmp_path / "home", None)
    assert "Git repository: no" in before.text
    assert await instructions.read((folder,), tmp_path / "home", None) is before
    make_git_directory(tmp_path)
    after = await instructions.read((folder,), tmp_path / "home", None)
    assert "Git repository: yes" in after.text


async def test_instructions_read_ahead_are_used_once_and_only_for_their_directories(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    place = ((tmp_path,), home, None, ReadLimits())
    instructions = ProjectInstructions()
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    instructions.expect(place, instructions.load(place))
    (tmp_path / "AGENTS.md").write_text("Use spaces.")
    assert "Use tabs." in (await instructions.read((tmp_path,), home, None)).text
    assert "Use spaces." in (await instructions.read((tmp_path,), home, None)).text
    instructions.expect(place, instructions.load(place))
    assert "Use spaces." not in (await instructions.read((home,), home, None)).text


async def test_files_that_are_not_regular_are_reported_without_waiting(
    places: Places,
) -> None:
    os.mkfifo(places.repo / "AGENTS.md")
    (places.repo / "CLAUDE.md").mkdir()
    os.mkfifo(places.home / "AGENTS.md")
    (places.home / "CLAUDE.md").symlink_to("/dev/zero")
    with anyio.fail_after(5):
        loaded = await ProjectInstructions().read(
            (places.repo,), places.home, places.repo
        )
    assert loaded.sources == ()
    assert (
        f"({places.repo / 'AGENTS.md'} was not read: it is not a regular file.)"
        in loaded.text
    )
    assert f"({places.repo / 'CLAUDE.md'} was not read: Is a directory.)" in loaded.text
    assert (
        f"({places.home / 'AGENTS.md'} was not read: it is not a regular file.)"
        in loaded.text
    )
    assert (
        f"({places.home / 'CLAUDE.md'} was not read: it is not a regular file.)"
        in loaded.text
    )


def test_a_large_file_is_read_up_to_a_limit_that_is_reported(places: Places) -> None:
    with (places.repo / "AGENTS.md").open("wb") as file:
        file.write(b"begin ")
        file.truncate(1 << 40)  # a sparse file of one terabyte
    text = places.load().text
    assert "begin" in text
    assert f"only its first {MAX_FILE_BYTES // 1024} KiB are here" in text


@pytest.mark.parametrize(
    "target", ["../secret", "/proc/self/environ", "../repository-beside/AGENTS.md"]
)
def test_a_link_out_of_the_repository_is_reported_and_not_read(
    places: Places, target: str
) -> None:
    beside = places.repo.parent / "repository-beside"
    beside.mkdir()
    (beside / "AGENTS.md").write_text(SECRET)
    link = places.repo / "AGENTS.md"
    link.symlink_to(target)
    loaded = places.load()
    named = link.exists()  # not on macOS, which has no /proc
    notice = f"({link} was not read: it is a link that leads out of the project.)"
    assert (notice in loaded.text) == named
    assert loaded.sources == ()
    assert SECRET not in loaded.text
    assert "PATH=" not in loaded.text


def test_outside_a_repository_links_within_the_directory_are_read(
    places: Places, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    other = tmp_path / "other"
    for directory in (plain, other):
        directory.mkdir()
        (directory / "rules.md").write_text(f"The rules of {directory.name}.")
        (directory / "AGENTS.md").symlink_to("rules.md")
        (directory / "CLAUDE.md").symlink_to("../secret")
    loaded = places.load(plain, other)
    assert loaded.sources == (str(plain / "AGENTS.md"), str(other / "AGENTS.md"))
    assert loaded.text.count("leads out of the project") == 2
    assert SECRET not in loaded.text


def test_links_within_the_repository_are_read_once(places: Places) -> None:
    (places.repo / "AGENTS.md").write_text("Rules.")
    (places.repo / "CLAUDE.md").symlink_to("AGENTS.md")
    (places.below / "AGENTS.md").symlink_to("../AGENTS.md")
    loaded = places.load()
    assert loaded.sources == (str(places.repo / "AGENTS.md"),)
    assert loaded.text.count("Rules.") == 1


def test_the_homes_own_file_may_be_a_link_to_anywhere(places: Places) -> None:
    (places.home / "AGENTS.md").symlink_to(places.outside)
    assert SECRET in places.load().text


def test_a_working_directory_reached_through_a_link_is_read(
    places: Places, tmp_path: Path
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "AGENTS.md").write_text("Rules.")
    (places.repo / "linked").symlink_to(real)
    (tmp_path / "repository").symlink_to(places.repo)
    (places.repo / "AGENTS.md").write_text("The root's.")
    assert "Rules." in places.load(places.repo / "linked").text
    assert "The root's." in places.load(tmp_path / "repository" / "src").text
