"""How a wire model reads and writes: names in camelCase, lenient where the schema asks for it, nothing invented.

Owns the base class and the annotations that the generated models of every protocol version use, and the one way to
bind params (`parse`) and to write a model (`dump`). Knows no message.

The schema marks properties that a reader should not be strict about (`x-deserialize-default-on-error`,
`x-deserialize-skip-invalid-items`, `x-deserialize-default-on-null`): a client that is newer, or wrong in a detail,
is still understood. Everything else is strict: no number is read from a string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    OnErrorOmit,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticUseDefault

from acp_agent.errors import InvalidParamsError, ToolError
from acp_agent.protocol import JsonObject, JsonValue

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")
Model = TypeVar("Model", bound="WireModel")


def _default_on_error(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        raise PydanticUseDefault from None


def _empty_on_error(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return []


def _null_as_list(value: object) -> object:
    return [] if value is None else value


def _null_as_map(value: object) -> object:
    return {} if value is None else value


Lenient = Annotated[T, WrapValidator(_default_on_error)]
"""`x-deserialize-default-on-error`: a value that cannot be read counts as the field's default."""

LenientList = Annotated[list[OnErrorOmit[T]], WrapValidator(_empty_on_error)]
"""The same with `x-deserialize-skip-invalid-items`, for a list that has to be there: bad items are dropped."""

ListOrNull = Annotated[list[T], BeforeValidator(_null_as_list)]
"""`x-deserialize-default-on-null`: null counts as no items."""

MapOrNull = Annotated[dict[str, T], BeforeValidator(_null_as_map)]
"""`x-deserialize-default-on-null`: null counts as no entries."""

Unsigned = Annotated[int, Field(ge=0)]


class WireModel(BaseModel):
    """Base of the generated models.

    Attributes are snake_case, wire names camelCase; both are accepted when an instance is made in code. Unknown
    properties are ignored. A model's validator is built when it is first used.

    :ivar meta: the free-form `_meta`, which must never matter for what is done.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", strict=True, defer_build=True
    )

    meta: Lenient[dict[str, object] | None] = Field(default=None, alias="_meta")


def tag(key: str, named: frozenset[str], otherwise: str) -> Discriminator:
    """Discriminator of a union in which one alternative may lack the constant that names the others.

    :param key: wire name of the property with the constant.
    :param named: the constants that choose their own alternative.
    :param otherwise: tag of the alternative for everything else.
    """

    def choose(value: object) -> str:
        if isinstance(value, Mapping):
            found = cast("Mapping[str, object]", value).get(key)
        else:
            found = getattr(value, key, None)
        return found if isinstance(found, str) and found in named else otherwise

    return Discriminator(choose)


def parse(model: type[Model], params: JsonValue, method: str) -> Model:
    """Bind the params of a request or notification.

    :param params: as they came; null counts as an empty object.
    :param method: for the error's text.
    :raises InvalidParamsError: names every property that is wrong, by its path on the wire, and not what it held.
    """
    found: JsonValue = {} if params is None else params
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise InvalidParamsError(f"{method}: {explain(error, found)}") from None


def parse_result(model: type[Model], result: JsonValue, method: str) -> Model:
    """Bind what the client answered to a tool; null counts as an empty object, since some editors send it for one.

    :param method: the method that was asked for, for the error's text.
    :raises ToolError: the answer cannot be used; names every property that is wrong.
    """
    found: JsonValue = {} if result is None else result
    try:
        return model.model_validate(found)
    except ValidationError as error:
        wrong = explain(error, found, whole="the result")
        raise ToolError(
            f"The editor's answer to {method} cannot be used: {wrong}. Tell the user, whose editor may be out of date."
        ) from None


MAX_NAME = 60
"""Characters of a member's name that are shown where it is wrong."""


def dump(model: WireModel) -> JsonObject:
    """The model as it goes over the wire: what was set, also where it is null, and nothing else."""
    return cast("JsonObject", model.model_dump(mode="json", by_alias=True, exclude_unset=True))


def explain(error: ValidationError, document: JsonValue, *, whole: str = "params") -> str:
    """Say what is wrong with a document in one line, by wire names and without its values.

    :param error: what validating the document raised.
    :param whole: what the document itself is called.
    """
    demands: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=False):
        path, demand = _demand(detail, document)
        if demand not in demands.setdefault(path, []):
            demands[path].append(demand)
    return "; ".join(f"{path or whole} {' or '.join(found)}" for path, found in list(demands.items())[:5])


def _demand(detail: ErrorDetails, document: JsonValue) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    steps = _steps(detail["loc"], document, missing=kind == "missing")
    if kind == "union_tag_not_found":
        return _path([*steps, context["discriminator"].strip("'")]), "is missing"
    if kind == "union_tag_invalid":
        # The one value that is named: an unknown kind of thing, cut short.
        unknown = f"is {str(context['tag'])[:40]!r}, which is none of {context['expected_tags'].replace(chr(39), '')}"
        return _path([*steps, context["discriminator"].strip("'")]), unknown
    if kind == "literal_error":
        return _path(steps), f"must be {context['expected'].replace(chr(39), '')}"
    return _path(steps), _DEMANDS.get(kind) or detail["msg"].replace("Input should", "must", 1)


_DEMANDS = {
    "missing": "is missing",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
}


def _steps(location: Sequence[str | int], document: JsonValue, *, missing: bool) -> list[str | int]:
    """The part of pydantic's location that is a path in the document: without the names of a union's alternatives."""
    steps: list[str | int] = []
    here: JsonValue = document
    for index, step in enumerate(location):
        if _has(here, step):
            here = cast("dict[str | int, JsonValue]", here)[step]
        elif not (missing and index == len(location) - 1):
            continue
        steps.append(step)
    return steps


def _has(container: JsonValue, step: str | int) -> bool:
    if isinstance(container, list):
        return isinstance(step, int) and step < len(container)
    return isinstance(container, dict) and step in container


def _path(steps: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in steps)
    return text.removeprefix(".")


def _name(step: str) -> str:
    """A member's name in a line: in an object with names of the client's own it may be anything."""
    text = step if len(step) <= MAX_NAME else f"{step[:MAX_NAME]}…"
    return text if text.isprintable() else repr(text)[1:-1]
