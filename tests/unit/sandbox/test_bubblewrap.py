"""The command line that is handed to bubblewrap."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import command_line, fault
from acp_agent.sandbox.policy import Policy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that is no more than its directory."""
    folder = tmp_path.resolve() / "project"
    (folder / ".git" / "hooks").mkdir(parents=True)
    for name in ("HEAD", "config"):
        (folder / ".git" / name).write_text("")
    return folder


def _position(words: tuple[str, ...], *wanted: str) -> int:
    """Return where these words stand next to each other."""
    return next(at for at in range(len(words)) if words[at : at + len(wanted)] == wanted)


def test_everything_can_be_read_and_only_roots_and_named_folders_written(root: Path, tmp_path: Path) -> None:
    cache = tmp_path.resolve() / "cache"
    cache.mkdir()
    words = command_line(Policy((root,), (cache,), ()), ("true",), root)
    assert words[1:4] == ("--ro-bind", "/", "/")
    writable = {words[at + 1] for at, word in enumerate(words) if word == "--bind"}
    assert writable == {str(root), str(root / ".git"), str(cache)}


def test_a_folder_is_mounted_before_what_is_in_it(root: Path) -> None:
    words = command_line(Policy((root,), (), (root.parent,)), ("true",), root)
    order = [
        _position(words, "--tmpfs", str(root.parent)),
        _position(words, "--bind", str(root), str(root)),
        _position(words, "--bind", str(root / ".git"), str(root / ".git")),
        _position(words, "--ro-bind-try", str(root / ".git/hooks"), str(root / ".git/hooks")),
    ]
    assert order == sorted(order)


def test_a_file_that_may_not_be_read_is_covered_by_an_empty_one(root: Path) -> None:
    key = root.parent / "key.pem"
    key.write_text("secret")
    words = command_line(Policy((root,), (), (key,)), ("true",), root)
    assert _position(words, "--ro-bind", "/dev/null", str(key))


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_reached_only_where_it_is_allowed(root: Path, network: bool) -> None:
    words = command_line(Policy((root,), (), (), network), ("true",), root)
    assert ("--unshare-net" in words) is not network


def test_processes_have_a_namespace_of_their_own_without_capabilities_and_end_with_the_agent(root: Path) -> None:
    words = command_line(Policy((root,), (), ()), ("bash", "-c", "make"), root)
    assert {"--unshare-pid", "--new-session", "--die-with-parent"} <= {*words}
    assert _position(words, "--cap-drop", "ALL")
    assert _position(words, "--chdir", str(root), "--")
    assert words[-3:] == ("bash", "-c", "make")


def test_a_missing_program_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fault.cache_clear()
    try:
        assert "bubblewrap is not installed" in fault()
    finally:
        fault.cache_clear()


def test_a_kernel_that_refuses_is_quoted_with_what_to_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fault.cache_clear()
    try:
        assert "setting up uid map: Permission denied" in fault()
        assert "userns" in fault()
    finally:
        fault.cache_clear()
