"""Normalizing base64 from outside, so that the same bytes always have the same
characters.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.encoding import decoded, plain, text_in


@given(
    st.binary(max_size=200),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "\n", "\r\n", " ", "\t"]),
)
def test_all_spellings_of_the_same_bytes_become_the_same_base64(
    content: bytes, for_addresses: bool, padded: bool, between: str
) -> None:
    standard = base64.b64encode(content).decode()
    written = base64.urlsafe_b64encode(content).decode() if for_addresses else standard
    written = written if padded else written.rstrip("=")
    lines = (
        between.join(written[at : at + 76] for at in range(0, len(written), 76))
        + between
    )
    assert plain(lines) == plain(standard) == standard
    assert decoded(plain(lines)) == content


@pytest.mark.parametrize(
    "data", ["!!", "A", "AAAAA", "AA==AA==", "AAA=A", "é", "\ud800"]
)
def test_text_that_is_not_base64_stays_unchanged(data: str) -> None:
    assert plain(data) == data
    assert decoded(data) is None


def test_unused_bits_after_the_last_byte_are_cleared() -> None:
    assert [plain(data) for data in ("QR==", "AAAAQUJ=", "AAAA")] == [
        "QQ==",
        "AAAAQUI=",
        "AAAA",
    ]


@given(st.text(max_size=200))
def test_normalizing_base64_twice_changes_nothing_more(data: str) -> None:
    assert plain(plain(data)) == plain(data)


@given(st.text(max_size=50))
def test_text_is_utf_8_without_a_zero_byte(text: str) -> None:
    assert text_in(text.encode()) == (None if "\0" in text else text)
