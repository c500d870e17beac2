"""Which programs the agent starts itself: none from a folder that a project, a command
or another user can write.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent import programs
from acp_agent.programs import (
    distrust,
    find_program,
    missing_program,
    own_environment,
    search_path,
    without_others,
)

AS_ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, and a process that knows of no project."""
    monkeypatch.setattr(programs, "_projects", set[str]())
    monkeypatch.setattr(programs, "_folders", set[str]())
    programs._is_own_group.cache_clear()
    folder = tmp_path.resolve() / "home"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


def plant(folder: Path, name: str = "tool") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def found(folder: Path | str) -> str | None:
    return find_program("tool", f"{folder}:/usr/bin")


def in_the_project(home: Path) -> Path:
    distrust((home / "project",))
    return plant(home / "project" / ".venv" / "bin").parent


def at_the_top_of_its_repository(home: Path) -> Path:
    (home / "project" / ".git").mkdir(parents=True)
    distrust((home / "project" / "packages" / "x",))
    return plant(home / "project" / "node_modules" / ".bin").parent


def of_a_repository_around_a_nested_one(home: Path) -> Path:
    (home / "project" / "sub" / ".git").mkdir(parents=True)
    (home / "project" / ".git").mkdir()
    distrust((home / "project" / "sub",))
    return plant(home / "project" / ".venv" / "bin").parent


def of_a_former_session(home: Path) -> Path:
    distrust(former=(str(home / "other"), "", "relative", "\0"))
    return plant(home / "other" / "bin").parent


def by_a_link_in_the_project(home: Path) -> Path:
    """It leads to a good folder when it is looked at, and may lead elsewhere a moment
    later.
    """
    distrust((home / "project",))
    plant(home / "good")
    (home / "project").mkdir()
    (home / "project" / "bin").symlink_to(home / "good")
    return home / "project" / "bin"


def by_a_link_to_the_project(home: Path) -> Path:
    folder = in_the_project(home)
    (home / "bin").symlink_to(folder)
    return home / "bin"


def where_a_project_is_reached_by_a_link(home: Path) -> Path:
    folder = plant(home / "project" / "bin").parent
    (home / "link").symlink_to(home / "project")
    distrust((home / "link",))
    return folder


def a_link_to_a_program_of_the_project(home: Path) -> Path:
    folder = in_the_project(home)
    (home / "bin").mkdir()
    (home / "bin" / "tool").symlink_to(folder / "tool")
    return home / "bin"


def in_a_cache(home: Path) -> Path:
    distrust(folders=(home / ".cache",))
    return plant(home / ".cache" / "uv" / "archive-v0" / "x" / "bin").parent


def where_everybody_writes(home: Path) -> Path:
    folder = plant(home / "bin").parent
    folder.chmod(0o1777)
    return folder


def below_what_everybody_writes(home: Path) -> Path:
    folder = plant(home / "shared" / "bin").parent
    folder.parent.chmod(0o777)
    return folder


def a_program_that_everybody_writes(home: Path) -> Path:
    program = plant(home / "bin")
    program.chmod(0o777)
    return program.parent


PLANTED = (
    in_the_project,
    at_the_top_of_its_repository,
    of_a_repository_around_a_nested_one,
    of_a_former_session,
    by_a_link_in_the_project,
    by_a_link_to_the_project,
    where_a_project_is_reached_by_a_link,
    a_link_to_a_program_of_the_project,
    in_a_cache,
    where_everybody_writes,
    below_what_everybody_writes,
    a_program_that_everybody_writes,
)


@pytest.mark.parametrize("place", PLANTED)
def test_a_program_that_others_could_have_planted_is_not_found(
    place: Callable[[Path], Path], home: Path
) -> None:
    folder = place(home)
    assert found(folder) is None
    assert "others can write there" in missing_program("tool", f"{folder}:/usr/bin")


@pytest.mark.skipif(not AS_ROOT, reason="only root gives files away")
def test_a_program_in_another_user_s_folder_or_its_group_s_is_not_found(
    home: Path,
) -> None:
    other = next(
        user for user in pwd.getpwall() if user.pw_uid not in programs._owners()
    )
    folder = plant(home / "bin").parent
    os.chown(folder, other.pw_uid, 0)
    assert found(folder) is None
    os.chown(folder, 0, other.pw_gid)
    assert found(folder) == str(folder / "tool")
    folder.chmod(0o775)
    assert found(folder) is None


def test_a_relative_folder_is_not_searched_and_a_relative_path_is_no_program(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(home / "bin")
    plant(home)
    monkeypatch.chdir(home)
    for path in ("bin", "", ".", ":/usr/bin", "/usr/bin:"):
        assert find_program("tool", path) is None
    for name in ("./tool", "bin/tool", "../home/tool", ""):
        assert find_program(name, str(home)) is None


def test_what_is_the_user_s_own_is_found(home: Path) -> None:
    distrust((home / "project",), (home / ".cache",))
    assert found(plant(home / ".local" / "bin").parent) == str(
        home / ".local" / "bin" / "tool"
    )
    assert found(plant(home / "project-tools" / "bin").parent) == str(
        home / "project-tools" / "bin" / "tool"
    )
    # A file that is named in full was chosen by the user, wherever it lies.
    named = str(plant(home / "project" / "bin"))
    assert find_program(named) == named


def test_a_folder_that_the_user_s_own_group_may_write_is_searched(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = grp.struct_group(("user", "x", 4242, [pwd.getpwuid(os.getuid()).pw_name]))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    folder = plant(home / "bin").parent
    if AS_ROOT:
        os.chown(folder, -1, 4242)
    folder.chmod(0o775)
    assert found(folder) == str(folder / "tool")


def test_a_session_in_the_home_leaves_the_user_s_hooks_and_servers_their_programs_and_git_none(
    home: Path,
) -> None:
    folder = plant(home / ".nvm" / "bin").parent
    (home / ".git").mkdir()
    distrust((home,))
    assert found(folder) is None
    assert find_program("tool", str(folder), holding_home=False) == str(folder / "tool")
    distrust((Path("/"),))
    assert find_program("sh") in ("/usr/bin/sh", "/bin/sh")


def test_a_new_project_counts_at_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plant(home / "project" / "bin").parent
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin")
    assert find_program("tool") == str(folder / "tool")
    distrust((home / "project",))
    assert find_program("tool") is None


def test_programs_for_the_agent_s_own_purposes_inherit_no_key_and_no_code(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distrust((home / "project",))
    for name in (
        "OPENAI_API_KEY",
        "MY_OWN_LLM",
        "LD_PRELOAD",
        "LD_AUDIT",
        "BASH_ENV",
        "PYTHONPATH",
        "NODE_OPTIONS",
    ):
        monkeypatch.setenv(name, "planted")
    (home / "lib").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{home}/project/lib:{home}/lib")
    monkeypatch.setenv("PATH", f"{home}/project/bin:/usr/bin")
    env = own_environment()
    assert "planted" not in env.values()
    assert (env["HOME"], env["PATH"], env["LD_LIBRARY_PATH"]) == (
        str(home),
        "/usr/bin",
        str(home / "lib"),
    )


def test_a_list_of_folders_that_holds_only_others_is_no_variable_at_all(
    home: Path,
) -> None:
    distrust((home,))
    env = {"PYTHONPATH": f":{home}/src", "PATH": f"{home}/bin", "OTHER": f":{home}"}
    assert without_others(env) == {"PATH": os.defpath, "OTHER": f":{home}"}


@given(
    st.lists(
        st.sampled_from(
            [
                "",
                ".",
                "bin",
                "/usr/bin",
                "/nowhere",
                "{}/project/bin",
                "{}/own",
                "/usr/../usr/bin",
            ]
        )
    )
)
def test_a_search_path_holds_absolute_real_folders_each_once_in_their_order(
    entries: list[str],
) -> None:
    home = Path(os.environ["HOME"])
    for folder in (home / "project" / "bin", home / "own"):
        folder.mkdir(parents=True, exist_ok=True)
    distrust((home / "project",))
    kept = search_path(os.pathsep.join(each.format(home) for each in entries)).split(
        os.pathsep
    )
    usable = [
        os.path.realpath(each.format(home))
        for each in entries
        if "/usr" in each or "own" in each
    ]
    assert kept == ([*dict.fromkeys(usable)] or [""])
