"""Recipes as slash commands: the user's and the project's own, in a real process."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError, connected_agent
from support.compactions import asked_last, bare, messages, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, model_server
from support.repo import make_repo
from support.trust import trust

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
DIFF = """\
---
description: Explain a change
arguments:
  branch: {description: the branch to look at, required: true}
  style: {default: short}
---
Explain {{ branch }}, {{ style }}.{% if instructions %} Mind: {{ instructions }}{% endif %}
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
    trust(tmp_path, repo.path)
    async with (
        model_server([Reply("Fine."), Reply("Fine."), Reply("Fine.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        offers = (await agent.wait_update("available_commands_update"))["availableCommands"]
        described = {offer["name"]: offer["description"] for offer in offers}
        assert (described["review"], described["tests"]) == ("Review a change", "Run the tests")
        assert "broken" not in described
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
        assert rendered["text"] == "Review the {{ cart }} file:///shop/cart.py with a close look."
        assert "file:///shop/cart.py" in mentioned[0]["text"]
        assert not server.calls[0].mentions("/review")
        assert asked_last(server.calls[1].body) == "Review everything with a close look."
        assert asked_last(server.calls[2].body) == "/unknown thing"
        assert shown_compactions(agent) == []

        begun = len(agent.lines)
        await agent.load(session, repo.path)
        prompts = list(agent.texts("user_message_chunk", since=begun).values())
        assert [prompt for prompt in prompts if prompt] == ["/review the {{ cart }}", "/review", "/unknown thing"]


async def test_arguments_are_given_in_front_and_a_missing_one_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "state" / "recipes", diff=DIFF)
    async with (
        model_server([Reply("Fine."), Reply("Fine."), Reply("Fine.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        offers = (await agent.wait_update("available_commands_update"))["availableCommands"]
        [hint] = [offer["input"]["hint"] for offer in offers if offer["name"] == "diff"]
        assert hint == "branch=… [style=…] [instructions]"

        assert await agent.prompt(session, "/diff the tests") == {"stopReason": "end_turn"}
        assert "`/diff` was not run: it needs `branch`" in agent.text()
        assert "`/diff branch=…`" in agent.text()
        with pytest.raises(AgentError, match="the argument `branch` of the recipe `diff` is given twice") as error:
            await agent.prompt(session, "/diff branch=main branch=next")
        assert error.value.code == -32602
        assert not server.calls

        await agent.prompt(session, '/diff branch=main style="in two\nwords" the tests')
        mention = {"type": "resource_link", "uri": "file:///shop/cart.py", "name": "cart.py"}
        words = [{"type": "text", "text": "/diff branch="}, mention, {"type": "text", "text": " a"}]
        await agent.prompt(session, words)
        assert asked_last(server.calls[0].body) == "Explain main, in two\nwords. Mind: the tests"
        [rendered, *_] = messages(server.calls[1].body)[-1]["content"]
        assert rendered["text"] == "Explain file:///shop/cart.py, short. Mind: a"


async def test_an_override_of_compact_without_its_hook_is_named_and_the_built_in_one_compacts(tmp_path: Path) -> None:
    write(tmp_path / "state" / "recipes", compact="Tell me all.\n", looks="---\nallowed_tools: [raed]\n---\nLook.\n")
    async with (
        model_server([Reply("The cart adds prices. " * 60), Reply("# Goal\nCount.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        offers = (await agent.wait_update("available_commands_update"))["availableCommands"]
        assert "compact" in [offer["name"] for offer in offers]
        assert "looks" not in [offer["name"] for offer in offers]
        said = " ".join(str(notice) for notice in agent.updates(kind="notice"))
        assert "compact.md:1: hooks" in said
        assert "looks.md:2: allowed_tools" in said
        await agent.prompt(session, "One?")
        await agent.prompt(session, "/compact")
        [compaction] = shown_compactions(agent)
        assert (compaction.statuses[-1], compaction.text) == ("completed", "# Goal\nCount.")


async def test_a_recipe_limits_what_may_run_and_not_what_the_model_is_told(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    silent = TESTS.replace('["echo tests*"]', "[]")
    write(repo.path / ".acp-agent" / "recipes", tests=TESTS, silent=silent)
    trust(tmp_path, repo.path)
    calls = [
        ToolCall("read", {"path": str(repo.program)}),
        ToolCall("shell", {"command": "touch ran"}),
        ToolCall("shell", {"command": "echo tests pass"}),
    ]
    script = [Reply("All.", tool_calls=calls), Reply("Done."), Reply("Now.", tool_calls=calls[:1]), Reply("Read.")]
    script += [Reply("None.", tool_calls=calls[2:]), Reply("Done.")]
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
        await agent.prompt(session, "/silent")
        [refused] = messages(server.calls[5].body)[-1]["content"]
        assert refused["content"][0]["text"].endswith(" none.")
        assert len({str(bare(call.body)["tools"]) for call in server.calls}) == 1
