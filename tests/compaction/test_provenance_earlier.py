"""What an earlier summary says of the user counts from then on, and what its check marked never does."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.compaction.claims import Claim, claims, is_supported
from acp_agent.compaction.framing import frame
from acp_agent.compaction.provenance import Source, check, mark
from acp_agent.compaction.provenance_earlier import vouched
from acp_agent.compaction.provenance_flags import NO_MESSAGE, Closed, Unmarked
from acp_agent.compaction.provenance_pieces import Layout
from acp_agent.compaction.state import ConversationState
from acp_agent.compaction.verifying import instruction_files, source_of
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import CompactedBlock, Text, UserMessage
from acp_agent.session.instructions import load_instructions

PORT = "The user asked to port the cart to Rust."
DROP = "The user asked to drop `ghost_table`."
STATE = ConversationState.of([UserMessage("u1", (Text("And what now?"),))], window=100_000)


def after(summary: str, facts: str = "", *, native: bool = False) -> Source:
    """What a later summary may rest on where this one, as it was marked, is all that is left."""
    parts = frame("", summary, facts, recall=True)
    message = UserMessage("s1", (CompactedBlock("m", {}, parts[0].text),) if native else parts)
    entries = (Entry(1, message, summary=True), Entry(2, UserMessage("u2", (Text("And what now?"),))))
    return source_of(ConversationState(entries, STATE.request, STATE.budget))


def flagged(summary: str, source: Source) -> list[str]:
    return [flag.text for flag in check(summary, source)]


@pytest.mark.parametrize("native", [False, True], ids=["summary", "native"])
def test_a_claim_that_passed_its_check_is_behind_the_same_claim_later(native: bool) -> None:
    source = after(f"## Goal\n\n- {PORT} {DROP} {NO_MESSAGE}\n", native=native)
    assert flagged(f"{PORT}\n\n{DROP}", source) == [DROP]
    assert flagged("The user wants `ghost_table` gone.", source) == ["The user wants `ghost_table` gone."]


def test_a_name_in_a_claim_that_was_marked_is_not_known_by_it() -> None:
    assert flagged("`ghost_table` and `real_table`", after(f"{DROP} {NO_MESSAGE} See `real_table`.")) == ["ghost_table"]


def test_a_piece_that_was_marked_in_a_claim_that_was_not_stays_unknown() -> None:
    source = after("The user asked to port the cart to Rust in `lost_dir` [unverified]\n")
    assert flagged(PORT, source) == []
    assert flagged("See `lost_dir`.", source) == ["lost_dir"]


def test_what_only_a_recorded_fact_says_of_the_user_is_no_claim_that_was_checked() -> None:
    assert flagged(PORT, after("Done.", facts=f"- ran `echo {PORT}`\n{PORT}")) == [PORT]


@pytest.mark.parametrize(
    "summary",
    [f"> {DROP}\n> More.", DROP.removesuffix("."), f"- a\n- {DROP}", f"{DROP}(so)", "The user asked for `ghost`(x"],
)
def test_a_marked_claim_is_no_source_wherever_its_mark_had_to_be_put(summary: str) -> None:
    nothing = Source.of([])
    marked = mark(summary, check(summary, nothing))
    assert NO_MESSAGE in marked
    assert vouched(marked).claims == ()
    assert check(summary, after(marked)) == check(summary, nothing)


WORDS = st.sampled_from(
    [
        "The user asked to drop ",
        "The user wants ",
        "port the cart",
        "`ghost_1`",
        " 4711 ",
        ". ",
        ".",
        "\n",
        "\n\n",
        "- ",
        "> ",
        "`",
        "``",
        '"',
        "“",
        "”",
        "(",
        ")",
        "[",
        "](",
        "]",
        "[#1]",
        "a/b.py",
        "```\n",
        "~~~",
        "|",
        "*",
        "\u2028",
        "?",
    ]
)
SUMMARIES = st.lists(WORDS, max_size=25).map("".join)


def said_in(text: str) -> list[Claim]:
    layout = Layout.of(text)
    closed = Closed(text, layout)
    texts = [block for block in layout.blocks if block.kind == "text"]
    return [claim for block in texts for claim in claims(text, block.start, block.end, closed)]


@given(SUMMARIES)
@example("The user asked to drop `a b.\n\n`x")
def test_no_claim_becomes_true_by_being_repeated(summary: str) -> None:
    nothing = Source.of([])
    flags = [flag.text for flag in check(summary, nothing) if flag.kind == "user_claim"]
    marked = mark(summary, check(summary, nothing))
    assert vouched(marked).claims == ()
    assert len(said_in(Unmarked.of(marked).text)) >= len(flags)
    again = [flag.text for flag in check(summary, after(marked)) if flag.kind == "user_claim"]
    assert again == [text for text in flags if text in again]


@given(SUMMARIES)
@example('The user asked to drop  4711 ?"')
@example("The user asked to drop  4711 `. The user asked to drop `ghost_1`")
@example("The user asked to drop port the cart 4711 . The user asked to drop  4711 ")
def test_what_passed_its_check_passes_a_later_one_on_that_alone(summary: str) -> None:
    behind = Source.of([Entry(1, UserMessage("u1", (Text("port the cart, drop ghost_1 in a/b.py"),)))])
    found = check(summary, behind)
    refused = {(flag.start, flag.end) for flag in found if flag.kind == "user_claim"}
    said = said_in(summary)
    passed = Source.of([], reported=[claim.text for claim in said if (claim.start, claim.end) not in refused])
    # All words of what passed count, also those that only the rest of its sentence was behind.
    still = [
        summary[claim.start : claim.end]
        for claim in said
        if (claim.start, claim.end) in refused and not is_supported(claim, passed)
    ]
    again = check(summary, after(mark(summary, found)))
    assert [flag.text for flag in again if flag.kind == "user_claim"] == still


def test_instruction_files_are_told_from_all_else_in_a_system_prompt(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n\n</instructions> is a tag of ours.")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "CLAUDE.md").write_text("Port the cart to Rust.")
    system = load_instructions(tmp_path / "sub", (), tmp_path / "home", date(2031, 2, 3)).text
    assert instruction_files(system) == ("Use tabs.\n\n</instructions> is a tag of ours.", "Port the cart to Rust.")
    assert instruction_files("You are a bot. Port the cart to Rust.") == ()


def test_a_library_users_system_prompt_is_a_source_of_names_but_not_the_users_words() -> None:
    state = ConversationState.of(
        [UserMessage("u1", (Text("Hello."),))], window=100_000, system="Port the cart to Rust, in `cart_dir`."
    )
    assert flagged(f"{PORT} See `cart_dir`.", source_of(state)) == [PORT]
