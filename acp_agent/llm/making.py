"""From where a provider is, and as whom, to the adapter that asks it. Loads the adapter's module, but no SDK."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import Protocol

from acp_agent.config.settings import ProviderKind
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen
from acp_agent.llm import probe
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Provider

_log = logging.getLogger(__name__)

_ADAPTERS: dict[ProviderKind, str] = {
    "anthropic": "acp_agent.llm.anthropic",
    "openai-responses": "acp_agent.llm.openai_responses",
    "openai-chat": "acp_agent.llm.openai_chat",
    "scripted": "acp_agent.llm.scripted",
}
"""Modules."""

_LOCAL = {"ollama": probe.ollama_window, "lmstudio": probe.lmstudio_window}
"""How those local servers are asked for windows that have their own ways."""


class WarmProvider(Provider, Protocol):
    """A provider that can be prepared."""

    async def prewarm(self) -> None:
        """Load what a call needs, except an SDK, in a worker thread.

        :raises ModelAuthError: there is no key, or it cannot be sent.
        """
        ...


@frozen
class Reach:
    """Where a provider is, and as whom it is asked. Equal ones make the same provider.

    :ivar name: the word before the slash in `provider/model`.
    :ivar base_url: None leaves it to the SDK.
    :ivar key: None where none is at hand.
    :ivar token: for Anthropic, in place of a key.
    :ivar headers: sent with every request.
    :ivar hint: what to check when the key is refused, in the words of an error message.
    :ivar source: where the key is from, for the log.
    :ivar required: whether a call without any credential is refused here, before it is sent.
    :ivar ambient: see `AnthropicAccess`.
    :ivar script: for `scripted`.
    """

    name: str
    kind: ProviderKind
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    hint: str = ""
    source: str = "none"
    required: bool = False
    ambient: bool = False
    script: Path | None = None


def load_adapter(kind: ProviderKind) -> None:
    """Load the module of an adapter, without its SDK; run this in a thread."""
    import_module(_ADAPTERS[kind])


def make_provider(reach: Reach, profile_of: Callable[[str], ModelProfile]) -> WarmProvider:
    """The adapter.

    :param profile_of: what is known of a model, by its id.
    :raises ConfigError: something is missing in the configuration.
    """
    name, kind = reach.name, reach.kind
    _log.info("the provider %s speaks %s; key: %s", name, kind, reach.source)
    if kind == "scripted":
        if reach.script is None:
            raise ConfigError("needs `script: FILE`", key=f"providers.{name}")
        from acp_agent.llm.scripted import ScriptedProvider

        return ScriptedProvider(name, reach.script)
    if kind == "anthropic":
        from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider

        return AnthropicProvider(
            AnthropicAccess(
                name=name,
                api_key=reach.key,
                auth_token=reach.token,
                base_url=reach.base_url,
                headers=reach.headers,
                key_hint=reach.hint,
                required=reach.required,
                ambient=reach.ambient,
            ),
            profile_of,
        )
    from acp_agent.llm.openai import OpenAIAccess

    if kind == "openai-chat" and reach.base_url is None:
        raise ConfigError("needs `base_url: URL`", key=f"providers.{name}")
    access = OpenAIAccess(
        name=name,
        api_key=reach.key,
        base_url=reach.base_url,
        headers=reach.headers,
        key_hint=reach.hint,
        required=reach.required,
    )
    if kind == "openai-responses":
        from acp_agent.llm.openai_responses import OpenAIResponsesProvider

        return OpenAIResponsesProvider(access, profile_of)
    from acp_agent.llm.openai_chat import OpenAIChatProvider

    return OpenAIChatProvider(
        access,
        profile_of,
        reasoning="reasoning" if name == "openrouter" else "reasoning_effort",
        local=_LOCAL.get(name),
    )
