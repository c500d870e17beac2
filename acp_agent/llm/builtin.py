"""The providers that need no configuration, and where the SDKs look for theirs. A table; knows no configuration."""

from __future__ import annotations

from acp_agent.config.settings import ProviderKind
from acp_agent.frozen import frozen


@frozen
class BuiltIn:
    """A provider that needs no configuration.

    :ivar keys: environment variables that may hold its key; none for a local server.
    :ivar offered: models for the picker; the first is the default where the key is set.
    :ivar small: its cheap model, for little things; empty where there is none to rely on.
    :ivar elsewhere: environment variable that sends its requests to another place.
    """

    kind: ProviderKind
    base_url: str | None = None
    keys: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    small: str = ""
    elsewhere: str = ""


BUILT_IN: dict[str, BuiltIn] = {
    "anthropic": BuiltIn(
        "anthropic",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        offered=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
        small="claude-haiku-5-5",
        elsewhere="ANTHROPIC_BASE_URL",
    ),
    "openai": BuiltIn(
        "openai-responses",
        keys=("OPENAI_API_KEY",),
        offered=("gpt-6.2-sol", "gpt-6.2-astra", "gpt-6-luna"),
        small="gpt-6-luna",
        elsewhere="OPENAI_BASE_URL",
    ),
    "google": BuiltIn(
        "openai-chat",
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("gemini-3.8-flash", "gemini-3.1-pro-preview"),
        small="gemini-3.1-flash-lite",
    ),
    "openrouter": BuiltIn(
        "openai-chat",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        ("anthropic/claude-sonnet-5.5", "openai/gpt-6.2-sol"),
    ),
    "ollama": BuiltIn("openai-chat", "http://localhost:11434/v1"),
    "lmstudio": BuiltIn("openai-chat", "http://localhost:1234/v1"),
}
"""In the order in which a set key makes a provider the default."""

BASE_URLS: dict[ProviderKind, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai-responses": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
}
"""The variable for a base URL as the SDKs have it, and what holds without it."""
