"""The forms of single values in the configuration files: what is refused of them, and what a JSON Schema says of that.

A `WithJsonSchema` says what the validator beside it demands; its `title` is how the form is named to people. Imported
with the first file, since it imports pydantic.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, cast, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.settings import MODEL_NAME_FORM, Share, Size, ThoughtLevel, is_model_name
from acp_agent.patterns import PatternError, compile_pattern

MIN_PREPARE = 0.05
MAX_THRESHOLD = 0.95
MIN_SIZE, MAX_SIZE = 1_000, 1_000_000
MIN_SIZE_SHARE, MAX_SIZE_SHARE = 0.02, 0.9


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
    if value == "off":
        return False
    if isinstance(value, int | float) and value is not True and MIN_PREPARE <= value <= MAX_THRESHOLD:
        return float(value)
    raise PydanticCustomError(
        "share_or_off",
        "should be a share of the usable window from {least} to {most}, or off",
        {"least": MIN_PREPARE, "most": MAX_THRESHOLD},
    )


def _size(value: object) -> Size | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and MIN_SIZE <= value <= MAX_SIZE:
        return value
    percentage = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?) ?%", value) if isinstance(value, str) else None
    share = float(percentage[1]) / 100 if percentage else value
    if isinstance(share, float) and MIN_SIZE_SHARE <= share <= MAX_SIZE_SHARE:
        return Share(share)
    raise PydanticCustomError(
        "size",
        "should be a share of the window from 2% to 90%, such as 20% or 0.2, or a number of tokens from 1,000 to "
        "1,000,000",
    )


def off_again(value: object) -> object:
    """`off`, which YAML 1.1 reads as false where it has no quotes."""
    return "off" if value is False else value


def _strategy_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise PydanticCustomError("strategy_name", "should be the name of a strategy, such as `summary`")
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
        compile_pattern("" if value == "*" else value)
    except PatternError as error:
        raise PydanticCustomError("matcher", "{why}", {"why": str(error)}) from error
    return value


ModelName = Annotated[
    str,
    AfterValidator(_model_name),
    WithJsonSchema({"type": "string", "pattern": r"^[^\s/]+/\S+$", "title": "`provider/model`"}),
]
Tokens = Annotated[int, Field(gt=0, le=1_000_000_000)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Thinking = Annotated[
    ThoughtLevel,
    BeforeValidator(off_again),
    WithJsonSchema({"enum": [*get_args(ThoughtLevel), False], "title": "`off`, `low`, `medium`, `high`"}),
]
ShareOrOff = Annotated[
    float | Literal[False] | None,
    PlainValidator(_share_or_off),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": MIN_PREPARE, "maximum": MAX_THRESHOLD},
                {"enum": ["off", False, None]},
            ],
            "title": f"{MIN_PREPARE} to {MAX_THRESHOLD}, `off`",
        }
    ),
]
SizeOrNull = Annotated[
    Size | None,
    PlainValidator(_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["integer", "null"], "minimum": MIN_SIZE, "maximum": MAX_SIZE},
                {"type": "number", "minimum": MIN_SIZE_SHARE, "maximum": MAX_SIZE_SHARE},
                {
                    "type": "string",
                    "pattern": r"^(?:0{0,2}[2-9]|0?[1-8][0-9])(?:\.[0-9]{1,3})? ?%$|^0?90(?:\.0{1,3})? ?%$",
                },
            ],
            "title": "a share of the window, such as `20%` or `0.2`, or tokens, such as `30000`",
        }
    ),
]
Command = Annotated[
    str | list[str],
    PlainValidator(_command),
    WithJsonSchema(
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
            "title": "a text, or a list of texts",
        }
    ),
]
Url = Annotated[
    str,
    AfterValidator(_http_url),
    WithJsonSchema(
        {"type": "string", "pattern": r"^[hH][tT][tT][pP][sS]?://[^/?#@:\s][^/?#@]*(?:[/?#]|$)", "title": "a URL"}
    ),
]
VariableName = Annotated[
    str,
    AfterValidator(_variable_name),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "title": "a name"}),
]
HeaderName = Annotated[
    str,
    AfterValidator(_header_name),
    WithJsonSchema({"type": "string", "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"}),
]
HeaderValue = Annotated[
    str, AfterValidator(_header_value), WithJsonSchema({"type": "string", "pattern": r"^[\t\x20-\x7e]*$"})
]
ProviderName = Annotated[
    str, AfterValidator(_provider_name), WithJsonSchema({"type": "string", "pattern": r"^[^\s/]+$"})
]
ServerName = Annotated[str, Field(min_length=1, pattern=r"^\S+$")]
StrategyName = Annotated[
    str,
    AfterValidator(_strategy_name),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "title": "a name"}),
]
Matcher = Annotated[str, AfterValidator(_matcher), WithJsonSchema({"type": "string", "format": "regex"})]
