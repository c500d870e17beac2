"""Which model is used, and what is known of it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from acp_agent.config.keys import KeyStore
from acp_agent.config.settings import (
    ModelPrices,
    ModelSettings,
    ProviderSettings,
    Settings,
)
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.llm.credentials import ModelAccess, Route
from acp_agent.llm.profiles import Prices
from acp_agent.llm.provider import ModelRequest, TextDelta
from acp_agent.llm.registry import Registry
from support.models import KEY, Reply, model_server

NOWHERE = "http://127.0.0.1:9/v1"
NO_LOCAL = {
    name: ProviderSettings(name, base_url=NOWHERE) for name in ("ollama", "lmstudio")
}


def settings(*providers: ProviderSettings, **more: object) -> Settings:
    named = NO_LOCAL | {provider.name: provider for provider in providers}
    return Settings(home=Path("/nowhere"), providers=named, **more)  # pyright: ignore[reportArgumentType]


async def say(registry: Registry, model: str) -> str:
    resolved = registry.resolve(model)
    request = ModelRequest(resolved.id, "", (UserMessage("u", (Text("Hello"),)),))
    return "".join(
        [
            event.text
            async for event in resolved.provider.stream(request)
            if isinstance(event, TextDelta)
        ]
    )


async def window(registry: Registry, model: str) -> int:
    await registry.learn_window(model)
    return registry.resolve(model).window


async def test_a_provider_of_the_users_own() -> None:
    async with model_server([Reply("hi")], "chat") as server:
        local = ProviderSettings(
            "local",
            base_url=f"{server.base_url}/v1",
            api_key_env="LOCAL_API_KEY",
            headers={"x-team": "red"},
        )
        registry = Registry(settings(local), {"LOCAL_API_KEY": " test-key\n"})
        assert await say(registry, "local/org/chat-test") == "hi"
        await registry.aclose()
    sent = server.calls[0]
    assert sent.body["model"] == "org/chat-test"
    assert (sent.headers["authorization"], sent.headers["x-team"]) == (
        "Bearer test-key",
        "red",
    )


async def test_openais_own_variables_do_not_reach_other_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    async with model_server([Reply("hi")], "ollama") as server:
        registry = Registry(
            settings(ProviderSettings("ollama", base_url=f"{server.base_url}/v1")), {}
        )
        await say(registry, server.model)
        await registry.aclose()
    headers = server.calls[0].headers
    assert "openai-organization" not in headers
    assert "sk-openai" not in headers["authorization"]


async def test_a_gateway_without_a_key_of_its_own_is_not_given_anthropics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    async with model_server([Reply("hi")]) as server:
        server.key = None
        gateway = ProviderSettings(
            "gateway", kind="anthropic", base_url=server.base_url
        )
        registry = Registry(settings(gateway), {"ANTHROPIC_API_KEY": "sk-ant-secret"})
        assert await say(registry, "gateway/claude-test") == "hi"
        await registry.aclose()
    assert "sk-ant-secret" not in str(server.calls[0].headers)


@pytest.mark.parametrize(
    ("env", "model"),
    [
        (
            {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"},
            "anthropic/claude-sonnet-5-5",
        ),
        ({"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}, "openai/gpt-6.2-sol"),
        ({"GOOGLE_API_KEY": "k"}, "google/gemini-3.8-flash"),
        ({"OPENROUTER_API_KEY": "k"}, "openrouter/anthropic/claude-sonnet-5.5"),
        ({"ANTHROPIC_API_KEY": "  "}, None),
        ({}, None),
    ],
)
async def test_the_key_that_is_set_chooses_the_default(
    env: dict[str, str], model: str | None
) -> None:
    assert await Registry(settings(), env).default_model() == model
    assert await Registry(settings(model="local/m"), env).default_model() == "local/m"


async def test_without_a_key_a_local_ollama_that_answers_is_offered() -> None:
    async with model_server(dialect="ollama") as server:
        registry = Registry(
            settings(ProviderSettings("ollama", base_url=f"{server.base_url}/v1")), {}
        )
        first = f"ollama/{next(iter(server.windows))}"
        assert await registry.default_model() == first
        assert first in await registry.available_models()
    assert [seen.path for seen in server.requests] == ["/v1/models"]


async def test_the_picker_has_the_models_of_the_keys_and_of_the_configuration(
    tmp_path: Path,
) -> None:
    script = ProviderSettings(
        "scripted", kind="scripted", script=tmp_path / "demo.yaml"
    )
    registry = Registry(
        settings(script, models={"local/m": ModelSettings()}), {"OPENAI_API_KEY": "k"}
    )
    models = await registry.available_models()
    assert models[0] == "openai/gpt-6.2-sol"
    assert {"local/m", "scripted/demo", "openai/gpt-6-luna"} <= set(models)
    assert not any(model.startswith("anthropic/") for model in models)


NO_MODELS = [
    "nobody/x",
    "claude",
    "/x",
    "openai/",
    "",
    "anthropic/ x y",
    " /x",
    "openai/x ",
    " openai/x",
    "openai/x\n",
]


@pytest.mark.parametrize("model", NO_MODELS)
def test_a_name_that_means_nothing_is_explained(model: str) -> None:
    registry = Registry(settings(), {})
    assert registry.unusable(model)
    with pytest.raises(
        ConfigError, match=r"use one of: anthropic, google|provider/model"
    ):
        registry.resolve(model)
    for fine in ("anthropic/any-model", "openrouter/openai/gpt-6.2-sol", "ollama/x:7b"):
        assert not registry.unusable(fine)


async def test_a_missing_key_is_said_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    registry = Registry(settings(), {})
    for model, variable in [
        ("anthropic/claude-opus-5-5", "ANTHROPIC_API_KEY"),
        ("openai/gpt-6.2-sol", "OPENAI_API_KEY"),
        ("google/gemini-3.8-flash", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ]:
        with pytest.raises(ModelAuthError, match=variable):
            await say(registry, model)
    await registry.aclose()


def test_the_user_knows_prices_and_limits_better_and_the_window_where_the_table_does_not() -> (
    None
):
    given = ModelSettings(
        context_window=5_000, max_output_tokens=99, prices=ModelPrices(output=7)
    )
    registry = Registry(
        settings(models={"ollama/qwen3:8b": given, "openai/gpt-5": given}), {}
    )
    assert registry.profile("ollama/qwen3:8b").context_window == 5_000
    changed = registry.profile("openai/gpt-5")
    assert (changed.context_window, changed.max_output_tokens) == (400_000, 99)
    assert changed.prices == Prices(1.25, 0.125, 1.25, 7)


def test_prices_are_those_of_the_one_who_charges_them_or_of_the_configuration() -> None:
    models = {"mine/gpt-5": ModelSettings(prices=ModelPrices(input=2, output=3))}
    registry = Registry(
        settings(ProviderSettings("mine", base_url=NOWHERE), models=models), {}
    )
    for model in (
        "openai/gpt-5",
        "openrouter/openai/gpt-5",
        "google/gemini-2.5-pro",
        "anthropic/claude-sonnet-4-6",
    ):
        assert registry.profile(model).prices is not None
    for model in ("ollama/gpt-5", "lmstudio/gpt-5", "mine/claude-sonnet-4-6"):
        assert registry.profile(model).prices is None
    assert registry.profile("mine/gpt-5").prices == Prices(2, 2, 2, 3)


async def test_the_window_comes_from_the_provider_then_the_table_then_the_models_settings() -> (
    None
):
    async with model_server(context_window=123_456) as server:
        env = server.env()
        registry = Registry(settings(), env)
        assert await window(registry, "anthropic/claude-test") == 123_456
        assert await window(registry, "anthropic/claude-sonnet-5-5") == 1_000_000
        names = (
            "anthropic/claude-test",
            "anthropic/claude-untold",
            "mine/gpt-5",
            "mine/qwen",
        )
        models = {name: ModelSettings(context_window=9_000) for name in names}
        mine = ProviderSettings("mine", base_url=NOWHERE)
        await registry.aclose()
        registry = Registry(settings(mine, models=models), env)
        assert [await window(registry, name) for name in names] == [
            123_456,
            200_000,
            400_000,
            9_000,
        ]
        assert registry.profile("mine/qwen").context_window == 9_000
        assert await window(registry, "mine/other") == 128_000
        everywhere = Registry(settings(models=models, context_window=7_000), env)
        assert await window(everywhere, "anthropic/claude-test") == 7_000
        assert everywhere.profile("anthropic/claude-test").context_window == 7_000
        await registry.aclose()


async def test_an_answer_goes_on_over_its_connection_when_the_editor_sends_the_next_request_elsewhere() -> (
    None
):
    access = ModelAccess(KeyStore(Path("/nowhere")))
    hold = anyio.Event()
    answers = list[str]()
    async with model_server(
        [Reply(["One, ", "two."], hold=hold, hold_after=1), Reply("hi")], "openai"
    ) as server:
        registry = Registry(settings(), server.env(), access)

        async def listen() -> None:
            answers.append(await say(registry, server.model))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await server.wait_held()
            access.set_route(
                "openai",
                Route(f"{server.base_url}/v1", {"authorization": f"Bearer {KEY}"}),
            )
            assert await say(registry, server.model) == "hi"
            hold.set()
        assert answers == ["One, two."]
        await registry.aclose()
