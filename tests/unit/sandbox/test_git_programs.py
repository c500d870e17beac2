"""Files of a project that git runs because the user's or another setting names them."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.sandbox import git_programs
from acp_agent.sandbox.git_programs import named_by_the_user, named_in_settings
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.run_by_git import is_run_by_git


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path.resolve() / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    return home


def repository(folder: Path) -> Path:
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / ".git" / "refs").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text("")
    return folder


@pytest.fixture
def root(home: Path) -> Path:
    return repository(home / "project")


PROGRAMS = {
    "a folder of hooks": ("[core]\nhooksPath = .githooks", ".githooks/pre-commit"),
    "in the home": ("[core]\nhooksPath = ~/project/g", "g/commit-msg"),
    "an included file": ("[include]\npath = project/team.conf", "team.conf"),
    "under a condition": ('[includeIf "gitdir:/x"]\npath = ~/project/y', "y"),
    "a file monitor": ("[core]\nfsmonitor = tools/monitor --all", "tools/monitor"),
    "an editor": ("[core]\neditor = \"'./my editor' -w\"", "my editor"),
    "a pager behind a pipe": ("[core]\npager = less | ./colour", "colour"),
    "a pager of one command": ("[pager]\nlog = ./colour", "colour"),
    "a program of ssh": ("[core]\nsshCommand = env A=b ./ssh -i key", "ssh"),
    "an editor of rebases": ("[sequence]\neditor = python3 tools/e.py", "tools/e.py"),
    "a script without slash": ("[sequence]\neditor = python3 -u e.py", "e.py"),
    "a signing program": ('[gpg "ssh"]\nprogram = tools/sign', "tools/sign"),
    "a diff driver": ('[diff "x"]\ntextconv = ./text', "text"),
    "a merge driver": ('[merge "x"]\ndriver = sh ./m.sh %O %A %B', "m.sh"),
    "a filter": ('[filter "x"]\nclean = tools/clean %f', "tools/clean"),
    "a helper": ('[credential "https://a.example"]\nhelper = !./keys', "keys"),
    "an alias": ('[alias]\nx = "!f() { ./x.sh $1; }; f"', "x.sh"),
    "a line of a shell": ("[alias]\nx = \"!sh -c 'cd x && ./run'\"", "run"),
    "the top": ('[alias]\nx = "!$(git rev-parse --show-toplevel)/run a"', "run"),
    "a template": ("[init]\ntemplateDir = ~/project/template", "template/hooks/x"),
    "attributes": ("[core]\nattributesFile = ~/project/attributes", "attributes"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_user_s_settings_name_in_a_project_is_run_by_git(
    home: Path, root: Path, name: str
) -> None:
    setting, path = PROGRAMS[name]
    assert not is_run_by_git(root / path, (root,))
    (home / ".gitconfig").write_text(setting)
    assert is_run_by_git(root / path, (root,))
    run = Policy.of((root,), (), (), ()).run_elsewhere
    assert any((root / path).is_relative_to(each) for each in run)
    (home / ".gitconfig").unlink()
    (root / ".git" / "config").write_text(setting.replace("project/team", "../team"))
    assert is_run_by_git(root / path, (root,))


HARMLESS = {
    "an alias of git": ("[alias]\nx = log src/main.py", "src/main.py"),
    "an argument": ('[alias]\nb = "!make -C build/out"', "build/out"),
    "a removed folder": ('[alias]\nb = "!rm -rf build/out"', "build/out"),
    "a name": ("[core]\neditor = vim", "vim"),
    "a truth value": ("[core]\nfsmonitor = true", "true"),
    "a template of messages": ("[commit]\ntemplate = ~/project/message", "message"),
    "a folder elsewhere": ("[core]\nhooksPath = ~/hooks", "hooks/pre-commit"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_the_user_s_settings_only_mention_is_an_ordinary_file(
    home: Path, root: Path, name: str
) -> None:
    setting, path = HARMLESS[name]
    (home / ".gitconfig").write_text(setting)
    assert not is_run_by_git(root / path, (root,))


def test_every_settings_file_of_the_user_counts_and_so_do_those_it_includes(
    home: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "global"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(home / "system"))
    for name in ("xdg/git/config", ".config/git/config", "global", "system"):
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("[include]\n\tpath = more\n")
        (file.parent / "more").write_text("[core]\n\thooksPath = .githooks\n")
        assert is_run_by_git(root / ".githooks" / "pre-push", (root,)), name
        (file.parent / "more").write_text("[include]\n\tpath = more\n")  # a circle
        assert not is_run_by_git(root / ".githooks" / "pre-push", (root,)), name


VARIABLES = {
    "a numbered setting": (
        {
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.name",
            "GIT_CONFIG_VALUE_0": "n",
            "GIT_CONFIG_KEY_1": "Core.HooksPath",
            "GIT_CONFIG_VALUE_1": ".githooks",
        },
        ".githooks/pre-commit",
    ),
    "a numbered setting with a name of its own": (
        {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "filter.a.b=c.clean",
            "GIT_CONFIG_VALUE_0": "tools/clean %f",
        },
        "tools/clean",
    ),
    "an included file": (
        {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "include.path",
            "GIT_CONFIG_VALUE_0": "~/project/settings",
        },
        "settings",
    ),
    "a parameter": (
        {"GIT_CONFIG_PARAMETERS": "'core.fsmonitor=tools/monitor'"},
        "tools/monitor",
    ),
    "a parameter in two parts": (
        {"GIT_CONFIG_PARAMETERS": "'user.name'='n' 'filter.a=b.clean'='./c'"},
        "c",
    ),
    "a file": ({"GIT_CONFIG_GLOBAL": "{root}/settings"}, "settings"),
    "a relative file": ({"GIT_CONFIG_GLOBAL": "settings"}, "settings"),
    "a relative folder": ({"XDG_CONFIG_HOME": ".config"}, ".config/git/config"),
    "an editor": ({"GIT_EDITOR": "./edit -w"}, "edit"),
    "a pager": ({"PAGER": "less | tools/colour"}, "tools/colour"),
    "a program for ssh": ({"GIT_SSH": "tools/ssh"}, "tools/ssh"),
    "git's own programs": ({"GIT_EXEC_PATH": "{root}/libexec"}, "libexec/git-x"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_what_variables_of_git_name_in_a_project_is_run_by_git(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    variables, path = VARIABLES[name]
    assert not is_run_by_git(root / path, (root,))
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value.format(root=root))
    assert is_run_by_git(root / path, (root,))
    run = Policy.of((root,), (), (), ()).run_elsewhere
    assert any((root / path).is_relative_to(each) for each in run)


@pytest.mark.parametrize(
    "parameters", ["'", "'core.editor", "=", "'a'='b", "x=y=z ='core.hooksPath=a"]
)
def test_variables_that_git_refuses_name_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, parameters: str
) -> None:
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", parameters)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "many")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "a")
    assert not is_run_by_git(root / "a" / "pre-commit", (root,))


def test_the_user_s_settings_in_a_project_that_the_home_links_to_are_obeyed(
    home: Path, root: Path
) -> None:
    (root / "gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    assert not is_run_by_git(root / "gitconfig", (root,))
    (home / ".gitconfig").symlink_to("project/gitconfig")
    assert is_run_by_git(root / "gitconfig", (root,))
    assert root / "gitconfig" in Policy.of((root,), (), (), ()).run_elsewhere


def test_a_relative_folder_of_hooks_is_in_the_git_directory_for_a_push(
    home: Path, root: Path
) -> None:
    (home / ".gitconfig").write_text("[core]\n\thooksPath = team\n")
    hook = root / ".git" / "team" / "post-receive"
    assert hook in Policy.of((root,), (), (), ()).run_elsewhere


def test_a_file_that_a_repository_s_settings_include_names_programs_too(
    root: Path,
) -> None:
    (root / ".git" / "config").write_text("[include]\npath = ../team.conf\n")
    (root / "team.conf").write_text("[core]\nhooksPath = team/hooks\n")
    assert is_run_by_git(root / "team" / "hooks" / "pre-commit", (root,))


@pytest.mark.process
def test_a_relative_folder_of_hooks_belongs_to_each_repository(
    home: Path, root: Path
) -> None:
    nested = root / "nested"
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    (home / ".gitconfig").write_text("[core]\nhooksPath = .githooks\n")
    (nested / ".git" / "config").write_text("[core]\neditor = tools/edit\n")
    policy = Policy.of((root,), (), (), (), nested=(nested / ".git",))
    for path in (nested / ".githooks" / "pre-commit", nested / "tools" / "edit"):
        assert is_run_by_git(path, (root,))
        assert path in policy.run_elsewhere
    inner = root / "src"
    inner.mkdir()
    assert not is_run_by_git(inner / ".githooks" / "pre-commit", (inner,))
    assert root / ".githooks" / "pre-commit" in set(named_by_the_user(inner))


@given(
    path=st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1),
    before=st.sampled_from(["", "env A=b ", "true && ", "sh ", "exec nice "]),
)
@example(path="sh", before="")
@example(path=".", before="")
def test_a_quoted_program_is_found_whatever_its_name(path: str, before: str) -> None:
    program = f"./{path}"
    line = f"{before}{shlex.quote(program)} argument"
    found = list(git_programs._programs_in(line))  # pyright: ignore[reportPrivateUsage]
    if "$" not in path:
        # A word after an interpreter may be its script.
        assert found in ([program], [program, "argument"])


@given(
    config=st.binary() | st.text().map(lambda text: f"[alias]\nx = !{text}".encode())
)
def test_no_settings_stop_the_search(
    config: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "config").write_bytes(config)
    assert all(path.is_absolute() for path in named_in_settings(folder, folder))
