"""Prompts that run a recipe: what the model reads and what the user typed, also after
compactions and refusals.
"""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    LoggedEvent,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Image,
    Message,
    RecipePrompt,
    Resource,
    ResourceLink,
    Text,
    UserMessage,
    UserPart,
)
from acp_agent.conversation.swaps import Pinned, Rewritten
from support.events import EXAMPLES
from support.logs import legal_logs

Log = tuple[LoggedEvent, ...]
PARTS = st.lists(
    st.one_of(
        st.text(max_size=9).map(Text),
        st.builds(ResourceLink, st.text(max_size=9), st.just("a")),
    ),
    max_size=3,
).map(tuple)
MESSAGES = st.one_of(
    st.builds(RecipePrompt, st.text(max_size=5), PARTS, typed=PARTS),
    st.builds(UserMessage, st.text(max_size=5), PARTS),
)


def prompted(*shown: UserPart, sent: tuple[UserPart, ...] | None) -> tuple[Entry, ...]:
    event = UserPrompted("m", shown, sent)
    assert decode(event.kind, encode(event)) == event
    return Context.from_log([LoggedEvent(1, 0, event)]).entries


def test_attachments_of_a_recipes_prompt_are_not_stored_twice() -> None:
    shown = (
        Text("/review "),
        ResourceLink("file:///a", "a"),
        Resource("file:///b", "its text", mime_type="text/plain"),
        Image("eA==", "image/png"),
    )
    [entry] = prompted(*shown, sent=(Text("Review."), *shown[1:]))
    assert entry.typed == (
        *shown[:2],
        ResourceLink("file:///b", "file:///b", "text/plain"),
    )
    assert entry.message.parts[1:] == shown[1:]


def test_entries_that_the_user_did_not_write_have_no_typed_parts() -> None:
    said = UserMessage("m", (Text("Never push."),))
    assert Entry(1, said, summary=True).typed == Entry(1, said, note=True).typed == ()
    assert Entry(1, AssistantMessage("m", (Text("Never push."),))).typed == ()


@given(legal_logs())
def test_every_prompt_keeps_the_typed_parts_even_after_a_restart(
    log: Log,
) -> None:
    shown = {
        entry.seq: entry.event.shown
        for entry in log
        if isinstance(entry.event, UserPrompted)
    }
    recipes = {
        entry.seq
        for entry in log
        if isinstance(entry.event, UserPrompted) and entry.event.sent
    }
    stored = tuple(
        replace(entry, event=decode(entry.event.kind, encode(entry.event)))
        for entry in log
    )
    assert stored == log
    context = Context()
    for number, logged in enumerate(log, 1):
        context = context.apply(logged)
        reopened = Context.from_log(stored[max(context.fold_from, 1) - 1 : number])
        assert reopened == context
        for entry in reopened.entries:
            if entry.seq in shown and not entry.summary:
                assert isinstance(entry.message, RecipePrompt) == (entry.seq in recipes)
                assert entry.typed == shown[entry.seq] or (
                    entry.shortened and entry.seq not in recipes
                )


@given(st.lists(MESSAGES, max_size=3), st.lists(MESSAGES, max_size=3))
def test_recipe_prompts_in_compaction_events_can_be_decoded(
    pinned: list[UserMessage], rewritten: list[Message]
) -> None:
    swap = EXAMPLES["context_swapped"]
    restored = EXAMPLES["context_restored"]
    assert isinstance(swap, ContextSwapped)
    assert isinstance(restored, ContextRestored)
    swap = replace(
        swap,
        pinned=tuple(Pinned(seq, message) for seq, message in enumerate(pinned, 1)),
        rewritten=(
            *swap.rewritten,
            *(Rewritten(seq, message) for seq, message in enumerate(rewritten, 1)),
        ),
    )
    entries = (
        *restored.entries,
        *(Entry(seq, message) for seq, message in enumerate(pinned, 20)),
    )
    restored = replace(restored, entries=entries)
    for event in (swap, restored):
        assert decode(event.kind, encode(event)) == event


def test_older_logs_and_other_fields_named_typed_can_be_decoded() -> None:
    swap = EXAMPLES["context_swapped"]
    assert isinstance(swap, ContextSwapped)
    message = UserMessage(
        "m", (CompactedBlock("openai", {"typed": [1]}, '{"typed": 1}'),)
    )
    swap = replace(swap, sent=message.parts, pinned=(Pinned(3, message),))
    assert decode(swap.kind, encode(swap)) == swap
    old = json.loads(encode(swap))
    del old["rewritten"], old["pinned"]
    assert decode(swap.kind, json.dumps(old)) == replace(swap, pinned=(), rewritten=())
