"""What a command stages at guarded paths gets into no commit of the user's; all else
stays staged.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.processes import environment_without
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.index_file import lines_of, read_index
from support.guarded_project import COMMIT, FILES, NAMES, Project

pytestmark = [
    pytest.mark.skipif(bool(fault()), reason="no bubblewrap"),
    pytest.mark.process,
]

BLOB = "$(echo evil | git hash-object -w --stdin)"
STAGE = f"git update-index --add --cacheinfo 100644,{BLOB},.cursor/mcp.json"
TREE = (
    f"t=$(printf '100644 blob %s\\tmcp.json\\n' {BLOB} | git mktree); "
    "t=$((git ls-tree $(git write-tree); printf '040000 tree %s\\t.cursor\\n' $t) | git mktree)"
)
STAGED = {
    "a blob": STAGE,
    "a program": STAGE.replace("100644", "100755"),
    "a link": STAGE.replace("100644", "120000"),
    "a link instead of the folder": STAGE.replace("100644", "120000").replace(
        "/mcp.json", ""
    ),
    "in other letters": STAGE.replace(".cursor", ".Cursor"),
    "a file that is removed again": "mkdir .cursor; echo evil > .cursor/mcp.json; git add -f .cursor; rm -r .cursor",
    "a file that is renamed": "mkdir .cursor; echo evil > .cursor/mcp.json; git add -f .cursor",
    "a file to be added later": "mkdir .cursor; echo evil > .cursor/mcp.json; git add -fN .cursor; rm -r .cursor",
    "a tree": f"{TREE}; git read-tree $t",
    "a tree that is merged": f"{TREE}; git read-tree -m HEAD $t",
    "the commit of another branch": f"git switch -qc evil; {COMMIT}; git switch -q main; git read-tree evil",
    "a commit that is undone": f"{COMMIT}; git reset -q --soft HEAD~",
    "a merge that is not committed": f"git switch -qc evil; {COMMIT}; git switch -q main; touch b; git add b; "
    "git commit -qm b; git merge -q --no-commit --no-ff evil",
    "a pick that is not committed": f"git switch -qc evil; {COMMIT}; git switch -q main; git cherry-pick -n evil",
    "hidden from the status": f"{STAGE}; git update-index --skip-worktree .cursor/mcp.json",
    "a compressed index": f"{STAGE}; git update-index --index-version 4",
    "a split index": f"{STAGE}; git update-index --split-index",
    "a change to a split index": f"git update-index --split-index; {STAGE}",
    "an index that nobody may read": f"{STAGE}; chmod 0 .git/index",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def committed(project: Project, root: Path | None = None) -> list[str]:
    """Commit what is staged, and return the guarded paths in the commit."""
    root = root or project.root
    words = ("git", "commit", "-qm", "mine", "--allow-empty", "--no-verify")
    subprocess.run(
        words,
        cwd=root,
        env={**environment_without(()), **NAMES},
        capture_output=True,
        check=True,
    )
    return [
        each
        for each in project.git("-C", str(root), "ls-files").split()
        if each.startswith(".")
    ]


@pytest.mark.parametrize("name", STAGED)
def test_a_guarded_path_that_a_command_only_staged_is_not_in_the_user_s_next_commit(
    project: Project, name: str
) -> None:
    project.git("switch", "-qc", "work")
    (project.root / "mine").write_text("staged by the user")
    project.git("add", "mine")
    project.git("branch", "-f", "main")
    project.git("switch", "-q", "main")
    project.run(STAGED[name])
    assert committed(project) == [], project.output
    [text] = project.keeper.unstaged
    assert ".cursor" in text.lower()
    assert "mine" in project.git("ls-files").split()
    project.git("fsck", "--strict")
    project.keeper.unstaged.clear()
    project.run("git add -A; git status")
    assert project.keeper.unstaged == []


def test_a_changed_guarded_file_is_put_back_to_what_was_staged_before(
    project: Project,
) -> None:
    project.git("switch", "-q", "feat")
    path = project.root / ".husky/pre-commit"
    path.write_text("staged by the user\n")
    project.git("add", ".husky")
    path.write_text("not staged\n")
    line = STAGE.replace(".cursor/mcp.json", ".husky/pre-commit")
    project.run(f"{line}; {line.replace('.husky/pre-commit', '.mcp.json')}")
    assert len(project.keeper.unstaged) == 2
    assert project.git("show", ":.husky/pre-commit") == "staged by the user\n"
    assert project.git("show", ":.mcp.json") == FILES[".mcp.json"]
    assert project.git("diff", "--cached", "--name-only").split() == [
        ".husky/pre-commit"
    ]


ORDINARY = {
    "adding everything": "touch b; git add -A .; git commit -qm b",
    "a file of the user's that is not tracked": "git add .kiro && git commit -qm kiro",
    "announcing a file of the user's": "git add -N .kiro",
    "switching": "git switch -q main; git switch -q feat",
    "merging": "git switch -qC x main; git merge -q --no-ff -m merged feat",
    "merging without a commit": "git switch -qC x main; git merge -q --no-ff --no-commit feat",
    "picking": "git switch -qC x main; git cherry-pick -n feat",
    "rebasing": "git switch -qC x main; touch b; git add b; git commit -qm b; git rebase -q feat",
    "stashing": "echo x >> a.txt; git stash -q; git stash pop -q",
    "resetting": "git reset -q main; git reset -q feat",
    "removing": "git rm -q --cached .husky/pre-commit; git commit -qm removed",
    "a split index": "git update-index --split-index; touch b; git add b",
    "a commit of its own": f"git switch -q main; {COMMIT}",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_work_of_commands_with_guarded_files_of_the_user_s_stays_staged(
    project: Project, name: str
) -> None:
    project.git("switch", "-q", "feat")
    (project.root / ".kiro").mkdir()
    (project.root / ".kiro/x").write_text("mine")
    project.run(f"{ORDINARY[name]}; git ls-files --stage > listed")
    assert project.keeper.unstaged == []
    assert project.git("ls-files", "--stage") == (project.root / "listed").read_text()


def test_content_that_a_command_committed_is_not_the_user_s_by_a_commit_on_top(
    project: Project,
) -> None:
    project.run(f"{COMMIT}; git update-index --skip-worktree .cursor/mcp.json")
    project.commit({"b.txt": "mine"})
    project.run(
        "git update-index --no-skip-worktree .cursor/mcp.json; git checkout -q -- .cursor"
    )
    assert project.keeper.blocked == [".cursor → .cursor.blocked"]


def test_content_that_the_user_has_put_into_the_work_tree_is_the_user_s_again(
    project: Project,
) -> None:
    project.run(f"git switch -qc work; {COMMIT.replace('.cursor/mcp.json', '.kiro/x')}")
    project.git("switch", "-q", "main")
    project.git("merge", "-q", "--no-ff", "-m", "mine", "work")
    project.run("true")
    project.git("switch", "-q", "feat")
    assert project.run("git switch -q main") == []
    assert (project.root / ".kiro/x").read_text() == "evil\n"


def test_an_index_that_another_git_has_locked_is_mended_after_the_next_command(
    project: Project,
) -> None:
    project.run(f"{STAGE}; touch .git/index.lock")
    [text] = project.keeper.unchecked
    assert "index.lock" in text
    (project.root / ".git/index.lock").unlink()
    project.run("true")
    assert committed(project) == []


@pytest.mark.parametrize("last", ["true", "git pack-refs --all"])
def test_objects_that_a_command_makes_git_replace_are_told(
    project: Project, last: str
) -> None:
    project.git("replace", "feat:.mcp.json", "main:a.txt")
    project.run(f"git replace main:a.txt {BLOB}; {last}")
    [line] = project.keeper.replaced
    assert project.git("show", "main:a.txt") == "evil\n"
    subprocess.run(line, shell=True, check=True, cwd=project.root)
    assert project.git("show", "main:a.txt") == "one\n"
    project.run("true")
    assert len(project.keeper.replaced) == 1


def test_an_index_that_git_cannot_read_is_told(project: Project) -> None:
    project.run("echo DIRCxxxxxxxxxxxxxxxxxxxxx > .git/index")
    [text] = project.keeper.unchecked
    assert str(project.root / ".git/index") in text


@pytest.mark.parametrize(
    "kind",
    ["worktree", "worktree outside", "submodule", "nested", "session in a folder"],
)
def test_the_index_of_every_work_tree_is_restored(
    project: Project, tmp_path: Path, kind: str
) -> None:
    inner = project.root / "inner"
    session = project.root
    if kind.startswith("worktree"):
        inner = inner if kind == "worktree" else tmp_path.resolve() / "outside"
        project.git("worktree", "add", "-q", str(inner))
        folder = project.root / ".git/worktrees" / inner.name
    elif kind == "submodule":
        source = tmp_path / "source"
        project.git("clone", "-q", ".", str(source))
        project.git(
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            str(source),
            "inner",
        )
        folder = project.root / ".git/modules/inner"
    elif kind == "nested":
        project.git("clone", "-q", ".", "inner")
        folder = inner / ".git"
    else:
        session = inner
        inner.mkdir()
        inner = project.root
        folder = project.root / ".git"
    project.run(f"export GIT_DIR={folder}; export GIT_WORK_TREE=/tmp; {STAGE}", session)
    assert len(project.keeper.unstaged) == 1, project.output
    assert committed(project, inner) in ([], [".gitmodules"])


def test_a_folder_that_is_one_entry_of_a_sparse_index_is_taken_out(
    project: Project,
) -> None:
    project.commit({"src/x": "x"})
    project.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    hidden = f"{STAGE}; git update-index --skip-worktree .cursor/mcp.json; git commit -qm evil; git read-tree -m HEAD"
    project.run(f"{hidden}; git reset -q --soft HEAD~; git ls-files --sparse --stage")
    assert "040000" in project.output
    assert len(project.keeper.unstaged) == 1, project.output
    assert committed(project) == []
    assert project.git("status", "--porcelain", "-uno") == ""


def test_lines_of_an_index_are_those_of_git(project: Project) -> None:
    project.git("switch", "-q", "feat")
    index = read_index(project.root / ".git")
    assert lines_of(index, project.root / ".git").decode() == project.git(
        "ls-files", "--stage", "-z"
    )
