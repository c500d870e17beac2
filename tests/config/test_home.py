"""Where the state is kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from acp_agent.config import ensure_private_dir, home_dir, project_dir
from acp_agent.errors import ConfigError

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/ada"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": "relative"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": ""},
        {"HOME": ""},
        {"HOME": "relative"},
        {},
    ],
)
def test_the_default_home_is_the_one_that_platformdirs_names(env: dict[str, str]) -> None:
    code = "import platformdirs; print(platformdirs.user_data_dir('acp-agent'))"
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=30)
    assert str(home_dir(env)) == told.stdout.strip()


def test_acp_agent_home_wins_over_the_default() -> None:
    assert home_dir({"HOME": "/home/ada", "XDG_DATA_HOME": "/data", "ACP_AGENT_HOME": "/state"}) == Path("/state")


def test_a_tilde_in_acp_agent_home_is_the_users_home() -> None:
    assert home_dir({"HOME": "/home/ada", "ACP_AGENT_HOME": "~/agent"}) == Path("/home/ada/agent")


def test_an_empty_acp_agent_home_counts_as_not_set() -> None:
    assert home_dir({"HOME": "/home/ada", "ACP_AGENT_HOME": ""}) == home_dir({"HOME": "/home/ada"})


def test_a_relative_acp_agent_home_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"ACP_AGENT_HOME: 'state' is not an absolute path"):
        home_dir({"HOME": "/home/ada", "ACP_AGENT_HOME": "state"})


def test_a_user_whom_no_database_knows_gets_a_folder_of_the_temporary_directory() -> None:
    # Everything is imported before the user changes: the checkout may be closed to that user.
    code = """if True:
        import os, pwd, tempfile
        from acp_agent.config import home_dir
        def nobody(user): raise KeyError(user)
        if os.geteuid() == 0:
            os.setuid(54321)
        else:  # only root can become a user without an entry
            pwd.getpwuid = nobody
        print(home_dir({}), home_dir({"TMPDIR": "/big"}))
    """
    user = 54321 if os.geteuid() == 0 else os.getuid()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.split() == [f"{tempfile.gettempdir()}/acp-agent-{user}", f"/big/acp-agent-{user}"]


def test_a_private_folder_is_made_with_its_parents_and_closed_to_others(tmp_path: Path) -> None:
    made = ensure_private_dir(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_an_open_folder_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ensure_private_dir(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_configuration_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("mode: plan\n")
    config.chmod(0o644)
    ensure_private_dir(tmp_path)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert config.read_text() == "mode: plan\n"


def test_what_a_configuration_links_to_is_left_alone_and_a_pipe_for_one_is_not_waited_for(tmp_path: Path) -> None:
    home, kept = tmp_path / "home", tmp_path / "dotfiles.yaml"
    kept.write_text("")
    kept.chmod(0o644)
    home.mkdir()
    (home / "config.yaml").symlink_to(kept)
    ensure_private_dir(home)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644
    (home / "config.yaml").unlink()
    os.mkfifo(home / "config.yaml")
    ensure_private_dir(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_configuration_of_somebody_else_keeps_its_mode(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("")
    config.chmod(0o644)
    os.chown(config, 54321, -1)
    ensure_private_dir(tmp_path)
    assert stat.S_IMODE(config.stat().st_mode) == 0o644


def test_a_shared_folder_of_the_system_is_refused_and_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(ConfigError, match=f"{shared}: this folder belongs to the whole system; set ACP_AGENT_HOME"):
        ensure_private_dir(shared)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_a_file_in_place_of_the_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(ConfigError, match=r"home: there is a file where a folder is needed; .*ACP_AGENT_HOME"):
        ensure_private_dir(tmp_path / "home")
    with pytest.raises(ConfigError, match=r"below: cannot use this folder \(Not a directory\); set ACP_AGENT_HOME"):
        ensure_private_dir(tmp_path / "home" / "below")


@needs_user
def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match=r"cannot use this folder \(Permission denied\); set ACP_AGENT_HOME"):
            ensure_private_dir(tmp_path / "below")
        with pytest.raises(ConfigError, match="this folder is not writable; set ACP_AGENT_HOME"):
            ensure_private_dir(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_the_projects_folder_is_the_nearest_one_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    below = repository / "src" / "deep"
    below.mkdir(parents=True)
    (repository / ".git").mkdir()
    (tmp_path / ".acp-agent").mkdir()
    assert project_dir(below) is None, "what is above the repository is not the project's"
    (repository / ".acp-agent").mkdir()
    assert project_dir(below) == repository / ".acp-agent"
    (repository / "src" / ".acp-agent").mkdir()
    assert project_dir(below) == repository / "src" / ".acp-agent"


def test_outside_of_a_repository_only_the_working_directory_counts(tmp_path: Path) -> None:
    (tmp_path / ".acp-agent").mkdir()
    (tmp_path / "below").mkdir()
    assert project_dir(tmp_path / "below") is None
    assert project_dir(tmp_path) == tmp_path / ".acp-agent"
