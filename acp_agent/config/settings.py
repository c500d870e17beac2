"""What the agent was told: `Settings` and its parts, with the built-in defaults.

Plain data. Knows neither where it came from nor what a provider does with it. No secret is ever in here: a key is
named by its environment variable and read with `api_key` at the moment of use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["plan", "ask", "accept-edits", "full-access"]
ThoughtLevel: TypeAlias = Literal["off", "low", "medium", "high"]
ProviderKind: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "scripted"]

MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "full-access")
"""The permission modes, from the strictest to the freest."""

MODEL_NAME_FORM = "should be provider/model, such as anthropic/claude-sonnet-4-5 or ollama/qwen3:8b"
"""What to tell somebody whose model is not one by `is_model_name`."""


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """When the context is made short without being asked.

    :ivar auto: whether it is at all; `/compact` always works.
    :ivar threshold: share of the usable window, 0 to 1, from which on it is.
    """

    auto: bool = True
    threshold: float = 0.80


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """US dollars for a million tokens; None where the user did not say."""

    input: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    output: float | None = None


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What the user knows about one model; None leaves it to the provider and the built-in table.

    :ivar context_window: tokens of the whole window, where neither the provider nor the table says.
    :ivar max_output_tokens: upper bound of one answer, in tokens.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    prices: ModelPrices = ModelPrices()


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider of the user's own, or corrections to a built-in one of the same name; None means not said.

    :ivar name: the word before the slash in `provider/model`.
    :ivar kind: the API it speaks; where not said, the built-in one's own, and `openai-chat` for any other name.
    :ivar base_url: root of its HTTP API.
    :ivar api_key_env: name of the environment variable that holds the key.
    :ivar headers: sent with every request; not shown by `repr`, since people put tokens in there.
    :ivar script: for `scripted`: absolute path of the YAML file with the replies.
    """

    name: str
    kind: ProviderKind | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    script: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, after all layers.

    :ivar home: the one folder of all state: configuration, sessions, recipes, logs. May not exist yet.
    :ivar project: the project's `.acp-agent` folder, where there is one.
    :ivar model: `provider/model`; None lets the keys that are set decide.
    :ivar mode: the permission mode in which a session starts.
    :ivar thought_level: None leaves it to the model.
    :ivar context_window: tokens; overrides every other source for whichever model is used.
    :ivar max_output_tokens: upper bound of one answer, in tokens, for whichever model is used.
    :ivar max_turn_requests: model calls in one turn before it ends with `max_turn_requests`.
    :ivar max_turn_cost: US dollars in one turn before it ends likewise.
    :ivar shell_timeout: seconds that a shell command may take where the call names none.
    :ivar models: by `provider/model`.
    :ivar providers: by name.
    """

    home: Path
    project: Path | None = None
    model: str | None = None
    mode: Mode = "ask"
    thought_level: ThoughtLevel | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    max_turn_requests: int = 200
    max_turn_cost: float | None = None
    shell_timeout: float = 120.0
    compaction: CompactionSettings = CompactionSettings()
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])


def api_key(env: Mapping[str, str], provider: ProviderSettings) -> str | None:
    """Read a provider's key.

    :param env: environment variables.
    :return: the key without the white space around it that copying leaves, or None where none is set.
    """
    if provider.api_key_env is None:
        return None
    return env.get(provider.api_key_env, "").strip() or None


def is_model_name(text: str) -> bool:
    """Whether a text has the form `provider/model`; the model's part may hold more slashes."""
    return re.fullmatch(r"[^\s/]+/\S+", text) is not None
