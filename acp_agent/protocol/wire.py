"""The base of the generated models, and how params and results are read with them.

Names are in camelCase on the wire, and reading is lenient where the schema asks for it.

The schema marks properties that a reader should not be strict about (`x-deserialize-default-on-error`,
`x-deserialize-skip-invalid-items`, `x-deserialize-default-on-null`): a client that is newer, or wrong in a detail,
is still understood. Everything else is strict: no number is read from a string.
"""

from __future__ import annotations

from typing import Annotated, Self, TypeVar, cast

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

T = TypeVar("T")


def _default_on_error(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        raise PydanticUseDefault from None


def _null_as_list(value: object) -> object:
    return [] if value is None else value


Lenient = Annotated[T, WrapValidator(_default_on_error)]
"""`x-deserialize-default-on-error`: a value that cannot be read counts as the field's default."""

ListOrNull = Annotated[list[T], BeforeValidator(_null_as_list)]
"""`x-deserialize-default-on-null`: null counts as no items."""

Unsigned = Annotated[int, Field(ge=0)]


class WireModel(BaseModel):
    """Base of the generated models.

    Attributes are snake_case, wire names camelCase. Unknown properties are ignored, `_meta` among them. A model's
    validator is built when it is first used.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True, defer_build=True)

    @classmethod
    def from_params(cls, params: JsonObject, method: str) -> Self:
        """Read the params of a request or notification.

        :param method: for the error's text.
        :raises InvalidParamsError: names what is wrong, and not what it held.
        """
        try:
            return cls.model_validate(params)
        except ValidationError as error:
            raise InvalidParamsError(f"{method}: {_explain(error)}.") from None

    @classmethod
    def from_result(cls, result: JsonValue, method: str) -> Self:
        """Read what the client answered to a tool; null counts as an empty object, since some editors send it for one.

        :param method: the method that was asked for, for the error's text.
        :raises ToolError: the answer cannot be used; names what is wrong.
        """
        try:
            return cls.model_validate({} if result is None else result)
        except ValidationError as error:
            raise ToolError(
                f"The editor's answer to {method} cannot be used: {_explain(error)}. "
                "Tell the user, whose editor may be out of date."
            ) from None


def tag(key: str, named: frozenset[str], otherwise: str) -> Discriminator:
    """Discriminator of a union in which one alternative may lack the constant that names the others.

    :param key: wire name of the property with the constant.
    :param named: the constants that choose their own alternative.
    :param otherwise: tag of the alternative for everything else.
    """

    def choose(value: object) -> str:
        found = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else getattr(value, key, None)
        return found if isinstance(found, str) and found in named else otherwise

    return Discriminator(choose)


def _explain(error: ValidationError) -> str:
    """Return what is wrong in one line: paths in the document as pydantic has them, without the document's values."""
    details = error.errors(include_url=False, include_input=False, include_context=False)[:5]
    found = (f"{'.'.join(map(str, detail['loc']))}: {detail['msg'][:200]}".removeprefix(": ") for detail in details)
    return "; ".join(dict.fromkeys(found))
