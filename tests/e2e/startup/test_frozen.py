"""`@frozen` beside `@dataclass(frozen=True, slots=True)`: what can be seen of a class
and its values is the same.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import (
    FrozenInstanceError,
    InitVar,
    asdict,
    dataclass,
    field,
    fields,
    replace,
)
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.frozen import frozen

# No NaN, which equals itself in a dataclass of Python 3.12 and not in one of 3.13.
VALUES = (
    st.integers(0, 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=2)
    | st.tuples(st.booleans())
    | st.none()
)
OPTIONS = st.fixed_dictionaries(
    {}, optional={"repr": st.booleans(), "compare": st.booleans()}
)
DEFAULTS = st.one_of(
    st.just({"default_factory": list}),
    st.fixed_dictionaries({"default": VALUES}),
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Zero to four fields with what is said of each: first those that have no default."""
    names = draw(
        st.lists(
            st.sampled_from(["a", "b_", "_c", "set", "name", "cls"]),
            unique=True,
            max_size=4,
        )
    )
    without = draw(st.integers(0, len(names)))
    return {
        name: draw(OPTIONS) | (draw(DEFAULTS) if at >= without else {})
        for at, name in enumerate(names)
    }


def made(decorator: Callable[[type], Any], body: dict[str, dict[str, Any]]) -> Any:
    said = {name: field(**options) for name, options in body.items() if options}
    own = {
        "__module__": __name__,
        "__qualname__": "Outer.Twin",
        "__annotations__": dict.fromkeys(body, "object"),
    }
    return decorator(type("Twin", (), {**said, **own, "__doc__": "A class."}))


def tried(act: Callable[[], object]) -> object:
    """What comes of it, or what it says in refusing."""
    try:
        return act()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


def seen(
    cls: Any, given_: list[Any], few: int, changes: dict[str, Any]
) -> Iterator[object]:
    """All that can be seen of a class and of one of its values."""
    yield [(f.name, f.type, f.init, f.repr, f.compare) for f in fields(cls)]
    yield [
        (each.name, each.kind, each.annotation)
        for each in inspect.signature(cls).parameters.values()
    ]
    yield [
        getattr(cls, f"__{name}__")
        for name in ("slots", "match_args", "doc", "name", "qualname", "module")
    ]
    yield tried(lambda: repr(cls(*[0] * few)))
    one = cls(*given_)
    yield (
        repr(one),
        tried(lambda: hash(one) == hash(cls(*given_))),
        one == cls(*given_),
        one == 1,
        repr(asdict(one)),
    )
    changed = tried(lambda: replace(one, **changes))
    yield repr(changed), one == changed
    yield repr(copy.copy(one)), repr(copy.deepcopy(one))
    for name in (f.name for f in fields(cls)):
        yield (
            tried(lambda name=name: setattr(one, name, 1)),
            tried(lambda name=name: delattr(one, name)),
        )


@given(bodies(), st.data())
def test_what_can_be_seen_of_it_is_what_can_be_seen_of_a_dataclass(
    body: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    needed = [
        name
        for name, options in body.items()
        if not {"default", "default_factory"} & options.keys()
    ]
    given_ = [data.draw(VALUES) for _ in needed]
    few = data.draw(st.integers(0, len(needed) + 1))
    changes = {name: data.draw(VALUES) for name in body if data.draw(st.booleans())}
    theirs = made(dataclass(frozen=True, slots=True), body)
    ours = made(frozen, body)
    assert [*seen(theirs, given_, few, changes)] == [*seen(ours, given_, few, changes)]
    value = ours(*given_)
    assert theirs(*given_) != value
    with pytest.raises(FrozenInstanceError):
        value.more = 1


def test_what_it_does_not_know_is_refused() -> None:
    for annotation, value in (("int", {"x": field(init=False)}), (InitVar[int], {})):
        with pytest.raises(
            TypeError, match="Odd: a frozen class may only have plain fields"
        ):
            frozen(type("Odd", (), {"__annotations__": {"x": annotation}, **value}))
