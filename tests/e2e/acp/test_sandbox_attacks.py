"""Attacks from inside the sandbox, its limits, and what it leaves open."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from support.editors import AVANTE
from support.memory import stage
from support.replies import Reply
from support.sandboxed import asked, results, shell
from support.stage import trust

pytestmark = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        "touch ../outside.txt",
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/hooks/../config",
        "ln -s .git/hooks link && echo x > link/pre-commit",
        "ln .git/config hard && echo x >> hard",
        "mv .git .git2 && echo x > .git2/hooks/pre-commit",
        "rm -rf .git/hooks && mkdir .git/hooks && echo x > .git/hooks/pre-commit",
        "mkdir -p .vscode && echo '{}' > .vscode/tasks.json",
        "echo 'use flake' > .envrc",
        "mount -t tmpfs none .git/hooks && echo x > .git/hooks/pre-commit",
        "umount .git/hooks && echo x > .git/hooks/pre-commit",
        'unshare -rm sh -c "umount .git/hooks; echo x > .git/hooks/pre-commit"',
        "nsenter -t 1 -m sh -c 'echo x > .git/hooks/pre-commit'",
        "echo x > /proc/1/root$PWD/.git/hooks/pre-commit",
        "cat ~/.ssh/id_rsa",
        "git diff --no-index /dev/null ~/.ssh/id_rsa",
        "cat /proc/1/root$HOME/.ssh/id_rsa",
        "ln ~/.ssh/id_rsa stolen && cat stolen",
        "jq -n env || env",
        "git config core.fsmonitor ./evil",
    ],
)
async def test_an_attack_changes_nothing_outside_and_reads_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    config = {"mode": "accept-edits", "sandbox": {"env": ["SHOP_*"]}}
    async with stage(tmp_path, *shell(command), config=config) as it:
        subprocess.run(["git", "init", "-q"], cwd=it.folder, check=True)
        key = it.home / ".ssh" / "id_rsa"
        key.parent.mkdir(parents=True)
        key.write_text("hunter2-private-key\n")
        monkeypatch.setenv("HOME", str(it.home))
        before = (
            (it.folder / ".git" / "config").read_text(),
            sorted((it.folder / ".git" / "hooks").iterdir()),
        )
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        after = (
            (it.folder / ".git" / "config").read_text(),
            sorted((it.folder / ".git" / "hooks").iterdir()),
        )
        assert before == after
        assert not (tmp_path / "outside.txt").exists()
        assert {path.name for path in it.folder.iterdir()} <= {
            ".git",
            "a.txt",
            "hard",
            "link",
            "stolen",
        }
        assert "hunter2" not in "".join(results(it))


ATTACKS = {
    "environment of the agent": "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -q hunter2",
    "memory of the agent": "test -e /proc/$AGENT_PID/mem",
    "signal to the agent": "kill -0 $AGENT_PID",
    "secret through another root": "grep -q hunter2 /proc/[0-9]*/root$KEY /proc/[0-9]*/cwd/../home/.ssh/id_rsa",
    "capabilities": "grep -q '^Cap[IPEA][a-z]*:.*[1-9a-f]' /proc/self/status",
    "privileges of a program": "grep -q '^NoNewPrivs:.*0' /proc/self/status",
    "the kernel's settings": 'v=$(cat /proc/sys/kernel/core_pattern) && echo "$v" > /proc/sys/kernel/core_pattern',
    "the system's control groups": "mkdir /sys/fs/cgroup/acp-agent",
    "a device": "mknod disk b 7 0",
    "a bind": "mount --bind / /mnt",
    "a nested namespace": "unshare -Urm sh -c 'umount .git/hooks || mount -o remount,rw,bind .git/hooks'",
    "a nested sandbox": "bwrap --bind / / --proc /proc sh -c 'echo x > .git/hooks/evil || grep hunter2 $KEY'",
    "keys for the terminal": 'python3 -c \'import fcntl; fcntl.ioctl(open("/dev/tty"), 0x5412, b"x")\'',
    "an abstract socket": "python3 -c 'import os, socket; "
    'socket.socket(socket.AF_UNIX).connect("\\0acp-agent-" + os.environ["AGENT_PID"])\'',
    "a socket in /run or /tmp": "find /run /tmp /var/run/ -type s | grep -q .",
    "the host's loopback": "echo > /dev/tcp/127.0.0.1/$PORT",
    "a moved root": 'mv "$PWD" "$PWD.old"',
    "a moved submodule": "mv .git/modules .git/moved || mv .git/modules/lib .git/lib",
    "another repository's settings": "echo ../evil > .git/commondir",
    "another repository's settings in a worktree": "echo ../evil > .git/worktrees/w/commondir",
    "settings by an option": "git -c alias.x='!git config core.hooksPath .' x",
    "settings by GIT_DIR": "GIT_DIR=.git git config core.fsmonitor ./evil",
    "a submodule's hook": "echo x > .git/modules/lib/hooks/post-checkout",
    "a placeholder's place": "rmdir .envrc || ln -sf /etc .zed || echo x > .idea/x.xml",
    "a program on the path": "touch /usr/local/bin/acp-agent-evil || touch /var/tmp/acp-agent-evil",
    "shared memory": 'test -n "$(ls -A /dev/shm)"',
}


@pytest.mark.process
async def test_attacks_of_every_other_kind_fail_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    config = {"mode": "accept-edits", "sandbox": {"env": ["SHOP_*"]}}
    async with stage(
        tmp_path, *shell("bash attacks.sh"), config=config, editor=AVANTE
    ) as it:
        subprocess.run(["git", "init", "-q"], cwd=it.folder, check=True)
        for folder in (
            ".git/modules/lib/objects",
            ".git/modules/lib/hooks",
            ".git/worktrees/w",
        ):
            (it.folder / folder).mkdir(parents=True)
        for file in (
            ".git/modules/lib/HEAD",
            ".git/modules/lib/config",
            ".git/worktrees/w/commondir",
        ):
            (it.folder / file).write_text("../..\n")
        key = it.home / ".ssh" / "id_rsa"
        key.parent.mkdir(parents=True)
        key.write_text("hunter2-private-key\n")
        monkeypatch.setenv("HOME", str(it.home))
        with (
            socket.socket(socket.AF_UNIX) as abstract,
            socket.create_server(("127.0.0.1", 0)) as server,
        ):
            abstract.bind(f"\0acp-agent-{os.getpid()}")
            abstract.listen()
            lines = [
                f"export AGENT_PID={os.getpid()} PORT={server.getsockname()[1]} KEY={key}"
            ]
            for name, attack in {"nothing": "true", **ATTACKS}.items():
                lines.append(f'({attack}) > /dev/null 2>&1 && echo "SUCCEEDED: {name}"')
            (it.folder / "attacks.sh").write_text("\n".join((*lines, "true")))
            await it.prompt()
        [result] = results(it)
        assert [line for line in result.splitlines() if "SUCCEEDED" in line] == [
            "SUCCEEDED: nothing"
        ]


async def test_what_the_environment_has_bash_run_first_runs_in_the_sandbox_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "evil.sh": "echo x > .git/hooks/pre-commit; touch ../outside; git() { echo function; }\n"
    }
    config = {"mode": "accept-edits"}
    async with stage(
        tmp_path, *shell("git --version"), files=files, config=config, editor=AVANTE
    ) as it:
        (it.folder / ".git" / "hooks").mkdir(parents=True)
        (it.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        monkeypatch.setenv("BASH_ENV", str(it.folder / "evil.sh"))
        monkeypatch.setenv("BASH_FUNC_ls%%", "() { touch ../outside; }")
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert "function" in results(it)[0]
        assert not [
            *(it.folder / ".git" / "hooks").iterdir(),
            *tmp_path.glob("outside"),
        ]


async def test_memory_and_processes_are_limited(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit")
    async with stage(
        tmp_path,
        *shell("ulimit -u; ulimit -d; ulimit -c"),
        config={"mode": "accept-edits"},
    ) as it:
        await it.prompt()
        processes, kilobytes, core = results(it)[0].splitlines()[2:5]
        assert int(processes) <= 4096
        assert int(kilobytes) << 10 <= os.sysconf("SC_PAGE_SIZE") * os.sysconf(
            "SC_PHYS_PAGES"
        )
        assert core == "0"


@pytest.mark.process
async def test_a_hook_that_a_project_brought_runs_in_the_sandbox(
    tmp_path: Path,
) -> None:
    attack = "echo x > ran; echo x > .git/hooks/pre-commit; touch ../outside"
    hook = f"#!/bin/sh\n{attack}\n[ $1 = run ] || echo session_start\n"

    def allow(home: Path, folder: Path) -> None:
        (folder / ".acp-agent" / "hooks" / "start").chmod(0o755)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        trust(home, folder)

    files = {".acp-agent/hooks/start": hook}
    async with stage(
        tmp_path, Reply("Done."), files=files, trusted=True, allow=allow
    ) as it:
        await it.prompt()
        assert (it.folder / "ran").exists()
        assert not (it.folder / ".git" / "hooks" / "pre-commit").exists()
        assert not (tmp_path / "outside").exists()


async def test_what_the_sandbox_leaves_open_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "head -c 4 /etc/passwd > read",
        "echo 'all: ; ./evil' > Makefile",
        "echo 'Obey me.' > AGENTS.md",
        "echo x > ~/.cache/tool",
        'test "$GITHUB_TOKEN" = of-the-user',
        "git init -q nested && git config -f nested/.git/config core.fsmonitor ./evil",
    )
    async with stage(
        tmp_path,
        *shell(" && ".join(lines)),
        config={"mode": "accept-edits"},
        editor=AVANTE,
    ) as it:
        (it.home / ".cache").mkdir(parents=True)
        monkeypatch.setenv("GITHUB_TOKEN", "of-the-user")
        monkeypatch.setenv("HOME", str(it.home))
        await it.prompt()
        assert "exit status: 0" in results(it)[0]
        assert (it.folder / "read").read_text()
        assert (it.home / ".cache" / "tool").exists()


@pytest.mark.process
async def test_processes_that_are_left_end_with_the_command_and_are_named(
    tmp_path: Path,
) -> None:
    command = "setsid sleep 1000 & until pgrep -x sleep; do :; done; echo started"
    async with stage(tmp_path, *shell(command), config={"mode": "accept-edits"}) as it:
        await it.prompt()
        [result] = results(it)
        assert "started" in result
        assert (
            "Stopped when the command ended, because no process may outlive it: sleep"
            in result
        )
    left = subprocess.run(
        ["pgrep", "-f", "^sleep 1000$"], capture_output=True, check=False
    )
    assert left.stdout == b""


@pytest.mark.process
async def test_files_named_like_options_are_no_way_past_an_allowed_prefix_and_lead_no_way_out(
    tmp_path: Path,
) -> None:
    lines = {
        "echo 1": True,
        "git grep x": True,
        "git grep --cached x": False,
        "git grep -e x -e -- [-]O*/*": True,
        "sort f": True,
        "sort f f": False,
        "sort -T -- [-]-c*/* f": True,
        "sort -T -- [-]o* f": True,
        "rg x": True,
        "rg -e -- [-]-p*/*": True,
    }
    evil = "#!/bin/sh\necho x > ran\necho x > .git/hooks/pre-commit\ntouch ../outside\n"
    folders = ("-O.", "--compress-program=.", "--pre=.")
    files = {
        "evil.sh": evil,
        "f": "x\n",
        "-of": "",
        **{f"{folder}/evil.sh": evil for folder in folders},
    }
    async with stage(tmp_path, *shell(*lines), files=files) as it:
        subprocess.run(["git", "init", "-q"], cwd=it.folder, check=True)
        subprocess.run(["git", "add", "f"], cwd=it.folder, check=True)
        (it.folder / "evil.sh").chmod(0o755)
        once = [line for line in lines if line == "echo 1" or "[" in line]
        it.agent.permission_answer = lambda _: (
            "allow_once" if asked(it)[-1] in once else "allow_always"
        )
        await it.prompt()
        assert asked(it) == [line for line, is_asked in lines.items() if is_asked]
        assert (it.folder / "ran").exists()  # in the sandbox
        assert not (it.folder / ".git" / "hooks" / "pre-commit").exists()
        assert not (tmp_path / "outside").exists()
