"""`acp-agent trust`, and the question at a terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.config.project import MadeStore
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.tips import Tips, TipStore
from support.called import call_command
from support.models import Reply, model_server
from support.terminal import at_a_terminal

LOOK = "---\nallowed_commands: ['touch*']\n---\nLook{{ shell('touch', 'ran') }}."


def repository(folder: Path) -> Path:
    for name, text in {
        ".acp-agent/recipes/look.md": LOOK,
        ".claude/commands/see.md": "See.",
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


async def test_a_project_is_trusted_listed_and_revoked(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop")
    ran = await call_command(tmp_path, "trust", "--yes", "shop")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == f"""\
If you trust {folder / ".acp-agent"}, it can run:
  `.acp-agent/recipes/look.md`: the command `/look`
If you trust {folder / ".claude"}, it can run:
  `.claude/commands/see.md`: the command `/see`
Trusted until something in it changes.
"""
    )
    ran = await call_command(tmp_path, "trust", "--list")
    assert [line.split("  ")[0] for line in ran.out.splitlines()] == [
        str(folder / ".acp-agent"),
        str(folder / ".claude"),
    ]
    ran = await call_command(tmp_path, "trust", "--revoke", "shop")
    assert (ran.code, ran.out.count("No longer trusted: ")) == (0, 2)
    ran = await call_command(tmp_path, "trust", "--revoke", "shop")
    assert (ran.code, ran.err) == (
        1,
        f"acp-agent: {folder} was not trusted. `acp-agent trust --list` lists trusted projects.\n",
    )


@pytest.mark.process
@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("y\n", 0)])
async def test_a_person_at_a_terminal_sees_what_may_run_before_anything_is_trusted(
    tmp_path: Path, typed: str, code: int
) -> None:
    repository(tmp_path)
    kept = tmp_path / "state" / "trust.json"
    async with at_a_terminal(tmp_path, "trust", env={}) as person:
        await person.until("Trust it until something in it changes?")
        assert "the command `/look`" in person.shown
        assert not kept.exists()
        person.type(typed)
        assert await person.ended() == code
        assert (
            ("Nothing was trusted." in person.shown)
            == (not kept.exists())
            == bool(code)
        )


async def test_what_cannot_be_trusted_is_said(tmp_path: Path) -> None:
    ran = await call_command(tmp_path, "trust")
    assert (ran.code, ran.out) == (0, f"{tmp_path} has no hooks and no recipes.\n")
    assert not (tmp_path / "state").exists()
    ran = await call_command(tmp_path, "trust", "nowhere")
    assert (ran.code, ran.err) == (
        1,
        f"acp-agent: {tmp_path / 'nowhere'} is not a directory. Name the project's folder.\n",
    )
    repository(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text("{")
    ran = await call_command(tmp_path, "trust", "--yes")
    assert (ran.code, "trust.json: is invalid" in ran.err) == (1, True)


@pytest.mark.process
async def test_at_a_terminal_it_is_asked_what_may_run(tmp_path: Path) -> None:
    repository(tmp_path)
    async with (
        model_server([Reply("Looked.")]) as server,
        at_a_terminal(tmp_path, "run", "-r", "look", env=server.env()) as person,
    ):
        await person.until("Trust it?")
        assert "the command `/look`" in person.shown
        person.type("s\n")
        # The folder holds the home, so that there is no sandbox, and the commands of
        # the recipe's text are asked for.
        await person.until("Allow?")
        assert (
            "Run the commands in the text of /look (outside of the sandbox)"
            in person.shown
        )
        person.type("y\n")
        assert await person.ended() == 0
        assert "Looked." in person.shown
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "state" / "trust.json").exists()


@pytest.mark.process
async def test_commits_of_a_repository_that_a_command_made_are_the_user_s_once_it_is_trusted(
    tmp_path: Path,
) -> None:
    folder = tmp_path.resolve() / "shop"
    words = (
        "-c",
        "user.name=n",
        "-c",
        "user.email=n@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    )
    for line in (("init", "-q", str(folder)), ("-C", str(folder), *words)):
        subprocess.run(("git", *line), check=True)
    repository = Repository(folder, folder / ".git", folder / ".git")
    store = TipStore(tmp_path / "state" / "tips")
    store.after_command(Tips(repository, {}))
    MadeStore(tmp_path / "state").add([folder / ".git"])
    assert not store.of_user(repository).commits
    ran = await call_command(tmp_path, "trust", "--yes", "shop")
    assert f"The commits in {folder} now count as your own.\n" in ran.out
    assert len(store.of_user(repository).commits) == 1
    ran = await call_command(tmp_path, "trust", "shop")
    assert "count as your own" not in ran.out


async def test_without_a_terminal_nothing_is_trusted_unless_the_command_says_yes(
    tmp_path: Path,
) -> None:
    repository(tmp_path)
    for given in ("", "y\n"):
        ran = await call_command(tmp_path, "trust", stdin=given)
        assert ran.code == 1
        assert "the command `/look`" in ran.out
        assert ran.err == (
            "Nothing was trusted. There is no terminal to ask at; `--yes` trusts without asking.\n"
        )
        assert not (tmp_path / "state" / "trust.json").exists()
    ran = await call_command(tmp_path, "trust", "--yes")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    "name",
    [
        ".acp-agent/recipes/look.md",
        ".acp-agent/recipes/new.md",
        ".acp-agent/config.yaml",
    ],
)
async def test_the_list_says_which_projects_have_changed_since_they_were_trusted(
    tmp_path: Path, name: str
) -> None:
    folder = repository(tmp_path / "shop")
    other = repository(tmp_path / "other")
    for each in (folder, other):
        await call_command(tmp_path, "trust", "--yes", str(each))
    ran = await call_command(tmp_path, "trust", "--list")
    assert "changed" not in ran.out
    hooks = "hooks: {Stop: [{command: [echo, done], name: lint}]}\n"
    (folder / name).write_text(hooks if name.endswith("yaml") else "Look again.")
    ran = await call_command(tmp_path, "trust", "--list")
    changed = [line for line in ran.out.splitlines() if "changed since" in line]
    assert [line.split("  ")[0] for line in changed] == [str(folder / ".acp-agent")]
    assert len(ran.out.splitlines()) == 4
