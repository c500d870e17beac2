"""The code that a project could run, its digest, and the file of trusted code."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acp_agent.config import HookCommand
from acp_agent.config.trust import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    ProjectCode,
    TrustStore,
    _CodeFile,
    read_project_code,
)

PLACE = Path("/project/.acp-agent")
NAMES = st.text("ab/.", min_size=1, max_size=4)
FILES = st.lists(
    st.builds(
        _CodeFile,
        NAMES,
        st.sampled_from("12"),
        st.booleans(),
        st.sampled_from(["", "x"]),
    ),
    unique_by=lambda file: file.name,
    max_size=3,
)
COMMANDS = st.lists(
    st.builds(
        HookCommand,
        st.sampled_from(["agent_stop", "turn_end"]),
        st.sampled_from(["make lint", ("make lint",), ("make", "lint")]),
        st.just("make"),
        st.just("project"),
        st.sampled_from(["here", "there"]),
        matcher=st.sampled_from(["", "Bash"]),
        timeout=st.none() | st.just(1.0),
        on_error=st.sampled_from(["allow", "block"]),
    ),
    max_size=2,
)


def place(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "project" / ".acp-agent"
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@given(FILES, FILES, COMMANDS, COMMANDS)
def test_everything_but_order_and_the_place_of_a_command_changes_the_digest(
    files: list[_CodeFile],
    others: list[_CodeFile],
    commands: list[HookCommand],
    more: list[HookCommand],
) -> None:
    same = {*files} == {*others} and [
        replace(each, source="") for each in commands
    ] == [replace(each, source="") for each in more]
    one = ProjectCode(PLACE, (*files,), (*commands,))
    other = ProjectCode(PLACE, (*others,), (*more,))
    assert (one.digest == other.digest) == same


@given(st.data())
def test_every_change_to_a_file_changes_the_digest(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("project")
    folder = place(tmp_path, hooks__a="one", recipes__b="two", hooks__lib__c="three")
    before = read_project_code(folder)
    path = folder / data.draw(st.sampled_from(["hooks/a", "recipes/b", "hooks/lib/c"]))
    status = path.stat()
    match data.draw(
        st.sampled_from(["content", "mode", "removed", "added", "renamed", "link"])
    ):
        case "content":
            text = data.draw(st.text("abc\ufeff", max_size=5))
            assume(text.removeprefix("\ufeff") != path.read_text())
            path.write_text(text)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        case "mode":
            path.chmod(0o755)
        case "removed":
            path.unlink()
        case "added":
            path.with_name("new").write_text("")
        case "renamed":
            path.rename(path.with_name("new"))
        case _:
            path.rename(tmp_path / "moved")
            path.symlink_to(tmp_path / "moved")
    after = read_project_code(folder)
    assert after.digest != before.digest
    assert before.hooks_are_same() == (not path.is_relative_to(folder / "hooks"))
    assert after.hooks_are_same()


def test_a_file_s_digest_ignores_a_byte_order_mark(
    tmp_path: Path,
) -> None:
    folder = place(tmp_path, recipes__a="one", recipes__b="\ufeffone")
    found = read_project_code(folder)
    assert (
        found.file_digest(folder / "recipes" / "a")
        == found.file_digest(folder / "recipes" / "b")
        is not None
    )
    assert (
        found.file_digest(folder / "recipes" / "c")
        is found.file_digest(tmp_path)
        is None
    )


def test_a_path_that_is_not_a_file_is_listed_and_links_are_followed(
    tmp_path: Path,
) -> None:
    folder = place(tmp_path, hooks__a="one")
    (folder / "hooks" / "gone").symlink_to(tmp_path / "gone")
    os.mkfifo(folder / "hooks" / "pipe")
    (tmp_path / "script").write_text("one")
    (folder / "hooks" / "script").symlink_to(tmp_path / "script")
    before = read_project_code(folder)
    assert [file.name for file in before.files] == [
        "hooks/a",
        "hooks/gone",
        "hooks/pipe",
        "hooks/script",
    ]
    (tmp_path / "script").write_text("two")
    assert not before.hooks_are_same()


@pytest.mark.parametrize("what", ["files", "bytes", "folders", "loop"])
def test_code_that_is_too_large_to_read_is_never_allowed(
    tmp_path: Path, what: str
) -> None:
    folder = place(tmp_path, hooks__a="")
    store = TrustStore(tmp_path / "home")
    match what:
        case "files":
            for number in range(MAX_FILES):
                (folder / "hooks" / str(number)).touch()
        case "bytes":
            os.truncate(folder / "hooks" / "a", MAX_BYTES + 1)
        case "folders":
            folder.joinpath("hooks", *"b" * MAX_DEPTH).mkdir(parents=True)
        case _:
            (folder / "hooks" / "loop").symlink_to(folder / "hooks")
    found = read_project_code(folder)
    assert found.problem
    assert not found.is_empty
    store.trust([found])
    assert not store.trusts(found)


def test_the_next_process_knows_exactly_the_allowed_code(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    folder = place(tmp_path, hooks__a="one")
    found = read_project_code(folder)
    assert not TrustStore(home).trusts(found)
    TrustStore(home).trust([found])
    assert TrustStore(home).trusts(read_project_code(folder))
    (tmp_path / "link").symlink_to(tmp_path / "project")
    assert TrustStore(home).trusts(read_project_code(tmp_path / "link" / ".acp-agent"))
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / ".acp-agent").symlink_to(folder)
    assert not TrustStore(home).trusts(read_project_code(stranger / ".acp-agent"))
    (folder / "hooks" / "a").write_text("two")
    assert not TrustStore(home).trusts(read_project_code(folder))
    assert TrustStore(home).revoke(tmp_path / "project") == (str(folder),)
    assert TrustStore(home).revoke(tmp_path / "project") == ()
    assert TrustStore(home).read() == {}
