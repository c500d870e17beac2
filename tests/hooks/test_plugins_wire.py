"""Hooks that are written in Python, in a whole session: what they change, and what they may use."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.compactions import asked_last, messages
from support.editors import ZED_BETA
from support.models import Reply, Request, ToolCall, model_server
from support.plugins import install

SHOUT = """\
from acp_agent.hooks import AfterToolCall, Outcome, Services, hook


@hook("after_tool_call", matcher="read")
def shout(event: AfterToolCall, services: Services) -> Outcome:
    return Outcome(tool_output=event.text.upper(), context=("It was shouted.",))
"""
USES = """\
from acp_agent.hooks import AgentStop, Outcome, Services, hook


@hook("agent_stop")
async def use(event: AgentStop, services: Services) -> Outcome | None:
    if event.response != "Enough.":
        return None
    compacted = await services.compaction(prompt="Write a haiku of it.", model="openai/gpt-test")
    answer = await services.ask_model("Is it a good one?", system="You judge haikus.")
    kinds = [logged.event.kind async for logged in services.store.events(event.at.session_id)]
    services.log.info("used them all")
    shorter = compacted.tokens_after < compacted.tokens_before
    return Outcome(notices=(f"{compacted.summary} | {answer} | {shorter} | {kinds.count('user_prompted')}",))
"""
BROKEN = """\
from acp_agent.hooks import hook
import no_such_module
"""
LONG = "The cart adds prices. " * 300


async def test_a_package_changes_a_result_and_a_file_uses_models_and_the_store(tmp_path: Path) -> None:
    state, project = tmp_path / "state", tmp_path / "project"
    hooks = state / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    for name, text in (("uses.py", USES), ("broken.py", BROKEN)):
        (hooks / name).write_text(text)
    project.mkdir()
    (project / "a.txt").write_text("quiet words\n")
    package = install(tmp_path / "packages", "shouting", SHOUT, "acp_agent.hooks", "shouting:shout")
    requests: list[Request] = []

    def reply(body: dict[str, object]) -> Reply:
        said = asked_last(body)
        if "haiku of it" in said:
            return Reply("A cart in the rain.")
        if "a good one" in said:
            return Reply("It is.")
        if said == "Read it":
            return Reply(LONG, tool_calls=[ToolCall("read", {"path": "a.txt"})])
        return Reply("Enough." if said == "Enough?" else LONG)

    async with model_server(reply) as server:
        env = server.env("openai") | server.env("anthropic") | package
        async with connected_agent(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(project)
            await agent.prompt(session, "Read it", timeout=30)
            await agent.prompt(session, "Enough?", timeout=30)
            requests += server.calls
            notices = str(agent.updates(kind="notice"))
        assert f"A hook was left out. {hooks / 'broken.py'}:2: could not be loaded: ModuleNotFoundError" in notices
        assert "A cart in the rain. | It is. | True | 2" in notices
        result = str(messages(requests[1].body)[-1]["content"])
        assert "QUIET WORDS" in result
        assert "quiet words" not in result
        assert "It was shouted." in result
        [haiku] = [request for request in requests if "haiku of it" in asked_last(request.body)]
        assert haiku.body["model"] == "gpt-test"
        assert haiku.mentions("Read it")
        [question] = [request for request in requests if "a good one" in asked_last(request.body)]
        assert question.body["model"] == "claude-test"
        assert question.mentions("You judge haikus.")
        assert not question.mentions("Read it")
        assert not question.body.get("tools")
    assert "used them all" in next((state / "logs").glob("*.log")).read_text()
