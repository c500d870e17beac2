"""`with_masked_output`: a message whose terminal's bytes hold nothing that looks like a secret.

Version 2 of the protocol sends what a command prints as base64, in which no text is found.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TypeAlias

from acp_agent.masking.texts import MASK, mask

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


def with_masked_output(message: JsonValue, secrets: Sequence[str]) -> JsonValue:
    """The message, where it is the update of a terminal with its bytes masked as texts are; any other as it is.

    :param message: of JSON-RPC.
    :param secrets: what is masked besides, the longest first.
    """
    params = message.get("params") if isinstance(message, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(update, dict):
        return message
    if "terminalId" not in update:
        return message
    shown = _with_data(update, secrets)
    if isinstance(output := update.get("output"), dict):
        shown["output"] = _with_data(output, secrets)
    return {**message, "params": {**params, "update": shown}}


def _with_data(value: dict[str, JsonValue], secrets: Sequence[str]) -> dict[str, JsonValue]:
    data = value.get("data")
    return {**value, "data": _masked(data, secrets)} if isinstance(data, str) else {**value}


def _masked(data: str, secrets: Sequence[str]) -> str:
    try:
        text = b64decode(data, validate=True).decode(errors="surrogateescape")
    except ValueError:
        return MASK
    return b64encode(mask(text, secrets).encode(errors="surrogateescape")).decode()
