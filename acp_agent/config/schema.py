"""The two configuration files as pydantic models: what may be written where, and how it changes the settings.

The user's file may set everything. The project's file comes with a repository, so it is a stranger's text: it may
choose and tighten, but neither move a key or the conversation to another server, nor widen what runs without being
asked for, nor raise what a turn may cost. In particular

- `providers` is refused: a base URL or a header in a repository would send the user's key to whoever wrote it, and a
  script would put words into the model's mouth;
- `models` is refused: its prices are what `max_turn_cost` is computed from;
- `mode` may be `plan` or `ask`, and of the user's mode and the project's the stricter one holds;
- of `max_turn_requests` and `max_turn_cost` the lower one holds;
- `hooks` adds commands to the user's, and takes none of them away. Whether a project's are run is not decided here.

What is left can only choose a model among the providers that the user has set up, or fit the agent to the project.
Null is the same as leaving the key out. Defaults are in `settings` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from acp_agent.config.document import did_you_mean
from acp_agent.config.home import CONFIG_FILE
from acp_agent.config.hook_events import ALIASES, EVENT_NAMES, event_name
from acp_agent.config.settings import (
    MODEL_NAME_FORM,
    MODES,
    CompactionChoices,
    HookCommand,
    Mode,
    ModelPrices,
    ModelSettings,
    ProviderKind,
    ProviderSettings,
    Settings,
    ThoughtLevel,
    is_model_name,
)

T = TypeVar("T")

MIN_PREPARE = 0.05
MAX_THRESHOLD = 0.95


def _model_name(value: str) -> str:
    if not is_model_name(value):
        raise PydanticCustomError("model_name", MODEL_NAME_FORM)
    return value


def _provider_name(value: str) -> str:
    if not re.fullmatch(r"[^\s/]+", value):
        raise PydanticCustomError("provider_name", "a provider's name has neither blanks nor slashes")
    return value


def _http_url(value: str) -> str:
    try:
        url = urlsplit(value)
        good = url.scheme in ("http", "https") and bool(url.hostname) and url.username is None
    except ValueError:
        good = False
    if not good:
        raise PydanticCustomError("http_url", "should be an http or https URL without user and password")
    return value.rstrip("/")


def _variable_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise PydanticCustomError(
            "variable_name",
            "should be the name of an environment variable, such as OPENAI_API_KEY, and never the key itself",
        )
    return value


def _header_name(value: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", value):
        raise PydanticCustomError("header_name", "is not the name of an HTTP header")
    return value


def _header_value(value: str) -> str:
    if not re.fullmatch(r"[\t\x20-\x7e]*", value):
        raise PydanticCustomError("header_value", "should be printable ASCII on one line")
    return value


def _share_or_off(value: object) -> float | Literal[False] | None:
    if value is None or value is False:
        return value
    if isinstance(value, int | float) and value is not True and MIN_PREPARE <= value <= MAX_THRESHOLD:
        return float(value)
    raise PydanticCustomError(
        "share_or_off",
        "should be a share of the usable window from {least} to {most}, or off",
        {"least": MIN_PREPARE, "most": MAX_THRESHOLD},
    )


def _strategy_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise PydanticCustomError("strategy_name", "should be the name of a strategy, such as `summary`")
    return value


def _event(value: str) -> str:
    if event_name(value) is None:
        known = did_you_mean(value, (*EVENT_NAMES, *ALIASES))
        raise PydanticCustomError("event", "there is no such event; {known}", {"known": known})
    return value


def _command(value: object) -> str | list[str]:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value:
        words = [word for word in cast("list[object]", value) if isinstance(word, str)]
        if len(words) == len(cast("list[object]", value)) and words[0]:
            return words
    raise PydanticCustomError(
        "command", "should be a command line, or a list of a program and its arguments, all of them texts"
    )


def _matcher(value: str) -> str:
    try:
        re.compile("" if value == "*" else value)
    except re.error as error:
        raise PydanticCustomError("matcher", "is not a regular expression: {why}", {"why": str(error)}) from error
    return value


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


ModelName = Annotated[str, AfterValidator(_model_name)]
Tokens = Annotated[int, Field(gt=0, le=1_000_000_000)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
UsersAlone = Annotated[None, BeforeValidator(_users_alone)]


class Section(BaseModel):
    """Any mapping of the files: unknown keys are errors, and nothing is converted (`yes` is no number)."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CompactionSection(Section):
    """`compaction` and `models.*.compaction`. That `prepare` is lower than `threshold` is seen in `checks`, since the
    two may come from different layers."""

    auto: bool | None = None
    threshold: Annotated[float, Field(ge=0.1, le=MAX_THRESHOLD)] | None = None
    prepare: Annotated[float | Literal[False] | None, PlainValidator(_share_or_off)] = None
    target: Annotated[float, Field(ge=0.05, le=0.9)] | None = None
    strategy: Annotated[str, AfterValidator(_strategy_name)] | None = None
    model: ModelName | None = None

    def choices(self) -> CompactionChoices:
        """As plain data."""
        return CompactionChoices(
            auto=self.auto,
            threshold=self.threshold,
            prepare=self.prepare,
            target=self.target,
            strategy=self.strategy,
            model=self.model,
        )


class PricesSection(Section):
    """`models.*.prices`: US dollars for a million tokens."""

    input: Dollars | None = None
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None
    output: Dollars | None = None


class ModelSection(Section):
    """`models.*`."""

    context_window: Tokens | None = None
    max_output_tokens: Tokens | None = None
    prices: PricesSection | None = None
    compaction: CompactionSection | None = None

    def settings(self) -> ModelSettings:
        """As plain data."""
        prices = self.prices or PricesSection()
        return ModelSettings(
            context_window=self.context_window,
            max_output_tokens=self.max_output_tokens,
            prices=ModelPrices(**prices.model_dump()),
            compaction=_choices(self.compaction),
        )


class ProviderSection(Section):
    """`providers.*`."""

    kind: ProviderKind | None = None
    base_url: Annotated[str, AfterValidator(_http_url)] | None = None
    api_key_env: Annotated[str, AfterValidator(_variable_name)] | None = None
    headers: (
        dict[Annotated[str, AfterValidator(_header_name)], Annotated[str, AfterValidator(_header_value)]] | None
    ) = None
    script: Annotated[str, Field(min_length=1)] | None = None

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


class HookSection(Section):
    """`hooks.*[]`: one command."""

    command: Annotated[str | list[str], PlainValidator(_command, json_schema_input_type=str | list[str])]
    matcher: Annotated[str, AfterValidator(_matcher)] | None = None
    timeout: Annotated[float, Field(gt=0, le=3600)] | None = None
    on_error: Literal["allow", "block"] | None = None
    name: Annotated[str, Field(min_length=1)] | None = None

    def settings(self, event: str, origin: Literal["config", "project"], source: str) -> HookCommand:
        """As plain data.

        :param event: as the file names it.
        :param source: the file, and the key of this section.
        """
        name = event_name(event)
        assert name is not None
        words = self.command.split() if isinstance(self.command, str) else self.command
        return HookCommand(
            event=name,
            command=self.command if isinstance(self.command, str) else tuple(self.command),
            name=self.name or Path(words[0]).name,
            origin=origin,
            source=source,
            matcher=self.matcher or "",
            timeout=self.timeout,
            on_error=self.on_error or "allow",
        )


class SharedKeys(Section):
    """What both files may say in the same way."""

    model: ModelName | None = None
    thought_level: ThoughtLevel | None = None
    context_window: Tokens | None = None
    max_output_tokens: Tokens | None = None
    max_turn_requests: Annotated[int, Field(gt=0)] | None = None
    max_turn_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    shell_timeout: Annotated[float, Field(gt=0, le=86_400)] | None = None
    compaction: CompactionSection | None = None
    hooks: dict[Annotated[str, AfterValidator(_event)], list[HookSection]] | None = None

    def shared(self, below: Settings) -> Settings:
        """Lay the keys that simply override over what was said before."""
        return replace(
            below,
            model=_or(self.model, below.model),
            thought_level=_or(self.thought_level, below.thought_level),
            context_window=_or(self.context_window, below.context_window),
            max_output_tokens=_or(self.max_output_tokens, below.max_output_tokens),
            shell_timeout=_or(self.shell_timeout, below.shell_timeout),
            compaction_choices=_choices(self.compaction).over(below.compaction_choices),
        )

    def commands(self, origin: Literal["config", "project"], folder: Path) -> tuple[HookCommand, ...]:
        """The hooks of this file, in its order.

        :param folder: where the file is.
        """
        return tuple(
            section.settings(event, origin, f"{folder / CONFIG_FILE}: hooks.{event}.{index}")
            for event, sections in (self.hooks or {}).items()
            for index, section in enumerate(sections)
        )


class UserFile(SharedKeys):
    """`config.yaml` in the user's home of the agent."""

    mode: Mode | None = None
    models: dict[ModelName, ModelSection] | None = None
    providers: dict[Annotated[str, AfterValidator(_provider_name)], ProviderSection] | None = None

    def over(self, below: Settings) -> Settings:
        """Lay this file over the built-in defaults."""
        providers: Mapping[str, ProviderSection] = self.providers or {}
        return replace(
            self.shared(below),
            mode=_or(self.mode, below.mode),
            max_turn_requests=_or(self.max_turn_requests, below.max_turn_requests),
            max_turn_cost=_or(self.max_turn_cost, below.max_turn_cost),
            models={name: section.settings() for name, section in (self.models or {}).items()},
            providers={name: section.settings(name, below.home) for name, section in providers.items()},
            hooks=self.commands("config", below.home),
        )


class ProjectFile(SharedKeys):
    """`.acp-agent/config.yaml` of a project; see the module's docstring for what it may not say, and why."""

    mode: Annotated[Literal["plan", "ask"], BeforeValidator(_project_mode)] | None = None
    models: UsersAlone = None
    providers: UsersAlone = None

    def over(self, below: Settings) -> Settings:
        """Lay this file over the user's settings, which it can tighten but not loosen."""
        costs = [cost for cost in (self.max_turn_cost, below.max_turn_cost) if cost is not None]
        return replace(
            self.shared(below),
            mode=min(_or(self.mode, below.mode), below.mode, key=MODES.index),
            max_turn_requests=min(_or(self.max_turn_requests, below.max_turn_requests), below.max_turn_requests),
            max_turn_cost=min(costs, default=None),
            hooks=(*below.hooks, *(self.commands("project", below.project) if below.project else ())),
        )


def _choices(section: CompactionSection | None) -> CompactionChoices:
    return section.choices() if section else CompactionChoices()


def _or(value: T | None, below: T) -> T:
    return below if value is None else value


def _user_file(info: ValidationInfo) -> str:
    """The path that an error sends the reader to; whoever validates a project's file gives it as the context."""
    return str(info.context)
