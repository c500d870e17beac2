"""The text that Jupyter AI puts in front of what the user typed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import ResourceLink, Text
from acp_agent.server.content import split_preamble

NOTE = "System note: When creating notebooks, use the tools."
HISTORY = (
    "It could not be loaded.\n<conversation_history>\nAda: Hi\n</conversation_history>"
)
MARK = "\n\nCurrent user message:\n"
LINK = ResourceLink("file:///a.ipynb", "a.ipynb")
TYPED = st.text(min_size=1).filter(
    lambda text: not text[0].isspace() and not text.startswith("System note: ")
)


@given(TYPED)
def test_a_preamble_is_taken_away_and_what_was_typed_stays_as_it_is(typed: str) -> None:
    for preamble, text in (
        (NOTE, f"{NOTE}\n\n{typed}"),
        (f"{HISTORY}{MARK}{NOTE}", f"{HISTORY}{MARK}{NOTE}\n\n{typed}"),
    ):
        assert split_preamble((Text(text), LINK)) == (preamble, (Text(typed), LINK))


@given(TYPED)
def test_a_prompt_without_a_preamble_stays_as_it_is(typed: str) -> None:
    for parts in (
        (Text(typed),),
        (LINK, Text(f"{NOTE}\n\n{typed}")),
        (Text(NOTE),),
        (),
    ):
        assert split_preamble(parts) == ("", parts)
