"""The base of the generated models, and how params and results are read with them.

Names are in camelCase on the wire, and reading is lenient where the schema asks for it.

The schema marks properties that a reader should not be strict about
(`x-deserialize-default-on-error`, `x-deserialize-skip-invalid-items`,
`x-deserialize-default-on-null`): a client that is newer, or wrong in a detail, is still
understood. Everything else is strict: no number is read from a string.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
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


def _default_on_error(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        raise PydanticUseDefault from None


def _null_as_list(value: object) -> object:
    return [] if value is None else value


Lenient = Annotated[T, WrapValidator(_default_on_error)]
"""`x-deserialize-default-on-error`: a value that cannot be read counts as the field's
default.
"""

ListOrNull = Annotated[list[T], BeforeValidator(_null_as_list)]
"""`x-deserialize-default-on-null`: null counts as no items."""

Unsigned = Annotated[int, Field(ge=0)]


class WireModel(BaseModel):
    """Base of the generated models.

    Attributes are snake_case, wire names camelCase. Unknown properties are ignored,
    `_meta` among them. A model's validator is built when it is first used.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", strict=True, defer_build=True
    )

    @classmethod
    def from_params(cls, params: JsonObject, method: str) -> Self:
        """Read the params of a request or notification.

        :param method: for the error's text.
        :raises InvalidParamsError: names what is wrong, and not what it held.
        """
        try:
            return cls.model_validate(params)
        except ValidationError as error:
            raise InvalidParamsError(
                f"{method}: {_explain(error, params, 'params')}"
            ) from None

    @classmethod
    def from_result(cls, result: JsonValue, method: str) -> Self:
        """Read what the client answered to a tool; null counts as an empty object,
        since some editors send it for one.

        :param method: the method that was asked for, for the error's text.
        :raises ToolError: the answer cannot be used; names what is wrong.
        """
        document: JsonValue = {} if result is None else result
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise ToolError(
                f"The editor's answer to {method} cannot be used: {_explain(error, document, 'the result')}. "
                "Tell the user, whose editor may be out of date."
            ) from None


def tag(key: str, named: frozenset[str], otherwise: str) -> Discriminator:
    """Return the discriminator of a union in which one alternative may lack the
    constant that names the others.

    :param key: wire name of the property with the constant.
    :param named: the constants that choose their own alternative.
    :param otherwise: tag of the alternative for everything else.
    """

    def choose(value: object) -> str:
        found = (
            cast("dict[str, object]", value).get(key)
            if isinstance(value, dict)
            else getattr(value, key, None)
        )
        return found if isinstance(found, str) and found in named else otherwise

    return Discriminator(choose)


def _explain(error: ValidationError, document: JsonValue, whole: str) -> str:
    """Return what is wrong with a document in one line, by wire names and without its
    values.

    :param error: what validating the document raised.
    :param whole: what the document itself is called.
    """
    demands: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=False):
        path, demand = _demand(detail, document)
        if demand not in demands.setdefault(path, []):
            demands[path].append(demand)
    return "; ".join(
        f"{path or whole} {' or '.join(found)}"
        for path, found in list(demands.items())[:5]
    )


def _demand(detail: ErrorDetails, document: JsonValue) -> tuple[str, str]:
    kind = detail["type"]
    context = detail.get("ctx", {})
    path = _path(detail["loc"], document, missing=kind == "missing")
    match kind:
        case "union_tag_not_found" | "union_tag_invalid":
            # The one value that is named: an unknown kind of thing, cut short.
            known = context.get("expected_tags", "").replace("'", "")
            wrong = (
                f"is {str(context['tag'])[:40]!r}, which is none of {known}"
                if known
                else "is missing"
            )
            return f"{path}.{context['discriminator']}".replace("'", "").removeprefix(
                "."
            ), wrong
        case "missing":
            return path, "is missing"
        case "string_type":
            return path, "must be a string"
        case "model_type" | "model_attributes_type" | "dict_type":
            return path, "must be an object"
        case _:
            return path, detail["msg"].replace("Input should", "must", 1).replace(
                "'", ""
            )


def _path(location: Sequence[str | int], document: JsonValue, *, missing: bool) -> str:
    """Return the part of pydantic's location that is a path in the document: without
    the names of a union's alternatives.
    """
    steps: list[str] = []
    here: object = document
    for index, step in enumerate(location):
        try:
            here = cast("dict[str | int, object]", here)[step]
        except (KeyError, IndexError, TypeError):
            if not (missing and index == len(location) - 1):
                continue
        # A member's name may be the client's own, and so anything.
        steps.append(
            f"[{step}]" if isinstance(step, int) else f".{repr(step)[1:-1][:60]}"
        )
    return "".join(steps).removeprefix(".")
