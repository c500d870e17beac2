"""`Settings` and its sections: everything that can be configured, with defaults.
Configuration files are validated against these classes.

The docstrings below the fields appear in the JSON Schemas and in the documentation's
tables, which .ci/generate_reference.py writes. Settings contain no secrets: they name
the environment variable that contains a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from acp_agent.config.forms import (
    Command,
    ConfigSection,
    Count,
    DollarLimit,
    Dollars,
    FieldRule,
    FilePath,
    Flag,
    HeaderName,
    HeaderValue,
    HookSeconds,
    Internal,
    Matcher,
    ModelName,
    ProviderName,
    Seconds,
    ServerName,
    ShareOrOff,
    Size,
    SizeOrNull,
    StrategyName,
    Text,
    TextOrEmpty,
    Threshold,
    Tokens,
    Url,
    UrlWithVariables,
    VariableName,
)
from acp_agent.config.hook_events import EventName, OnError
from acp_agent.frozen import frozen

Mode: TypeAlias = Literal["plan", "ask", "accept-edits", "full-access"]
Remember: TypeAlias = Literal["project", "session"]
_ThoughtLevel: TypeAlias = Literal["off", "low", "medium", "high"]
_WhileWorking: TypeAlias = Literal["queue", "steer"]
_McpTransport: TypeAlias = Literal["stdio", "http", "sse", "acp"]
_SandboxUse: TypeAlias = Literal["off", "auto", "required"]
Idle: TypeAlias = Literal["auto", "off"]
"""Whether a summary is prepared while the user pauses."""
ProviderKind: TypeAlias = Literal[
    "openai-chat", "openai-responses", "anthropic", "scripted"
]
Origin: TypeAlias = Literal["config", "project"]
"""The source of a setting: the user's file or a project's."""

MODES: tuple[Mode, ...] = get_args(Mode)
"""The permission modes, from the most to the least restrictive."""

_DEFAULT_PREPARE = 0.70
_PREPARE_BELOW_THRESHOLD = 7 / 8
"""A `prepare` that is not below the threshold is replaced with this share of the
threshold, so that lowering only the threshold is not an error.
"""


@frozen
class MergedCompaction:
    """When and how the context is compacted, after merging all layers.

    :ivar auto: whether to compact automatically. `/compact` always works.
    :ivar threshold: share of the usable window, from 0 to 1, at which the context is
        compacted.
    :ivar prepare: share of the usable window at which a summary is prepared in the
        background, always below `threshold`; None if this is off or `auto` is False.
    :ivar wait: whether a turn waits for a summary instead of using excerpts.
    :ivar size: maximum size of the new context; None for the recipe's.
    :ivar strategy: name of the strategy; None for the recipe's.
    :ivar model: the `provider/model` that writes summaries; None for the recipe's or
        the session's own.
    :ivar idle: whether a summary is prepared while the user pauses; `off` if `auto` is
        False.
    """

    auto: bool = True
    threshold: float = 0.80
    prepare: float | None = _DEFAULT_PREPARE
    wait: bool = False
    size: Size | None = None
    strategy: str | None = None
    model: str | None = None
    idle: Idle = "auto"


@frozen
class CompactionSettings(ConfigSection):
    """The compaction settings of one layer. None means not set, and False for `prepare`
    means off.

    Merging layers is associative, and a layer that sets nothing changes nothing.
    """

    auto: Flag | None = None
    """whether to compact automatically. With `false`, the context is compacted only by
    `/compact`, or if a request could not be sent otherwise. Default: `true`
    """
    threshold: Threshold | None = None
    """share of the usable window at which the context is compacted. Default: `0.8`"""
    prepare: ShareOrOff = None
    """share of the usable window at which a summary is prepared in the background, so
    that you do not have to wait for it; `off` prepares none. A value that is not below
    `threshold` is replaced with seven eighths of `threshold`. Default: `0.7`
    """
    idle: Idle | None = None
    """whether to prepare a summary while you pause: with `auto`, shortly before the
    provider's prompt cache expires, if that [saves
    money](compaction.md#while-you-pause); with `off`, never. Default: `auto`
    """
    wait: Flag | None = None
    """whether a turn waits for a summary that is not ready, instead of using excerpts.
    Default: `false`
    """
    size: SizeOrNull = None
    """maximum size of the new context, without the system prompt and the tools.
    Default: the recipe's size, otherwise `20%` but at most 64,000 tokens
    """
    strategy: StrategyName | None = None
    """name of the [strategy](strategies.md); an unknown name is an error. Default: the
    recipe's strategy, otherwise `summary`, or `native` for automatic compactions on
    models [whose reasoning `native` keeps](compaction.md#the-ladder)
    """
    model: ModelName | None = None
    """the model that writes summaries; `native` does not use it. Default: the recipe's
    model, otherwise the session's
    """

    def over(self, below: CompactionSettings) -> CompactionSettings:
        """Merge this layer over another one, which provides the values that this layer
        does not set.
        """
        return replace(below, **self._set_values())

    def settled(self) -> MergedCompaction:
        """Return the settings with defaults for everything that is not set."""
        settled = replace(MergedCompaction(), **self._set_values())
        if not settled.auto:
            return replace(settled, prepare=None, idle="off")
        if self.prepare is False:
            return replace(settled, prepare=None)
        below = settled.threshold * _PREPARE_BELOW_THRESHOLD
        prepare = self.prepare or min(_DEFAULT_PREPARE, below)
        return replace(
            settled, prepare=prepare if prepare < settled.threshold else below
        )

    def _set_values(self) -> dict[str, Any]:
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) is not None
        }


@frozen
class ModelPrices(ConfigSection):
    """Prices in US dollars per million tokens; None if not set."""

    input: Dollars | None = None
    """input tokens that were in no cache"""
    cached_input: Dollars | None = None
    """input tokens read from the provider's cache"""
    cache_write: Dollars | None = None
    """input tokens written to the provider's cache"""
    output: Dollars | None = None
    """output tokens"""


@frozen
class ModelSettings(ConfigSection):
    """The user's settings for one model. If a value is None, the provider or the
    built-in table provides it.
    """

    context_window: Tokens | None = None
    """size of the context window in tokens, if neither the provider nor the built-in
    table knows it
    """
    max_output_tokens: Tokens | None = None
    """maximum number of tokens in one answer"""
    prices: ModelPrices = ModelPrices()
    """US dollars per million tokens"""
    compaction: CompactionSettings = CompactionSettings()
    """compaction settings for this model, which override the [general
    ones](#compaction)
    """


@frozen
class ProviderSettings(ConfigSection):
    """A provider that the user adds, or changes to the built-in one of the same name;
    None for values that are not set.

    `headers` may contain tokens, so `repr` does not show them.
    """

    name: Annotated[str, Internal()] = ""
    """the word before the slash in `provider/model`"""
    kind: ProviderKind | None = None
    """the provider's API. Default: the API of the built-in provider with this name;
    otherwise the agent detects it
    """
    base_url: Url | None = None
    """the address of the API, without user and password"""
    api_key_env: VariableName | None = None
    """the environment variable that contains the key; never write a key into a file"""
    headers: Mapping[HeaderName, HeaderValue] = field(
        default_factory=dict[str, str], repr=False
    )
    """HTTP headers to send with every request"""
    script: FilePath | None = None
    """the file with the answers that `scripted` gives; required for `scripted`, and not
    allowed for other kinds
    """


@frozen
class HookCommand(ConfigSection):
    """A command to run at an event.

    The order of the fields is part of the digests in `trust.json`.

    :ivar source: the file and the key that define it.
    """

    event: Annotated[EventName, Internal()]
    command: Command
    """a command line, or a list of a program and its arguments"""
    name: Text = ""
    """name of the hook. Default: the program's name"""
    origin: Annotated[Origin, Internal()] = "config"
    source: Annotated[str, Internal()] = ""
    matcher: Matcher = ""
    """the tools, sources or reasons for which the hook runs. Default: all"""
    timeout: HookSeconds | None = None
    """time limit in seconds. Default: 10"""
    on_error: OnError = "ask"
    """what happens if the hook [fails](hooks.md#failures). Default: `ask`, which asks
    you about the call
    """


def _transport(value: object) -> object:
    if value not in ("http", "sse"):
        raise ValueError("should be 'http' or 'sse'")
    return value


@frozen
class McpServer(ConfigSection):
    """An MCP server from the user's configuration or from an editor: a program, an
    address, or the editor itself.

    `repr` shows neither `env` nor `headers` nor `url`, which may contain secrets.

    :ivar variables: whether `${NAME}` is replaced with an environment variable of the
        agent.
    :ivar server_id: the editor's ID of the server, if the editor itself is the server.
    """

    name: Annotated[str, Internal()] = ""
    """name of the server for the user"""
    transport: Annotated[
        _McpTransport, FieldRule(_transport, {"enum": ["http", "sse"]}, any_type=True)
    ] = "stdio"
    """transport for the `url`: `http` is streamable HTTP. Default: `http`"""
    command: Text = ""
    """the program of a server that uses standard input and output. In all strings of
    this section, `${NAME}` is replaced with an environment variable of the agent;
    `${NAME:-default}` gives a default for a missing one
    """
    args: tuple[TextOrEmpty, ...] = ()
    """the program's arguments"""
    env: Mapping[VariableName, TextOrEmpty] = field(
        default_factory=dict[str, str], repr=False
    )
    """environment variables for the program, in addition to the few that every server
    gets
    """
    url: UrlWithVariables = field(default="", repr=False)
    """the address of a server that uses HTTP"""
    headers: Mapping[HeaderName, HeaderValue] = field(
        default_factory=dict[str, str], repr=False
    )
    """HTTP headers to send with every request"""
    timeout: Seconds = 300.0
    """time limit in seconds for a tool call. Default: 300"""
    roots: Flag = True
    """whether to tell the server the session's directories. Some servers use these
    instead of the directories in their arguments. Default: `true`
    """
    variables: Annotated[bool, Internal()] = False
    server_id: Annotated[str, Internal()] = ""


def _versions(value: list[int]) -> tuple[int, ...]:
    if 1 not in value:
        raise ValueError("should include 1, which every editor supports")
    return tuple(sorted({*value}))


_Versions = Annotated[
    tuple[Annotated[int, FieldRule(ge=1, le=2)], ...],
    FieldRule(_versions, min_length=1, strict=False),  # accepts a list too
]


@frozen
class ProtocolSettings(ConfigSection):
    """How the agent communicates with editors."""

    versions: _Versions = (1, 2)
    """the [versions](protocol.md) of ACP that the agent supports, which must include 1;
    `[1]` disables the draft of version 2. Default: `[1, 2]`
    """


@frozen
class SandboxSettings(ConfigSection):
    """What the shell tool's commands and a project's hooks may do."""

    commands: _SandboxUse = "auto"
    """whether commands run in a [sandbox](sandbox.md): `auto`, if one is available;
    `required`, always, and no command runs without one; `off`, never. Default: `auto`
    """
    network: Flag = False
    """whether commands can access the network. Default: `false`"""
    read_deny: tuple[Text, ...] = ()
    """files and folders that commands cannot read, in addition to those that contain
    keys. Tools cannot read them either, and they are neither attached to prompts nor
    read as instructions
    """
    write: tuple[Text, ...] = ()
    """folders that commands can write to, in addition to the session's directories and
    caches
    """
    env: tuple[Text, ...] = ()
    """names of environment variables that commands do not inherit, in addition to the
    providers' keys; `*` matches any characters
    """


@frozen
class Settings(ConfigSection):
    """All settings, after merging the layers."""

    home: Annotated[Path, Internal()]
    """the folder that contains all state: configuration, sessions, recipes and logs. It
    may not exist yet
    """
    project: Annotated[Path | None, Internal()] = None
    """the project's `.acp-agent` folder, if it has one"""
    root: Annotated[Path | None, Internal()] = field(default=None, compare=False)
    """the project's root; None if the settings were loaded without a session's
    directory
    """
    model: ModelName | None = None
    """the [model](models.md). Default: a model of the provider whose key is set"""
    small_model: ModelName | None = None
    """the cheap [model](models.md) that writes session [titles](sessions.md#titles).
    Default: the small model of the session's provider, if the agent knows one
    """
    mode: Mode = "ask"
    """the [mode](sessions.md#modes) in which a session starts. In a project's file, it
    applies only if it is stricter than the user's. Default: `ask`
    """
    additional_directories: tuple[Text, ...] = ()
    """folders that every session can work in, in addition to its own
    [directory](sessions.md#directories). A path is absolute, begins with `~`, or is
    relative to the session's directory, such as `../shared`. Missing folders are
    ignored
    """
    remember_permissions: Remember = "project"
    """how long [*Always allow*](permissions.md) applies: `project`, to all sessions in
    the project from now on; `session`, to this session only. Default: `project`
    """
    prompts_while_working: _WhileWorking = "queue"
    """what happens to a [prompt that you send during a
    turn](sessions.md#prompts-while-the-agent-works): `queue` answers it after the turn,
    `steer` adds it to the turn at the next step. Default: `queue`
    """
    thought_level: _ThoughtLevel | None = None
    """how much the model thinks. Default: the provider's default"""
    context_window: Tokens | None = None
    """size of the context window in tokens, for every model; overrides [all other
    sources](models.md#the-window). Default: the size that the provider reports, if any
    """
    max_output_tokens: Tokens | None = None
    """maximum number of tokens in one answer, for every model"""
    max_turn_requests: Count = 200
    """maximum number of model calls in one turn. Default: 200"""
    max_turn_cost: DollarLimit | None = None
    """maximum cost of one turn in US dollars. Default: no limit"""
    shell_timeout: Seconds = 120.0
    """time limit in seconds for a shell command, unless the call sets its own. Default:
    120
    """
    compaction: CompactionSettings = CompactionSettings()
    """when and how a long context is compacted: [below](#compaction)"""
    models: Mapping[ModelName, ModelSettings] = field(
        default_factory=dict[str, ModelSettings]
    )
    """settings for single models, by `provider/model`: [below](#a-model)"""
    providers: Mapping[ProviderName, ProviderSettings] = field(
        default_factory=dict[str, ProviderSettings]
    )
    """additional providers, or changes to the built-in ones, by name:
    [below](#a-provider)
    """
    hooks: Annotated[
        tuple[HookCommand, ...],
        FieldRule(lambda _: (), {"type": "object"}, any_type=True),
    ] = ()
    """commands to run at [events](hooks.md#events): [below](#hooks)"""
    mcp_servers: Mapping[ServerName, McpServer] = field(
        default_factory=dict[str, McpServer]
    )
    """[MCP servers](mcp.md) to start with every session, by name:
    [below](#an-mcp-server)
    """
    sandbox: SandboxSettings = SandboxSettings()
    """what commands may do: [below](#sandbox)"""
    wire_log: Flag = False
    """whether to record the messages between the editor and the agent, for [`acp-agent
    wire`](wire.md). Default: `false`
    """
    protocol: ProtocolSettings = ProtocolSettings()
    """which versions of the protocol the agent supports: [below](#protocol)"""
    hook_faults: Annotated[tuple[str, ...], Internal()] = ()
    """an error with file and line for each invalid hook; these hooks are ignored"""
    notices: Annotated[tuple[str, ...], Internal()] = ()
    """notices for the user about files that were read in spite of mistakes, such as
    unknown keys
    """

    places: Annotated[Mapping[str, str], Internal()] = field(
        default_factory=dict[str, str], compare=False
    )
    """where each value was set, by dotted key: `file:line`, or the name of a variable.
    Defaults are not included
    """

    def compaction_for(self, model: str, auto: bool | None = None) -> MergedCompaction:
        """Return the compaction settings for a model: its own section merged over the
        general one.

        :param model: `provider/model`, as in `models`.
        :param auto: overrides `auto` of both sections; None to use theirs.
        """
        own = (
            self.models[model].compaction
            if model in self.models
            else CompactionSettings()
        )
        return CompactionSettings(auto=auto).over(own).over(self.compaction).settled()
