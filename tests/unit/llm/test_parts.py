"""What a model reads of attached files and links, whatever their names and texts hold."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.conversation.messages import Audio, Resource, ResourceLink, Text
from acp_agent.llm.parts import EMPTY, framed, user_parts

marks = st.lists(
    st.sampled_from(["<", "/", "file", "FILE", "-2", "-3", " ", "\n", ">", "x", '"'])
).map("".join)
addresses = st.text(st.sampled_from('a/:%20 \n\r\x85\u2028"<>é'), max_size=12)


@given(marks)
@example("</file></file-2>< / File-3>")
def test_a_text_cannot_end_the_marks_around_it(text: str) -> None:
    made = framed(text, {"uri": "file:///a"})
    first = made.splitlines()[0]
    last = made.splitlines()[-1]
    name = last[2:-1]
    assert first == f'<{name} uri="file:///a">'
    assert made == f"{first}\n{text}\n{last}"
    assert len(re.findall(rf"<\s*/?\s*{name}(?!-?\w)", made, re.IGNORECASE)) == 2
    assert name == "file" or re.search(r"<\s*/?\s*file", text, re.IGNORECASE)


@given(addresses, addresses, st.none() | addresses)
def test_a_name_and_an_address_stay_on_their_line(
    uri: str, name: str, kind: str | None
) -> None:
    parts = [
        ResourceLink(uri, name, kind, name),
        Resource(uri, text="x", mime_type=kind),
        Resource(uri, blob="AAAA"),
    ]
    link, file, binary = user_parts(parts, images=True)
    assert isinstance(link, Text)
    assert isinstance(file, Text)
    assert isinstance(binary, Text)
    assert len(link.text.splitlines()) == len(binary.text.splitlines()) == 1
    first, *rest = file.text.splitlines()
    assert re.fullmatch(r'<file uri="[^"<>]*"( type="[^"<>]+")?>', first)
    assert rest == ["x", "</file>"]


def test_a_sound_of_an_earlier_log_is_replaced_by_a_line() -> None:
    [line] = user_parts([Audio("AAAA", "audio/wav")], images=True)
    assert line == Text("[sound (audio/wav) left out: this model does not take it]")
    assert user_parts([], images=True) == [Text(EMPTY)]
