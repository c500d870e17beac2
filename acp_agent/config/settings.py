"""`Settings` and its parts: everything that can be set, with defaults. Configuration
files are validated against them.

The docstrings below the fields appear in the JSON Schemas and the documentation's
tables, which .ci/generate_reference.py writes. Settings contain no secrets: a key is
named by its environment variable.
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
"""A `prepare` that is not below the threshold is replaced with this share of it, so
that a user who only lowers the threshold makes no mistake.
"""


@frozen
class CompactionSettings:
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
class CompactionChoices(ConfigSection):
    """What one layer says of compaction; None where it says nothing, and for `prepare`
    False where it is off.

    Laying layers over each other is associative, and a layer that says nothing changes
    nothing.
    """

    auto: Flag | None = None
    """`false`: only `/compact` compacts, and what could not be sent otherwise; left
    out: `true`
    """
    threshold: Threshold | None = None
    """share of the usable window from which on the context is compacted; left out:
    `0.8`
    """
    prepare: ShareOrOff = None
    """share of the usable window from which on a summary is prepared in the background,
    so that you do not wait for it; `off` prepares none. One that is not lower than
    `threshold` counts as seven eighths of it; left out: `0.7`
    """
    idle: Idle | None = None
    """`auto`: while you pause, a summary is prepared shortly before the provider's
    prompt cache expires, if that [saves money](compaction.md#while-you-pause); `off`:
    none is; left out: `auto`
    """
    wait: Flag | None = None
    """`true`: a turn waits for a summary that is not ready, rather than use excerpts;
    left out: `false`
    """
    size: SizeOrNull = None
    """how much the new context may take beside the system prompt and the tools; left
    out: the recipe's, else `20%`, and at most 64,000 tokens
    """
    strategy: StrategyName | None = None
    """how it is done; a name that no [strategy](strategies.md) has is an error; left
    out: the recipe's, else `summary`, or `native` for automatic compactions on models
    [whose reasoning it keeps](compaction.md#the-ladder)
    """
    model: ModelName | None = None
    """the model that writes summaries; `native` does not ask it; left out: the
    recipe's, else the session's
    """

    def over(self, below: CompactionChoices) -> CompactionChoices:
        """Merge this layer over the one below: values that this layer does not set come
        from the one below.
        """
        return replace(below, **self._said())

    def settled(self) -> CompactionSettings:
        """Return the settings with defaults for everything that is not set."""
        settled = replace(CompactionSettings(), **self._said())
        if not settled.auto:
            return replace(settled, prepare=None, idle="off")
        if self.prepare is False:
            return replace(settled, prepare=None)
        below = settled.threshold * _PREPARE_BELOW_THRESHOLD
        prepare = self.prepare or min(_DEFAULT_PREPARE, below)
        return replace(
            settled, prepare=prepare if prepare < settled.threshold else below
        )

    def _said(self) -> dict[str, Any]:
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) is not None
        }


@frozen
class ModelPrices(ConfigSection):
    """US dollars for a million tokens; None where the user did not say."""

    input: Dollars | None = None
    """what is read and was in no cache"""
    cached_input: Dollars | None = None
    """what is read from the provider's cache"""
    cache_write: Dollars | None = None
    """what is written into it"""
    output: Dollars | None = None
    """what the model writes"""


@frozen
class ModelSettings(ConfigSection):
    """What the user knows about one model; None leaves it to the provider and the
    built-in table.
    """

    context_window: Tokens | None = None
    """tokens, where neither the provider nor the built-in table says"""
    max_output_tokens: Tokens | None = None
    """tokens of one answer"""
    prices: ModelPrices = ModelPrices()
    """US dollars for a million tokens"""
    compaction: CompactionChoices = CompactionChoices()
    """[as below](#compaction), for this model alone; what it leaves out holds from
    there
    """


@frozen
class ProviderSettings(ConfigSection):
    """A provider of the user's own, or corrections to a built-in one of the same name;
    None where nothing is said.

    People put tokens into `headers`, so `repr` does not show them.
    """

    name: Annotated[str, Internal()] = ""
    """the word before the slash in `provider/model`"""
    kind: ProviderKind | None = None
    """the API that it speaks; left out: the built-in provider's of this name, else
    found out
    """
    base_url: Url | None = None
    """where it is, without user and password"""
    api_key_env: VariableName | None = None
    """the environment variable that holds the key; keys never stand in a file"""
    headers: Mapping[HeaderName, HeaderValue] = field(
        default_factory=dict[str, str], repr=False
    )
    """sent with every request"""
    script: FilePath | None = None
    """for `scripted` alone, and needed there: the file that it plays"""


@frozen
class HookCommand(ConfigSection):
    """A command that is run at an event.

    The order of the fields is part of the digests in `trust.json`. `source` is the file
    and the key.
    """

    event: Annotated[EventName, Internal()]
    command: Command
    """a command line, or a list of a program and its arguments"""
    name: Text = ""
    """what it is called; left out: the program's name"""
    origin: Annotated[Origin, Internal()] = "config"
    source: Annotated[str, Internal()] = ""
    matcher: Matcher = ""
    """which tools, sources or reasons it is for; left out: all"""
    timeout: HookSeconds | None = None
    """seconds that it may take; left out: 10"""
    on_error: OnError = "ask"
    """what its failure means; left out: `ask`, which has you asked about the call"""


def _transport(value: object) -> object:
    if value not in ("http", "sse"):
        raise ValueError("should be 'http' or 'sse'")
    return value


@frozen
class McpServer(ConfigSection):
    """An MCP server, of the user's configuration or of an editor's: a program, an
    address, or the editor itself.

    `server_id` is what an editor calls the server that it is itself. `variables` says
    whether `${NAME}` stands for a variable of the agent's environment. `repr` shows
    neither `env` nor `headers` nor `url`.
    """

    name: Annotated[str, Internal()] = ""
    """what people call it"""
    transport: Annotated[
        _McpTransport, FieldRule(_transport, {"enum": ["http", "sse"]}, any_type=True)
    ] = "stdio"
    """how the address is spoken to: `http` is streamable HTTP; left out: `http`"""
    command: Text = ""
    """the program of a server that speaks over its standard input and output; in this
    and all other texts of an entry, `${NAME}` stands for a variable of the agent's
    environment, and `${NAME:-default}` for one that may be missing
    """
    args: tuple[TextOrEmpty, ...] = ()
    """the program's arguments"""
    env: Mapping[VariableName, TextOrEmpty] = field(
        default_factory=dict[str, str], repr=False
    )
    """environment variables, added to the few that every server gets"""
    url: UrlWithVariables = field(default="", repr=False)
    """the address of a server that speaks over HTTP"""
    headers: Mapping[HeaderName, HeaderValue] = field(
        default_factory=dict[str, str], repr=False
    )
    """sent with every request"""
    timeout: Seconds = 300.0
    """seconds that a call of one of its tools may take; left out: 300"""
    roots: Flag = True
    """`false`: it is not told the session's directories, which some servers take in
    place of those in their arguments; left out: `true`
    """
    variables: Annotated[bool, Internal()] = False
    server_id: Annotated[str, Internal()] = ""


def _versions(value: list[int]) -> tuple[int, ...]:
    if 1 not in value:
        raise ValueError("has to hold 1, which every editor speaks")
    return tuple(sorted({*value}))


_Versions = Annotated[
    tuple[Annotated[int, FieldRule(ge=1, le=2)], ...],
    FieldRule(_versions, min_length=1, strict=False),  # a list is taken too
]


@frozen
class ProtocolSettings(ConfigSection):
    """How the agent speaks with editors."""

    versions: _Versions = (1, 2)
    """the [versions](protocol.md) of ACP that are spoken, with 1 among them; `[1]`
    turns the draft of version 2 off; left out: `[1, 2]`
    """


@frozen
class SandboxSettings(ConfigSection):
    """What commands of the shell tool, and hooks of a project, may do."""

    commands: _SandboxUse = "auto"
    """`auto`: in a [sandbox](sandbox.md) where there is one; `required`: without one
    none runs; `off`: without one; left out: `auto`
    """
    network: Flag = False
    """`true`: they reach the network; left out: `false`"""
    read_deny: tuple[Text, ...] = ()
    """files and folders that they may not read, besides those that hold keys; nor may
    any tool, and none is attached to a prompt or read as instructions
    """
    write: tuple[Text, ...] = ()
    """folders that they may write, besides the session's own and caches"""
    env: tuple[Text, ...] = ()
    """names of variables that they do not inherit, besides providers' keys; `*` stands
    for any characters
    """


@frozen
class Settings(ConfigSection):
    """Everything that can be set, after all layers."""

    home: Annotated[Path, Internal()]
    """the one folder of all state: configuration, sessions, recipes, logs. May not
    exist yet
    """
    project: Annotated[Path | None, Internal()] = None
    """the project's `.acp-agent` folder, where there is one"""
    root: Annotated[Path | None, Internal()] = field(default=None, compare=False)
    """the project's root, where the settings are those of a directory"""
    model: ModelName | None = None
    """the [model](models.md); left out: of the provider whose key is set"""
    small_model: ModelName | None = None
    """the cheap [model](models.md) that gives sessions their
    [titles](sessions.md#titles); left out: the small one of the session's provider,
    where it is known
    """
    mode: Mode = "ask"
    """the [mode](sessions.md#modes) that a session starts in, in a project's file where
    the user's own is not stricter; left out: `ask`
    """
    additional_directories: tuple[Text, ...] = ()
    """folders in which every session works besides its own
    [directory](sessions.md#directories): absolute, from `~`, or from the session's
    directory, as `../shared`; one that does not exist is left out
    """
    remember_permissions: Remember = "project"
    """where [*Always allow*](permissions.md) holds: `project`, from now on in every
    session there, or `session`; left out: `project`
    """
    prompts_while_working: _WhileWorking = "queue"
    """what becomes of a [prompt during a
    turn](sessions.md#prompts-while-the-agent-works): `queue`, it is answered after it,
    or `steer`, it joins the turn at its next step; left out: `queue`
    """
    thought_level: _ThoughtLevel | None = None
    """how much the model thinks; default: the provider's"""
    context_window: Tokens | None = None
    """tokens, for every model and over every other source; left out: as the provider
    says
    """
    max_output_tokens: Tokens | None = None
    """tokens of one answer, for every model"""
    max_turn_requests: Count = 200
    """model calls in one turn; left out: 200"""
    max_turn_cost: DollarLimit | None = None
    """US dollars in one turn; left out: no limit"""
    shell_timeout: Seconds = 120.0
    """time limit in seconds for a shell command, unless the call sets its own"""
    compaction: CompactionChoices = CompactionChoices()
    """when and how a long context is shortened: [below](#compaction)"""
    models: Mapping[ModelName, ModelSettings] = field(
        default_factory=dict[str, ModelSettings]
    )
    """what holds for one model, by its name: [below](#a-model)"""
    providers: Mapping[ProviderName, ProviderSettings] = field(
        default_factory=dict[str, ProviderSettings]
    )
    """other providers, or other addresses of the built-in ones: [below](#a-provider)"""
    hooks: Annotated[
        tuple[HookCommand, ...],
        FieldRule(lambda _: (), {"type": "object"}, any_type=True),
    ] = ()
    """commands that are run at [events](hooks.md#events): [below](#hooks)"""
    mcp_servers: Mapping[ServerName, McpServer] = field(
        default_factory=dict[str, McpServer]
    )
    """[MCP servers](mcp.md) that are started with every session, by name:
    [below](#an-mcp-server)
    """
    sandbox: SandboxSettings = SandboxSettings()
    """what commands may do: [below](#sandbox)"""
    wire_log: Flag = False
    """record what the editor and the agent say to each other, for [`acp-agent
    wire`](wire.md); left out: `false`
    """
    protocol: ProtocolSettings = ProtocolSettings()
    """how the agent speaks with editors: [below](#protocol)"""
    hook_faults: Annotated[tuple[str, ...], Internal()] = ()
    """what is wrong with hooks that were left out, with file and line"""
    notices: Annotated[tuple[str, ...], Internal()] = ()
    """what the user should be told of files that hold all the same, such as keys that
    are no longer used
    """

    places: Annotated[Mapping[str, str], Internal()] = field(
        default_factory=dict[str, str], compare=False
    )
    """where each value was set, as `file:line` or the name of a variable, by its dotted
    key; nothing for defaults
    """

    def compaction_for(
        self, model: str, auto: bool | None = None
    ) -> CompactionSettings:
        """Return the compaction settings for a model: its own section merged over the
        general one.

        :param model: `provider/model`, as in `models`.
        :param auto: overrides `auto` of both sections; None to use theirs.
        """
        own = (
            self.models[model].compaction
            if model in self.models
            else CompactionChoices()
        )
        return CompactionChoices(auto=auto).over(own).over(self.compaction).settled()
