"""Guarded paths that git checks out of the user's own commits stay; what a command
makes of them does not.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.processes import environment_without
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.tools.files.local import LocalFiles
from support.guarded_project import COMMIT, FILES, NAMES, PLANT, Project

pytestmark = [
    pytest.mark.skipif(bool(fault()), reason="no bubblewrap"),
    pytest.mark.process,
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


@pytest.mark.parametrize(
    "line",
    [
        "git switch -q feat",
        "git checkout -q feat && sleep 0.5",
        "git merge -q --no-ff -m merged feat",
        "git checkout -q --detach feat",
        "git reset -q --hard feat",
        "git cherry-pick feat",
        "git rebase -q feat",
        "git checkout feat -- .",
        "git pack-refs --all && git repack -adq && git switch -q feat",
    ],
)
def test_what_git_checks_out_of_a_branch_stays_and_the_work_tree_is_clean(
    project: Project, line: str
) -> None:
    assert project.run(line) == []
    for name, text in FILES.items():
        assert (project.root / name).read_text() == text
    assert project.git("status", "--porcelain", "-unormal").replace(
        "A  ", ""
    ).split() in ([], sorted(FILES))
    assert sorted(project.keeper.kept) == sorted(
        {Path(name).parts[0] for name in FILES}
    )
    assert project.run("true") == []


def test_a_stash_with_guarded_files_comes_back(project: Project) -> None:
    project.git("switch", "-q", "feat")
    project.git("rm", "-rq", "--cached", ".cursor")
    project.git("commit", "-qm", "no cursor")
    project.git("stash", "-uq")
    assert not (project.root / ".cursor").exists()
    assert project.run("git stash pop -q") == []
    assert (project.root / ".cursor/rules/a.mdc").exists()


def test_branches_of_a_remote_tags_and_work_trees_count_like_branches(
    project: Project, tmp_path: Path
) -> None:
    for number, ref in enumerate(("refs/remotes/origin/feat", "refs/tags/v1")):
        project.git("update-ref", ref, "feat")
        tree = tmp_path.resolve() / f"tree{number}"
        project.git("worktree", "add", "-q", "-b", f"b{number}", str(tree), "main")
        assert project.run(f"git checkout -q --detach {ref}", tree) == []
        assert (tree / ".husky/pre-commit").exists()
    project.git("tag", "-am", "annotated", "v2", "feat")
    project.git("branch", "-D", "feat")
    for ref in ("refs/remotes/origin/feat", "refs/tags/v1"):
        project.git("update-ref", "-d", ref)
    assert project.run("git checkout -q v2") == []


def test_executables_links_and_line_ends_are_compared_as_git_has_them(
    project: Project,
) -> None:
    project.git("switch", "-q", "feat")
    (project.root / ".husky/pre-commit").chmod(0o755)
    (project.root / ".agents").mkdir()
    (project.root / ".agents/skills").symlink_to("../.cursor/rules")
    (project.root / ".gitattributes").write_text("*.bat text eol=crlf\n")
    (project.root / ".devcontainer/a.bat").write_bytes(b"one\r\ntwo\r\n")
    project.git("add", "-f", ".")
    project.git("commit", "-qm", "more")
    project.git("switch", "-q", "main")
    assert project.run("git switch -q feat") == []
    assert (project.root / ".devcontainer/a.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert (project.root / ".agents/skills/a.mdc").exists()


ATTACKS = {
    "a commit of its own": f"git switch -qc evil && {COMMIT} && git switch -q main && git switch -q evil",
    "a commit on a branch of the user's": f"git switch -q feat && {COMMIT}; git switch -q main; git switch -q feat",
    "a commit that an older branch is moved to": f"git switch -qc x; {COMMIT}; git branch -f feat; git switch -q main; "
    "git switch -q feat",
    "a changed file": "git switch -q feat && git show feat:.mcp.json; echo evil > .cursor/mcp.json",
    "a file in a folder of another commit": "git switch -q feat && echo evil > .cursor/mcp.json && sleep 0.5",
    "a filter": "git switch -q feat; printf '.mcp.json filter=x' > .gitattributes; rm .mcp.json; "
    "mkdir -p .cursor; git -c filter.x.smudge='echo evil' checkout .mcp.json; mv .mcp.json .cursor/mcp.json",
    "a link": "git switch -q feat; rm -rf .cursor; mkdir x; echo evil > x/mcp.json; ln -s x .cursor",
    "a replaced object": "o=$(echo evil | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tmcp.json\\n' $o | "
    "git mktree); git replace $(git rev-parse feat:.cursor) $t; git checkout -q feat",
    "a forged object": "o=$(echo evil | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tmcp.json\\n' $o | "
    "git mktree); f=$(git rev-parse feat:.cursor); p=.git/objects; chmod -R u+w $p; "
    "cp -f $p/${t:0:2}/${t:2} $p/${f:0:2}/${f:2}; git checkout -q feat",
    "content of another path": "git show feat:.husky/pre-commit > x; mkdir .cursor; cp x .cursor/mcp.json",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_command_has_written_is_renamed_by_whatever_way_git_checks_it_out(
    project: Project, name: str
) -> None:
    blocked = project.run(ATTACKS[name])
    assert not (project.root / ".cursor/mcp.json").exists(), project.output
    assert any(".cursor" in line for line in blocked), project.output


@pytest.mark.parametrize(
    "first",
    [
        f"git switch -qc evil; {COMMIT}; git switch -q main",
        f"git switch -q --detach; {COMMIT}; git tag evil; git switch -q main",
        f"git switch -qc x; {COMMIT}; echo $(git rev-parse HEAD) > .git/refs/heads/evil; git switch -q main",
        f"git switch -qc x; {COMMIT}; git update-ref refs/remotes/origin/evil HEAD; git switch -q main",
        f"git clone -q . copy && cd copy && {COMMIT} && cd .. && git fetch -q ./copy HEAD:evil",
    ],
)
def test_a_commit_of_an_earlier_command_is_not_the_user_s(
    project: Project, first: str
) -> None:
    project.run(first)
    project.run("true")
    assert project.run("git checkout -q evil || git checkout -q origin/evil") != []
    assert not (project.root / ".cursor/mcp.json").exists()


NESTED = {
    "a branch": "cd inner && {0} && git branch evil && git reset -q --hard HEAD~",
    "a branch of a work tree": "git -C inner worktree add -q ../tree && cd tree && {0}",
    "a detached work tree": "git -C inner worktree add -q --detach ../tree && cd tree && {0}",
    "a stash": "cd inner && {0} && git stash store HEAD && git reset -q --hard HEAD~",
    "the log of the stash": "cd inner && {0} && h=$(git rev-parse HEAD) && git reset -q --hard HEAD~ && "
    'git stash store HEAD && sed -i "1i $h $h n <n@x> 1 +0000" .git/logs/refs/stash',
    "a repository that the command makes": "git init -q new && cd new && git commit -q --allow-empty -m x && {0}",
    "a clone": "git clone -q inner new && cd new && {0}",
    "a bare repository": "git clone -q --bare inner bare && git clone -q bare other && cd other && {0} && "
    "git push -q origin HEAD:evil && cd .. && git --git-dir bare worktree add -q --detach new HEAD",
}


@pytest.mark.parametrize("name", NESTED)
def test_a_commit_that_a_command_made_in_a_nested_repository_is_not_the_user_s_in_a_later_session_there(
    project: Project, name: str
) -> None:
    project.git("init", "-q", "inner")
    project.git("-C", "inner", "commit", "-q", "--allow-empty", "-m", "x")
    project.run(NESTED[name].format(f'{COMMIT} && git rev-parse HEAD > "$OLDPWD/evil"'))
    assert not {"error:", "fatal:"} & {*project.output.split()}, project.output
    commit = (project.root / "evil").read_text().strip()
    session = next(
        each for each in (project.root / "new", project.root / "inner") if each.exists()
    )
    assert project.run(f"git checkout -qf {commit}", session) == [
        ".cursor → .cursor.blocked"
    ], project.output
    assert not (session / ".cursor/mcp.json").exists()


def test_commits_that_the_user_made_in_a_nested_repository_are_the_user_s_in_a_later_session_there(
    project: Project,
) -> None:
    inner = project.root / "inner"
    project.git("clone", "-q", "--branch", "feat", ".", "inner")
    project.git("-C", "inner", "switch", "-q", "-c", "plain", "origin/main")
    project.run(
        "cd inner && git switch -q -c work && touch c && git add c && git commit -qm c && git switch -q plain"
    )
    assert project.run("git switch -q feat", inner) == []
    assert (inner / ".husky/pre-commit").exists()


def test_a_renamed_project_keeps_what_is_known_of_its_commits(project: Project) -> None:
    project.run(f"git switch -qc evil; {COMMIT}; git switch -q main")
    project.root = project.root.rename(project.root.with_name("renamed"))
    assert project.run("git switch -q evil") == [".cursor → .cursor.blocked"]


def test_a_commit_of_the_user_s_that_only_another_work_tree_has_checked_out_stays_the_user_s(
    project: Project, tmp_path: Path
) -> None:
    project.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"), "feat")
    project.git("branch", "-D", "feat")
    project.run("true")
    project.git(
        "branch",
        "again",
        project.git("-C", str(tmp_path / "tree"), "rev-parse", "HEAD").strip(),
    )
    assert project.run("git switch -q again") == []


def test_every_stash_of_the_user_s_comes_back(project: Project) -> None:
    project.git("switch", "-q", "feat")
    project.git("rm", "-rq", "--cached", ".cursor")
    project.git("commit", "-qm", "no cursor")
    project.git("stash", "-uq")
    (project.root / "a.txt").write_text("two\n")
    project.git("stash", "-q")
    assert project.run("git stash pop -q stash@{1}") == []
    assert (project.root / ".cursor/rules/a.mdc").exists()


def test_a_commit_of_a_command_counts_in_no_history_of_the_user_s(
    project: Project,
) -> None:
    project.run(
        f"git switch -qc evil; {COMMIT}; git rm -rqf .cursor; git commit -qm gone"
    )
    project.commit({"b.txt": "mine\n"})
    assert project.run("git checkout -q HEAD~2; git log --oneline") != []
    assert not (project.root / ".cursor/mcp.json").exists()


def test_a_commit_of_a_command_that_still_runs_is_not_the_user_s(
    project: Project,
) -> None:
    sandbox = Sandbox((project.root,), (project.home,), keeper=project.keeper)
    line = f"git switch -qc evil; {COMMIT}; git switch -q main"
    with sandbox.wrap(("bash", "-c", line), project.root, network=False) as (_, words):
        subprocess.run(
            words,
            cwd=project.root,
            env={**environment_without(()), **NAMES},
            check=False,
        )
        assert project.run("git checkout -q evil") != []
    assert not (project.root / ".cursor/mcp.json").exists()


@pytest.mark.parametrize(
    "ref", ["refs/remotes/origin/pr/1", "refs/pull/1/head", "FETCH_HEAD"]
)
def test_proposals_of_others_that_were_fetched_do_not_count(
    project: Project, ref: str
) -> None:
    project.git(
        "config",
        "--add",
        "remote.origin.fetch",
        "+refs/pull/*/head:refs/remotes/origin/pr/*",
    )
    commit = project.git("rev-parse", "feat").strip()
    project.git("branch", "-D", "feat")
    if ref == "FETCH_HEAD":
        (project.root / ".git/FETCH_HEAD").write_text(
            f"{commit}\t\tbranch 'feat' of elsewhere\n"
        )
    else:
        project.git("update-ref", ref, commit)
    assert len(project.run(f"git checkout -q {ref}")) == len(
        {Path(name).parts[0] for name in FILES}
    )
    assert not (project.root / ".husky").exists()


def test_a_file_beside_those_of_a_commit_is_moved_and_the_rest_stays(
    project: Project,
) -> None:
    line = "git switch -q feat && mkdir .husky/_ && echo evil > .husky/_/pre-commit && echo evil > .cursor/mcp.json"
    assert sorted(project.run(line)) == [
        ".cursor/mcp.json → .cursor.blocked/mcp.json",
        ".husky/_/pre-commit → .husky.blocked/_/pre-commit",
    ]
    assert (project.root / ".husky/pre-commit").exists()
    assert (project.root / ".cursor.blocked/mcp.json").read_text() == "evil\n"


@pytest.mark.parametrize(
    "line", ["chmod 555 .cursor", "chmod 555 .", "chmod 000 .", "chmod 111 .cursor"]
)
def test_what_a_command_has_written_is_renamed_also_in_folders_that_it_closes(
    project: Project, line: str
) -> None:
    project.run(f"git switch -q feat && echo evil > .cursor/mcp.json && {line}")
    assert not (project.root / ".cursor/mcp.json").exists()


def test_renamed_paths_are_not_committed_by_the_next_command_nor_the_same(
    project: Project,
) -> None:
    project.run(
        f"{PLANT}; until [ ! -e .cursor ]; do sleep 0.02; done; git add -A; git commit -qm all; git status -s"
    )
    project.run("touch b.txt; git add -A; git commit -qm more; git status --short")
    assert (project.root / ".cursor.blocked/mcp.json").exists()
    assert ".blocked" not in project.git("log", "--name-only", "--all")
    assert ".cursor.blocked" in project.git("status", "--short")


async def test_what_the_agent_s_own_tools_write_while_a_command_runs_stays(
    project: Project,
) -> None:
    path = project.root / ".cursor/rules/b.mdc"
    sandbox = Sandbox((project.root,), (project.home,), keeper=project.keeper)
    blocked: list[str] = []
    line = "until [ -e .cursor/rules/b.mdc ]; do sleep 0.02; done; sleep 0.3; echo evil > .cursor/mcp.json"
    with sandbox.wrap(
        ("bash", "-c", line), project.root, network=False, blocked=blocked
    ) as (_, words):
        command = subprocess.Popen(words, cwd=project.root)
        await LocalFiles().write_text(path, "mine\n")
        command.wait()
    assert blocked == [".cursor/mcp.json → .cursor.blocked/mcp.json"]
    assert path.read_text() == "mine\n"
    assert project.keeper.kept == []


async def test_what_a_command_makes_of_a_file_of_the_agent_s_does_not_stay(
    project: Project,
) -> None:
    path = project.root / ".mcp.json"
    sandbox = Sandbox((project.root,), (project.home,), keeper=project.keeper)
    line = "until [ -e .mcp.json ]; do sleep 0.02; done; echo evil > .mcp.json; cp .mcp.json .crush.json"
    with sandbox.wrap(("bash", "-c", line), project.root, network=False) as (_, words):
        command = subprocess.Popen(words, cwd=project.root)
        await LocalFiles().write_text(path, "mine\n")
        command.wait()
    assert sorted(project.keeper.blocked) == [
        ".crush.json → .crush.json.blocked",
        ".mcp.json → .mcp.json.blocked",
    ]
