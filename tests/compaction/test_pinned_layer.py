"""The pinned layer as the model reads it: quoted, framed, and only what there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.pinned import MAX_ELSEWHERE, MODE_NOTE
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.memory import Memory, Pin, Quote
from support.pinned import PLENTY, TEXTS, WORDS, layer, quotations, remember, said


def test_over_the_budget_a_rule_that_a_newer_one_repeats_goes_first() -> None:
    entries = [said(1, "Please never push"), said(2, "Never touch tests."), said(3, "never push!")]
    both = remember(Memory(), entries, (), PLENTY)
    assert [quote.seq for quote in both.rules] == [1, 2, 3]
    one = remember(Memory(), entries, (), 2 * (5 + 3 + 3 + 3))
    assert one.rules == (Quote(2, "Never touch tests."), Quote(3, "never push!"))
    assert one.rules_elsewhere == ()


def test_the_messages_that_are_named_are_bounded_and_the_layer_says_so() -> None:
    memory = remember(Memory(), [said(seq, f"Never use port {seq}.") for seq in range(1, 100)], (), 0)
    assert memory.rules == ()
    assert memory.rules_elsewhere == tuple(range(100 - MAX_ELSEWHERE, 100))
    assert "#99 and older ones" in layer(memory)


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4), TEXTS, TEXTS)
def test_nothing_inside_the_layer_can_end_its_quotation(
    pins: list[str], rules: list[str], requests: list[str], step: str, grant: str
) -> None:
    memory = Memory(
        pins=tuple(Pin(number, text) for number, text in enumerate(pins, 1)),
        rules=tuple(Quote(number, text) for number, text in enumerate(rules, 1)),
        requests=tuple(Quote(number, text) for number, text in enumerate(requests, 1)),
    )
    wanted = [(f"Pin {number}:", text) for number, text in enumerate(pins, 1)]
    if rules:
        wanted.append(("", "\n".join(f"[#{number}] {text}" for number, text in enumerate(rules, 1))))
    wanted += [(f"[#{number}]", text) for number, text in enumerate(requests, 1)]
    wanted += [(MODE_NOTE, f"mode: ask\nallowed without asking: {grant}"), ("As you left it.", f"[pending] {step}")]
    rendered = layer(memory, mode="ask", grants=(grant,), plan=(PlanEntry(step),))
    assert quotations(rendered) == wanted
    assert rendered == layer(memory, mode="ask", grants=(grant,), plan=(PlanEntry(step),))


def test_only_parts_that_there_are_have_a_heading() -> None:
    assert layer(Memory()) == ""
    heads = {
        "## Pinned by the user": layer(Memory(pins=(Pin(1, "a"),))),
        "## Rules that the user stated": layer(Memory(rules=(Quote(1, "a"),))),
        "## Earlier requests of the user": layer(Memory(requests=(Quote(1, "a"),))),
        "## Mode and permissions": layer(Memory(), mode="plan"),
        "## Plan": layer(Memory(), plan=(PlanEntry("a", "in_progress"),)),
        "## Language": layer(Memory(language="German")),
    }
    for heading, shown in heads.items():
        assert [line for line in shown.split("\n") if line.startswith("#")] == [heading]
    assert "mode: plan" in heads["## Mode and permissions"]
    assert "allowed without asking: shell: git" in layer(Memory(), grants=("edit", "shell: git"))
    assert "[in_progress] a" in heads["## Plan"]
    assert "German" in heads["## Language"]


def test_requests_are_framed_as_history_and_pins_as_orders() -> None:
    rendered = layer(Memory(pins=(Pin(1, "a"),), requests=(Quote(1, "b"),)))
    pins, requests = rendered.split("## Earlier requests of the user")
    assert "standing orders" in pins
    assert "history and no new order" in requests
