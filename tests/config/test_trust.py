"""What of a project could run, its digest, and the file that says what is allowed."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acp_agent.config import HookCommand
from acp_agent.config.brought import MAX_BYTES, MAX_DEPTH, MAX_FILES, Brought, BroughtFile, digest, read_brought
from acp_agent.config.trust import TRUST_FILE, TrustStore
from acp_agent.errors import ConfigError

NAMES = st.text("ab/.", min_size=1, max_size=4)
BROUGHT = st.builds(
    BroughtFile, NAMES, st.sampled_from(["1", "2"]), st.just(""), st.booleans(), st.sampled_from(["", "x"])
)
COMMANDS = st.builds(
    HookCommand,
    st.sampled_from(["agent_stop", "turn_end"]),
    st.sampled_from(["make lint", ("make lint",), ("make", "lint")]),
    st.just("make"),
    st.just("project"),
    st.sampled_from(["here", "there"]),
    matcher=st.sampled_from(["", "Bash"]),
    timeout=st.none() | st.just(1.0),
    on_error=st.sampled_from(["allow", "block"]),
)


def place(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "project" / ".acp-agent"
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@given(st.lists(BROUGHT, unique_by=lambda file: file.name, max_size=4), st.randoms(), st.lists(COMMANDS, max_size=3))
def test_the_order_of_files_and_the_place_of_commands_change_no_digest(
    files: list[BroughtFile], random: Random, commands: list[HookCommand]
) -> None:
    shuffled = random.sample(files, len(files))
    elsewhere = [replace(command, source="elsewhere") for command in commands]
    assert digest(shuffled, elsewhere) == digest(files, commands)


@given(
    st.lists(BROUGHT, unique_by=lambda file: file.name, max_size=3),
    st.lists(BROUGHT, unique_by=lambda file: file.name, max_size=3),
    st.lists(COMMANDS, max_size=2),
    st.lists(COMMANDS, max_size=2),
)
def test_what_differs_in_anything_has_another_digest(
    files: list[BroughtFile], others: list[BroughtFile], commands: list[HookCommand], more: list[HookCommand]
) -> None:
    same = {*files} == {*others} and [replace(each, source="") for each in commands] == [
        replace(each, source="") for each in more
    ]
    assert (digest(files, commands) == digest(others, more)) == same


@given(st.data())
def test_every_change_of_a_file_is_another_digest(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("project")
    folder = place(tmp_path, hooks__a="one", recipes__b="two", hooks__lib__c="three")
    before = read_brought(folder)
    path = folder / data.draw(st.sampled_from(["hooks/a", "recipes/b", "hooks/lib/c"]))
    status = path.stat()
    match data.draw(st.sampled_from(["content", "mode", "removed", "added", "renamed", "link"])):
        case "content":
            text = data.draw(st.text("abc\ufeff", max_size=5))
            assume(text != path.read_text())
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
    after = read_brought(folder, before=before)
    assert after.digest != before.digest
    assert (after.hooks_digest != before.hooks_digest) == path.is_relative_to(folder / "hooks")
    assert before.hooks_are_same() == (not path.is_relative_to(folder / "hooks"))
    assert after.hooks_are_same()


def test_only_hooks_recipes_and_commands_of_claude_code_count(tmp_path: Path) -> None:
    folder = place(tmp_path, exports__a="x", notes="x", commands__a="x")
    assert read_brought(folder).is_nothing
    assert read_brought(tmp_path / "nowhere" / ".claude").is_nothing
    commands = folder.rename(tmp_path / ".claude")
    assert [file.name for file in read_brought(commands).files] == ["commands/a"]


def test_what_has_not_changed_is_not_read_again_and_what_was_read_at_the_moment_of_a_change_is(tmp_path: Path) -> None:
    folder = place(tmp_path, hooks__a="one")
    fresh = read_brought(folder)
    assert not fresh.settled
    settled = replace(fresh, settled=True)
    assert read_brought(folder, before=settled) is settled
    assert read_brought(folder, before=fresh) is not fresh


def test_a_text_is_known_by_its_own_digest_without_a_byte_order_mark(tmp_path: Path) -> None:
    folder = place(tmp_path, recipes__a="one", recipes__b="\ufeffone")
    found = read_brought(folder)
    assert found.text_of(folder / "recipes" / "a") == found.text_of(folder / "recipes" / "b") is not None
    assert found.text_of(folder / "recipes" / "c") is found.text_of(tmp_path) is None


def test_links_are_followed_without_end_nowhere(tmp_path: Path) -> None:
    folder = place(tmp_path, hooks__a="one")
    (folder / "hooks" / "loop").symlink_to(folder / "hooks")
    (folder / "hooks" / "gone").symlink_to(tmp_path / "gone")
    os.mkfifo(folder / "hooks" / "pipe")
    (tmp_path / "script").write_text("one")
    (folder / "hooks" / "script").symlink_to(tmp_path / "script")
    before = read_brought(folder)
    assert [file.name for file in before.files] == ["hooks/a", "hooks/gone", "hooks/pipe", "hooks/script"]
    (tmp_path / "script").write_text("two")
    assert not before.hooks_are_same()


@pytest.mark.parametrize("what", ["files", "bytes", "folders"])
def test_what_is_too_much_to_look_through_is_never_allowed(tmp_path: Path, what: str) -> None:
    folder, store = place(tmp_path, hooks__a=""), TrustStore(tmp_path / "home")
    match what:
        case "files":
            for number in range(MAX_FILES):
                (folder / "hooks" / str(number)).touch()
        case "bytes":
            os.truncate(folder / "hooks" / "a", MAX_BYTES + 1)
        case _:
            folder.joinpath("hooks", *"b" * MAX_DEPTH).mkdir(parents=True)
    found = read_brought(folder)
    assert found.problem
    assert not found.is_nothing
    store.trust([found])
    assert not store.trusts(found)


def test_what_was_allowed_is_known_to_the_next_process_as_it_was_and_nothing_else_is(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", place(tmp_path, hooks__a="one")
    found = read_brought(folder)
    assert not TrustStore(home).trusts(found)
    TrustStore(home).trust([found])
    assert TrustStore(home).trusts(read_brought(folder))
    assert stat.S_IMODE((home / TRUST_FILE).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [TRUST_FILE]
    (tmp_path / "link").symlink_to(tmp_path / "project")
    assert TrustStore(home).trusts(read_brought(tmp_path / "link" / ".acp-agent"))
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / ".acp-agent").symlink_to(folder)
    assert not TrustStore(home).trusts(read_brought(stranger / ".acp-agent"))
    (folder / "hooks" / "a").write_text("two")
    assert not TrustStore(home).trusts(read_brought(folder))
    assert TrustStore(home).revoke(tmp_path / "project") == (str(folder),)
    assert TrustStore(home).revoke(tmp_path / "project") == ()
    assert TrustStore(home).read() == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "folders": {}}',
        '{"version": 1, "folders": {"/a": 1}}',
        "\udcff",
        "[" * 100_000,
    ],
)
def test_a_file_that_cannot_be_understood_allows_nothing_and_is_not_overwritten(tmp_path: Path, content: str) -> None:
    store, found = TrustStore(tmp_path), Brought(tmp_path / ".acp-agent", (BroughtFile("hooks/a", "1"),))
    store.path.write_bytes(content.encode(errors="surrogateescape"))
    before = store.path.read_bytes()
    for attempt in (store.read, lambda: store.trusts(found), lambda: store.trust([found])):
        with pytest.raises(
            ConfigError, match=r"trust\.json: .*no project's hooks and recipes are allowed; remove the file"
        ):
            attempt()
    assert store.path.read_bytes() == before
