"""Events: one complete example of each kind, and a hypothesis strategy for any event that can be written down.

    encode(EXAMPLES["plan_changed"])
    @given(any_event())

The strategy is read off the dataclasses, so that a new kind of event is covered without a word here; the examples are
written by hand, since they stand for the persisted form. Knows nothing of which events may follow each other; `logs.py`
does.
"""

from __future__ import annotations

import types
from dataclasses import is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from acp_agent.conversation.events import (
    AssistantAnswered,
    AutoCompactionChanged,
    CallView,
    Carried,
    CompactionFailed,
    ContextAdded,
    ContextRestored,
    ContextSwapped,
    ContinuationAsked,
    Diff,
    DirectoriesChanged,
    EditsUndone,
    Event,
    FileChange,
    FileVersion,
    InstructionsLoaded,
    Location,
    MessageSupplied,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PartialAnswer,
    PermissionGranted,
    Pinned,
    PinRemoved,
    PlanChanged,
    PlanEntry,
    Receipt,
    RestoredEntry,
    Rewritten,
    SessionForked,
    SessionStarted,
    SummaryDropped,
    TextPinned,
    ThoughtLevelChanged,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.memory import Memory, Pin, Quote
from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Image,
    JsonValue,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)

KINDS: tuple[type[Event], ...] = get_args(Event)

_PROMPT = UserMessage(
    "msg_1",
    (
        Text("Mach Grün daraus 🌱\n"),
        Image("iVBORw0KGgo=", "image/png", "file:///shop/logo.png"),
        ResourceLink("file:///shop/cart.py", "cart.py", "text/x-python", "the cart", 812, "Cart"),
        Resource("file:///shop/notes.txt", "prices are cents", None, "text/plain"),
        Resource("file:///shop/logo.bin", None, "AAEC", None),
    ),
)
_CARRIED = Carried(
    cwd="/shop",
    additional_directories=("/lib",),
    mode="accept-edits",
    model="anthropic/claude",
    thought_level="high",
    instructions="You are careful.",
    title="The cart",
    plan=(PlanEntry("fix total", "in_progress", "high"),),
    grants=("edit", "execute:make"),
    cost=0.25,
    turn_from=3,
    memory=Memory(pins=(Pin(2, "prices are cents"),), next_pin=4, rules=(Quote(3, "Never edit main."),)),
    auto_compaction=False,
    title_by="user",
)
_USAGE = Usage(10, 20, 30, 40, 0.0125)

_EXAMPLES: tuple[Event, ...] = (
    SessionStarted("/shop", ("/lib",), "plan", "anthropic/claude", "low"),
    InstructionsLoaded("You are careful.", ("/shop/AGENTS.md",)),
    UserPrompted("msg_1", _PROMPT.parts, (Text("Fix the total."),), "fix", "e3b0c4", steers=True),
    PartialAnswer("msg_2", "I look", "hm"),
    AssistantAnswered(
        AssistantMessage(
            "msg_2",
            (
                Thinking("hm", "anthropic", {"signature": "c2ln"}),
                Text("I look."),
                ToolCall("call_1", "read", {"path": "/shop/cart.py", "lines": [1, 2.5, None, True, {"a": "b"}]}),
                ToolCall("call_2", "read", {}, '{"path": '),
            ),
            "anthropic/claude",
            "tool_use",
            _USAGE,
        )
    ),
    ToolReturned(
        ToolResult("call_1", (Text("1 class Cart:"), Image("iVBORw0KGgo=", "image/png")), True),
        CallView(
            "Read cart.py",
            "read",
            (Location("/shop/cart.py", 1),),
            (Diff("/shop/new.py", None, "x"),),
            {"lines": 1},
            (FileChange("move", "/shop/new_name.py", "/shop/old_name.py", "text"),),
        ),
        (FileVersion("/shop/cart.py", "9f86d0"), FileVersion("/shop/gone.py", None)),
        (FileVersion("/shop/new.py", None),),
    ),
    NoteAdded("msg_3", "The context holds 4 messages."),
    PlanChanged((PlanEntry("fix total", "completed", "low"),)),
    ModeChanged("plan"),
    ModelChanged("openai/gpt"),
    ThoughtLevelChanged("low"),
    AutoCompactionChanged(False),
    DirectoriesChanged(("/lib", "/docs")),
    PermissionGranted("execute:make", "project"),
    TitleChanged("The cart", "model", Usage(100, 5, cost=0.0005)),
    SessionForked("sess_1", 12, "/shop", ("/lib",)),
    TurnEnded("end_turn", "The model could not be reached."),
    TurnRefused(3),
    ContextSwapped(
        compaction_id="compaction_1",
        message_id="msg_4",
        trigger="overflow",
        summary="The total is fixed.",
        sent=(
            CompactedBlock("openai", {"id": "cmp_1", "encrypted_content": "c2ln"}, "The total is fixed."),
            Text("What happened so far: the total is fixed."),
        ),
        keep_from=7,
        carried=_CARRIED,
        tokens_before=90000,
        tokens_after=4000,
        pinned=(Pinned(3, _PROMPT, shortened=True),),
        usage=_USAGE,
        recipe="compact",
        digest="e3b0c4",
        strategy="native",
        rewritten=(
            Rewritten(3, _PROMPT),
            Rewritten(8, AssistantMessage("msg_5", (Text("I look […]"),), "anthropic/claude")),
            Rewritten(9, ToolResult("call_3", (Text("[left out]"),), True)),
        ),
        files=(FileVersion("/shop/cart.py", "9f86d0"),),
        fold_from=5,
        earlier=(2, 4),
        receipt=Receipt(
            summarised=5,
            kept=3,
            rewritten=2,
            requests=1,
            seconds=4.5,
            waited=0.5,
            cached=0.75,
            unverified=("the price was 5",),
            missing=("Next steps",),
            notes=("The first summary was empty.",),
        ),
    ),
    ContextRestored(
        compaction_id="compaction_1",
        undone=10,
        entries=(
            RestoredEntry(2, UserMessage("msg_6", (Text("What happened before."),)), summary=True),
            RestoredEntry(3, _PROMPT, shortened=True),
            RestoredEntry(11, UserMessage("msg_7", (Text("Go on."),)), note=True),
        ),
        carried=_CARRIED,
        tokens=90000,
        files=(FileVersion("/shop/gone.py", None),),
        earlier=(2, 4),
    ),
    CompactionFailed("compaction_2", "threshold", "failed", "The summary was empty.", _USAGE),
    SummaryDropped(_USAGE),
    TextPinned("msg_8", 3, "prices are cents", "The user pinned: prices are cents"),
    PinRemoved("msg_9", 3, "The user took a pin back: prices are cents"),
    EditsUndone("msg_13", 2, ("/shop/cart.py",), "The user took the changes back: cart.py"),
    ContinuationAsked("msg_10", "Go on where you stopped."),
    MessageSupplied(UserMessage("msg_12", (Text("Look at it."),))),
    ContextAdded("msg_11", "A hook added this:\n\nIt is raining."),
)
EXAMPLES: dict[str, Event] = {event.kind: event for event in _EXAMPLES}
"""One event of each kind, with every field set to something that is not its default."""


def any_event(text: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Event]:
    """Any event of any kind, however unlikely.

    :param text: what strings to use; by default everything that UTF-8 can hold.
    """
    text = st.text(max_size=20) if text is None else text
    return st.one_of([_values(kind, text) for kind in KINDS])


def json_values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON value, with integers that no database column holds."""
    leaves = st.none() | st.booleans() | st.integers() | st.integers(2**60, 2**200) | _FLOATS | text
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
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
        return st.builds(hint, **{name: _values(of, text) for name, of in get_type_hints(hint).items()})
    origin, arguments = get_origin(hint), get_args(hint)
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
