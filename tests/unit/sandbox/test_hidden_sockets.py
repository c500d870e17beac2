"""A command that moves or closes the folder of a service's socket opens no way to the
service.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

import pytest

from acp_agent.sandbox import socket_files
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.sandbox import Sandbox
from support.keeper import Kept

pytestmark = pytest.mark.process

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
PYTHON = f"{sys.base_prefix}/bin/python3"  # a virtual environment in `/tmp` is not there in the sandbox
OBEDIENT = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-all",
)
"""Runs a program that obeys permissions even if it is root's."""
AGENT = """
import os, shutil, socket, subprocess, sys
from contextlib import suppress
from pathlib import Path
from acp_agent.sandbox.sandbox import Sandbox

CONNECT = '''
import os, socket
for folder in ("", "/proc/self/cwd/node_modules/x/y", "run2", "run2/run", "run", "run/deep", "node_modules/x/y/deep"):
    os.system(f"chmod 0700 {folder or '.'} 2> /dev/null")
for top, folders, files in os.walk("."):
    for file in files:
        with socket.socket(socket.AF_UNIX) as s:
            try: s.connect(f"{top}/{file}"); print("CONNECTED", f"{top}/{file}")
            except OSError: pass
'''
python, home = sys.argv[1], Path(sys.argv[2])

def bound(root, name, absolute):
    served = socket.socket(socket.AF_UNIX)
    if absolute:
        served.bind(str(root / name))
    else:
        folder = os.open((root / name).parent, os.O_RDONLY)
        os.fchdir(folder)
        served.bind(Path(name).name)
        os.chdir("/")
        os.close(folder)
    served.listen()
    return served

def run(sandbox, root, words, during=None):
    with sandbox.wrap(words, root, network=False) as (_, line):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = subprocess.Popen(line, cwd=root, **pipes)
        if during is not None:
            assert command.stdout.readline() == b"ready\\n"
            during()
        told, _ = command.communicate(b"go\\n")
        return told.decode()

for number, attack in enumerate(sys.argv[3:]):
    when, name, line = attack.split("|", 2)
    for absolute in (True, False):
        root = home / f"p{number}{absolute}"
        for folder in ("run/deep", "node_modules/x/y", "other"):
            (root / folder).mkdir(parents=True)
        sandbox = Sandbox((root,), (home / "agent",))
        kept = []
        serve = lambda: kept.append(bound(root, name, absolute))
        if when == "before":
            serve()
            run(sandbox, root, ("bash", "-c", line))
        else:
            run(sandbox, root, ("bash", "-c", f"echo ready; read line; {line}"), serve)
        told = run(sandbox, root, (python, "-c", CONNECT))
        print(number, absolute, " ".join(told.split()) or "held", flush=True)
        kept[0].close()
"""
MOVE = "mkdir -p node_modules/x/y; mv run node_modules/x/y/"
ATTACKS = {
    "the folder is moved into a package folder": f"before|run/s|{MOVE}",
    "its parent is moved into a package folder": f"before|run/deep/s|{MOVE}",
    "the folder is renamed and closed": "before|run/s|mv run run2; chmod 0311 run2",
    "the folder is closed for reading": "before|run/s|chmod 0311 run",
    "the folder is closed": "before|run/s|chmod 0 run",
    "a folder on the way is closed": "before|run/deep/s|chmod 0311 run/deep; chmod 0 run",
    "the file is moved or linked": "before|run/s|mv run/s node_modules/x/y/s || ln run/s node_modules/x/y/s",
    "a new socket's folder is moved into a package folder": f"during|run/s|{MOVE}",
    "a new socket is moved into a package folder": "during|run/s|mv run/s node_modules/x/y/s",
    "a new socket is linked into a package folder": "during|run/s|ln run/s node_modules/x/y/s && rm run/s",
    "a new socket's folder is moved and closed": "during|run/s|mv run run2; chmod 0311 run2",
    "a new socket's folder is moved into a closed one": f"during|run/s|{MOVE}; chmod 0 node_modules/x/y node_modules",
    "a new socket is behind thousands of folders": (
        "during|run/s|mkdir -p other/{1..72}/{1..72} other/72/72/a/b; mv run/s other/72/72/a/b/s"
    ),
}


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home outside of `/tmp`, which the sandbox empties anyway."""
    folder = Path(mkdtemp(dir="/var/tmp")).resolve()
    monkeypatch.setenv("HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


@needs_bubblewrap
def test_a_command_that_moves_or_closes_a_sockets_folder_opens_no_way_to_the_service(
    home: Path,
) -> None:
    words = [
        *(OBEDIENT if os.geteuid() == 0 else ()),
        sys.executable,
        "-c",
        AGENT,
        PYTHON,
        str(home),
    ]
    done = subprocess.run(
        [*words, *ATTACKS.values()], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    names = [name for name in ATTACKS for _ in range(2)]
    held = [line.split(" ", 2)[2] for line in done.stdout.splitlines()]
    assert dict(zip(names, held, strict=True)) == dict.fromkeys(ATTACKS, "held")


def listening(path: Path, stack: ExitStack) -> Path:
    served = stack.enter_context(socket.socket(socket.AF_UNIX))
    served.bind(str(path))
    served.listen()
    return path


def in_sandbox(root: Path, code: str, keeper: Kept | None = None) -> str:
    with Sandbox((root,), (), keeper=keeper).wrap(
        (PYTHON, "-c", code), root, network=False
    ) as (_, line):
        return subprocess.run(
            line, cwd=root, capture_output=True, text=True, check=True
        ).stdout


@needs_bubblewrap
def test_folders_are_moved_as_ever_if_no_socket_is_in_them(home: Path) -> None:
    root = home / "project"
    for folder in ("build/deep", "node_modules/x", "run"):
        (root / folder).mkdir(parents=True)
    with ExitStack() as stack:
        listening(root / "run" / "s", stack)
        work = "os.rename('build', 'built'); shutil.rmtree('built'); os.rename('node_modules', 'n'); open('run/x', 'w')"
        assert in_sandbox(root, f"import os, shutil; {work}; print('done')") == "done\n"


@needs_bubblewrap
def test_a_socket_that_was_not_found_for_one_session_is_searched_for_again_for_another(
    home: Path,
) -> None:
    first = home / "first"
    second = home / "second"
    first.mkdir()
    deep = second / "node_modules" / "x"
    deep.mkdir(parents=True)
    connect = "import socket; print(socket.socket(socket.AF_UNIX).connect_ex('node_modules/x/s'))"
    with ExitStack() as stack:
        (home / "gone").mkdir()
        listening(home / "gone" / "s", stack).rename(deep / "s")
        (home / "gone").rmdir()
        assert in_sandbox(first, "print()") == "\n"
        assert in_sandbox(second, connect) != "0\n"


@needs_bubblewrap
def test_a_socket_whose_path_is_too_long_for_the_kernel_counts_as_not_found(
    home: Path,
) -> None:
    root = home / "project"
    root.mkdir()
    with ExitStack() as stack:
        name = listening(root / "s", stack)
        folder = os.open(root, os.O_RDONLY)
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=folder)
            inner = os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.rename(name, "s", dst_dir_fd=folder)
        os.close(folder)
        keeper = Kept()
        told = in_sandbox(
            root,
            "import socket\ntry: socket.socket(socket.AF_UNIX)\nexcept OSError: print('no')",
            keeper,
        )
        assert told == "no\n"
        assert keeper.lost == [str(name)]


@needs_bubblewrap
def test_a_command_creates_no_local_sockets_while_the_file_of_one_cannot_be_found(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = home / "project"
    (root / "node_modules" / "x" / "y").mkdir(parents=True)
    code = (
        "import socket\n"
        "local, datagrams = socket.AF_UNIX, socket.SOCK_DGRAM\n"
        "for make in (socket.socketpair, socket.socket, lambda: socket.socket(local),\n"
        "             lambda: socket.socketpair(local, datagrams)):\n"
        "    try: make(); print('made')\n"
        "    except OSError as error: print('refused')\n"
    )
    monkeypatch.setattr(socket_files, "_SECONDS", -1.0)
    keeper = Kept()
    with ExitStack() as stack:
        assert in_sandbox(root, code, keeper).split() == ["made"] * 4
        name = listening(root / "s", stack)
        name.rename(root / "node_modules" / "x" / "y" / "s")
        assert in_sandbox(root, code, keeper).split() == [
            "made",
            "made",
            "refused",
            "refused",
        ]
        assert keeper.lost == [str(name)]
    assert in_sandbox(root, code).split() == ["made"] * 4
