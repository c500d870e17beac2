"""The command line that is handed to bubblewrap."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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
    return next(
        at for at in range(len(words)) if words[at : at + len(wanted)] == wanted
    )


def test_everything_can_be_read_and_only_roots_and_named_folders_written(
    root: Path, tmp_path: Path
) -> None:
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
        _position(
            words, "--ro-bind-try", str(root / ".git/hooks"), str(root / ".git/hooks")
        ),
    ]
    assert order == sorted(order)


def test_a_file_that_may_not_be_read_is_covered_by_an_empty_one(root: Path) -> None:
    key = root.parent / "key.pem"
    key.write_text("secret")
    words = command_line(Policy((root,), (), (key,)), ("true",), root)
    assert _position(words, "--ro-bind", "/dev/null", str(key))


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_reached_only_where_it_is_allowed(
    root: Path, network: bool
) -> None:
    words = command_line(Policy((root,), (), (), network), ("true",), root)
    assert ("--unshare-net" in words) is not network


def test_processes_have_a_namespace_of_their_own_without_capabilities_and_end_with_the_agent(
    root: Path,
) -> None:
    words = command_line(Policy((root,), (), ()), ("bash", "-c", "make"), root)
    assert {
        "--unshare-pid",
        "--as-pid-1",
        "--unshare-ipc",
        "--new-session",
        "--die-with-parent",
    } <= {*words}
    assert _position(words, "--tmpfs", "/tmp", "--tmpfs", "/run")
    assert _position(words, "--setenv", "TMPDIR", "/tmp")
    assert _position(words, "--cap-drop", "ALL")
    assert _position(words, "--chdir", str(root), "--")
    assert words[-3:] == ("bash", "-c", "make")


def test_the_kernel_s_settings_cannot_be_written_though_root_needs_no_capability_for_it(
    root: Path,
) -> None:
    words = command_line(Policy((root,), (), ()), ("true",), root)
    assert _position(words, "--proc", "/proc") < _position(
        words, "--ro-bind-try", "/proc/sys", "/proc/sys"
    )


def test_no_program_that_a_command_could_have_put_on_the_path_starts_the_sandbox(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bwrap", "prlimit"):
        program = root / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (root.parent / "link").symlink_to(root / "bin")
    path = os.pathsep.join(
        (str(root / "bin"), str(root.parent / "link"), "", os.environ["PATH"])
    )
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(root / "bin")
    words = command_line(Policy.of((root,), (), (), ()), ("true",), root)
    assert not [
        word
        for word in words
        if word.endswith(("bwrap", "prlimit")) and str(root.parent) in word
    ]
    assert words[0].startswith("/")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="no prlimit")
def test_limits_are_no_higher_than_those_of_the_agent_which_it_cannot_raise() -> None:
    code = (
        "from pathlib import Path; from acp_agent.sandbox.bubblewrap import command_line;"
        "from acp_agent.sandbox.policy import Policy; print(*command_line(Policy((), (), ()), (), Path('/')))"
    )
    limited = (
        "prlimit",
        "--nproc=1000",
        "--data=900000000",
        sys.executable,
        "-c",
        code,
    )
    words = subprocess.run(
        limited, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"--nproc=1000", "--data=900000000"} <= {*words}


@pytest.mark.process
def test_there_is_a_sandbox_wherever_bubblewrap_works() -> None:
    plain = (
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--unshare-pid",
        "--unshare-net",
        "true",
    )
    if (
        shutil.which("bwrap") is None
        or subprocess.run(plain, capture_output=True, check=False).returncode
    ):
        pytest.skip("no bubblewrap")
    fault.cache_clear()
    assert fault() == ""


def test_a_missing_program_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fault.cache_clear()
    try:
        assert "bubblewrap is not installed" in fault()
    finally:
        fault.cache_clear()


def test_a_kernel_that_refuses_is_quoted_with_what_to_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fault.cache_clear()
    try:
        assert "setting up uid map: Permission denied" in fault()
        assert "userns" in fault()
    finally:
        fault.cache_clear()
