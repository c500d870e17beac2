"""Keys and network variables that no client can be made from: found before anything is sent, and told by name."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.abc
import pytest

from acp_agent.config.settings import ProviderSettings, Settings
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.errors import AgentError, ConfigError, ModelAuthError
from acp_agent.llm.provider import ModelRequest, Retrying, TextDelta
from acp_agent.llm.registry import Registry
from support.models import Reply, model_server

KINDS = ["anthropic", "openai-responses", "openai-chat"]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxies, certificates or keys of the machine that runs the tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("SSL_CERT_", "ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)


async def refusal(kind: str, base_url: str, key: str = "test-key") -> AgentError:
    """What a prompt to a provider of the user's own ends in."""
    mine = ProviderSettings("mine", kind=kind, base_url=base_url, api_key_env="MINE_API_KEY")  # pyright: ignore[reportArgumentType]
    registry = Registry(Settings(home=Path("/nowhere"), providers={"mine": mine}), {"MINE_API_KEY": key})
    resolved = registry.resolve("mine/m")
    request = ModelRequest(resolved.id, "", (UserMessage("u", (Text("Hello"),)),))
    with anyio.fail_after(10), pytest.raises(AgentError) as caught:
        await anext(resolved.provider.stream(request))
    assert await resolved.provider.models() == ()
    await registry.aclose()
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["secretpart1\nsecretpart2", "secretpart1\x00", "“secretpart1”", "secretpart1\x7f2"])
async def test_a_key_that_no_header_can_carry_is_never_sent_nor_shown(kind: str, key: str) -> None:
    async with model_server([Reply("hi")]) as server:
        error = await refusal(kind, server.base_url, key)
    assert isinstance(error, ModelAuthError)
    assert error.code == -32000
    assert "MINE_API_KEY" in str(error)
    assert "secretpart" not in str(error)
    assert server.requests == []


async def test_of_two_variables_the_one_that_holds_the_odd_key_is_named() -> None:
    registry = Registry(Settings(home=Path("/nowhere")), {"ANTHROPIC_AUTH_TOKEN": "secret\npart"})
    with pytest.raises(ModelAuthError, match="Set ANTHROPIC_AUTH_TOKEN to the key alone"):
        await registry.prewarm("anthropic/claude-test")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("ALL_PROXY", "socks5://me:pr0xypass@127.0.0.1:9", "socksio"),
        ("all_proxy", "socks5h://me:pr0xypass@127.0.0.1:9", "socksio"),
        ("HTTP_PROXY", "foo://me:pr0xypass@bar", "http://host:port"),
        ("https_proxy", "http://me:pr0xypass@bar:port", "http://host:port"),
        ("SSL_CERT_FILE", "/nosuch.pem", "certificates"),
        ("SSL_CERT_FILE", __file__, "certificates"),
    ],
)
async def test_a_variable_of_the_network_that_cannot_be_used_is_named_with_what_to_do(
    kind: str, variable: str, value: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    error = await refusal(kind, "http://127.0.0.1:9")
    assert isinstance(error, ConfigError)
    assert error.source == variable
    assert advice in str(error)
    assert "pr0xypass" not in str(error)


async def test_proxies_that_are_switched_off_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "foo://bar")
    monkeypatch.setenv("NO_PROXY", "*")
    async with model_server([Reply("hi")]) as server:
        registry = Registry(Settings(home=Path("/nowhere")), server.env())
        resolved = registry.resolve(server.model)
        request = ModelRequest(resolved.id, "", (UserMessage("u", (Text("Hello"),)),))
        async with aclosing(resolved.provider.stream(request)) as events:
            assert [event.text async for event in events if isinstance(event, TextDelta)] == ["hi"]
        await registry.aclose()


@pytest.mark.parametrize("url", ["localhost:8080", "http://me:pa55word@[bad", "ftp://a", "https://", "http://a:port"])
@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_base_url_that_is_none_is_told_by_its_variable(name: str, url: str) -> None:
    variable = f"{name.upper()}_BASE_URL"
    registry = Registry(Settings(home=Path("/nowhere")), {variable: url, f"{name.upper()}_API_KEY": "k"})
    with pytest.raises(ConfigError, match=variable) as caught:
        registry.resolve(f"{name}/m")
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize(("name", "host"), [("anthropic", "api.anthropic.com"), ("openai", "api.openai.com")])
async def test_an_empty_base_url_counts_as_not_set(name: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            await stream.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, refuse)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")  # so that nothing leaves this machine
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", "")
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "test-key")
        registry = Registry(Settings(home=Path("/nowhere")), os.environ)
        resolved = registry.resolve(f"{name}/m")
        request = ModelRequest(resolved.id, "", (UserMessage("u", (Text("Hello"),)),))
        async with aclosing(resolved.provider.stream(request)) as events:
            assert isinstance(await anext(events), Retrying)
        await registry.aclose()
        tasks.cancel_scope.cancel()
    assert asked[0].startswith(f"CONNECT {host}:443 ".encode())
