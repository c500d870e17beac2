"""`@frozen` beside `@dataclass(frozen=True, slots=True)`: what can be seen of a class and its values is the same."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import (
    MISSING,
    FrozenInstanceError,
    InitVar,
    asdict,
    dataclass,
    field,
    fields,
    is_dataclass,
    replace,
)
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from acp_agent.frozen import frozen

Decorator = Callable[[type], Any]
BOTH: tuple[Decorator, Decorator] = (dataclass(frozen=True, slots=True), frozen)

# No NaN, which equals itself in a dataclass of Python 3.12 and not in one of 3.13.
values = st.one_of(
    st.integers(0, 2), st.floats(allow_nan=False), st.text(max_size=2), st.tuples(st.booleans()), st.none()
)
options = st.fixed_dictionaries({}, optional={"repr": st.booleans(), "compare": st.booleans()})


@st.composite
def namespaces(draw: st.DrawFn) -> dict[str, Any]:
    """What is in the body of a class of zero to four fields: first those that have no default."""
    names = draw(st.lists(st.sampled_from(["a", "b_", "_c", "set", "name", "cls"]), unique=True, max_size=4))
    without = draw(st.integers(0, len(names)))
    body: dict[str, Any] = {}
    for index, name in enumerate(names):
        more: dict[str, Any] = draw(options)
        if index >= without:
            kind = draw(st.sampled_from(["default", "factory", "no init", "plain"]))
            value = draw(values)
            if kind == "plain":
                body[name] = value
                continue
            more |= {"default_factory": list} if kind == "factory" else {"default": value}
            more |= {"init": False} if kind == "no init" else {}
        if more:
            body[name] = more
    return {"__annotations__": dict.fromkeys(names, "object"), **body}


def twins(body: Mapping[str, Any]) -> list[Any]:
    """The same class, made by either."""
    classes: list[Any] = []
    for decorator in BOTH:
        made = {
            name: field(**value) if isinstance(value, dict) and name[:2] != "__" else value
            for name, value in body.items()
        }
        made |= {
            "__module__": __name__,
            "__qualname__": "Outer.Twin",
            "__doc__": "A class.",
            "__annotations__": dict(body["__annotations__"]),
        }
        classes.append(decorator(type("Twin", (), made)))
    return classes


def seen(act: Callable[[], object]) -> object:
    """What comes of it, or what it says in refusing."""
    try:
        return act()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


@given(namespaces(), st.data())
def test_what_can_be_seen_of_it_is_what_can_be_seen_of_a_dataclass(body: dict[str, Any], data: st.DataObject) -> None:
    theirs, ours = twins(body)
    assert [(f.name, f.type, f.init, f.repr, f.compare) for f in fields(theirs)] == [
        (f.name, f.type, f.init, f.repr, f.compare) for f in fields(ours)
    ]
    assert inspect.signature(theirs).parameters.keys() == inspect.signature(ours).parameters.keys()
    for one, other in zip(*(inspect.signature(cls).parameters.values() for cls in (theirs, ours)), strict=True):
        assert (one.kind, one.annotation) == (other.kind, other.annotation)
    for name in ("__slots__", "__match_args__", "__doc__", "__name__", "__qualname__", "__module__"):
        assert getattr(theirs, name) == getattr(ours, name)

    given_ = [data.draw(values) for f in fields(theirs) if f.init and (f.default is f.default_factory is MISSING)]
    few = data.draw(st.integers(0, len(given_) + 1))
    if few != len(given_):
        assert seen(lambda: repr(theirs(*[0] * few))) == seen(lambda: repr(ours(*[0] * few)))
    same = [(cls(*given_), cls(*given_)) for cls in (theirs, ours)]
    (one, one_again), (other, other_again) = same
    assert repr(one) == repr(other)
    assert (one == one_again, one != one_again) == (other == other_again, other != other_again)
    assert seen(lambda: hash(one)) == seen(lambda: hash(other))
    assert one != other

    changes = {f.name: data.draw(values) for f in fields(theirs) if data.draw(st.booleans())}
    assert seen(lambda: repr(replace(one, **changes))) == seen(lambda: repr(replace(other, **changes)))
    if all(f.init for f in fields(theirs)):
        assert (one == replace(one, **changes)) == (other == replace(other, **changes))
    assert repr(asdict(one)) == repr(asdict(other))
    for copied in (copy.copy, copy.deepcopy):
        assert repr(copied(one)) == repr(copied(other))
    for name in [f.name for f in fields(theirs)]:
        assert seen(lambda name=name: setattr(one, name, 1)) == seen(lambda name=name: setattr(other, name, 1))
        assert seen(lambda name=name: delattr(one, name)) == seen(lambda name=name: delattr(other, name))
    with pytest.raises(FrozenInstanceError):
        other.more = 1


@frozen
class Point:
    """A class with all that the house's classes have."""

    x: int
    tags: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    inner: Point | None = None

    def __post_init__(self) -> None:
        if self.x < 0:
            object.__setattr__(self, "x", 0)


@frozen
class Named(Point):
    """One that derives from it."""

    name: str = ""

    def __repr__(self) -> str:
        return self.name


points = st.builds(
    Point, st.integers(), st.just(("a",)), st.just({"b": "c"}), st.none() | st.builds(Point, st.integers())
)


@given(points)
def test_a_value_comes_back_from_a_pickle_and_from_pydantic(point: Point) -> None:
    assert pickle.loads(pickle.dumps(point)) == point
    adapter = TypeAdapter(Point)
    assert adapter.validate_json(adapter.dump_json(point)) == point
    assert point.x >= 0


def test_a_class_that_derives_from_it_has_its_fields_and_keeps_its_own_methods() -> None:
    named = Named(1, name="one")
    assert is_dataclass(named)
    assert [f.name for f in fields(named)] == ["x", "tags", "names", "inner", "name"]
    assert repr(named) == "one"
    assert named != Point(1)
    assert replace(named, x=2) == Named(2, name="one")
    assert not hasattr(named, "__dict__")


def test_what_it_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="Keyword: a frozen class has plain fields alone"):

        @frozen
        class Keyword:  # pyright: ignore[reportUnusedClass]
            x: int = field(kw_only=True)

    with pytest.raises(TypeError, match="ForInit: a frozen class has plain fields alone"):

        @frozen
        class ForInit:  # pyright: ignore[reportUnusedClass]
            x: InitVar[int]
