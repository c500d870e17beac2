"""That a text which comes in pieces is masked as the whole is, and that nothing of a
secret is shown on the way.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.secrets.stream import MAX_HELD, StreamMask
from acp_agent.secrets.text import mask

KEY = "sk-ant-api03-" + "aB3-dE5_fG7h" * 8
PHRASE = "correct horse battery staple ninety nine"
LINES = "first line\nsecond line: of it\n"
SECRETS = [PHRASE, LINES, "aXaXaXaXaXaX", "horse battery cart", "schlüssel wört"]
PRIVATE = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "MIIabc+/42\n" * 4
    + "-----END RSA PRIVATE KEY-----"
)
DER = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
FRAGMENTS = (
    *SECRETS, KEY, PRIVATE, PRIVATE[:50], PRIVATE[:31] + "Ab3/" * 40, "Authorization: ", "Bearer ", "authorization",
    "bearer", "token", '"x-api-key": "', "X-Api-Key:", "hunter2hunter2", "a1b2c3d4e5f6", "Cookie: a=b1; ", "cookie:",
    "c=d;", "Set-Cookie: sid=ab12; Path=/", "DB_PASSWORD='", 'API_KEY="', "API_KEY=", "--token=", "PAT=process.env.PAT",
    "'", '"', "GITHUB_TOKEN=abcd1234", "https://", "http://me:pw12@host/a?key=", "/cb?", "&code=a1b2c3", "?", ";", "=",
    ":", "/", "@", "-", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "日本語", "です。", "word", "Of the words ", "x" * 300,
    "*", "***", "eyJhbGciOiJI.eyJzdWIiOiIx.ab", "aXaX", "correct horse ", "first line", "horse", "schlüssel",
    "ghp_" + "aB3" * 12, "sk-cube-grid", "-----BEGIN PRIVATE KEY-----", "\nProc-Type: 4,ENCRYPTED\n",
    "db_password: ", "110201543:AAHdqTcvCH1vG", "aws_secret_access_key", " = ", "hunter2x", " # note", "ENV ", "set ",
    "-gx ", "DB_TOKEN ", "client_secret=", "&grant_type=", '\\"', "\\n", "(", ")", DER, DER[:30], "        ",
    '"api_key": "', "  \n", "_TOKEN=", "three words more ", "\nComment: a key of mine\n", "-----", "-----END ",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


def pieces(text: str, cuts: list[int]) -> list[str]:
    ends = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


@given(
    TEXTS,
    st.lists(st.integers(0, 600), max_size=20),
    st.booleans(),
    st.sampled_from([SECRETS, SECRETS[:1], []]),
)
def test_pieces_are_masked_as_the_whole_is(
    text: str, cuts: list[int], singly: bool, secrets: list[str]
) -> None:
    stream = StreamMask(secrets)
    shown = [stream.feed(piece) for piece in (text if singly else pieces(text, cuts))]
    assert "".join(shown) + stream.flush() == mask(text, secrets)
    assert stream.flush() == ""


@given(TEXTS, st.sampled_from([*SECRETS, KEY]), TEXTS)
def test_no_part_of_a_secret_is_shown_before_it_is_whole(
    before: str, secret: str, after: str
) -> None:
    stream = StreamMask([*SECRETS, KEY])
    shown = ""
    text = f"{before} {secret} {after}"
    masked = mask(text, [*SECRETS, KEY])
    for piece in text:
        shown += stream.feed(piece)
        assert masked.startswith(shown)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("Read the door's key first", "first"),
        ("Read it.\n", ""),
        ("A -----BEGIN PRIVATE KEY----- line comes first, then the key", "key"),
        ('if "-----BEGIN PRIVATE KEY-----" in text:\n    load(text) or', "or"),
        ("The phrase is correct horse bat", "correct horse bat"),
        ("the header Authorization: Bearer ", "Authorization: Bearer "),
        ("日本語です", ""),
        (
            f"a -----BEGIN PRIVATE KEY-----\n{DER}ab ",
            f"-----BEGIN PRIVATE KEY-----\n{DER}ab ",
        ),
        ("PASSWORD='correct but", "PASSWORD='correct but"),
        ("the password: hunter2 ", "password: hunter2 "),
        ("its password is what we set it to", "to"),
        ("we set the token = ", "token = "),
    ],
)
def test_no_more_is_held_back_than_may_be_the_beginning_of_a_secret(
    text: str, held: str
) -> None:
    stream = StreamMask([PHRASE])
    assert "".join(map(stream.feed, text)) + held == text
    assert stream.flush() == mask(held, [PHRASE])


def test_a_word_without_an_end_is_not_held_for_ever() -> None:
    stream = StreamMask([PHRASE])
    shown = "".join(stream.feed("QUJD") for _ in range(MAX_HELD))
    assert len(shown) > 2 * MAX_HELD
    assert shown + stream.flush() == "QUJD" * MAX_HELD
