"""Events: one complete example of each kind, and a hypothesis strategy for any event
that can be written down.

    encode(EXAMPLES["plan_changed"])
    @given(any_event())

The examples are read from their persisted form,
`tests/unit/conversation/golden_events.json`; the strategy is read off the dataclasses,
so that a new kind of event is covered without a word here. `logs.py` says which events
may follow which.
"""

from __future__ import annotations

import json
import types
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from acp_agent.conversation.codec import decode
from acp_agent.conversation.events import Event
from acp_agent.conversation.messages import JsonValue

KINDS: tuple[type[Event], ...] = get_args(Event)
GOLDEN: dict[str, Any] = json.loads(
    (
        Path(__file__).parents[1] / "unit" / "conversation" / "golden_events.json"
    ).read_text("utf-8")
)
EXAMPLES: dict[str, Event] = {
    kind: decode(kind, json.dumps(form)) for kind, form in GOLDEN.items()
}
"""One event of each kind, with every field set to something that is not its default."""


def any_event(text: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Event]:
    """Any event of any kind, however unlikely.

    :param text: what strings to use; by default everything that UTF-8 can hold.
    """
    text = st.text(max_size=20) if text is None else text
    return st.one_of([_values(kind, text) for kind in KINDS])


def json_values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON value, with integers that no database column holds."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.integers(2**60, 2**200)
        | _FLOATS
        | text
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
        ),
        max_leaves=8,
    )


_FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def _values(hint: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    if hint is str:
        return text
    if hint is int:
        return st.integers()
    if hint is float:
        return _FLOATS
    if hint is bool:
        return st.booleans()
    if hint is type(None):
        return st.none()
    if hint is JsonValue:
        return json_values(text)
    if is_dataclass(hint) and isinstance(hint, type):
        return st.builds(
            hint,
            **{name: _values(of, text) for name, of in get_type_hints(hint).items()},
        )
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is Union or origin is types.UnionType:
        return st.one_of([_values(of, text) for of in arguments])
    if origin is tuple and arguments[1:] != (...,):
        return st.tuples(*(_values(of, text) for of in arguments))
    if origin is tuple:
        return st.lists(_values(arguments[0], text), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(text, _values(arguments[1], text), max_size=3)
    raise TypeError(f"no strategy for {hint!r}: add one here")
