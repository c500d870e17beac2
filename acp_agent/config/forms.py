"""Types of single values in the configuration files, each with its validation and its
JSON Schema.

The types are `Annotated` with markers that pydantic reads. Pydantic itself is imported
with the first file, not by this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    cast,
    get_args,
    get_type_hints,
)
from urllib.parse import urlsplit

from acp_agent.frozen import frozen
from acp_agent.patterns import compile_pattern

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MODEL_NAME_FORM = (
    "should be provider/model, such as anthropic/claude-sonnet-5-5 or ollama/qwen3:8b"
)
"""Error message for a name that `is_model_name` rejects."""

_MODEL_NAME = r"[^\s/]+/\S+"
_THRESHOLD = (0.1, 0.95)
_PREPARE = (0.05, 0.95)
_SIZE = (1_000, 1_000_000)
_SIZE_SHARE = (0.02, 0.9)


@frozen
class Share:
    """A share of the model's context window, from 0 to 1."""

    of_window: float

    def tokens(self, window: int) -> int:
        """Convert the share to tokens.

        :param window: size of the whole window in tokens.
        """
        return int(window * self.of_window)


Size: TypeAlias = int | Share
"""A number of tokens, or a share of the window."""


class FieldRule:
    """Marks an `Annotated` type for strict validation, with limits and an optional
    check.

    :param check: returns the converted value, or raises `ValueError` with a description
        of valid values.
    :param schema: the JSON Schema of the values that `check` accepts. The documentation
        uses the schema's `title`.
    :param any_type: whether `check` gets values of any type; otherwise it only gets
        values of the annotated type.
    :param limits: keys to add to pydantic's core schema of the annotated type, such as
        `gt`.
    """

    def __init__(
        self,
        check: Callable[[Any], object] | None = None,
        schema: Mapping[str, Any] | None = None,
        *,
        any_type: bool = False,
        **limits: object,
    ) -> None:
        self._check = check
        self._schema = schema
        self._any_type = any_type
        self._limits = limits

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        if self._any_type and self._check is not None:
            return core_schema.no_info_plain_validator_function(self._check)
        inner = cast("CoreSchema", {**handler(source), "strict": True, **self._limits})
        return (
            inner
            if self._check is None
            else core_schema.no_info_after_validator_function(self._check, inner)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(schema) if self._schema is None else dict(self._schema)


class Internal:
    """Marks a field that a file cannot set: in a file it is an unknown key."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import PydanticKnownError, core_schema

        def refuse(value: object) -> object:
            raise PydanticKnownError("extra_forbidden")

        return core_schema.with_default_schema(
            core_schema.no_info_plain_validator_function(refuse), default=None
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        from pydantic_core import PydanticOmit

        raise PydanticOmit


class ConfigSection:
    """Base of the classes that represent a mapping in a file. Unknown keys are errors,
    and null means that a key is not set.
    """

    __slots__ = ()
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic reads it by this name

    @classmethod
    def file_keys(cls) -> dict[str, object]:
        """Return the annotations of the keys that a file may set."""
        hints = get_type_hints(cls, include_extras=True).items()
        return {
            name: hint
            for name, hint in hints
            if not any(isinstance(part, Internal) for part in get_args(hint))
        }

    @classmethod
    def whole(cls, value: object) -> object:
        """Expand a short form into the full mapping."""
        return value

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        keys = cls.file_keys()

        def without_nulls(value: object) -> object:
            value = cls.whole(value)
            if not isinstance(value, Mapping):
                return value
            items = cast("Mapping[str, object]", value).items()
            return {
                key: item for key, item in items if item is not None or key not in keys
            }

        return core_schema.no_info_before_validator_function(
            without_nulls, handler(source)
        )


def is_model_name(text: str) -> bool:
    """Return whether a text has the form `provider/model`. The model's part may contain
    more slashes.
    """
    return re.fullmatch(_MODEL_NAME, text) is not None


def share_of(value: object) -> float | None:
    """Parse a share such as `70%` or `0.7`, or return None for any other value."""
    percentage = (
        re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?) ?%", value)
        if isinstance(value, str)
        else None
    )
    share = float(percentage[1]) / 100 if percentage else value
    return share if isinstance(share, float) else None


def _matching(pattern: str, message: str, title: str | None = None) -> FieldRule:
    """Return a rule for strings that must match a pattern in full.

    :param message: the error for other strings.
    :param title: describes valid strings in the documentation.
    """

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(message)
        return value

    return FieldRule(
        check,
        {
            "type": "string",
            "pattern": f"^{pattern}$",
            **({"title": title} if title else {}),
        },
    )


def http_url(value: str) -> str:
    """Return an http or https URL without its trailing slash.

    :raises ValueError: if the URL is invalid. The message continues a sentence that
        begins with the key.
    """
    try:
        url = urlsplit(value)
        good = (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and url.username is None
        )
    except ValueError:
        good = False
    if not good:
        raise ValueError("should be an http or https URL without user and password")
    return value.rstrip("/")


def _threshold(value: object) -> float:
    share = share_of(value)
    if share is not None and _THRESHOLD[0] <= share <= _THRESHOLD[1]:
        return share
    raise ValueError(
        "should be a share of the usable window from 10% to 95%, such as 80% or 0.8"
    )


def _share_or_off(value: object) -> object:
    if value is None or value is False or value == "off":
        return None if value is None else False
    share = share_of(value)
    if share is not None and _PREPARE[0] <= share <= _PREPARE[1]:
        return share
    raise ValueError(
        "should be a share of the usable window from 5% to 95%, such as 70% or 0.7, or off"
    )


def _size(value: object) -> Size | None:
    if value is None or (isinstance(value, int) and _SIZE[0] <= value <= _SIZE[1]):
        return value
    share = share_of(value)
    if share is not None and _SIZE_SHARE[0] <= share <= _SIZE_SHARE[1]:
        return Share(share)
    raise ValueError(
        "should be a share of the window from 2% to 90%, such as 20% or 0.2, or a number of tokens from 1,000 to "
        "1,000,000"
    )


def _file_path(value: object) -> Path:
    if isinstance(value, str) and value:
        return Path(value)
    raise ValueError("should be the path of a file")


def _command(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str) and value.strip():
        return value
    words = cast("list[object]", value) if isinstance(value, list) else []
    if words and words[0] and all(isinstance(word, str) for word in words):
        return tuple(map(str, words))
    raise ValueError(
        "should be a command line, or a list of strings: a program and its arguments"
    )


def _matcher(value: str) -> str:
    compile_pattern("" if value == "*" else value)
    return value


Flag = Annotated[bool, FieldRule()]
Text = Annotated[str, FieldRule(min_length=1)]
TextOrEmpty = Annotated[str, FieldRule()]
Count = Annotated[int, FieldRule(gt=0)]
Tokens = Annotated[int, FieldRule(gt=0, le=1_000_000_000)]
Dollars = Annotated[float, FieldRule(ge=0, allow_inf_nan=False)]
DollarLimit = Annotated[float, FieldRule(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, FieldRule(gt=0, le=86_400)]
HookSeconds = Annotated[float, FieldRule(gt=0, le=3600)]
_UP_TO_95 = r"(?:\.[0-9]{1,3})? ?%$|^0?95(?:\.0{1,3})? ?%$"
Threshold = Annotated[
    float,
    FieldRule(
        _threshold,
        {
            "anyOf": [
                {"type": "number", "minimum": _THRESHOLD[0], "maximum": _THRESHOLD[1]},
                {"type": "string", "pattern": rf"^0?(?:[1-8][0-9]|9[0-4]){_UP_TO_95}"},
            ],
            "title": "10% to 95%, such as `80%` or `0.8`",
        },
        any_type=True,
    ),
]
FilePath = Annotated[
    Path, FieldRule(_file_path, {"type": "string", "minLength": 1}, any_type=True)
]
ModelName = Annotated[str, _matching(_MODEL_NAME, MODEL_NAME_FORM, "`provider/model`")]
ProviderName = Annotated[
    str,
    _matching(
        r"[^\s/]+", "a provider's name should contain neither white space nor slashes"
    ),
]
ServerName = Annotated[
    str, _matching(r"\S+", "a server's name should not contain white space")
]
StrategyName = Annotated[
    str,
    _matching(
        "[A-Za-z0-9][A-Za-z0-9._-]*",
        "should be the name of a strategy, such as `summary`",
        "a name",
    ),
]
VariableName = Annotated[
    str,
    _matching(
        "[A-Za-z_][A-Za-z0-9_]*",
        "should be the name of an environment variable, such as OPENAI_API_KEY, not the key itself",
        "a name",
    ),
]
HeaderName = Annotated[
    str, _matching("[!#$%&'*+.^_`|~0-9A-Za-z-]+", "is not the name of an HTTP header")
]
HeaderValue = Annotated[
    str, _matching(r"[\t\x20-\x7e]*", "should be printable ASCII on one line")
]
Url = Annotated[
    str,
    FieldRule(
        http_url,
        {
            "type": "string",
            "pattern": r"^[hH][tT][tT][pP][sS]?://[^/?#@:\s][^/?#@]*(?:[/?#]|$)",
            "title": "a URL",
        },
    ),
]
UrlWithVariables = Annotated[
    str,
    FieldRule(
        lambda value: value if "${" in value else http_url(value),
        {
            "type": "string",
            "pattern": r"^[hH][tT][tT][pP][sS]?://[^/?#@:\s][^/?#@]*(?:[/?#]|$)|\$\{",
            "title": "a URL",
        },
    ),
]
ShareOrOff = Annotated[
    float | Literal[False] | None,
    FieldRule(
        _share_or_off,
        {
            "anyOf": [
                {"type": "number", "minimum": _PREPARE[0], "maximum": _PREPARE[1]},
                {
                    "type": "string",
                    "pattern": rf"^(?:0{{0,2}}[5-9]|0?[1-8][0-9]|0?9[0-4]){_UP_TO_95}",
                },
                {"enum": ["off", False, None]},
            ],
            "title": "5% to 95%, such as `70%` or `0.7`; `off`",
        },
        any_type=True,
    ),
]
SizeOrNull = Annotated[
    Size | None,
    FieldRule(
        _size,
        {
            "anyOf": [
                {"type": ["integer", "null"], "minimum": _SIZE[0], "maximum": _SIZE[1]},
                {
                    "type": "number",
                    "minimum": _SIZE_SHARE[0],
                    "maximum": _SIZE_SHARE[1],
                },
                {
                    "type": "string",
                    "pattern": r"^(?:0{0,2}[2-9]|0?[1-8][0-9])(?:\.[0-9]{1,3})? ?%$|^0?90(?:\.0{1,3})? ?%$",
                },
            ],
            "title": "a share of the window, such as `20%` or `0.2`, or a number of tokens, such as `30000`",
        },
        any_type=True,
    ),
]
Command = Annotated[
    str | tuple[str, ...],
    FieldRule(
        _command,
        {
            "anyOf": [
                {"type": "string", "pattern": r"\S"},
                {
                    "type": "array",
                    "prefixItems": [{"type": "string", "minLength": 1}],
                    "items": {"type": "string"},
                    "minItems": 1,
                },
            ],
            "title": "a string, or a list of strings",
        },
        any_type=True,
    ),
]
Matcher = Annotated[str, FieldRule(_matcher, {"type": "string", "format": "regex"})]
