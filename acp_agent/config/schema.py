"""The two configuration files as pydantic models: what may be written where, and how it changes the settings.

The user's file may set everything. The project's file comes with a repository, so it is a stranger's text: it may
choose and tighten, but neither move a key or the conversation to another server, nor widen what runs without being
asked for, nor raise what a turn may cost. In particular

- `providers` is refused: a base URL or a header in a repository would send the user's key to whoever wrote it, and a
  script would put words into the model's mouth;
- `protocol` is refused: it is agreed on before a project is known;
- `mcp_servers` is refused: each is a program, or an address that is told what the model asks for;
- `wire_log` is refused: it writes down what is said in every project;
- `models` is refused: its prices are what `max_turn_cost` is computed from;
- `remember_permissions` is refused: what outlives a session is the user's to say;
- `prompts_while_working` is refused: it is a habit of the user's and not of a project;
- `mode` may be `plan` or `ask`, and of the user's mode and the project's the stricter one holds;
- of `max_turn_requests` and `max_turn_cost` the lower one holds;
- `hooks` adds commands to the user's, and takes none of them away. Whether a project's are run is not decided here. It
  is read in `hook_section`.

What is left can only choose a model among the providers that the user has set up, or fit the agent to the project.
Null is the same as leaving the key out. Defaults are in `settings` alone.

The descriptions are the words of the JSON Schemas and of the documentation's tables, which .ci/generate_reference.py
writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.forms import (
    HeaderName,
    HeaderValue,
    ModelName,
    ProviderName,
    ServerName,
    Thinking,
    Tokens,
    Url,
    VariableName,
)
from acp_agent.config.hook_section import Hooks, Section
from acp_agent.config.mcp_section import McpServerSection
from acp_agent.config.model_section import CompactionSection, ModelSection, choices_of
from acp_agent.config.settings import (
    MODES,
    Mode,
    ProviderKind,
    ProviderSettings,
    Remember,
    Settings,
    WhileWorking,
)

T = TypeVar("T")


def _users_alone(value: object, info: ValidationInfo) -> object:
    raise PydanticCustomError(
        "users_alone",
        "may not be set by a project, whose files may be a stranger's; move it to {user_file}",
        {"user_file": _user_file(info)},
    )


def _project_mode(value: object, info: ValidationInfo) -> object:
    if value in ("accept-edits", "full-access"):
        raise PydanticCustomError(
            "project_mode",
            "a project may set `plan` or `ask` alone; choose a freer mode in the editor or in {user_file}",
            {"user_file": _user_file(info)},
        )
    return value


UsersAlone = Annotated[SkipJsonSchema[None], BeforeValidator(_users_alone)]


class ProviderSection(Section):
    """`providers.*`."""

    kind: ProviderKind | None = Field(
        default=None,
        description="the API that it speaks; left out: the built-in provider's of this name, else found out",
    )
    base_url: Url | None = Field(default=None, description="where it is, without user and password")
    api_key_env: VariableName | None = Field(
        default=None, description="the environment variable that holds the key; keys never stand in a file"
    )
    headers: dict[HeaderName, HeaderValue] | None = Field(default=None, description="sent with every request")
    script: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="for `scripted` alone, and needed there: the file that it plays"
    )

    @model_validator(mode="after")
    def script_belongs_to_scripted(self) -> ProviderSection:
        """`script` and `kind: scripted` need each other."""
        if (self.kind == "scripted") != (self.script is not None):
            raise PydanticCustomError("script", "`kind: scripted` and `script: FILE` need each other")
        return self

    def settings(self, name: str, folder: Path) -> ProviderSettings:
        """As plain data.

        :param name: the provider's.
        :param folder: what a relative `script` starts from.
        """
        return ProviderSettings(
            name=name,
            kind=self.kind,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            headers=self.headers or {},
            script=folder / self.script if self.script else None,
        )


def _with_the_first(versions: list[int]) -> list[int]:
    if 1 not in versions:
        raise PydanticCustomError("first_version", "has to hold 1, which every editor speaks")
    return versions


Versions = Annotated[
    list[Annotated[int, Field(ge=1, le=2)]],
    Field(min_length=1, json_schema_extra={"contains": {"const": 1}}),
    AfterValidator(_with_the_first),
]


class ProtocolSection(Section):
    """`protocol`: how the agent speaks with editors."""

    versions: Versions | None = Field(
        default=None,
        description="the [versions](protocol.md) of ACP that are spoken, with 1 among them; `[1]` turns the draft of "
        "version 2 off; left out: `[1, 2]`",
    )


class SharedKeys(Section):
    """What both files may say in the same way."""

    model: ModelName | None = Field(
        default=None, description="the [model](models.md); left out: of the provider whose key is set"
    )
    thought_level: Thinking | None = Field(
        default=None, description="how much the model thinks; left out: as the provider has it"
    )
    context_window: Tokens | None = Field(
        default=None,
        description="tokens, for every model and over every other source; left out: as the provider says",
    )
    max_output_tokens: Tokens | None = Field(default=None, description="tokens of one answer, for every model")
    max_turn_requests: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="model calls in one turn; left out: 200"
    )
    max_turn_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="US dollars in one turn; left out: no limit"
    )
    shell_timeout: Annotated[float, Field(gt=0, le=86_400)] | None = Field(
        default=None, description="seconds that a command of the shell tool may take, where the call names none"
    )
    compaction: CompactionSection | None = Field(
        default=None, description="when and how a long context is made short: [below](#compaction)"
    )
    hooks: Hooks = Field(
        default=None, description="commands that are run at [events](hooks.md#events): [below](#hooks)"
    )

    def shared(self, below: Settings) -> Settings:
        """Lay the keys that simply override over what was said before."""
        return replace(
            below,
            model=_or(self.model, below.model),
            thought_level=_or(self.thought_level, below.thought_level),
            context_window=_or(self.context_window, below.context_window),
            max_output_tokens=_or(self.max_output_tokens, below.max_output_tokens),
            shell_timeout=_or(self.shell_timeout, below.shell_timeout),
            compaction_choices=choices_of(self.compaction).over(below.compaction_choices),
        )


class UserFile(SharedKeys):
    """`config.yaml` in the user's home of the agent."""

    small_model: ModelName | None = Field(
        default=None,
        description="the cheap [model](models.md) that gives sessions their [titles](sessions.md#titles); left out: "
        "the small one of the session's provider, where it is known",
    )
    mode: Mode | None = Field(
        default=None, description="the [mode](sessions.md#modes) that a session starts in; left out: `ask`"
    )
    remember_permissions: Remember | None = Field(
        default=None,
        description="where [*Always allow*](permissions.md) holds: `project`, from now on in every session there, or "
        "`session`; left out: `project`",
    )
    prompts_while_working: WhileWorking | None = Field(
        default=None,
        description="what becomes of a [prompt during a turn](sessions.md#prompts-while-the-agent-works): `queue`, it "
        "is answered after it, or `steer`, it joins the turn at its next step; left out: `queue`",
    )
    models: dict[ModelName, ModelSection] | None = Field(
        default=None, description="what holds for one model, by its name: [below](#a-model)"
    )
    providers: dict[ProviderName, ProviderSection] | None = Field(
        default=None, description="other providers, or other addresses of the built-in ones: [below](#a-provider)"
    )
    mcp_servers: dict[ServerName, McpServerSection] | None = Field(
        default=None,
        description="[MCP servers](mcp.md) that are started with every session, by name: [below](#an-mcp-server)",
    )
    wire_log: bool | None = Field(
        default=None,
        description="record what the editor and the agent say to each other, for [`acp-agent wire`](wire.md); left "
        "out: `false`",
    )

    protocol: ProtocolSection | None = Field(
        default=None, description="how the agent speaks with editors: [below](#protocol)"
    )

    def over(self, below: Settings) -> Settings:
        """Lay this file over the built-in defaults."""
        versions = self.protocol.versions if self.protocol else None
        providers: Mapping[str, ProviderSection] = self.providers or {}
        return replace(
            self.shared(below),
            small_model=_or(self.small_model, below.small_model),
            mode=_or(self.mode, below.mode),
            remember_permissions=_or(self.remember_permissions, below.remember_permissions),
            prompts_while_working=_or(self.prompts_while_working, below.prompts_while_working),
            max_turn_requests=_or(self.max_turn_requests, below.max_turn_requests),
            max_turn_cost=_or(self.max_turn_cost, below.max_turn_cost),
            models={name: section.settings() for name, section in (self.models or {}).items()},
            providers={name: section.settings(name, below.home) for name, section in providers.items()},
            mcp_servers=tuple(section.settings(name) for name, section in (self.mcp_servers or {}).items()),
            wire_log=_or(self.wire_log, below.wire_log),
            protocol_versions=tuple(sorted(set(versions))) if versions else below.protocol_versions,
        )


class ProjectFile(SharedKeys):
    """`.acp-agent/config.yaml` of a project; see the module's docstring for what it may not say, and why."""

    mode: Annotated[Literal["plan", "ask"], BeforeValidator(_project_mode)] | None = Field(
        default=None, description="the mode that a session starts in, where the user's own is not stricter"
    )
    small_model: UsersAlone = None
    remember_permissions: UsersAlone = None
    prompts_while_working: UsersAlone = None
    models: UsersAlone = None
    protocol: UsersAlone = None
    providers: UsersAlone = None
    mcp_servers: UsersAlone = None
    wire_log: UsersAlone = None

    def over(self, below: Settings) -> Settings:
        """Lay this file over the user's settings, which it can tighten but not loosen."""
        costs = [cost for cost in (self.max_turn_cost, below.max_turn_cost) if cost is not None]
        return replace(
            self.shared(below),
            mode=min(_or(self.mode, below.mode), below.mode, key=MODES.index),
            max_turn_requests=min(_or(self.max_turn_requests, below.max_turn_requests), below.max_turn_requests),
            max_turn_cost=min(costs, default=None),
        )


def _or(value: T | None, below: T) -> T:
    return below if value is None else value


def _user_file(info: ValidationInfo) -> str:
    """The path that an error sends the reader to; whoever validates a project's file gives it as the context."""
    return str(info.context)
