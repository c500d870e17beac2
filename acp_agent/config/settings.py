"""What the agent was told: `Settings` and its parts, with the built-in defaults.

Plain data. Knows neither where it came from nor what a provider does with it. No secret is ever in here: a key is
named by its environment variable and read with `api_key` at the moment of use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.config.hook_events import EventName, OnError
from acp_agent.frozen import frozen

Mode: TypeAlias = Literal["plan", "ask", "accept-edits", "full-access"]
Remember: TypeAlias = Literal["project", "session"]
WhileWorking: TypeAlias = Literal["queue", "steer"]
ThoughtLevel: TypeAlias = Literal["off", "low", "medium", "high"]
McpTransport: TypeAlias = Literal["stdio", "http", "sse", "acp"]
ProviderKind: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "scripted"]

MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "full-access")
"""The permission modes, from the strictest to the freest."""

MODEL_NAME_FORM = "should be provider/model, such as anthropic/claude-sonnet-5-5 or ollama/qwen3:8b"
"""What to tell somebody whose model is not one by `is_model_name`."""


DEFAULT_SIZE = 0.20
MAX_DEFAULT_SIZE = 64_000
"""Tokens. A larger context costs more with every request, and is read with less attention."""

DEFAULT_PREPARE = 0.70
PREPARE_BELOW_THRESHOLD = 7 / 8
"""Where `prepare` is not set, it is at most this part of the threshold: a lower threshold alone is no mistake."""


@frozen
class Share:
    """A part of the model's window, 0 to 1."""

    of_window: float

    def tokens(self, window: int) -> int:
        """Return the tokens that this is of a window.

        :param window: tokens of the whole window.
        """
        return int(window * self.of_window)


Size: TypeAlias = int | Share
"""Tokens, or a share of the window."""


def size_tokens(size: Size | None, window: int) -> int:
    """Return the tokens that a compacted context may take beside the system prompt and the tools.

    :param size: None for the default: a fifth of the window, and at most `MAX_DEFAULT_SIZE`.
    :param window: tokens of the whole window.
    """
    if size is None:
        return min(Share(DEFAULT_SIZE).tokens(window), MAX_DEFAULT_SIZE)
    return size.tokens(window) if isinstance(size, Share) else size


@frozen
class CompactionSettings:
    """When and how the context is made short, after all layers.

    :ivar auto: whether it is without being asked; `/compact` always works.
    :ivar threshold: share of the usable window, 0 to 1, from which on it is.
    :ivar prepare: share of the usable window from which on a summary is prepared in the background, always lower than
        `threshold`; None where none is: switched off, or `auto` is.
    :ivar wait: whether a turn waits for a summary rather than use excerpts.
    :ivar size: how much the new context may take, for `size_tokens`; None leaves it to the recipe.
    :ivar strategy: name of the strategy; None leaves it to the recipe.
    :ivar model: `provider/model` that writes summaries; None leaves it to the recipe, else it is the session's own.
    """

    auto: bool = True
    threshold: float = 0.80
    prepare: float | None = DEFAULT_PREPARE
    wait: bool = False
    size: Size | None = None
    strategy: str | None = None
    model: str | None = None


@frozen
class CompactionChoices:
    """What one layer says of compaction; None where it says nothing. Fields as in `CompactionSettings`.

    Laying layers over each other is associative, and a layer that says nothing changes nothing.

    :ivar prepare: False switches it off.
    """

    auto: bool | None = None
    threshold: float | None = None
    prepare: float | Literal[False] | None = None
    wait: bool | None = None
    size: Size | None = None
    strategy: str | None = None
    model: str | None = None

    def over(self, below: CompactionChoices) -> CompactionChoices:
        """This layer where it says something, else the one below it."""
        return CompactionChoices(
            auto=below.auto if self.auto is None else self.auto,
            threshold=below.threshold if self.threshold is None else self.threshold,
            prepare=below.prepare if self.prepare is None else self.prepare,
            wait=below.wait if self.wait is None else self.wait,
            size=below.size if self.size is None else self.size,
            strategy=below.strategy if self.strategy is None else self.strategy,
            model=below.model if self.model is None else self.model,
        )

    def settled(self) -> CompactionSettings:
        """With the defaults below it. What is said is taken as it is, so `prepare` may be too high."""
        base = CompactionSettings()
        auto = base.auto if self.auto is None else self.auto
        threshold = base.threshold if self.threshold is None else self.threshold
        prepare = self.prepare
        if prepare is None:
            prepare = min(DEFAULT_PREPARE, threshold * PREPARE_BELOW_THRESHOLD)
        return CompactionSettings(
            auto=auto,
            threshold=threshold,
            prepare=prepare if auto and prepare is not False else None,
            wait=base.wait if self.wait is None else self.wait,
            size=self.size,
            strategy=self.strategy,
            model=self.model,
        )


@frozen
class ModelPrices:
    """US dollars for a million tokens; None where the user did not say."""

    input: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    output: float | None = None


@frozen
class ModelSettings:
    """What the user knows about one model; None leaves it to the provider and the built-in table.

    :ivar context_window: tokens of the whole window, where neither the provider nor the table says.
    :ivar max_output_tokens: upper bound of one answer, in tokens.
    :ivar compaction: what holds for this model's contexts alone.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    prices: ModelPrices = ModelPrices()
    compaction: CompactionChoices = CompactionChoices()


@frozen
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


@frozen
class HookFault:
    """A hook of a configuration file that was left out.

    :ivar origin: `config` for the user's file, `project` for a project's.
    :ivar text: what is wrong with it, with file and line.
    """

    origin: Literal["config", "project"]
    text: str


@frozen
class HookCommand:
    """A command that is run at an event.

    :ivar command: a command line for the shell, or a program with its arguments.
    :ivar origin: whose file it stands in: `config` for the user's.
    :ivar source: that file, and the key.
    :ivar matcher: which tools, sources, triggers or reasons it is for; empty for all.
    :ivar timeout: seconds that it may take; None for the usual.
    :ivar on_error: what its failure means for what it is asked about.
    """

    event: EventName
    command: str | tuple[str, ...]
    name: str
    origin: Literal["config", "project"]
    source: str
    matcher: str = ""
    timeout: float | None = None
    on_error: OnError = "ask"


@frozen
class McpServer:
    """An MCP server, of the user's configuration or of an editor's.

    :ivar name: what people call it.
    :ivar transport: how it is spoken to; `stdio` has a command, `http` and `sse` have a URL, and `acp` is the editor
        itself.
    :ivar args: the command's.
    :ivar env: added to the few variables that every server gets; neither these nor the headers are shown by `repr`.
    :ivar headers: sent with every request.
    :ivar timeout: seconds that a call of a tool may take.
    :ivar server_id: what the editor calls it that it is itself.
    :ivar variables: whether `${NAME}` in `env` and `headers` stands for a variable of the agent's environment.
    """

    name: str
    transport: McpTransport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 300.0
    variables: bool = False
    server_id: str = ""


@frozen
class Settings:
    """Everything that can be set, after all layers.

    :ivar home: the one folder of all state: configuration, sessions, recipes, logs. May not exist yet.
    :ivar project: the project's `.acp-agent` folder, where there is one.
    :ivar model: `provider/model`; None lets the keys that are set decide.
    :ivar small_model: `provider/model` for little things beside the conversation, such as a session's title; None
        leaves it to the session's provider.
    :ivar mode: the permission mode in which a session starts.
    :ivar remember_permissions: where "Always allow" holds: in this project from now on, or in the session alone.
    :ivar prompts_while_working: whether a prompt that comes during a turn waits for its end, or joins it.
    :ivar thought_level: None leaves it to the model.
    :ivar context_window: tokens; overrides every other source for whichever model is used.
    :ivar max_output_tokens: upper bound of one answer, in tokens, for whichever model is used.
    :ivar max_turn_requests: model calls in one turn before it ends with `max_turn_requests`.
    :ivar max_turn_cost: US dollars in one turn before it ends likewise.
    :ivar shell_timeout: seconds that a shell command may take where the call names none.
    :ivar compaction_choices: what was said of compaction for all models; read it with `compaction_for`.
    :ivar models: by `provider/model`.
    :ivar providers: by name.
    :ivar hooks: commands, the user's before the project's, each file's in its order.
    :ivar hook_faults: those that were left out, in the same order.
    :ivar notices: what the user should be told of files that hold all the same, such as keys that are no longer used.
    :ivar mcp_servers: started with every session.
    :ivar wire_log: whether what goes over the wire is recorded.
    :ivar protocol_versions: of ACP, that are spoken with editors.
    """

    home: Path
    project: Path | None = None
    model: str | None = None
    small_model: str | None = None
    mode: Mode = "ask"
    remember_permissions: Remember = "project"
    prompts_while_working: WhileWorking = "queue"
    thought_level: ThoughtLevel | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    max_turn_requests: int = 200
    max_turn_cost: float | None = None
    shell_timeout: float = 120.0
    compaction_choices: CompactionChoices = CompactionChoices()
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    hooks: tuple[HookCommand, ...] = ()
    hook_faults: tuple[HookFault, ...] = ()
    notices: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    wire_log: bool = False
    protocol_versions: tuple[int, ...] = (1, 2)

    @property
    def compaction(self) -> CompactionSettings:
        """What holds for a model of which nothing special is said."""
        return self.compaction_choices.settled()

    def compaction_for(self, model: str, auto: bool | None = None) -> CompactionSettings:
        """What holds for a model: its own section laid over the general one.

        :param model: `provider/model`, as in `models`.
        :param auto: whether it is done without being asked, laid over both; None where nobody has said.
        """
        if model not in self.models and auto is None:
            return self.compaction
        own = self.models[model].compaction if model in self.models else CompactionChoices()
        return CompactionChoices(auto=auto).over(own).over(self.compaction_choices).settled()


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
