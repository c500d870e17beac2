"""Repositories in package folders and behind links: what a command makes there is found
and made harmless.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from acp_agent.sandbox.baseline import survey
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.changes import COARSE_NS
from support.keeper import Kept
from support.sandbox_repositories import git, make, run

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(bool(fault()), reason="no bubblewrap"),
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path.resolve() / "home"
    (home / ".cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    folder = home / "project"
    make(folder)
    return folder


def wait_until_old(file: Path) -> None:
    """Wait until a change of a file cannot be one of the next command any more."""
    end = time.monotonic() + 5
    while time.time_ns() < file.lstat().st_ctime_ns + 2 * COARSE_NS:
        assert time.monotonic() < end


def is_run(folder: Path, ran: Path) -> bool:
    """Return whether `git status` in a folder runs something."""
    if folder.is_dir():
        subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    return ran.exists()


EVIL = (
    "git init -q {0} && git -C {0} -c user.name=n -c user.email=n@x commit -q --allow-empty -m x && "
    "git -C {0} config core.fsmonitor 'touch {ran};:'"
)
IN_PACKAGES = [
    "node_modules/.x",
    "node_modules/@scope/x",
    ".venv/src/x",
    ".venv/lib/python3.11/site-packages/x",
    "a/target/debug/x",
    "vendor/x",
    "a/b/__pycache__/x",
    ".yarn/cache/x",
]


@pytest.mark.parametrize("place", IN_PACKAGES)
def test_a_repository_that_a_command_makes_in_a_package_folder_runs_nothing(
    root: Path, tmp_path: Path, place: str
) -> None:
    (root / place).mkdir(parents=True)
    keeper = Kept()
    run(root, keeper, EVIL.replace("{0}", place).format(ran=tmp_path / "ran"))
    assert not is_run(root / place, tmp_path / "ran")
    assert any("fsmonitor" in done for done in keeper.done)


def test_what_a_command_changes_in_a_repository_in_a_package_folder_runs_nothing(
    root: Path, tmp_path: Path
) -> None:
    keeper = Kept()
    place = root / "node_modules" / "@scope" / "x"
    make(place)
    hook = "node_modules/@scope/x/.git/hooks/post-index-change"
    run(
        root,
        keeper,
        f"mkdir -p $(dirname {hook}); printf '#!/bin/sh\\ntouch {tmp_path}/ran\\n' > {hook}; chmod +x {hook}",
    )
    (place / "file").touch()
    git(place, "add", "file")
    assert not is_run(place, tmp_path / "ran")
    assert keeper.done


def test_a_repository_of_the_user_s_in_a_package_folder_keeps_its_settings(
    root: Path,
) -> None:
    place = root / ".venv" / "src" / "x"
    make(place, "core.editor ./edit")
    wait_until_old(place / ".git" / "config")
    keeper = Kept()
    run(root, keeper, "touch .venv/src/x/file; git -C .venv/src/x add file")
    assert keeper.planted == []
    assert "./edit" in (place / ".git" / "config").read_text()


LINKS = {
    "a link": "ln -s ~/.cache/x sub",
    "a link to a folder in it": "mkdir ~/.cache/x/in; ln -s ~/.cache/x/in sub",
    "a link to a folder around it": "ln -s ~/.cache around; ln -s around/x sub",
    "a link to a link": "ln -s ~/.cache/x hop; ln -s hop sub",
    "a link through a package folder": "mkdir venv; ln -s ~/.cache/x venv/hop; ln -s venv/hop sub",
    "a link through a folder that is one": "ln -s ~/.cache c; ln -s c/x sub",
    "a way back through a link": "mkdir d; ln -s ~/.cache/x d/y; ln -s d/y/../x sub",
    "a link in a package": "mkdir -p node_modules/@s; ln -s ~/.cache/x node_modules/@s/x; ln -s node_modules/@s/x sub",
    "one of many links": "mkdir l ~/.cache/y; for i in {1..500}; do ln -s ~/.cache/y l/$i; done; ln -s ~/.cache/x sub",
    "a relative link": "ln -s ../.cache/x sub",
}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("name", LINKS)
def test_a_link_to_a_repository_in_a_cache_runs_nothing(
    root: Path, tmp_path: Path, name: str, is_there: bool
) -> None:
    place = root.parent / ".cache" / "x"
    ran = tmp_path / "ran"
    line = LINKS[name]
    if is_there:
        make(place, f"core.fsmonitor touch {ran};:")
        wait_until_old(place / ".git" / "config")
    else:
        line = f"{EVIL.replace('{0}', '~/.cache/x').format(ran=ran)}; {line}"
    keeper = Kept()
    run(root, keeper, line)
    assert not is_run(root / "sub", ran)
    assert any("fsmonitor" in done for done in keeper.done)
    if is_there:
        assert str(ran) in (place / ".git" / "config").read_text()
        assert [*root.rglob("*.blocked")]


def test_a_link_in_a_package_leads_to_no_repository_with_programs(
    root: Path, tmp_path: Path
) -> None:
    place = root.parent / ".cache" / "x"
    make(place, f"core.fsmonitor touch {tmp_path / 'ran'};:")
    wait_until_old(place / ".git" / "config")
    keeper = Kept()
    run(
        root,
        keeper,
        "mkdir -p node_modules/@s; ln -s ~/.cache/x node_modules/@s/x",
    )
    assert not is_run(root / "node_modules" / "@s" / "x", tmp_path / "ran")
    assert any("fsmonitor" in done for done in keeper.done)


def test_a_repository_that_a_later_command_arms_behind_a_link_runs_nothing(
    root: Path, tmp_path: Path
) -> None:
    keeper = Kept()
    run(root, keeper, "git init -q ~/.cache/x; ln -s ~/.cache/x sub")
    assert keeper.done == []
    run(root, keeper, EVIL.replace("{0}", "~/.cache/x").format(ran=tmp_path / "ran"))
    assert not is_run(root / "sub", tmp_path / "ran")
    assert (root / "sub").is_symlink()


def test_a_link_to_a_repository_that_the_walk_does_not_reach_runs_nothing(
    root: Path, tmp_path: Path
) -> None:
    place = "venv/a/b/c/d/e/f"
    keeper = Kept()
    line = EVIL.replace("{0}", place).format(ran=tmp_path / "ran")
    run(root, keeper, f"{line}; mkdir {place}/in; ln -s {place}/in sub")
    assert not is_run(root / "sub", tmp_path / "ran")
    assert any("fsmonitor" in done for done in keeper.done)


def test_a_repository_that_is_moved_to_where_a_link_leads_runs_nothing(
    root: Path, tmp_path: Path
) -> None:
    for number in range(500):
        (root / "node_modules" / f"p{number}").mkdir(parents=True)
    keeper = Kept()
    run(root, keeper, "ln -s ~/.cache/x sub")
    run(root, keeper, EVIL.replace("{0}", "~/.cache/y").format(ran=tmp_path / "ran"))
    wait_until_old(root.parent / ".cache" / "y" / ".git" / "config")
    run(root, keeper, "mv ~/.cache/y ~/.cache/x")
    assert not is_run(root / "sub", tmp_path / "ran")
    assert any("fsmonitor" in done for done in keeper.done)


def test_ordinary_links_stay_whatever_they_lead_to(root: Path) -> None:
    home = root.parent
    make(home / "other", "core.fsmonitor touch ran;:")
    make(home / ".cache" / "plain")
    (home / ".cache" / "folder").mkdir()
    make(root / "node_modules" / ".store" / "a")
    keeper = Kept()
    run(
        root,
        keeper,
        "ln -s ~/.cache/folder a; ln -s ~/.cache/plain b; ln -s ~/other c; ln -s /usr/lib d; ln -s nowhere e; "
        "ln -s . f; ln -s node_modules/.store/a g; ln -s .git h",
    )
    assert [*root.rglob("*.blocked")] == []
    assert keeper.planted == []


def test_a_link_of_the_user_s_to_a_repository_with_programs_stays(root: Path) -> None:
    place = root.parent / ".cache" / "x"
    make(place, "core.fsmonitor touch ran;:")
    (root / "sub").symlink_to(place)
    wait_until_old(root / "sub")
    keeper = Kept()
    run(root, keeper, "touch sub/file")
    assert (root / "sub").is_symlink()
    assert keeper.planted == []


def test_many_folders_of_packages_cost_a_bounded_search(root: Path) -> None:
    for number in range(2_000):
        (root / "node_modules" / f"p{number}").mkdir(parents=True)
    make(root / "node_modules" / "p0")
    found = survey((root,))
    assert found.is_whole
    assert not found.further.is_whole


def test_many_packages_hide_no_repository_behind_a_link(
    root: Path, tmp_path: Path
) -> None:
    for number in range(500):
        (root / "node_modules" / f"p{number}").mkdir(parents=True)
    keeper = Kept()
    evil = EVIL.replace("{0}", "~/.cache/x").format(ran=tmp_path / "ran")
    many = "mkdir -p ~/.cache/y/{1..500} l; for i in {1..9}; do ln -s ~/.cache/y/$i l; done"
    run(root, keeper, f"ln -s ~/.cache/y a; {many}; {evil}; ln -s ~/.cache/x sub")
    assert not is_run(root / "sub", tmp_path / "ran")
    assert any("fsmonitor" in done for done in keeper.done)
