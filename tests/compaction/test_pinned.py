"""The pinned layer: what is carried word for word, what gives way, and how the model reads it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.pinned import QUOTE_TOKENS, add_pin, remove_pin, render_pins
from acp_agent.compaction.rules import MAX_RULES
from acp_agent.conversation.context import Entry
from acp_agent.conversation.memory import Memory, Pin, Quote
from acp_agent.conversation.messages import AssistantMessage, Image, Resource, ResourceLink, Text, UserMessage
from acp_agent.errors import InvalidParamsError
from support.pinned import PLENTY, TEXTS, WORDS, layer, quotations, remember, said


def answered(seq: int, text: str = "Done. You must never do that again.") -> Entry:
    return Entry(seq, AssistantMessage(f"m{seq}", (Text(text),)))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for seq in range(1, draw(st.integers(0, 10)) + 1):
        if draw(st.booleans()):
            entries.append(said(seq, draw(WORDS), summary=draw(st.booleans()) and draw(st.booleans())))
        else:
            entries.append(answered(seq))
    return tuple(entries)


@given(conversations(), st.data())
def test_two_compactions_remember_what_one_does(entries: tuple[Entry, ...], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(entries)))
    second = data.draw(st.integers(first, len(entries)))
    once = remember(Memory(), entries[:second], entries[second:], PLENTY)
    twice = remember(
        remember(Memory(), entries[:first], entries[first:], PLENTY), entries[first:second], entries[second:], PLENTY
    )
    assert twice == once


@given(conversations(), st.integers(0, 10), st.integers(0, 150))
def test_requests_are_the_newest_that_fit_and_none_that_stays(
    entries: tuple[Entry, ...], cut: int, budget: int
) -> None:
    left, kept = entries[:cut], entries[cut:]
    texts = {
        entry.seq: entry.message.parts[0].text
        for entry in entries
        if isinstance(entry.message, UserMessage) and not entry.summary and isinstance(entry.message.parts[0], Text)
    }
    requests = remember(Memory(), left, kept, budget).requests
    wanted = [Quote(seq, text) for seq, text in texts.items() if seq <= cut and text.strip()]
    # Short texts are never cut, so the newest are there as they were said.
    assert list(requests) == wanted[len(wanted) - len(requests) :]
    costs = [estimate_text(text) + QUOTE_TOKENS for seq, text in texts.items() if seq > cut and text.strip()]
    costs += [estimate_text(quote.text) + QUOTE_TOKENS for quote in requests]
    assert not requests or sum(costs) <= budget
    if len(requests) < len(wanted):
        assert sum(costs) + estimate_text(wanted[-len(requests) - 1].text) + QUOTE_TOKENS > budget


@given(st.lists(st.integers(0, 1_000_000), unique=True, max_size=20), st.integers(1, 6), st.data())
def test_rules_stated_at_any_turn_are_in_the_layer_word_for_word_after_any_number_of_compactions(
    numbers: list[int], compactions: int, data: st.DataObject
) -> None:
    rules = [f"You must never use port {number}: it is «taken» ~~~." for number in numbers]
    memory, seq = Memory(), 0
    waiting = list(rules)
    kept: tuple[Entry, ...] = ()
    for _ in range(compactions):
        entries = list(kept)
        for _ in range(data.draw(st.integers(1, 8))):
            seq += 1
            rule = waiting.pop() if waiting and data.draw(st.booleans()) else ""
            entries += [said(seq, f"Fix it.\n\n{rule}\n\nThanks."), answered(seq := seq + 1)]
        cut = data.draw(st.integers(0, len(entries)))
        kept = tuple(entries[cut:])
        memory = remember(memory, entries[:cut], kept, 4_000)
    memory = remember(memory, kept, (), 4_000)
    stated = [rule for rule in rules if rule not in waiting]
    assert {quote.text for quote in memory.rules} == set(stated)
    assert all(rule in layer(memory) for rule in stated)


def test_what_the_model_and_the_agent_say_is_no_rule_and_no_request() -> None:
    entries = (
        answered(1),
        said(2, "You must never read this.", summary=True),
        said(3, "Always go on.", note=True),
        said(4, " \n"),
    )
    assert remember(Memory(), entries, (), PLENTY) == Memory()


def test_the_prompt_of_a_running_turn_that_leaves_its_place_and_stays_is_not_carried_twice() -> None:
    prompt = said(3, "Fix it and never push.")
    memory = remember(Memory(requests=(Quote(3, "Fix it and never push."),)), [said(1, "Hi"), prompt], [prompt], PLENTY)
    assert memory == Memory(requests=(Quote(1, "Hi"),))


def test_of_attached_files_only_the_address_is_a_request() -> None:
    parts = (
        Text("Look at "),
        ResourceLink("file:///shop/a.py", "a.py"),
        Text(" and this."),
        Resource("file:///shop/b.md", text="You must never read this."),
        Image("eA==", "image/png"),
        Text("Thanks"),
    )
    memory = remember(Memory(), (Entry(1, UserMessage("m", parts)),), (), PLENTY)
    wanted = "Look at file:///shop/a.py and this.\nfile:///shop/b.md\nThanks"
    assert memory.requests == (Quote(1, wanted),)
    assert memory.rules == ()


def test_older_requests_fall_out_of_the_memory_first() -> None:
    memory = remember(Memory(), [said(seq, f"Fix page {seq}") for seq in (1, 2, 3)], (), PLENTY)
    assert [quote.seq for quote in memory.requests] == [1, 2, 3]
    later = remember(memory, [said(7, "Fix page 7")], (), 2 * (3 + QUOTE_TOKENS))
    assert [quote.seq for quote in later.requests] == [3, 7]


def test_requests_that_stay_take_their_share_of_the_budget() -> None:
    left = [said(1, "x" * 400), said(2, "y" * 400)]
    room = 2 * (100 + QUOTE_TOKENS)
    assert [quote.seq for quote in remember(Memory(), left, (), room).requests] == [1, 2]
    assert [quote.seq for quote in remember(Memory(), left, [said(3, "z" * 400)], room).requests] == [2]
    assert remember(Memory(), left, [said(3, "z" * 1_000)], room).requests == ()


def test_a_request_that_is_too_long_keeps_both_ends_and_says_what_is_missing() -> None:
    text = "".join(f"{number:05d} " for number in range(2_000))
    (cut,) = remember(Memory(), [said(9, text)], (), 500).requests
    assert estimate_text(cut.text) + QUOTE_TOKENS <= 500
    found = re.fullmatch(r"(.*)\n\[… (\d+) characters left out here; (.*) entry #9 …\]\n(.*)", cut.text, re.DOTALL)
    assert found is not None
    head, missing, words, tail = found.groups()
    assert text.startswith(head)
    assert text.endswith(tail)
    assert min(len(head), len(tail)) > 900
    assert int(missing) == len(text) - len(head) - len(tail)
    assert "`recall`" in words


@given(st.lists(st.integers(90, 2_000), min_size=1, max_size=5), st.integers(2_000, 20_000))
def test_a_request_that_is_cut_again_and_again_still_says_how_much_of_it_is_missing(
    budgets: list[int], length: int
) -> None:
    text = "".join(chr(0x4E00 + number) for number in range(length))
    memory = remember(Memory(), [said(9, text)], (), budgets[0])
    for budget in budgets[1:]:
        memory = remember(memory, (), (), budget)
    (cut,) = memory.requests
    assert estimate_text(cut.text) + QUOTE_TOKENS <= min(budgets)
    if cut.text != text:
        head, missing, tail = re.split(r"\n\[… (\d+) characters left out.*\]\n", cut.text)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert int(missing) == len(text) - len(head) - len(tail)


def test_a_rule_that_is_said_again_moves_to_its_newest_place() -> None:
    memory = remember(Memory(), [said(1, "Always use tabs."), said(2, "Never use tabs.")], (), PLENTY)
    memory = remember(memory, [said(5, "Always use tabs.")], (), PLENTY)
    assert memory.rules == (Quote(2, "Never use tabs."), Quote(5, "Always use tabs."))


def test_a_message_with_many_rules_pushes_out_no_rule_of_another_and_is_named() -> None:
    flood = "\n".join(f"You must never use port {port}." for port in range(30))
    entries = [said(1, "Never push to main."), said(2, flood), said(3, "Always test.")]
    memory = remember(Memory(), entries, (), 300)
    seqs = [quote.seq for quote in memory.rules]
    assert seqs[0] == 1
    assert seqs[-1] == 3
    assert 2 < len(seqs) < 32
    assert memory.rules_elsewhere == (2,)
    assert sum(estimate_text(quote.text) for quote in memory.rules) <= 150
    assert re.search(r"entries #2, which the `recall` tool reads", layer(memory))
    assert remember(memory, (), (), 300) == memory


def test_a_message_with_more_rules_than_a_message_may_have_is_named() -> None:
    flood = "\n".join(f"You must never use port {port}." for port in range(MAX_RULES + 1))
    memory = remember(Memory(), [said(2, flood)], (), PLENTY)
    assert len(memory.rules) == MAX_RULES
    assert memory.rules_elsewhere == (2,)


def test_a_pin_is_kept_as_it_is_and_its_number_is_never_given_again() -> None:
    memory = add_pin(add_pin(Memory(), " one\n", PLENTY), "two", PLENTY)
    assert memory.pins == (Pin(1, " one\n"), Pin(2, "two"))
    memory = add_pin(remove_pin(memory, 2), "three", PLENTY)
    assert memory.pins == (Pin(1, " one\n"), Pin(3, "three"))
    assert remove_pin(remove_pin(memory, 1), 3).next_pin == 4
    # Also where nobody counted.
    assert add_pin(Memory(pins=(Pin(7, "x"),)), "y", PLENTY).pins[-1].number == 8
    assert remove_pin(Memory(pins=(Pin(7, "x"),)), 7).next_pin == 8


def test_a_pin_for_which_there_is_no_room_is_refused_and_none_gives_way() -> None:
    memory = add_pin(Memory(), "x" * 40, 15)
    with pytest.raises(InvalidParamsError, match="takes about 10 tokens, and of 15 for all pins 5 are free"):
        add_pin(memory, "y" * 40, 15)
    assert add_pin(memory, "y" * 20, 15).pins == (Pin(1, "x" * 40), Pin(2, "y" * 20))


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_pin_is_refused(text: str) -> None:
    with pytest.raises(InvalidParamsError, match="nothing to pin"):
        add_pin(Memory(), text, PLENTY)


def test_removing_a_pin_that_is_not_there_names_those_that_are() -> None:
    memory = Memory(pins=(Pin(2, "x"), Pin(5, "y")))
    with pytest.raises(InvalidParamsError, match=r"There is no pin 3\. There are 2, 5\."):
        remove_pin(memory, 3)
    with pytest.raises(InvalidParamsError, match=r"There is no pin 3\. Nothing is pinned\."):
        remove_pin(Memory(), 3)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_the_user_reads_the_pins_with_their_numbers(texts: list[str]) -> None:
    memory = Memory(pins=tuple(Pin(number, text) for number, text in enumerate(texts, 3)))
    assert quotations(render_pins(memory)) == [(f"Pin {number}:", text) for number, text in enumerate(texts, 3)]
    assert "Nothing is pinned" in render_pins(Memory())


@given(conversations(), conversations(), st.integers(0, 300))
def test_a_compaction_leaves_pins_and_facts_alone(
    entries: tuple[Entry, ...], kept: tuple[Entry, ...], budget: int
) -> None:
    before = Memory(pins=(Pin(1, "x"),), next_pin=4, language="German")
    after = remember(before, entries, kept, budget)
    assert (after.pins, after.next_pin, after.ledger, after.language) == (before.pins, 4, before.ledger, "German")
