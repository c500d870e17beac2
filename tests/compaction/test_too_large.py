"""A request that certainly does not fit and cannot be made short is not sent; one that may fit is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_agent.config.settings import Settings
from acp_agent.llm.profiles import DEFAULT_WINDOW
from acp_agent.llm.registry import Registry
from acp_agent.session.models import SessionModels
from support.client import AgentError, connected_agent
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.models import ModelServer, Reply, Usage, model_server
from support.pictures import encoded, png

TINY = {"ACP_AGENT_CONTEXT_WINDOW": "1200"}
"""Less than the system prompt and the tools take, which nothing can take away."""
LONG = "The cart adds prices. " * 900


def counts(server: ModelServer) -> int:
    """How often a provider was asked to count."""
    return sum("token" in request.path for request in server.requests)


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_what_the_provider_itself_counts_to_be_too_large_is_not_sent(tmp_path: Path, dialect: Any) -> None:
    async with (
        model_server((), dialect) as server,
        connected_agent(home=tmp_path, env=server.env() | TINY, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentError, match=r"does not fit the model's context window \(1,200\).*not sent") as error:
            await agent.prompt(session, "Hello?")
        assert "larger window" in error.value.message
        assert server.calls == []
        assert counts(server) == 1
        # A larger model answers, and the prompt that nobody could answer is not in its way.
        assert "left out" in error.value.message


async def test_a_session_that_became_too_large_for_any_step_of_the_ladder_asks_for_no_answer(tmp_path: Path) -> None:
    config = {
        "models": {"openai/gpt-test": {"context_window": 40_000}, "openai/tiny-test": {"context_window": 1_200}},
        "compaction": {"prepare": False},
    }
    script = [Reply(LONG, usage=Usage(9_000, 400)), Reply("Here.")]
    async with model_server(script, "openai") as server:
        server.write_config(tmp_path, config)
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "One?")
            await agent.set_config_option(session, "model", "openai/tiny-test")
            with pytest.raises(AgentError, match="not sent"):
                await agent.prompt(session, "Two?")
            assert [call.body["model"] for call in server.calls] == ["gpt-test"]
            assert shown_compactions(agent) == []
            await agent.set_config_option(session, "model", "openai/gpt-test")
            assert await agent.prompt(session, "Three?") == {"stopReason": "end_turn"}
            assert server.calls[-1].mentions(LONG)
            assert not server.calls[-1].mentions("Two?")


async def test_where_nobody_can_count_it_the_provider_is_asked_after_all(tmp_path: Path) -> None:
    async with model_server([Reply("It fits.")], "chat") as server:
        server.write_config(tmp_path)
        async with connected_agent(home=tmp_path, env=server.env() | TINY, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello?") == {"stopReason": "end_turn"}
            assert agent.text() == "It fits."


async def test_what_another_model_has_counted_is_not_certain(tmp_path: Path) -> None:
    config = {"models": {"local/chat-test": {"context_window": 1_200}}, "compaction": {"prepare": False}}
    answers = [Reply(LONG, usage=Usage(9_000, 400)), Reply("It fits.")]

    def answer(body: dict[str, Any]) -> Reply:
        return Reply(http_status=400) if "summary" in str(body["messages"][-1:])[:400] else answers.pop(0)

    async with model_server(answer, "anthropic") as server:
        server.write_config(tmp_path, config)
        env = server.env() | server.env("chat") | {"ACP_AGENT_MODEL": server.model}
        async with connected_agent(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "One?")
            await agent.set_config_option(session, "model", "local/chat-test")
            assert await agent.prompt(session, "Two?") == {"stopReason": "end_turn"}
            assert agent.text().endswith("It fits.")


async def test_what_a_provider_has_counted_and_would_take_is_sent(tmp_path: Path) -> None:
    # The count is within the error of a window: the provider knows better.
    async with model_server(lambda _: Reply("It fits."), "anthropic") as server:
        async with connected_agent(home=tmp_path / "first", env=server.env(), capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "Hello?")
        sent = next(request for request in server.requests if request.path == "/v1/messages")
        size = len(str(sent.body)) // 4
        env = server.env() | {"ACP_AGENT_CONTEXT_WINDOW": str(int(size * 0.97))}
        async with connected_agent(home=tmp_path / "second", env=env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello?") == {"stopReason": "end_turn"}


@pytest.mark.parametrize("guessed", [True, False], ids=["a guess", "the user's word"])
async def test_a_window_that_is_a_guess_keeps_nothing_from_being_sent(tmp_path: Path, guessed: bool) -> None:
    # The provider counts the image's data as well: by far more than a model takes of which nobody knows anything.
    image = {"type": "image", "data": encoded(png(387, 387, seed=1)), "mimeType": "image/png"}
    prompt = [image, {"type": "text", "text": "A line of the log.\n" * 18_000}]
    name = "anthropic/nobody-knows-it"
    config: dict[str, Any] = {"compaction": {"prepare": False}}
    if not guessed:
        config["models"] = {name: {"context_window": 127_000}}
    async with model_server(lambda _: Reply("It fits.", usage=Usage(90_000, 5)), "anthropic") as server:
        server.write_config(tmp_path, config)
        env = server.env() | {"ACP_AGENT_MODEL": name}
        async with connected_agent(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            if guessed:
                assert await agent.prompt(session, prompt, 30) == {"stopReason": "end_turn"}
                assert agent.text() == "It fits."
                assert agent.updates(kind="usage_update")[-1]["size"] == DEFAULT_WINDOW
            else:
                with pytest.raises(AgentError, match=r"does not fit the model's context window \(127,000\).*not sent"):
                    await agent.prompt(session, prompt, 30)
                assert server.calls == []
            assert counts(server) > 0


@pytest.mark.parametrize(
    ("window", "name", "guessed"),
    [
        (None, "anthropic/nobody-knows-it", True),
        (None, "anthropic/claude-sonnet-4-5", False),
        (50_000, "anthropic/nobody-knows-it", False),
    ],
    ids=["a guess", "the table", "the user"],
)
async def test_a_window_that_is_a_guess_is_known_for_one(window: int | None, name: str, guessed: bool) -> None:
    env = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    models = SessionModels(Registry(Settings(home=Path("/nowhere"), context_window=window), env), first_wait=0.01)
    assert (await models.named(name)).guessed == guessed
    await models.aclose()


async def test_a_window_that_a_refusal_makes_probable_is_a_guess_and_one_that_it_states_is_not() -> None:
    env = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    name = "anthropic/claude-sonnet-4-5"
    models = SessionModels(Registry(Settings(home=Path("/nowhere")), env), first_wait=0.01)
    models.learn(name, models.learned(name).states(50_000))
    stated = await models.named(name)
    models.learn(name, models.learned(name).suspects(9_000))
    suspected = await models.named(name)
    models.learn(name, models.learned(name).accepts(12_000))
    answered = await models.named(name)
    await models.begin_turn()
    seen = [stated, suspected, answered, await models.named(name)]
    assert [(model.budget.window, model.guessed) for model in seen] == [
        (50_000, False),
        (9_000, True),
        (12_000, True),
        (12_000, True),
    ]
    await models.aclose()
