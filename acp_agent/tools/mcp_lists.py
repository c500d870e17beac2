"""What a server lists, without those things of it that are not what the protocol says.

The SDK takes a list as a whole or not at all. Imports its types, and is imported with `mcp.py` alone.

Model Context Protocol, "Server Features".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mcp.types import methods
from pydantic import ValidationError

from acp_agent.tools.mcp_offer import ListName
from acp_agent.tools.text import one_line

LIST_NAMES: tuple[ListName, ...] = ("tools", "prompts", "resources")


def leave_out_odd(result: dict[str, Any], version: str) -> dict[ListName, list[str]]:
    """Take what nobody could read out of a list.

    :param result: any result of a server's; changed where it is a list.
    :param version: of the protocol, as it was agreed on.
    :returns: the names of what was taken out.
    """
    left_out: dict[ListName, list[str]] = {}
    for name in LIST_NAMES:
        items = cast("list[object] | None", found if isinstance(found := result.get(name), list) else None)
        if items is None or _is_sound(name, version, result):
            continue
        kept: list[object] = []
        for number, item in enumerate(items, 1):
            if _is_sound(name, version, {**result, name: [item]}):
                kept.append(item)
            else:
                left_out.setdefault(name, []).append(_name_of(item, number))
        result[name] = kept
    return left_out


def leave_out_output_schemas(result: Mapping[str, Any]) -> None:
    """Take the schemas of what tools answer out of a list: the SDK matches their patterns with Python's `re`, which can
    go on for ever, and the model reads every answer as it is.

    :param result: any result of a server's, without what is odd; changed where it is a list of tools.
    """
    tools = result.get("tools")
    for tool in cast("list[object]", tools) if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            cast("dict[str, object]", tool).pop("outputSchema", None)


def _is_sound(name: ListName, version: str, result: Mapping[str, Any]) -> bool:
    method = f"{name}/list"
    try:
        methods.parse_server_result(method, version, result)
    except ValidationError:
        return False
    except (KeyError, ValueError):
        return True  # another version's matter
    return True


def _name_of(item: object, number: int) -> str:
    name = cast("dict[str, object]", item).get("name") if isinstance(item, dict) else None
    return one_line(name, 80) if isinstance(name, str) and name else f"number {number}"
