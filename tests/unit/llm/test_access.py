"""Keys and network variables that no client can be made from: found before anything is
sent, and told by name.
"""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from acp_agent.config.settings import ProviderSettings, Settings
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.errors import AgentError, ConfigError, ModelAuthError
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.registry import Registry
from support.models import Reply, model_server

KINDS = ["anthropic", "openai-responses", "openai-chat"]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxies, certificates or keys of the machine that runs the tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(
            ("SSL_CERT_", "ANTHROPIC_", "OPENAI_")
        ):
            monkeypatch.delenv(name)


async def refusal(kind: str, base_url: str, key: str = "test-key") -> AgentError:
    """What a prompt to a provider of the user's own ends in."""
    mine = ProviderSettings(
        "mine",
        kind=kind,  # pyright: ignore[reportArgumentType]
        base_url=base_url,
        api_key_env="MINE_API_KEY",
    )
    registry = Registry(
        Settings(home=Path("/nowhere"), providers={"mine": mine}), {"MINE_API_KEY": key}
    )
    resolved = registry.resolve("mine/m")
    request = ModelRequest(resolved.id, "", (UserMessage("u", (Text("Hello"),)),))
    with anyio.fail_after(10), pytest.raises(AgentError) as caught:
        await anext(resolved.provider.stream(request))
    await registry.aclose()
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "key", ["secretpart1\nsecretpart2", "“secretpart1”", "secretpart1\x7f2"]
)
async def test_a_key_that_no_header_can_carry_is_never_sent_nor_shown(
    kind: str, key: str
) -> None:
    async with model_server([Reply("hi")]) as server:
        error = await refusal(kind, server.base_url, key)
    assert isinstance(error, ModelAuthError)
    assert error.code == -32000
    assert "MINE_API_KEY" in str(error)
    assert "secretpart" not in str(error)
    assert server.requests == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://me:pr0xypass@127.0.0.1:9"),
        ("https_proxy", "http://me:pr0xypass@bar:port"),
        ("SSL_CERT_FILE", "/nosuch.pem"),
        ("SSL_CERT_FILE", __file__),
    ],
)
async def test_a_variable_of_the_network_that_cannot_be_used_is_named_without_its_value(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    error = await refusal("anthropic", "http://127.0.0.1:9")
    assert isinstance(error, ConfigError)
    assert error.source == variable
    assert "pr0xypass" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "http://me:pa55word@[bad",
        "ftp://a",
        "https://",
        "http://a:port",
    ],
)
@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_base_url_that_is_none_is_told_by_its_variable(name: str, url: str) -> None:
    variable = f"{name.upper()}_BASE_URL"
    registry = Registry(
        Settings(home=Path("/nowhere")), {variable: url, f"{name.upper()}_API_KEY": "k"}
    )
    with pytest.raises(ConfigError, match=variable) as caught:
        registry.resolve(f"{name}/m")
    assert "pa55word" not in str(caught.value)
