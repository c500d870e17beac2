"""Resolves the references in a JSON Schema: to definitions, to any other place in the
schema, and to schemas by URI or anchor.

JSON Schema, draft 2020-12, "Core", sections 8 and 9; RFC 6901, "JSON Pointer".
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote, urldefrag, urljoin

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen

_OLD_DRAFT = re.compile(r"draft-0[1-7]\b")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_DEFINITIONS = ("$defs", "definitions")
_MAX_VALUES = 200_000
_LONGEST_CHAIN = 20
"""Maximum number of values of one schema that are searched for URIs and anchors."""


@frozen
class Scope:
    """The context in which the references of a schema are resolved.

    :ivar root: the schema that `#` points to: the whole schema, or the nearest
        enclosing schema with its own URI.
    :ivar base: the URI of `root`.
    :ivar around: the enclosing schemas that have definitions, the nearest first.
    :ivar legacy: whether the schema is written in draft 7 or older.
    :ivar depth: how many schemas enclose this one.
    """

    root: JsonObject
    base: str = ""
    around: tuple[JsonObject, ...] = ()
    legacy: bool = False
    depth: int = 0


class SchemaReferences:
    """Resolves the references of one schema.

    :ivar scope: the scope of the whole schema.
    :ivar waiting: the schemas that `name_of` has named but the caller has not taken
        yet, each with its name and scope.
    """

    def __init__(self, root: JsonObject) -> None:
        version = root.get("$schema")
        legacy = isinstance(version, str) and bool(_OLD_DRAFT.search(version))
        self.scope = Scope(root, legacy=legacy, depth=-1)
        self.waiting: list[tuple[str, JsonValue, Scope]] = []
        self._root = root
        self._names: dict[int, str] = {}
        self._taken: dict[
            str, int
        ] = {}  # names, each with the last number appended to it
        self._named: dict[str, tuple[JsonObject, Scope]] | None = None

    def within(self, schema: JsonObject, scope: Scope) -> Scope:
        """Return the scope inside a schema.

        :param scope: the scope around the schema.
        """
        inner = replace(scope, depth=scope.depth + 1)
        address = _address(schema)
        if address:
            inner = replace(inner, root=schema, base=urljoin(scope.base, address))
        if any(isinstance(schema.get(key), dict) for key in _DEFINITIONS):
            inner = replace(inner, around=(schema, *inner.around))
        return inner

    def name_of(self, reference: str, scope: Scope) -> str | None:
        """Return the name of the definition for a reference, or None if the reference
        cannot be resolved.

        :param scope: the scope of the schema that contains the reference.
        """
        found = self._target(reference, scope)
        if found is None:
            return None
        target, place = found
        if id(target) not in self._names:
            words = _NOT_IN_NAMES.sub(
                "_", unquote(reference.rpartition("/")[2].lstrip("#"))
            )
            name = plain = words.strip("_")[:100] or "root"
            number = self._taken.get(plain, 1)
            while name in self._taken:
                number += 1
                name = f"{plain}_{number}"
            self._taken[plain] = number
            self._taken.setdefault(name, 1)
            self._names[id(target)] = name
            self.waiting.append((name, target, place))
        return self._names[id(target)]

    def _target(self, reference: str, scope: Scope) -> tuple[JsonValue, Scope] | None:
        """Return the target of a reference, or None if it cannot be resolved, is
        circular, or leads through a long chain of references.
        """
        first = found = self._resolved(reference, scope)
        seen: set[int] = set()
        while found is not None:
            target, place = found
            if (
                not isinstance(target, dict | bool)
                or id(target) in seen
                or len(seen) > _LONGEST_CHAIN
            ):
                return None
            further = target.get("$ref") if isinstance(target, dict) else None
            if not isinstance(target, dict) or not isinstance(further, str):
                return first
            seen.add(id(target))
            found = self._resolved(further, self.within(target, place))
        return first if seen else None

    def _resolved(self, reference: str, scope: Scope) -> tuple[JsonValue, Scope] | None:
        address, fragment = urldefrag(reference)
        fragment = unquote(fragment)
        start: tuple[JsonObject, Scope] | None = (
            scope.root,
            replace(scope, around=(), depth=0),
        )
        if address:
            start = self._by_name(urljoin(scope.base, address))
        if start is not None and not fragment:
            return start
        if fragment and not fragment.startswith("/"):
            return self._by_name(f"{start[1].base if start else ''}#{fragment}")
        tokens = [
            token.replace("~1", "/").replace("~0", "~")
            for token in fragment.split("/")[1:]
        ]
        if start is not None and (found := self._follow(*start, tokens)) is not None:
            return found
        if address or not tokens:
            return None
        # Servers embed schemas whose references were valid only in the original
        # document.
        for holder in (*scope.around, self._root):
            for key in _DEFINITIONS:
                known = holder.get(key)
                if isinstance(known, dict) and tokens[-1] in known:
                    return known[tokens[-1]], replace(scope, depth=0)
        return None

    def _follow(
        self, root: JsonObject, scope: Scope, tokens: list[str]
    ) -> tuple[JsonValue, Scope] | None:
        value: JsonValue = root
        for token in tokens:
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif (
                isinstance(value, list)
                and token.isdecimal()
                and int(token) < len(value)
            ):
                value = value[int(token)]
            else:
                return None
            if isinstance(value, dict):
                scope = replace(self.within(value, scope), depth=0)
        return value, scope

    def _by_name(self, name: str) -> tuple[JsonObject, Scope] | None:
        """Return the schema that declares this URI, or the anchor after the URI's `#`."""
        if self._named is None:
            self._named = {}
            self._collect(self._root, Scope(self._root, legacy=self.scope.legacy))
        return self._named.get(name)

    def _collect(self, root: JsonObject, start: Scope) -> None:
        assert self._named is not None
        waiting: list[tuple[JsonValue, Scope]] = [(root, start)]
        seen = 0
        while waiting and seen < _MAX_VALUES:
            value, scope = waiting.pop()
            seen += 1
            if isinstance(value, dict):
                scope = replace(self.within(value, scope), depth=0)
                if scope.root is value:
                    self._named.setdefault(scope.base, (value, scope))
                for name in _own_names(value):
                    self._named.setdefault(f"{scope.base}#{name}", (value, scope))
                waiting.extend((each, scope) for each in value.values())
            elif isinstance(value, list):
                waiting.extend((each, scope) for each in value)


def _address(schema: JsonObject) -> str:
    """Return the URI that a schema declares for itself, or an empty string if it
    declares none.
    """
    for key in ("$id", "id"):
        value = schema.get(key)
        if isinstance(value, str) and not value.startswith("#"):
            return urldefrag(value)[0] if key == "$id" or ":" in value else ""
    return ""


def _own_names(schema: JsonObject) -> list[str]:
    given = [schema.get(key) for key in ("$anchor", "$dynamicAnchor")]
    names = [each for each in given if isinstance(each, str)]
    for key in ("$id", "id"):
        value = schema.get(key)
        if isinstance(value, str) and value.startswith("#"):
            names.append(value[1:])
    return names
