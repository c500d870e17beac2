"""Checks what the agent sends against the official schema of ACP (the pinned copies in
acp_agent/protocol), v1 or v2.

Stricter than the schema in one way: the schema lets unknown properties pass, and a
message of ours must have none besides what `_meta` holds, so that a misspelt optional
property cannot hide.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

ROOMS = Path(__file__).parents[2] / "acp_agent" / "protocol"

Schema = dict[str, Any]


class SchemaViolationError(AssertionError):
    """A message is not what the official schema says, or has a property which the
    schema does not declare.
    """


def validate_outgoing(
    message: Mapping[str, Any], method: str | None = None, *, version: int = 1
) -> None:
    """Check one whole JSON-RPC message that the agent wrote.

    :param message: the parsed line: a response, a request to the client, or a
        notification.
    :param method: for a response with a result, the method of the request that it
        answers.
    :param version: of the protocol.
    :raises SchemaViolationError: says where and what.
    """
    if message.get("jsonrpc") != "2.0":
        raise SchemaViolationError(f"jsonrpc is not '2.0': {message!r}")
    keys = set(message) - {"jsonrpc"}
    if "method" in message:
        _allow_only(message, keys, required={"method"}, optional={"id", "params"})
        name = str(message["method"])
        kind = "Request" if "id" in message else "Notification"
        definition = _definition(name, kind, version, sides={"client", "protocol"})
        _check(f"{name}: params", definition, message.get("params", {}), version)
        if kind == "Request" and isinstance(message["id"], bool | None):
            raise SchemaViolationError(
                f"{name}: a request needs an id that is a string or an integer: {message!r}"
            )
    elif "error" in message:
        _allow_only(message, keys, required={"id", "error"})
        _check(f"{method or 'response'}: error", "Error", message["error"], version)
    else:
        _allow_only(message, keys, required={"id", "result"})
        if method is None:
            raise SchemaViolationError(
                "a result can be judged only with the method that it answers"
            )
        validate_result(method, message["result"], version=version)


def validate_params(method: str, params: object, *, version: int = 1) -> None:
    """Check the params of a request or notification, in either direction."""
    kind = "Request" if (method, "Request") in _methods(version) else "Notification"
    _check(f"{method}: params", _definition(method, kind, version), params, version)


def validate_result(method: str, result: object, *, version: int = 1) -> None:
    """Check the result of a request, in either direction."""
    _check(
        f"{method}: result", _definition(method, "Response", version), result, version
    )


def official_errors(name: str, value: object, *, version: int = 1) -> list[str]:
    """What the official schema alone, without our strictness, has against a value;
    empty where it is valid.
    """
    validator = Draft202012Validator(
        {"$ref": f"#/$defs/{name}", "$defs": official_schema(version)["$defs"]}
    )
    return [
        f"{error.json_path}: {error.message}" for error in _errors(validator, value)
    ]


@cache
def official_schema(version: int = 1) -> Schema:
    return cast(
        Schema,
        json.loads((ROOMS / f"v{version}" / "schema.json").read_text(encoding="utf-8")),
    )


_accepted: set[tuple[str, int, str]] = set()
"""Definition, version and form of all that was found to be right: to judge a form takes
a millisecond.
"""


def _check(label: str, definition: str, value: object, version: int) -> None:
    form = (definition, version, json.dumps(_form(value, _words(version))))
    if form in _accepted:
        return
    error = best_match(_errors(_validator(definition, version), value))
    if error is not None:
        raise SchemaViolationError(
            f"{_place(label, error.absolute_path)}: {error.message[:500]}"
        )
    for path in _undeclared({"$ref": f"#/$defs/{definition}"}, value, (), version):
        raise SchemaViolationError(
            f"{_place(label, path)}: the schema declares no such property"
        )
    _accepted.add(form)


def _form(value: Any, words: frozenset[str]) -> Any:
    """Return a value with one text for all that the schema does not know: it judges
    them alike.
    """
    if isinstance(value, dict):
        return {
            key: _form(member, words)
            for key, member in cast(dict[str, Any], value).items()
        }
    if isinstance(value, list):
        return [_form(item, words) for item in cast(list[Any], value)]
    return "any other" if isinstance(value, str) and value not in words else value


@cache
def _words(version: int) -> frozenset[str]:
    """Return the texts that the schema tells from others: its constants, and the empty
    one, as the shortest.
    """
    found = {""}
    waiting = [cast(Any, official_schema(version))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found |= {str(each) for each in (part.get("const"), *part.get("enum", ()))}
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return frozenset(found)


def _place(label: str, path: Iterable[str | int]) -> str:
    where = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in path
    ).removeprefix(".")
    return f"{label} at {where}" if where else label


def _errors(
    validator: Draft202012Validator, value: object
) -> Iterator[ValidationError]:
    return validator.iter_errors(cast(Any, value))


@cache
def _methods(version: int) -> dict[tuple[str, str], tuple[str, str]]:
    """(method, Request | Response | Notification) -> (definition, the side which
    handles the method).
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for name, definition in official_schema(version)["$defs"].items():
        if "x-method" in definition:
            kind = next(
                kind
                for kind in ("Request", "Response", "Notification")
                if name.endswith(kind)
            )
            found[definition["x-method"], kind] = (name, definition["x-side"])
    return found


def _definition(
    method: str, kind: str, version: int, sides: set[str] | None = None
) -> str:
    try:
        name, side = _methods(version)[method, kind]
    except KeyError:
        raise SchemaViolationError(
            f"the schema knows no {kind.lower()} called {method!r}"
        ) from None
    if sides is not None and side not in sides:
        raise SchemaViolationError(
            f"{method!r} is a method of the {side}: an agent does not send it"
        )
    return name


def _allow_only(
    message: Mapping[str, Any],
    keys: set[str],
    *,
    required: set[str],
    optional: set[str] | None = None,
) -> None:
    if missing := required - keys:
        raise SchemaViolationError(
            f"the message lacks {sorted(missing)}: {dict(message)!r}"
        )
    if extra := keys - required - (optional or set()):
        raise SchemaViolationError(
            f"the message has undeclared members {sorted(extra)}: {dict(message)!r}"
        )


def _undeclared(
    schema: Schema, value: Any, path: tuple[str | int, ...], version: int
) -> Iterator[tuple[str | int, ...]]:
    """Paths of the properties that no part of the schema which applies to the value
    declares.
    """
    parts = list(_applying(schema, value, version))
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        anything = any(not part.keys() - {"title"} for part in parts)
        closed = any("properties" in part for part in parts) and not anything
        for key, member in members.items():
            declared = [
                part["properties"][key]
                for part in parts
                if key in part.get("properties", {})
            ]
            others = [
                part["additionalProperties"]
                for part in parts
                if "additionalProperties" in part
            ]
            if closed and not declared and not others:
                yield (*path, key)
            for subschema in declared or [
                other for other in others if isinstance(other, dict)
            ]:
                yield from _undeclared(
                    cast(Schema, subschema), member, (*path, key), version
                )
    elif isinstance(value, list):
        for items in (part["items"] for part in parts if "items" in part):
            for index, item in enumerate(cast(list[Any], value)):
                yield from _undeclared(items, item, (*path, index), version)


def _applying(schema: Schema, value: Any, version: int) -> Iterator[Schema]:
    """The schema itself and every part of it, through references and alternatives, that
    the value matches.
    """
    yield schema
    if "$ref" in schema:
        definition = official_schema(version)["$defs"][
            schema["$ref"].removeprefix("#/$defs/")
        ]
        yield from _applying(definition, value, version)
    for part in schema.get("allOf", []):
        yield from _applying(part, value, version)
    for keyword in ("anyOf", "oneOf"):
        candidates = [
            part for part in schema.get(keyword, []) if _may_match(part, value)
        ]
        for part in candidates:
            if len(candidates) == 1 or _part_validator(
                json.dumps(part), version
            ).is_valid(value):
                yield from _applying(part, value, version)


def _may_match(part: Schema, value: Any) -> bool:
    if "const" in part:
        return bool(part["const"] == value)
    if not isinstance(value, dict):
        return part.get("type") != "object"
    members = cast(dict[str, Any], value)
    return all(
        members.get(key) == schema["const"]
        for key, schema in part.get("properties", {}).items()
        if "const" in schema
    )


@cache
def _validator(definition: str, version: int) -> Draft202012Validator:
    return Draft202012Validator(
        {"$ref": f"#/$defs/{definition}", "$defs": _branching_definitions(version)}
    )


@cache
def _part_validator(part: str, version: int) -> Draft202012Validator:
    return Draft202012Validator(
        {**json.loads(part), "$defs": _branching_definitions(version)}
    )


@cache
def _branching_definitions(version: int) -> Schema:
    definitions = copy.deepcopy(cast(Schema, official_schema(version)["$defs"]))
    for definition in definitions.values():
        if "discriminator" in definition:
            _branch_by_discriminator(definition)
    return definitions


def _branch_by_discriminator(schema: Schema) -> None:
    """Turn `oneOf` with constants into if/then: the same meaning, quicker, and the
    error is the intended branch's.
    """
    key = schema.pop("discriminator")["propertyName"]
    branches = schema.pop("oneOf")
    constants = [branch["properties"][key]["const"] for branch in branches]
    schema["required"] = [*schema.get("required", []), key]
    schema["properties"] = {**schema.get("properties", {}), key: {"enum": constants}}
    schema["allOf"] = [
        *schema.get("allOf", []),
        *(
            {"if": {"properties": {key: {"const": constant}}}, "then": branch}
            for constant, branch in zip(constants, branches, strict=True)
        ),
    ]
