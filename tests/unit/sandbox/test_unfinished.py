"""What a command has made whose agent was killed is found by the next agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.processes import environment_without
from acp_agent.sandbox.baseline import Baseline, Survey
from acp_agent.sandbox.blocked import GuardedFolder
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.placeholders import is_mounted_elsewhere
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.sandbox.tips import Tips
from acp_agent.sandbox.unfinished import left_behind, recorded, tips_known
from support.keeper import Kept

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
AGENT = """
import subprocess, sys
from pathlib import Path
from acp_agent.sandbox.sandbox import Sandbox
root, home, line = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
with Sandbox((root,), (home,)).wrap(("bash", "-c", line), root, network=False) as (_, words):
    subprocess.run(words, cwd=root)
"""
IDENTITY = "-c user.name=n -c user.email=n@example.org"
PLANT = f"""
touch ready; until [ -e go ]; do sleep 0.02; done
mkdir .cursor .direnv; echo evil > .cursor/mcp.json
echo evil > .direnv/x.rc; echo evil > mise.ci.toml
git init -q sub; git -C sub config core.fsmonitor 'touch {{ran}};:'
mkdir -p .git/rebase-merge; echo 'exec touch {{ran}}' > .git/rebase-merge/git-rebase-todo
git {IDENTITY} commit -q --allow-empty -m evil; touch planted; sleep 60
"""


def wait(until: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end
        os.sched_yield()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def killed(root: Path, home: Path) -> None:
    """Kill an agent that has no time to look at what its command plants."""
    line = PLANT.format(ran=root / "ran")
    env = environment_without(())
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(root), str(home), line], env=env, cwd="/"
    )
    wait((root / "ready").exists)
    agent.send_signal(signal.SIGSTOP)
    (root / "go").touch()
    wait((root / "planted").exists)
    agent.kill()
    agent.wait()
    # Bwrap ends with the agent, a moment later.
    wait(lambda: not is_mounted_elsewhere(root))


@pytest.mark.process
@needs_bubblewrap
def test_what_a_command_of_a_killed_agent_has_made_is_made_harmless_by_the_next_agent(
    root: Path,
) -> None:
    home = root.parent / "home"
    keeper = Kept()
    killed(root, home)
    assert (root / ".cursor").exists()
    Sandbox((root.parent / "another",), (home,), keeper=keeper).settle_unfinished()
    assert sorted(keeper.blocked) == [
        ".cursor → .cursor.blocked",
        ".direnv/x.rc → .direnv/x.rc.blocked",
        "mise.ci.toml → mise.ci.toml.blocked",
        "rebase-merge → rebase-merge.blocked",
    ]
    assert [(each.mark, bool(each.done)) for each in keeper.planted] == [
        (root / "sub" / ".git", True)
    ]
    for folder in (root, root / "sub"):
        subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
        subprocess.run(
            ["git", "rebase", "--continue"],
            cwd=folder,
            capture_output=True,
            check=False,
        )
    assert not (root / "ran").exists()
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"command {commit}" in next((home / "tips").iterdir()).read_text()
    assert [*(home / "running").iterdir()] == []


@pytest.mark.process
@needs_bubblewrap
def test_what_the_user_has_made_since_the_agent_was_killed_stays(root: Path) -> None:
    home = root.parent / "home"
    keeper = Kept()
    killed(root, home)
    [record] = (home / "running").iterdir()
    last = (root / "planted").lstat().st_ctime_ns + 10_000_000
    os.utime(record, ns=(last - 2_000_000_000, last - 2_000_000_000))
    wait(lambda: time.time_ns() > last + 50_000_000)
    (root / ".mcp.json").write_text("mine")
    subprocess.run(["git", "init", "-q", "mine"], cwd=root, check=True)
    subprocess.run(
        ["git", "-C", "mine", "config", "alias.st", "status"], cwd=root, check=True
    )
    (root / ".cursor" / "mine.json").write_text("mine")
    with Sandbox((root,), (home,), keeper=keeper).wrap(
        ("true",), root, network=False
    ) as (_, words):
        subprocess.run(words, cwd=root, check=False)
    assert sorted(keeper.blocked) == [
        ".cursor → .cursor.blocked",
        ".direnv/x.rc → .direnv/x.rc.blocked",
        "mise.ci.toml → mise.ci.toml.blocked",
        "rebase-merge → rebase-merge.blocked",
    ]
    assert (root / ".mcp.json").exists()
    assert (root / ".cursor.blocked" / "mine.json").exists()
    assert "alias" in (root / "mine" / ".git" / "config").read_text()


@pytest.mark.process
@needs_bubblewrap
def test_what_a_command_in_an_editor_s_terminal_made_after_its_agent_was_killed_is_found_too(
    root: Path,
) -> None:
    home = root.parent / "home"
    keeper = Kept()
    with Sandbox((root,), (home,)).wrap(
        ("true",), root, network=False, ends_with_agent=False
    ):
        [record] = (home / "running").iterdir()
        kept = record.read_bytes()
    left = home / "running" / "left.json"
    left.write_bytes(kept)
    os.utime(left, ns=(0, 0))
    (root / ".cursor").write_text("evil")
    Sandbox((root,), (home,), keeper=keeper).settle_unfinished()
    assert keeper.blocked == [".cursor → .cursor.blocked"]


@pytest.mark.process
@needs_bubblewrap
def test_a_command_whose_agent_lives_is_left_alone(root: Path) -> None:
    home = root.parent / "home"
    keeper = Kept()
    with Sandbox((root,), (home,)).wrap(("true",), root, network=False):
        assert [*left_behind(home / "running")] == []
        (root / ".cursor").mkdir()
        Sandbox((root,), (home,), keeper=keeper).settle_unfinished()
    assert keeper.blocked == []
    assert [*(home / "running").iterdir()] == []


@pytest.mark.process
@needs_bubblewrap
def test_a_command_that_outlives_its_agent_is_looked_for_until_it_has_ended(
    root: Path,
) -> None:
    home = root.parent / "home"
    keeper = Kept()
    command = ("sh", "-c", "touch started; exec sleep 60")
    with Sandbox((root,), (home,)).wrap(command, root, network=False) as (_, words):
        [record] = (home / "running").iterdir()
        kept = record.read_bytes()
        process = subprocess.Popen(words, cwd=root)
        wait((root / "started").exists)
    left = home / "running" / "left.json"
    left.write_bytes(kept)
    sandbox = Sandbox((root,), (home,), keeper=keeper)
    (root / ".gemini").write_text("evil")
    sandbox.settle_unfinished()
    assert keeper.blocked == [".gemini → .gemini.blocked"]
    (root / ".cursor").write_text("evil")
    process.kill()
    process.wait()
    wait(lambda: [sandbox.settle_unfinished(), not left.exists()][1])
    assert keeper.blocked[1:] == [".cursor → .cursor.blocked"]


NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda name: name not in ".."
)
PATHS = st.builds(
    lambda names: Path("/", *names), st.lists(NAMES, min_size=1, max_size=3)
)
PARTS = st.lists(NAMES, min_size=1, max_size=2).map(tuple)
REPOSITORIES = st.builds(Repository, PATHS, PATHS, PATHS)
COMMITS = st.text("0123456789abcdef")
TIPS = st.lists(
    st.builds(
        Tips,
        REPOSITORIES,
        st.dictionaries(COMMITS, NAMES, max_size=3),
        st.frozensets(COMMITS, max_size=2),
        st.frozensets(NAMES, max_size=2),
        st.frozensets(st.tuples(COMMITS, COMMITS), max_size=2),
    ),
    max_size=2,
).map(tuple)


@given(
    st.builds(
        Baseline,
        st.lists(PATHS, max_size=2).map(tuple),
        st.lists(PATHS, max_size=2).map(tuple),
        st.builds(
            Survey,
            st.dictionaries(PATHS, st.integers(0), max_size=3),
            st.frozensets(PATHS, max_size=2),
            st.booleans(),
            st.integers(0),
        ),
        st.frozensets(PATHS, max_size=2),
        st.lists(
            st.builds(
                GuardedFolder,
                PATHS,
                st.lists(PARTS, max_size=2).map(tuple),
                st.dictionaries(PARTS, st.text(), max_size=2),
            ),
            max_size=2,
        ).map(tuple),
        st.dictionaries(
            PATHS,
            st.frozensets(st.tuples(PARTS, st.binary(max_size=20)), max_size=2),
            max_size=2,
        ),
        TIPS,
        TIPS,
        st.booleans(),
        st.booleans(),
    )
)
def test_what_is_kept_on_the_disk_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, baseline: Baseline
) -> None:
    folder = tmp_path_factory.getbasetemp() / "records"
    with recorded(folder, baseline):
        [record] = folder.iterdir()
        for tips in (*baseline.tips, *baseline.nested):
            assert tips.commits.keys() in tips_known(folder)[tips.repository.common]
        (folder / "left.json").write_bytes(record.read_bytes())
    assert [each.baseline for each in left_behind(folder)] == [baseline]
    (folder / "left.json").write_text("{")
    assert [*left_behind(folder)] == []
    assert [*folder.iterdir()] == []
