"""Gitlinks are found in each index in which git finds them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.sandbox.gitlinks import gitlinks_in
from acp_agent.sandbox.nested import gitlinks, marks_below

NAMES = st.lists(
    st.text("ab", min_size=1, max_size=3) | st.just("c" * 200), min_size=1, max_size=24
).map("/".join)
"""Paths with many shared prefixes, some of them longer than the length in the flags."""
MODES = st.sampled_from(["160000", "100644", "120000"])


def git(folder: Path, *words: str, text: str = "") -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repository(folder: Path, algorithm: str = "sha1") -> Path:
    git(folder.parent, "init", "-q", f"--object-format={algorithm}", folder.name)
    return folder


def listed(folder: Path) -> set[str]:
    """Return the gitlinks that git lists."""
    lines = git(folder, "ls-files", "-s", "-z").split("\0")
    return {each.partition("\t")[2] for each in lines if each.startswith("16")}


def stage(folder: Path, modes: dict[str, str], algorithm: str, *words: str) -> None:
    blob = "1" * (64 if algorithm == "sha256" else 40)
    lines = [f"{mode} {blob}\t{name}\0" for name, mode in modes.items()]
    git(folder, *words, "update-index", "-z", "--index-info", text="".join(lines))


@pytest.mark.process
@settings(max_examples=40)
@given(
    st.dictionaries(NAMES, MODES, max_size=12),
    st.sampled_from("234"),
    st.sampled_from(["sha1", "sha256"]),
)
def test_the_gitlinks_of_an_index_are_those_that_git_lists(
    tmp_path_factory: pytest.TempPathFactory,
    modes: dict[str, str],
    version: str,
    algorithm: str,
) -> None:
    folder = repository(tmp_path_factory.mktemp("index"), algorithm)
    stage(folder, modes, algorithm)
    extended = [name for name in listed(folder) if version == "3"]
    git(folder, "update-index", "--index-version", "4" if version == "4" else "2")
    if extended:  # the flag makes git write version 3
        git(
            folder,
            "update-index",
            "--skip-worktree",
            "-z",
            "--stdin",
            text="\0".join(extended),
        )
    names = {name for name in listed(folder) if len(name) <= 4096}
    assert gitlinks(folder / ".git") == names


@pytest.mark.process
def test_a_gitlink_is_found_whatever_the_other_bits_of_its_mode(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    stage(folder, {"inner": "160000"}, "sha1")
    index = folder / ".git" / "index"
    data = index.read_bytes().replace(b"\x00\x00\xe0\x00", b"\x00\x00\xe1\xa4")
    index.write_bytes(data[:-20] + bytes(20))
    assert listed(folder) == gitlinks(folder / ".git") == {"inner"}


@pytest.mark.process
def test_a_gitlink_after_a_path_of_5000_bytes_is_found(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    stage(folder, {"a/" * 2_500 + "a": "100644", "inner": "160000"}, "sha1")
    git(folder, "update-index", "--index-version", "4")
    assert listed(folder) == gitlinks(folder / ".git") == {"inner"}


@pytest.mark.process
def test_a_gitlink_is_found_where_only_the_table_of_offsets_leads(
    tmp_path: Path,
) -> None:
    folder = repository(tmp_path / "project")
    names = [f"a{number:06d}" for number in range(2_000)]
    modes = dict.fromkeys(names, "100644") | {"inner": "160000"}
    stage(folder, modes, "sha1", "-c", "index.threads=2")
    data = (folder / ".git" / "index").read_bytes()
    assert b"IEOT" in data
    broken = data[:8] + b"\0\0\0\1" + data[12:]  # read in sequence, it ends early
    assert [*gitlinks_in(broken, 20)] == [b"inner"]


def test_blocks_that_overlap_are_not_read_again_and_again() -> None:
    entry = bytes(24) + b"\0\0\xe0\0" + bytes(32) + b"\0\1a" + bytes(7)
    entry = entry[: (62 + 1 + 8) & ~7]
    entries = entry * 1_000
    end = 12 + len(entries)
    block = (12).to_bytes(4, "big") + (1_000).to_bytes(4, "big")
    table = (1).to_bytes(4, "big") + block * 1_000
    extension = b"IEOT" + len(table).to_bytes(4, "big") + table
    mark = b"EOIE" + (24).to_bytes(4, "big") + end.to_bytes(4, "big") + bytes(20)
    index = b"DIRC\0\0\0\2" + (1_000).to_bytes(4, "big") + entries
    assert len([*gitlinks_in(index + extension + mark + bytes(20), 20)]) < 4_000


@pytest.mark.process
def test_gitlinks_without_a_folder_hide_none_that_has_one(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    names = [f"absent/{number}" for number in range(5_000)]
    place = "target/a/b"
    stage(folder, dict.fromkeys((*names, place), "160000"), "sha1")
    (folder / place).mkdir(parents=True)
    git(folder / place, "init", "-q")
    below = marks_below(folder)
    assert folder / place in below.links
    assert len(below.links) < 3_000
    assert below.is_whole


@pytest.mark.process
def test_a_search_is_incomplete_if_an_index_names_thousands_of_folders(
    tmp_path: Path,
) -> None:
    folder = repository(tmp_path / "project")
    names = [f"there/{number}" for number in range(2_500)]
    absent = [f"absent/{number}" for number in range(5_000)]
    stage(folder, dict.fromkeys((*absent, *names), "160000"), "sha1")
    for name in names:
        (folder / name).mkdir(parents=True)
    below = marks_below(folder)
    assert len(below.links) < 4_500
    assert not below.is_whole
