"""What a command has done to the files that its line names: told where it was seen, and not where it was only meant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from acp_agent.conversation.events import FileChange
from acp_agent.tools.named_files import named_files
from support.workspace import Workspace


async def changes(workspace: Workspace, command: str) -> list[tuple[str, ...]]:
    """The changes that are told of a command, with paths as they are in the directory."""
    outcome = await workspace.call("shell", command=command)

    def names(change: FileChange) -> list[str]:
        return [os.path.relpath(path, workspace.root) for path in (change.former, change.path) if path]

    return [(*names(change), change.operation, change.kind or "unknown") for change in outcome.view.changes]


async def test_what_is_gone_was_deleted_and_is_told_with_what_it_was(workspace: Workspace) -> None:
    workspace.file("a b.txt", "text")
    workspace.file("bin/blob", b"\0\1")
    workspace.file("kept")
    (workspace.root / "link").symlink_to("kept")
    (workspace.root / "empty").mkdir()
    told = await changes(workspace, "rm 'a b.txt' bin/blob; unlink ./link && rmdir empty/ && rm -f absent")
    assert told == [
        ("a b.txt", "delete", "text"),
        ("bin/blob", "delete", "binary"),
        ("link", "delete", "symlink"),
        ("empty", "delete", "directory"),
    ]
    assert await changes(workspace, "rm -rf bin") == [("bin", "delete", "directory")]


async def test_a_file_under_another_name_was_moved(workspace: Workspace) -> None:
    for name in ("a", "b", "c"):
        workspace.file(name, name)
    (workspace.root / "sub").mkdir()
    assert await changes(workspace, "mv a new") == [("a", "new", "move", "text")]
    # over another file, into directories, and twice
    assert await changes(workspace, "mv b new") == [("b", "new", "move", "text")]
    assert await changes(workspace, "/bin/mv new c sub/") == [
        ("new", "sub/new", "move", "text"),
        ("c", "sub/c", "move", "text"),
    ]
    assert await changes(workspace, "mv sub there") == [("sub", "there", "move", "directory")]


async def test_a_file_with_the_same_bytes_where_there_was_none_was_copied(workspace: Workspace) -> None:
    workspace.file("a", "same")
    workspace.file("b", "same")
    workspace.file("there", "other")
    (workspace.root / "sub").mkdir()
    assert await changes(workspace, "cp a new") == [("a", "new", "copy", "text")]
    assert await changes(workspace, "cp a b sub") == [("a", "sub/a", "copy", "text"), ("b", "sub/b", "copy", "text")]
    assert await changes(workspace, "cp a there") == []
    assert await changes(workspace, "cp a one; printf x >> one") == []
    # two that it may be the copy of; and another name of the same file, which is none
    assert await changes(workspace, "cp a two; cmp b two") == []
    assert await changes(workspace, "ln a three; echo cp") == []
    # nor is one without any
    workspace.file("empty", "")
    assert await changes(workspace, "touch fresh; rm -f absent; cat empty") == []


async def test_nothing_is_told_of_what_was_not_seen_to_happen(workspace: Workspace) -> None:
    workspace.file("a", "a")
    workspace.file("sub/a", "a")
    for command in ("cd sub && rm a", "echo rm a", "rm -i a </dev/null", "mv a a || true", "rm 'unclosed"):
        assert await changes(workspace, command) == []
    # A command that names no such program is not looked at: another one may be at work beside it.
    assert await changes(workspace, "python3 -c 'import os; os.unlink(\"a\")'") == []
    assert not (workspace.root / "a").exists()


async def test_a_new_file_is_not_one_that_was_moved_though_it_has_its_number(workspace: Workspace) -> None:
    old = workspace.file("old", "x")
    os.utime(old, (1, 1))
    told = await changes(workspace, "rm old; printf y > new")
    assert told == [("old", "delete", "text")]
    # and two names of one file, of which one goes, are no move
    workspace.file("one", "1")
    os.link(workspace.root / "one", workspace.root / "other")
    assert await changes(workspace, "rm one; cat other") == [("one", "delete", "text")]


async def test_a_pipe_among_the_names_is_not_waited_for(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    assert await changes(workspace, "rm pipe") == [("pipe", "delete", "unknown")]


@pytest.mark.parametrize("command", ["ls", "grep -r rm_all .", "printf 'rm a'"])
def test_a_command_that_runs_nothing_of_the_kind_is_not_looked_at(tmp_path: Path, command: str) -> None:
    assert named_files(command, tmp_path) is None


def test_a_long_line_has_its_first_names_looked_up(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()
    files = named_files(f"rm {' '.join(map(str, range(50)))}", tmp_path)
    assert files is not None
    for path in tmp_path.iterdir():
        path.unlink()
    told = files.changes()
    assert told[:1] == (FileChange("delete", str(tmp_path / "0"), kind="text"),)
    assert len(told) == 31  # and the name of the program


async def test_a_pipe_among_the_names_is_left_to_who_waits_for_its_reader(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    with subprocess.Popen(["sh", "-c", "echo said > pipe && echo done"], cwd=workspace.root, stdout=-1) as writer:
        assert await changes(workspace, "echo rm pipe") == []
        assert (workspace.root / "pipe").read_text() == "said\n"
        assert writer.communicate(timeout=20)[0] == b"done\n"


@pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux's")
async def test_a_disk_that_does_not_answer_keeps_nobody_waiting_for_a_result(workspace: Workspace) -> None:
    held = workspace.file("a", "same")
    # Who opens a file that is leased waits until it is given back, here for longer than the test.
    holder = (
        "import fcntl, signal, sys; signal.signal(signal.SIGIO, signal.SIG_IGN); file = open(sys.argv[1], 'r+')\n"
        "fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", holder, str(held)], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with anyio.fail_after(25):
            assert await changes(workspace, "printf same > new; echo cp a") == []
        assert (workspace.root / "new").read_text() == "same"
        process.communicate()


def test_what_cannot_be_looked_up_is_neither_gone_nor_new() -> None:
    script = (
        "import os, sys; from pathlib import Path; from acp_agent.tools.named_files import named_files\n"
        "os.chdir(sys.argv[1]); os.geteuid() or os.setuid(65534)  # root may look into any folder\n"
        "for command, before, behind in (('rm shut/a', 0o700, 0), ('cp other new; cat shut/a a', 0, 0o700)):\n"
        "    os.chmod('shut', before); files = named_files(command, Path('.').absolute())\n"
        "    os.chmod('shut', behind); print(files.changes())\n"
    )
    with TemporaryDirectory() as folder:  # pytest's are root's alone
        root = Path(folder)
        (root / "shut").mkdir()
        for path in (root / "shut" / "a", root / "a"):
            path.write_text("same")
        if os.geteuid() == 0:
            for path in (root, *root.rglob("*")):
                os.chown(path, 65534, 65534)
        done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("()\n()\n", "")
