"""`hooks` in the front matter: its form, and what a recipe wants done at which event.

Checks names and parameters against what is known; what a handler does is the matter of whoever has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from acp_agent.config.document import Document, DocumentError, Place, did_you_mean, dotted, validate
from acp_agent.config.hook_events import OnError
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.recipes.model import HookBinding, Known, NamedHandler

if TYPE_CHECKING:
    from collections.abc import Collection

EXTERNAL = "external"
"""Stands in a list of handlers for all hooks that are not the recipe's."""


_JSON = re.compile(r"true|false|True|False|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _named(value: object) -> object:
    return {"handler": value} if isinstance(value, str) else value


class HandlerSection(BaseModel):
    """`hooks.*.handlers.*`; a name alone is one without parameters."""

    model_config = ConfigDict(extra="forbid", strict=True)

    handler: str = Field(description="its name")
    params: dict[str, JsonValue] = Field(default={}, description="how it does what it does")
    on_error: OnError = Field(default="ask", description="what it means when it [fails](hooks.md#failures)")


HandlerItem = Annotated[HandlerSection, BeforeValidator(_named, json_schema_input_type=str | HandlerSection)]


class HookSection(BaseModel):
    """`hooks.*`: one `handler` with its `params`, or several `handlers` in order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    handler: str | None = Field(default=None, description="the one handler that answers")
    handlers: Annotated[list[HandlerItem], Field(min_length=1)] | None = Field(
        default=None, description="several, in this order; `external` stands for all hooks that are not the recipe's"
    )
    once: bool = Field(default=False, description="only until the first answer of the run")
    params: dict[str, JsonValue] = Field(default={}, description="how the one handler does what it does")
    on_error: OnError = Field(default="ask", description="what it means when it [fails](hooks.md#failures)")


def is_text_param(known: Known, place: Sequence[str | int | None], word: str) -> bool:
    """Whether a word without quotes is text, as it is written, and nothing that YAML 1.1 makes of it.

    A parameter may be a number or a JSON Schema, so that what JSON has no other name for stays what it is.

    :param place: below `params`; a key ends in None.
    """
    if len(place) == 1 and place[0] in _text_params(known.params or {}):
        return True
    return place[-1:] == [None] or not _JSON.fullmatch(word)


def _text_params(params: Mapping[str, type[BaseModel]]) -> set[str]:
    """The parameters of all handlers that are texts."""
    fields = [(field.alias or name, field) for model in params.values() for name, field in model.model_fields.items()]
    return {name for name, field in fields if _takes_text(field.annotation)}


def _takes_text(annotation: object) -> bool:
    inner = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ()
    return annotation is str or any(map(_takes_text, inner))


def hook_bindings(sections: Mapping[str, HookSection], document: Document, known: Known) -> dict[str, HookBinding]:
    """What these sections mean.

    :param document: the front matter.
    :raises DocumentError: there is no such event, handler or parameter, or a section contradicts itself.
    """
    bindings: dict[str, HookBinding] = {}
    for event, section in sections.items():
        if event not in known.handlers:
            message = f"no such event; {did_you_mean(event, known.handlers)}"
            raise DocumentError(message, document.lines["hooks", event], f"hooks.{event}")
        bindings[event] = _Binding(event, section, document, known).read()
    return bindings


def _of_a_handler(section: HookSection | HandlerSection) -> str:
    """Return the key of a section that only a handler of the recipe's has; empty where there is none."""
    if section.params:
        return "params"
    return "on_error" if "on_error" in section.model_fields_set else ""


class _Binding:
    """Reads one section."""

    def __init__(self, event: str, section: HookSection, document: Document, known: Known) -> None:
        self._place: Place = ("hooks", event)
        self._section = section
        self._document = document
        self._known = known
        self._names: Collection[str] = known.handlers[event]

    def read(self) -> HookBinding:
        section, place = self._section, self._place
        if section.handlers is None:
            if section.handler is None:
                raise self._error("says neither `handler` nor `handlers`; name what should be done", place)
            last = (self._handler(section.handler, section.params, section.on_error, place),)
            return HookBinding(last, section.once)
        if section.handler is not None:
            raise self._error("stands beside `handlers`; keep one of them", (*place, "handler"))
        if key := _of_a_handler(section):
            message = f"belongs to a handler; write `handlers: [{{handler: …, {key}: …}}]`"
            raise self._error(message, (*place, key))
        return self._in_order(section.handlers)

    def _in_order(self, items: list[HandlerSection]) -> HookBinding:
        place = (*self._place, "handlers")
        first: tuple[NamedHandler, ...] = ()
        handlers: tuple[NamedHandler, ...] = ()
        stands = False
        for index, item in enumerate(items):
            if item.handler != EXTERNAL:
                handlers = (*handlers, self._handler(item.handler, item.params, item.on_error, (*place, index)))
                continue
            if stands:
                raise self._error(f"`{EXTERNAL}` stands here twice; keep one", (*place, index))
            if key := _of_a_handler(item):
                raise self._error(f"`{EXTERNAL}` takes no parameters", (*place, index, key))
            stands, first, handlers = True, handlers, ()
        if not first and not handlers:
            message = f"names no handler; `{EXTERNAL}` alone is what happens without this section as well"
            raise self._error(message, place)
        return HookBinding(handlers, self._section.once, first)

    def _handler(self, name: str, params: JsonObject, on_error: OnError, place: Place) -> NamedHandler:
        at = (*place, "handler") if (*place, "handler") in self._document.lines else place
        if not self._names:
            raise self._error(f"no handler {name!r} for this event; there is none for it", at)
        if name not in self._names:
            hint = did_you_mean(name, self._names)
            if name == EXTERNAL:
                hint = "it stands for all hooks that are not the recipe's, in a list of `handlers` alone"
            raise self._error(f"no handler {name!r} for this event; {hint}", at)
        self._check(name, params, (*place, "params"))
        return NamedHandler(name, params, on_error)

    def _check(self, name: str, params: JsonObject, place: Place) -> None:
        """Check a handler's parameters.

        :raises DocumentError: with the line and the key of the parameter.
        """
        if self._known.params is None:
            return
        lines = self._document.lines
        inner = {at[len(place) :]: line for at, line in lines.items() if at[: len(place)] == place}
        inner[()] = self._line(place)
        try:
            validate(self._known.params[name], Document(params, inner))
        except DocumentError as error:
            key = dotted(place) if error.key is None else f"{dotted(place)}.{error.key}"
            raise DocumentError(error.message, error.line or inner[()], key) from error

    def _error(self, message: str, place: Place) -> DocumentError:
        return DocumentError(message, self._line(place), dotted(place))

    def _line(self, place: Place) -> int:
        while place not in self._document.lines:
            place = place[:-1]
        return self._document.lines[place]
