"""The agent's own installation, wherever it lies, is closed to the commands and the
edits of the model.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_agent import module_path
from acp_agent.sandbox import installation
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.installation import (
    installed_in,
    is_installed,
    unshare_installation,
)
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.sandbox import Sandbox
from support.memory import stage
from support.replies import Reply, ToolCall

SITE = "lib/python3.11/site-packages"


@pytest.fixture(autouse=True)
def forget() -> None:
    for each in (installation._places, unshare_installation):
        each.cache_clear()


@pytest.fixture
def environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Makes a virtual environment at a path below the test's folder, of which the agent
    seems to run.
    """
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "argv", ["acp-agent"])

    def make(place: str) -> Path:
        folder = tmp_path.resolve() / place
        package = folder / SITE / "acp_agent"
        package.mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
        for file in (
            package / "__init__.py",
            folder / SITE / "anyio.py",
            folder / "bin" / "acp-agent",
        ):
            file.write_text("own = True\n")
        for name in ("prefix", "exec_prefix"):
            monkeypatch.setattr(sys, name, str(folder))
        monkeypatch.setattr(sys, "path", [*sys.path, str(folder / SITE)])
        monkeypatch.setattr(installation, "_PACKAGE", str(package))
        installation._places.cache_clear()
        return folder

    return make


ATTACKS = (
    "echo evil > {package}/__init__.py",
    "echo evil > {site}/json.py",
    "echo 'import evil' > {site}/evil.pth",
    "mkdir {site}/evil.dist-info",
    "echo evil > {prefix}/bin/acp-agent",
    "echo 'home = /evil' > {prefix}/pyvenv.cfg",
    "rm -rf {prefix}/lib",
    "mv {prefix} {prefix}.old && mkdir -p {package} && echo evil > {package}/__init__.py",
    "mv {parent} {parent}.old && mkdir -p {package} && echo evil > {package}/__init__.py",
    "ln {package}/__init__.py {root}/other && echo evil > {root}/other",
    "echo evil > {root}/linked.py",
)


@pytest.mark.process
@pytest.mark.skipif(bool(fault()), reason="no sandbox here")
@pytest.mark.parametrize(
    "place",
    ["project/.venv", "project", "home/.cache/uv/archive-v0/x", "project/tools/env"],
)
def test_no_command_changes_the_agent_s_own_installation(
    environment: Callable[[str], Path], tmp_path: Path, place: str
) -> None:
    root = tmp_path.resolve() / "project"
    root.mkdir(exist_ok=True)
    prefix = environment(place)
    package = prefix / SITE / "acp_agent"
    # As uv does: the same file in an environment of the project's.
    (root / "linked.py").hardlink_to(package / "__init__.py")
    files = [
        SITE + "/acp_agent/__init__.py",
        SITE + "/anyio.py",
        "bin/acp-agent",
        "pyvenv.cfg",
    ]
    before = [(prefix / name).read_text() for name in files]
    sandbox, why = Sandbox((root,), ()).usable()
    assert sandbox is not None, why
    names = {
        "package": package,
        "site": prefix / SITE,
        "prefix": prefix,
        "parent": prefix.parent,
        "root": root,
    }
    lines = [f"({line.format_map(names)}) 2> /dev/null" for line in ATTACKS]
    with sandbox.wrap(
        ("/bin/sh", "-c", f"touch {root}/ran; {'; '.join(lines)}"), root, network=False
    ) as (_, words):
        subprocess.run(words, check=False)
    assert (root / "ran").exists()
    assert [(prefix / name).read_text() for name in files] == before
    assert {file.name for file in (prefix / SITE).iterdir()} == {
        "acp_agent",
        "anyio.py",
    }


@pytest.mark.process
@pytest.mark.skipif(bool(fault()), reason="no sandbox here")
def test_where_the_agent_runs_from_uv_s_cache_commands_have_another_that_they_can_write(
    environment: Callable[[str], Path], tmp_path: Path
) -> None:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    environment("home/.cache/uv/archive-v0/x")
    sandbox, _ = Sandbox((root,), ()).usable()
    assert sandbox is not None
    line = 'mkdir -p "$UV_CACHE_DIR/a" && mv "$UV_CACHE_DIR/a" "$UV_CACHE_DIR/b" && echo "$UV_CACHE_DIR"'
    with sandbox.wrap(("/bin/sh", "-c", line), root, network=False) as (_, words):
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.stdout.strip() == f"{tmp_path.resolve()}/home/.cache/uv-of-commands"


def test_an_ordinary_project_s_environment_stays_open(
    environment: Callable[[str], Path], tmp_path: Path
) -> None:
    environment("home/.local/pipx/venvs/acp-agent")
    root = tmp_path.resolve() / "project"
    (root / ".venv" / SITE).mkdir(parents=True)
    assert installed_in((root, root.parent / "home" / ".cache")) == ()
    assert not is_installed(root / ".venv" / SITE / "x.py")


def test_an_editable_installation_closes_the_package_and_leaves_the_rest_of_its_checkout_open(
    environment: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = environment("env")
    root = tmp_path.resolve() / "checkout"
    (root / "acp_agent").mkdir(parents=True)
    monkeypatch.setattr(installation, "_PACKAGE", str(root / "acp_agent"))
    installation._places.cache_clear()
    assert installed_in((root,)) == (root / "acp_agent",)
    assert is_installed(prefix / "lib" / "x.py")
    assert not is_installed(root / "tests" / "x.py")


def test_an_environment_that_is_reached_by_a_link_in_the_project_leaves_no_sandbox(
    environment: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = environment("elsewhere")
    root = tmp_path.resolve() / "project"
    root.mkdir()
    (root / ".venv").symlink_to(prefix)
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    installation._places.cache_clear()
    assert Policy.of((root,), (), (), ()).unprotectable == root / ".venv"


def test_a_project_inside_of_an_environment_s_folder_is_edited_freely(
    environment: Callable[[str], Path],
) -> None:
    prefix = environment("env")
    (prefix / "src" / "project").mkdir(parents=True)
    assert not is_installed(prefix / "src" / "project" / "x.py")
    assert installed_in((prefix / "src" / "project",)) == ()


def test_files_that_have_other_names_get_copies_of_their_own_with_the_same_content_and_times(
    environment: Callable[[str], Path], tmp_path: Path
) -> None:
    prefix = environment("env")
    file = prefix / SITE / "acp_agent" / "__init__.py"
    other = tmp_path / "other.py"
    os.utime(file, (1, 2))
    other.hardlink_to(file)
    file.chmod(0o755)
    assert unshare_installation() == ""
    other.write_text("evil")
    found = file.stat()
    assert (
        file.read_text(),
        found.st_mtime,
        found.st_mode & 0o777,
        found.st_nlink,
    ) == ("own = True\n", 2, 0o755, 1)
    assert [each.name for each in file.parent.iterdir()] == ["__init__.py"]


async def test_an_edit_of_the_agent_s_own_installation_is_asked_for(
    environment: Callable[[str], Path], tmp_path: Path
) -> None:
    package = environment("project/.venv") / SITE / "acp_agent"
    calls = [
        ToolCall("write", {"path": str(package / name), "content": "evil"})
        for name in ("__init__.py", "new.py")
    ]
    free = ToolCall("write", {"path": "free.txt", "content": "x"})
    async with stage(
        tmp_path, Reply(tool_calls=[*calls, free]), Reply("Done."), mode="accept-edits"
    ) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert len(it.agent.desk.permissions) == 2
        assert (package / "__init__.py").read_text() == "own = True\n"


@pytest.mark.process
def test_no_module_is_imported_from_the_directory_that_the_agent_is_started_in(
    tmp_path: Path,
) -> None:
    (tmp_path / "anyio.py").write_text("raise SystemExit('planted')")
    for words in (
        ("-m", "acp_agent"),
        (shutil.which("acp-agent", path=str(Path(sys.executable).parent)) or "",),
    ):
        if all(words):
            done = subprocess.run(
                (sys.executable, *words, "trust", "--list"),
                cwd=tmp_path, env={**os.environ, "ACP_AGENT_HOME": str(tmp_path / "home")},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
@pytest.mark.skipif(bool(fault()), reason="no sandbox here")
@pytest.mark.parametrize("place", ["home/.cache/pycache", "project/.pycache"])
def test_no_command_changes_the_bytecode_that_the_agent_loads(
    environment: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    root, prefix = tmp_path.resolve() / "project", tmp_path.resolve() / place
    root.mkdir()
    (tmp_path / "home" / ".cache").mkdir(parents=True, exist_ok=True)
    environment("agent")
    monkeypatch.setattr(sys, "pycache_prefix", str(prefix))
    planted = f"mkdir -p {prefix}/x; echo evil > {prefix}/x/errors.pyc; mv {prefix} {prefix}.old; mkdir -p {prefix}"
    told = subprocess.run(
        ["python3", "-c", "import sys; print(sys.pycache_prefix)"],
        env={**os.environ, **installation.variables_of_commands()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == f"{prefix}-of-commands"
    with Sandbox((root,), (tmp_path / "state",)).wrap(
        ("sh", "-c", planted), root, network=False
    ) as (_, words):
        subprocess.run(words, capture_output=True, check=False)
    assert prefix.is_dir()
    assert not list(prefix.iterdir())


@pytest.mark.process
@pytest.mark.skipif(bool(fault()), reason="no sandbox here")
@pytest.mark.parametrize(
    "name",
    [
        "sitecustomize.py",
        "usercustomize/__init__.py",
        "enum.py",
        "re.abi3.so",
        "acp_agent.py",
    ],
)
def test_what_python_would_import_from_pythonpath_when_the_agent_starts_is_renamed(
    environment: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    root = tmp_path.resolve() / "project"
    (root / "src").mkdir(parents=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    environment("agent")
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere:{root}/src")
    monkeypatch.setattr(
        module_path,
        "startup_names",
        ("acp_agent", "enum", "re", "sitecustomize", "usercustomize"),
    )
    made = f"mkdir -p src/shop src/{Path(name).parent}; echo evil > src/{name}; touch src/shop/enum.py src/a.py"
    blocked: list[str] = []
    sandbox = Sandbox((root,), (tmp_path / "state",))
    with sandbox.wrap(("sh", "-c", made), root, network=False, blocked=blocked) as (
        _,
        words,
    ):
        subprocess.run(words, capture_output=True, check=True)
    assert not (root / "src" / name).exists()
    assert (root / "src" / "shop" / "enum.py").exists()
    assert (root / "src" / "a.py").exists()
    assert name in str(blocked)
