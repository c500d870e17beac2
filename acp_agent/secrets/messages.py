"""Masks JSON values: secrets in their texts, and members whose names mark them as
secret.

In `env` and `headers`, every value is masked, except for headers that never
authenticate. Values that a person typed into a form are masked as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from acp_agent.secrets.known import MASK
from acp_agent.secrets.names import is_harmless_header, is_secret_name
from acp_agent.secrets.text import mask

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
)

_ARGUMENTS = frozenset({"args", "arguments", "argv", "command", "cmd"})


def masked(
    value: JsonValue, secrets: Sequence[str], short: Callable[[str], str] = str
) -> JsonValue:
    """Return the value without its secrets. Secrets in texts, and texts and numbers
    under a secret's name, become `***`.

    :param secrets: known values, which are masked wherever they occur.
    :param short: shortens a text after it has been masked.
    :raises RecursionError: if the value is nested too deeply.
    """
    return _Masking(secrets, short).value(value)


class _Masking:
    def __init__(self, secrets: Sequence[str], short: Callable[[str], str]) -> None:
        self._secrets = secrets
        self._short = short

    def value(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self._text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return self._members(
                    value, lambda key, item: self._member(key, item, value)
                )
            case _:
                return value

    def _text(self, text: str) -> str:
        return self._short(mask(text, self._secrets))

    def _members(
        self,
        value: dict[str, JsonValue],
        mask_member: Callable[[str, JsonValue], JsonValue],
    ) -> JsonValue:
        """Mask the members of an object, including their names."""
        return {
            mask(key, self._secrets): mask_member(key, item)
            for key, item in value.items()
        }

    def _member(
        self, key: str, item: JsonValue, among: dict[str, JsonValue]
    ) -> JsonValue:
        """Return a member of an object without its secrets, judged by its name and its
        sibling members.
        """
        match key, item:
            case "env", dict() | list():
                return self._pairs(item, lambda _: False)
            case _, dict() | list() if key.lower().endswith("headers"):
                return self._pairs(item, is_harmless_header)
            case (
                "properties",
                dict(),
            ):  # of a form or a tool: these members are named like values elsewhere
                return self._members(item, lambda _, field: self.value(field))
            case "content", dict() if among.get("action") == "accept":
                return self._hidden(item)
            case "value", _ if isinstance(
                name := among.get("name"), str
            ) and is_secret_name(name):
                return self._hidden(item)
            case "data" | "output", _ if (
                "terminalId" in among
            ):  # what a terminal printed, in base64
                return self._hidden(item)
            case _, list() if key in _ARGUMENTS:
                return self._arguments(item)
            case _:
                return self._hidden(item) if is_secret_name(key) else self.value(item)

    def _pairs(self, item: JsonValue, stays: Callable[[str], bool]) -> JsonValue:
        """Mask the values of variables or headers, in an object or in a list of `{name,
        value}`, except for the names that `stays` accepts.
        """
        match item:
            case dict():
                return self._members(
                    item, lambda name, value: self._pair(name, value, stays)
                )
            case list():
                return [self._entry(each, stays) for each in item]
            case _:
                return self.value(item)

    def _entry(self, item: JsonValue, stays: Callable[[str], bool]) -> JsonValue:
        match item:
            case {"name": str(name), "value": value}:
                return self.value({**item, "value": self._pair(name, value, stays)})
            case str():
                return MASK if "=" in item or ":" in item else self._text(item)
            case _:
                return self._hidden(item)

    def _pair(
        self, name: str, value: JsonValue, stays: Callable[[str], bool]
    ) -> JsonValue:
        return self.value(value) if stays(name) else self._hidden(value)

    def _arguments(self, items: list[JsonValue]) -> JsonValue:
        """Mask the arguments of a program. An argument may be the value of the option
        before it.
        """
        before = ["", *(item if isinstance(item, str) else "" for item in items)]
        return [
            self._hidden(item) if _takes_secret(option) else self.value(item)
            for option, item in zip(before, items, strict=False)
        ]

    def _hidden(self, value: JsonValue) -> JsonValue:
        """Mask all texts and numbers in a value."""
        match value:
            case None | bool():
                return value
            case str():
                return value and MASK
            case list():
                return [self._hidden(item) for item in value]
            case dict():
                return self._members(value, lambda _, item: self._hidden(item))
            case _:
                return MASK


def _takes_secret(option: str) -> bool:
    return option.startswith("-") and "=" not in option and is_secret_name(option)
