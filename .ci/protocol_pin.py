"""The pinned schema of one version of ACP, as it is taken over from the official
package.

The copy in the repository has no prose: names, types, constraints and `x-*` keys only.
Beside it stands the record of where it comes from. Does not know what is made of it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from protocol_definitions import Schema, constant_of, references
from protocol_spoken import (
    LEFT_OUT,
    UNSTABLE,
    UNSTABLE_ALTERNATIVES,
    UNSTABLE_PROPERTIES,
)

PACKAGE = "@agentclientprotocol/sdk"


def take_over(
    original: bytes, room: Path, version: str | None, unstable: Path | None
) -> dict[Path, str]:
    """The stripped schema, one definition a line, and the record of where it comes
    from.
    """
    recorded = room / "schema.pin.json"
    version = version or json.loads(recorded.read_text(encoding="utf-8"))["version"]
    schema = without_prose(json.loads(original))
    definitions = schema.pop("$defs")
    if unstable is not None:
        add_unstable(
            definitions,
            without_prose(json.loads(unstable.read_bytes()))["$defs"],
            room.name,
        )
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in schema.items()]
    body = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(definition)}"
        for name, definition in definitions.items()
    )
    file = f"schema/{room.name}/schema.json"
    pin = {
        "package": PACKAGE,
        "version": version,
        "file": file,
        "license": "Apache-2.0",
    }
    pin["sha256"] = hashlib.sha256(original).hexdigest()
    if unstable is not None:
        pin["unstable"] = f"schema/{room.name}/schema.unstable.json"
        pin["unstable_sha256"] = hashlib.sha256(unstable.read_bytes()).hexdigest()
    text = "{\n" + ",\n".join([*head, '"$defs": {\n' + body + "\n}"]) + "\n}\n"
    return {room / "schema.json": text, recorded: json.dumps(pin, indent=2) + "\n"}


def add_unstable(
    definitions: dict[str, Schema], unstable: dict[str, Schema], version: str
) -> None:
    """Add what `UNSTABLE` names, and what that refers to, to the definitions of the
    stable schema.
    """

    def add(name: str) -> None:
        if name not in definitions:
            definitions[name] = unstable[name]
            for other in references(unstable[name]):
                add(other)

    for name, key in LEFT_OUT:
        del unstable[name]["properties"][key]
    for name, constants in UNSTABLE_ALTERNATIVES[version].items():
        definitions[name] = with_alternatives(
            definitions[name], unstable[name], constants
        )
        for other in references(definitions[name]):
            add(other)
    for name, definition in unstable.items():
        if definition.get("x-method") in UNSTABLE:
            add(name)
    for name, key in UNSTABLE_PROPERTIES[version]:
        definitions[name]["properties"][key] = unstable[name]["properties"][key]
        for other in references(definitions[name]["properties"][key]):
            add(other)


def with_alternatives(stable: Schema, unstable: Schema, constants: set[str]) -> Schema:
    """The unstable form of a union, with the alternatives of its stable form, in their
    order, and some of its own.
    """
    keyword = "oneOf" if "oneOf" in unstable else "anyOf"
    wanted = constants | {constant_of(option)[1] for option in stable[keyword]}
    options = [
        option
        for option in unstable[keyword]
        if "not" in option or constant_of(option)[1] in wanted
    ]
    options.sort(
        key=lambda option: "not" in option or constant_of(option)[1] in constants
    )
    for option in options:
        if "not" in option:
            named = [
                each
                for each in option["not"]["anyOf"]
                if constant_of(each)[1] in wanted
            ]
            option["not"] = {**option["not"], "anyOf": named}
    return {**unstable, keyword: options}


def without_prose(node: Any, *, names: bool = False) -> Any:
    """Drop the keyword `description`, but not a property that happens to have that
    name.
    """
    if isinstance(node, dict):
        return {
            key: without_prose(
                value, names=not names and key in ("properties", "$defs")
            )
            for key, value in node.items()
            if names or key != "description"
        }
    return [without_prose(item) for item in node] if isinstance(node, list) else node
