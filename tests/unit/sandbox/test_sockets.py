"""Sockets that lead out of the sandbox, and what of `/run` is still there."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.sandbox import bound_sockets
from acp_agent.sandbox import socket_files as files
from acp_agent.sandbox import sockets as module
from acp_agent.sandbox.bound_sockets import parse_dump
from acp_agent.sandbox.bubblewrap import command_line, fault
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.sandbox.sockets import needed_of_run, sockets

PYTHON = f"{sys.base_prefix}/bin/python3"  # a virtual environment in `/tmp` is not there in the sandbox
needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
CONNECT = (
    "import socket, sys\n"
    "for path in sys.argv[1:]:\n"
    "    try: socket.socket(socket.AF_UNIX).connect(path); print('CONNECTED', path)\n"
    "    except OSError as error: print(type(error).__name__)\n"
)
MOUNTED_TWICE = """
import socket, subprocess, sys
from pathlib import Path
from acp_agent.sandbox.sockets import sockets
home = Path(sys.argv[1])
(home / "real" / "run").mkdir(parents=True)
subprocess.run(["mount", "--bind", home / "real", home / "place"], check=True)
served = socket.socket(socket.AF_UNIX)
served.bind(str(home / "real" / "run" / "s"))
for path in sorted(sockets((), (home,)).paths):
    if path.is_relative_to(home):
        print(path.relative_to(home))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A home outside of `/tmp`, which the sandbox empties anyway."""
    folder = Path(mkdtemp(dir="/var/tmp")).resolve()
    yield folder
    shutil.rmtree(folder)


def listening(path: Path, stack: ExitStack) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    served = stack.enter_context(socket.socket(socket.AF_UNIX))
    served.bind(str(path))
    served.listen()
    return str(path)


def in_sandbox(root: Path, *words: str, network: bool = False) -> str:
    with Sandbox((root,), ()).wrap(words, root, network=network) as (_, line):
        return subprocess.run(
            line, cwd=root, capture_output=True, text=True, check=True
        ).stdout


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("network", [False, True])
def test_no_socket_of_a_service_is_reached_wherever_it_lies(
    home: Path, monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    monkeypatch.setenv("HOME", str(home))
    root = home / "project"
    root.mkdir()
    with ExitStack() as stack:
        places = (
            "project/.overmind.sock",
            "project/run/db/s",
            ".cache/tool/s",
            ".1password/agent.sock",
            "lxd/s y",
        )
        paths = [listening(home / place, stack) for place in places]
        (root / "link").symlink_to(paths[-1])
        moved = home / ".cache" / "moved"
        # The kernel's list has the path that it had.
        Path(listening(home / "before", stack)).rename(moved)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(moved))
        told = in_sandbox(
            root, PYTHON, "-c", CONNECT, *paths, "link", str(moved), network=network
        )
        assert set(told.split()) == {"ConnectionRefusedError"}
    assert sorted(path.name for path in root.iterdir()) == [
        ".overmind.sock",
        "link",
        "run",
    ]


def bound_in(folder: Path, name: str, stack: ExitStack) -> Path:
    """Bind a socket in a folder by a relative name, as a service does that changes to
    the folder first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        served = stack.enter_context(socket.socket(socket.AF_UNIX))
        served.bind(name)
        served.listen()
    finally:
        os.chdir(before)
    return folder / name


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("network", [False, True])
def test_no_socket_is_reached_whatever_name_it_was_bound_by(
    home: Path, monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    monkeypatch.setenv("HOME", str(home))
    root = home / "project"
    root.mkdir()
    (home / "other").mkdir()
    with ExitStack() as stack:
        relative = bound_in(root / "run", "s", stack)
        upwards = bound_in(home / "services" / "a", "../up.sock", stack)
        far = bound_in(home / ".local" / "share" / "emacs" / "server", "server", stack)
        of_git = bound_in(
            root / ".git" / "worktrees" / "w", "fsmonitor--daemon.ipc", stack
        )
        renamed = Path(listening(root / "temporary", stack)).rename(root / "renamed")
        moved = bound_in(home / "before", "s", stack).rename(home / "other" / "moved")
        linked = Path(listening(home / "linked", stack))
        os.link(linked, home / "other" / "second")
        odd = bound_in(home / "other", "a \nb", stack)
        datagrams = stack.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        )
        datagrams.bind(str(home / "log.new"))
        (home / "log.new").rename(home / "log")
        folder = Path(
            listening(home / "old" / "folder" / "s", stack)
        ).parent.parent.rename(home / "new")
        paths = [
            relative,
            upwards,
            far,
            of_git,
            renamed,
            moved,
            linked,
            home / "other" / "second",
            odd,
        ]
        paths += [folder / "folder" / "s"]
        told = in_sandbox(
            root, PYTHON, "-c", CONNECT, *map(str, paths), network=network
        )
        assert told.split() == ["ConnectionRefusedError"] * len(paths)
        send = CONNECT.replace("AF_UNIX", "AF_UNIX, socket.SOCK_DGRAM")
        assert (
            in_sandbox(root, PYTHON, "-c", send, str(home / "log"), network=network)
            == "ConnectionRefusedError\n"
        )
        renamed.rename(root / "again")
        told = in_sandbox(root, PYTHON, "-c", CONNECT, "again", network=network)
        assert told.split() == ["ConnectionRefusedError"]


def test_a_socket_without_a_file_is_searched_for_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    entered: list[str] = []
    read = files._entries
    monkeypatch.setattr(
        files, "_entries", lambda folder: entered.append(folder) or read(folder)
    )
    with ExitStack() as stack:
        Path(listening(home / "gone", stack)).unlink()
        # Other programs of this machine may make sockets meanwhile.
        gone = [
            each
            for each in bound_sockets.bound_sockets()
            if each.name == str(home / "gone")
        ]
        monkeypatch.setattr(module, "bound_sockets", lambda: gone)
        assert sockets((), (home,)).paths == ()
        assert str(home) in entered
        assert len(entered) < 50_000
        entered.clear()
        assert sockets((), (home,)).paths == ()
        assert entered == []


@pytest.mark.process
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts need root"
)
def test_a_socket_is_found_at_each_place_where_its_folder_is_mounted(
    home: Path,
) -> None:
    (home / "place").mkdir()
    made = subprocess.run(
        ("unshare", "--mount", sys.executable, "-c", MOUNTED_TWICE, str(home)),
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode and "mount" in made.stderr:
        pytest.skip("this machine lets nobody mount")
    assert made.stdout.split() == ["place/run/s", "real/run/s"], made.stderr


@pytest.mark.process
@needs_bubblewrap
def test_a_socket_that_a_command_makes_is_its_own_to_use(home: Path) -> None:
    serve = (
        "import os, socket, sys; from multiprocessing import Manager\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('before'); os.rename('before', 's'); s.listen()\n"
        "with Manager() as manager: print(manager.list([1, 2]))\n"
    )
    assert (
        in_sandbox(home, PYTHON, "-c", serve + CONNECT, "s") == "[1, 2]\nCONNECTED s\n"
    )


@given(st.binary(max_size=400))
def test_any_answer_of_the_kernel_is_read_or_refused(data: bytes) -> None:
    with suppress(struct.error):
        assert all(each.name for each in parse_dump(data))


def test_a_kernel_that_does_not_list_files_still_gives_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> bytes:
        raise OSError("no unix_diag here")

    monkeypatch.setattr(bound_sockets, "_dump", refused)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path.resolve()
    with ExitStack() as stack:
        named = Path(listening(folder / "named", stack))
        relative = bound_in(folder, "relative", stack)
        assert {named, relative} <= set(sockets((), ()).paths)


@pytest.mark.process
def test_of_run_the_file_of_the_resolver_is_bound_and_no_folder_with_sockets(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = home / "run"
    etc = home / "resolv.conf"  # the path of a socket has 108 bytes at most
    (run / "systemd" / "resolve").mkdir(parents=True)
    file = run / "systemd" / "resolve" / "stub-resolv.conf"
    file.write_text("nameserver 127.0.0.53\n")
    etc.symlink_to(file)
    monkeypatch.setattr(module, "EMPTY", (str(run),))
    monkeypatch.setattr(module, "_RESOLVER", str(etc))
    assert [path for path in needed_of_run() if path.is_relative_to(run)] == [file]
    with ExitStack() as stack:
        listening(run / "systemd" / "resolve" / "io.systemd.Resolve", stack)
        words = command_line(Policy((), (), ()), ("true",), Path("/"))
        assert [word for word in words if word.startswith(f"{run}/")] == [str(file)] * 2
        if not fault():
            found = subprocess.run(
                [*words[:-1], "find", str(run), "-type", "s"],
                capture_output=True,
                text=True,
                check=True,
            )
            assert found.stdout == ""
    etc.unlink()
    etc.symlink_to(file.parent)  # a folder there is bound by no means
    assert not [path for path in needed_of_run() if path.is_relative_to(run)]


def test_sockets_in_hidden_folders_need_no_cover_unless_they_can_be_seen(
    tmp_path: Path,
) -> None:
    folder = tmp_path.resolve()
    with ExitStack() as stack:
        hidden, seen = (
            Path(listening(folder / name, stack))
            for name in ("hidden/s", "hidden/seen/s")
        )
        found = set(sockets((folder / "hidden",), (folder / "hidden" / "seen",)).paths)
        assert seen in found
        assert hidden not in found


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        "unix://{}",
        "unix:{}",
        "unix:path={},guid=12",
        "{}:123:1",
        "{},123,0",
        "x={};y=1",
    ],
)
def test_sockets_that_the_environment_names_are_found_in_whatever_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with ExitStack() as stack:
        path = Path(listening(tmp_path.resolve() / "before", stack)).rename(
            tmp_path.resolve() / "agent.sock"
        )
        # As with a socket of a container's host.
        monkeypatch.setattr(module, "bound_sockets", list)
        assert path not in set(sockets((), ()).paths)
        monkeypatch.setenv("SOME_SOCKET", value.format(path))
        assert path in set(sockets((), ()).paths)


@pytest.mark.process
@needs_bubblewrap
def test_file_systems_in_memory_hold_less_than_a_process_may_have(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    for name in (".ssh", "project"):
        (home / name).mkdir()
    lines = (
        "memory=$(awk '/MemTotal/ {print $2}' /proc/meminfo)",
        "held=$(df -k --output=size /tmp /dev/shm | tail -n +2 | paste -sd+ | bc)",
        '[ "$held" -lt "$memory" ] || echo TOO MUCH "$held" of "$memory"',
        "for each in /run /dev ~/.ssh; do touch $each/x 2> /dev/null && echo WRITTEN $each; done",
        "touch /tmp/x /dev/shm/x && echo x > /dev/null",
        "ls -A /run ~/.ssh",
    )
    if shutil.which("bc") is None:
        lines = tuple(
            line.replace("| paste -sd+ | bc", "| awk '{sum += $1} END {print sum}'")
            for line in lines
        )
    told = in_sandbox(home / "project", "bash", "-c", "\n".join(lines))
    assert "TOO MUCH" not in told
    assert "WRITTEN" not in told


@pytest.mark.process
@needs_bubblewrap
def test_a_session_in_a_folder_that_is_denied_otherwise_can_be_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    root = home / ".claude" / "worktrees" / "one"
    root.mkdir(parents=True)
    (home / ".claude" / "history").write_text("secret")
    told = in_sandbox(
        root, "bash", "-c", "touch made; cat ../../history || touch ../x || echo closed"
    )
    assert told == "closed\n"
    assert (root / "made").exists()
    assert not os.path.lexists(root.parent / "x")
