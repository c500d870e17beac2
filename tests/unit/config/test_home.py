"""The location of the agent's home, and its permissions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs
import pytest

from acp_agent.config import ensure_private_dir, home_dir, project_dir
from acp_agent.errors import ConfigError
from support.repo import make_git_directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/ada"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"},
        {"HOME": "/home/ada", "XDG_DATA_HOME": "relative"},
        {"HOME": ""},
        {},
    ],
)
def test_the_default_home_is_platformdirs_user_data_folder(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert str(home_dir(env)) == platformdirs.user_data_dir("acp-agent")


def test_the_variable_overrides_the_default_and_must_be_absolute() -> None:
    ada = {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}
    assert home_dir({**ada, "ACP_AGENT_HOME": "/state"}) == Path("/state")
    assert home_dir({**ada, "ACP_AGENT_HOME": "~/agent"}) == Path("/home/ada/agent")
    assert home_dir({**ada, "ACP_AGENT_HOME": ""}) == home_dir(ada)
    with pytest.raises(
        ConfigError, match=r"ACP_AGENT_HOME: 'state' is not an absolute path"
    ):
        home_dir({**ada, "ACP_AGENT_HOME": "state"})


def test_a_user_without_a_home_directory_must_set_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert home_dir({"ACP_AGENT_HOME": "/state"}) == Path("/state")
    with pytest.raises(
        ConfigError,
        match="ACP_AGENT_HOME: is required, since you have no home directory",
    ):
        home_dir({})


def test_a_home_is_created_with_its_parents_and_made_private(
    tmp_path: Path,
) -> None:
    made = ensure_private_dir(tmp_path / "a" / "b")
    assert mode(made) == 0o700
    made.chmod(0o755)
    config = made / "config.yaml"
    config.write_text("mode: plan\n")
    config.chmod(0o644)
    ensure_private_dir(made)
    assert (mode(made), mode(config), config.read_text()) == (
        0o700,
        0o600,
        "mode: plan\n",
    )


def test_the_target_of_a_linked_configuration_is_unchanged_and_a_pipe_does_not_block(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    kept = tmp_path / "dotfiles.yaml"
    kept.write_text("")
    kept.chmod(0o644)
    home.mkdir()
    (home / "config.yaml").symlink_to(kept)
    ensure_private_dir(home)
    assert mode(kept) == 0o644
    (home / "config.yaml").unlink()
    os.mkfifo(home / "config.yaml")
    ensure_private_dir(home)


def test_a_folder_that_cannot_be_a_home_is_an_error_and_stays_unchanged(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "tmp"
    file = tmp_path / "home"
    shared.mkdir()
    shared.chmod(0o1777)
    file.write_text("")
    with pytest.raises(
        ConfigError,
        match=f"{shared}: this folder belongs to the whole system; set ACP_AGENT_HOME",
    ):
        ensure_private_dir(shared)
    assert mode(shared) == 0o1777
    with pytest.raises(
        ConfigError,
        match=r"home: cannot use this folder \(File exists\); .*ACP_AGENT_HOME",
    ):
        ensure_private_dir(file)
    with pytest.raises(
        ConfigError,
        match=r"below: cannot use this folder \(Not a directory\); set ACP_AGENT_HOME",
    ):
        ensure_private_dir(file / "below")


def test_the_project_s_folder_is_the_nearest_one_up_to_the_repository_s_root(
    tmp_path: Path,
) -> None:
    repository = tmp_path / "repository"
    below = repository / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / ".acp-agent" / "hooks").mkdir(parents=True)
    assert (project_dir(repository), project_dir(tmp_path)) == (
        None,
        tmp_path / ".acp-agent",
    )
    make_git_directory(repository)
    assert project_dir(below) is None
    for folder in (repository, repository / "src"):
        (folder / ".acp-agent" / "hooks").mkdir(parents=True)
        assert project_dir(below) == folder / ".acp-agent"
