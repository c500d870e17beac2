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


RUN_BY_COMMAND_LINES = {
    "behind an option with a value": "nice -n 10 scripts/fm",
    "behind a number": "timeout 5 scripts/fm",
    "behind an option of an interpreter": "bash -o pipefail scripts/fm",
    "behind the top in backquotes": "`git rev-parse --show-toplevel`/scripts/fm",
    "behind another command's output": "$(git rev-parse --show-cdup)scripts/fm",
    "in the second line": "true\\n scripts/fm",
    "behind a redirection": "2>/dev/null scripts/fm",
    "in a folder that is entered": "cd scripts && ./fm",
    "in a folder of a variable": "D=scripts; $D/fm",
    "as a script in a folder that is entered": "cd scripts; bash fm",
    "in a quoted line": "env -S 'bash scripts/fm'",
    "printed and piped": "cat scripts/fm | sh",
    "behind an unfinished quote": "it's; nice -n 1 scripts/fm",
}
RUN_BY_ALIASES = {
    "an option of git": "rebase --exec ./scripts/fm HEAD~1",
    "a joined option of git": "rebase --exec=scripts/fm HEAD~1",
    "a setting of git": "-c core.fsmonitor=scripts/fm status",
    "a setting of git in a shell": "!git -c core.fsmonitor=scripts/fm status",
}


@pytest.mark.parametrize("name", [*RUN_BY_COMMAND_LINES, *RUN_BY_ALIASES])
def test_a_program_in_a_setting_s_command_line_is_guarded_wherever_it_stands(
    home: Path, root: Path, name: str
) -> None:
    program = root / "scripts" / "fm"
    program.parent.mkdir()
    program.write_text("")
    assert not is_run_by_git(program, (root,))
    line = RUN_BY_COMMAND_LINES.get(name) or RUN_BY_ALIASES[name]
    setting = "core]\nfsmonitor" if name in RUN_BY_COMMAND_LINES else "alias]\nx"
    (root / ".git" / "config").write_text(f'[{setting} = "{line}"\n')
    assert is_run_by_git(program, (root,))
    assert program in Policy.of((root,), (), (), ()).run_elsewhere
    assert not is_run_by_git(root / "scripts" / "other", (root,))


def test_each_link_in_a_chain_of_links_to_a_hook_is_guarded(root: Path) -> None:
    for folder in ("hk", "scripts"):
        (root / folder).mkdir()
    (root / "scripts" / "pre-commit").write_text("")
    (root / "a").symlink_to("scripts/pre-commit")
    (root / "hk" / "pre-commit").symlink_to("../a")
    (root / ".git" / "config").write_text("[core]\nhooksPath = hk\n")
    run = Policy.of((root,), (), (), ()).run_elsewhere
    assert {root / "a", root / "scripts" / "pre-commit"} <= set(run)


@pytest.mark.parametrize(
    ("links", "named", "middle"),
    [
        ({"fm": "a", "a": "scripts/fm"}, "./fm", "a"),
        ({"hk/fm": "a", "hk/a": "../scripts/fm"}, "hk/fm", "hk/a"),
        ({"hk": "a", "a": "scripts"}, "hk/fm", "a/fm"),
    ],
)
def test_each_link_in_a_chain_of_links_to_a_program_is_guarded(
    root: Path, links: dict[str, str], named: str, middle: str
) -> None:
    (root / "scripts").mkdir()
    (root / "scripts" / "fm").write_text("")
    for name, target in links.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    (root / ".git" / "config").write_text(f"[core]\nfsmonitor = {named}\n")
    run = Policy.of((root,), (), (), ()).run_elsewhere
    assert {root / named, root / middle, root / "scripts" / "fm"} <= set(run)


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
