"""Recipes as slash commands: the user's and the project's own, in a real process."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.compactions import asked_last, bare, messages, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, model_server
from support.repo import make_repo

REVIEW = """\
---
name: review
description: Review a change
allowed_tools: [read]
arguments:
  depth: {description: how closely, default: close}
---
Review {{ instructions or "everything" }} with a {{ depth }} look.
"""
TESTS = """\
---
description: Run the tests
allowed_tools: [shell]
allowed_commands: ["echo tests*"]
---
Run them.
"""
BROKEN = "---\nname: broken\nno_such_key: 1\n---\nText.\n"


def write(folder: Path, **recipes: str) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in recipes.items():
        (folder / f"{name}.md").write_text(text)


async def test_recipes_of_the_user_and_the_project_are_offered_and_rendered_and_a_broken_one_is_named(
    tmp_path: Path,
) -> None:
    repo = make_repo(tmp_path / "repo")
    write(tmp_path / "state" / "recipes", review="---\nname: review\n---\nThe user's.", tests=TESTS, broken=BROKEN)
    write(repo.path / ".acp-agent" / "recipes", review=REVIEW)
    async with (
        model_server([Reply("Fine."), Reply("Fine."), Reply("Fine.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        offers = (await agent.wait_update("available_commands_update"))["availableCommands"]
        assert [(offer["name"], offer["description"]) for offer in offers][1:] == [
            ("review", "Review a change"),
            ("tests", "Run the tests"),
        ]
        notice = await agent.wait_update("notice")
        assert str(tmp_path / "state" / "recipes" / "broken.md") in str(notice)
        assert "no_such_key" in str(notice)

        mention = {"type": "resource_link", "uri": "file:///shop/cart.py", "name": "cart.py"}
        assert await agent.prompt(session, [{"type": "text", "text": "/review the {{ cart }}"}, mention]) == {
            "stopReason": "end_turn"
        }
        await agent.prompt(session, "/review")
        await agent.prompt(session, "/unknown thing")
        [rendered, *mentioned] = messages(server.calls[0].body)[0]["content"]
        assert rendered["text"] == "Review the {{ cart }}file:///shop/cart.py with a close look."
        assert "file:///shop/cart.py" in mentioned[0]["text"]
        assert not server.calls[0].mentions("/review")
        assert asked_last(server.calls[1].body) == "Review everything with a close look."
        assert asked_last(server.calls[2].body) == "/unknown thing"
        assert shown_compactions(agent) == []

        begun = len(agent.lines)
        await agent.load(session, repo.path)
        prompts = list(agent.texts("user_message_chunk", since=begun).values())
        assert [prompt for prompt in prompts if prompt] == ["/review the {{ cart }}", "/review", "/unknown thing"]


async def test_a_recipe_limits_what_may_run_and_not_what_the_model_is_told(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    write(repo.path / ".acp-agent" / "recipes", tests=TESTS)
    calls = [
        ToolCall("read", {"path": str(repo.program)}),
        ToolCall("shell", {"command": "touch ran"}),
        ToolCall("shell", {"command": "echo tests pass"}),
    ]
    script = [Reply("All.", tool_calls=calls), Reply("Done."), Reply("Now.", tool_calls=calls[:1]), Reply("Read.")]
    async with (
        model_server(script) as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        await agent.set_mode(session, "full-access")
        assert await agent.prompt(session, "/tests") == {"stopReason": "end_turn"}
        results = messages(server.calls[1].body)[-1]["content"]
        assert [result.get("is_error", False) for result in results] == [True, True, False]
        read, touch, echo = (result["content"][0]["text"] for result in results)
        assert "may not run in this recipe" in read
        assert "echo tests*" in touch
        assert "tests pass" in echo
        assert not (repo.path / "ran").exists()
        # The limit ends with the recipe's turn.
        await agent.prompt(session, "Read it.")
        assert not messages(server.calls[3].body)[-1]["content"][0].get("is_error", False)
        assert len({str(bare(call.body)["tools"]) for call in server.calls}) == 1
