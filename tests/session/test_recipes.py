"""Recipes as slash commands: the user's and the project's own, in a real process."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.compactions import messages
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, model_server
from support.repo import make_repo


def write(folder: Path, **recipes: str) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in recipes.items():
        (folder / f"{name}.md").write_text(text)


async def test_no_wildcard_of_a_recipe_lets_git_run_a_program_that_the_model_names(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    allowed = "---\nallowed_commands: ['git push *', 'git rebase *', 'git diff *']\n---\nPublish it.\n"
    write(tmp_path / "state" / "recipes", publish=allowed)
    repo.git("init", "-q", "--bare", str(tmp_path / "origin"))
    repo.fix()
    commands = [
        f"git push --e='touch ran; git-receive-pack' {tmp_path}/origin HEAD:other",
        "git rebase -qx 'touch ran' --root",
        "git rebase --ex 'touch ran' --root",
        "git diff --output=ran",
        "git diff -U0 --stat",
        f"git push -u {tmp_path}/origin HEAD:main",
    ]
    calls = [ToolCall("shell", {"command": command}) for command in commands]
    async with (
        model_server([Reply("All.", tool_calls=calls), Reply("Done.")]) as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        await agent.set_mode(session, "full-access")
        await agent.prompt(session, "/publish")
        results = messages(server.calls[1].body)[-1]["content"]
        told = [result["content"][0]["text"] for result in results]
        assert [result.get("is_error", False) for result in results] == [True] * 4 + [False] * 2, told
        assert "no wildcard in the recipe's `allowed_commands` stands for `--e=touch ran; git-receive-pack`" in told[0]
        assert "1 file changed" in told[4]
        assert not (repo.path / "ran").exists()
