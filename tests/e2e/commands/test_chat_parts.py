"""What `acp-agent chat` makes of text, without a terminal: lines, the meter, links,
candidates, what was typed.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.cli.chat.view import ChatView
from acp_agent.cli.terminal.client import MAX_PATCH_LINES, patch_lines
from acp_agent.cli.terminal.mentions import prompt_parts
from acp_agent.cli.terminal.prompts import TerminalQuestions
from acp_agent.cli.terminal.safe import SafeStream, safe_for
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import Image, ResourceLink, Text
from acp_agent.conversation.updates import CallFinished
from acp_agent.conversation.views import Diff
from acp_agent.tools.files.read import MAX_IMAGE_BYTES
from acp_agent.tools.forms import FieldChoice, Form, FormField
from support.chat import typing
from support.pictures import png


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (
        "src/cart.py",
        "src/Card.py",
        "src/my notes.txt",
        "src/bad\x1b[31m.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_a_mention_of_a_file_is_the_link_that_an_editor_sends(project: Path) -> None:
    parts = prompt_parts(
        'Compare @src/cart.py, with @"src/my notes.txt" and @nothing or me@src/cart.py',
        project,
    )
    cart = ResourceLink((project / "src" / "cart.py").as_uri(), "cart.py")
    notes = ResourceLink((project / "src" / "my notes.txt").as_uri(), "my notes.txt")
    rest = Text(" and @nothing or me@src/cart.py")
    assert parts == (Text("Compare "), cart, Text(", with "), notes, rest)
    assert prompt_parts("@src/cart.py", project) == (cart,)


def test_an_image_is_sent_itself_as_far_as_it_is_not_too_large(tmp_path: Path) -> None:
    small = png(20, 10, seed=3)
    large = png(2_600, 2_600, seed=3)
    assert len(large) > MAX_IMAGE_BYTES
    (tmp_path / "small.png").write_bytes(small)
    (tmp_path / "large.png").write_bytes(large)
    (tmp_path / "padded.png").write_bytes(small)
    with (tmp_path / "padded.png").open("ab") as file:
        file.truncate(MAX_IMAGE_BYTES)
    parts = prompt_parts("@small.png @large.png @padded.png", tmp_path)
    assert [type(part) for part in parts if not isinstance(part, Text)] == [
        Image,
        ResourceLink,
        Image,
    ]


@given(text=st.text(st.sampled_from('@."/~ \nsrcat\x00')))
def test_no_word_is_lost_by_mentions(text: str) -> None:
    parts = prompt_parts(text, Path("/nowhere-at-all"))
    kept = [part.text for part in parts if isinstance(part, Text)]
    assert len(kept) < len(parts) or "".join(kept) == text


def test_a_change_is_shown_by_its_lines_and_a_long_one_by_its_beginning() -> None:
    long = "".join(f"{number}\n" for number in range(500))
    diffs = (Diff("/p/a.py", "one\ntwo\n", "one\nzwei\n"), Diff("/q/b.py", None, long))
    lines = patch_lines(CallView("Edit", diffs=diffs), Path("/p"), safe_for({}))
    assert [tuple(line[0]) for line in lines[:5]] == [
        ("file", "  a.py"),
        ("place", "  @@ -1,2 +1,2 @@"),
        ("", "   one"),
        ("removed", "  -two"),
        ("added", "  +zwei"),
    ]
    assert [text for [(_, text)] in lines[5:7]] == ["  /q/b.py", "  @@ -0,0 +1,500 @@"]
    assert len(lines) == 5 + 1 + MAX_PATCH_LINES + 1
    assert [*lines[-1]] == [("dim", "  (and 441 lines more)")]
    asked = patch_lines(
        CallView("Edit", diffs=diffs), Path("/p"), safe_for({}), most=None
    )
    assert [text for [(_, text)] in asked[-2:]] == ["  +498", "  +499"]


@given(text=st.text(st.characters() | st.sampled_from("\x1b[]31m;\x07\x9b\x9d\u202e")))
def test_nothing_that_a_terminal_obeys_is_left_of_a_text(text: str) -> None:
    left = safe_for({})(text)
    assert not any(
        ord(character) < 32 and character not in "\t\n\r" for character in left
    )
    assert not any(0x7F <= ord(character) < 0xA0 for character in left)


SECRETS = {"MY_TOKEN": "horse battery", "MY_PASSWORD": "two\nlines, no end"}
WORDS_OF_SECRETS = ["horse", "battery", "hor", "two", "lines, no end"]
PIECES = st.sampled_from([*WORDS_OF_SECRETS, " ", "\n", "\x07", "\u202e", "é"])


@given(
    pieces=st.lists(PIECES, max_size=20), cuts=st.lists(st.integers(0, 60), max_size=8)
)
def test_a_text_that_streams_is_made_as_safe_as_the_whole(
    pieces: list[str], cuts: list[int]
) -> None:
    text = "".join(pieces)
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stream = SafeStream(SECRETS)
    shown = (
        "".join(stream.feed(text[begin:end]) for begin, end in pairwise(ends))
        + stream.flush()
    )
    assert shown == safe_for(SECRETS)(text)


def test_what_a_title_was_cut_in_is_not_shown_either() -> None:
    safe = safe_for(SECRETS)
    assert safe("Run echo horse bat…") == "Run echo ***…"
    assert safe("Run echo hors…") == "Run echo ***…"
    assert safe("Run echo hor…") == "Run echo hor…"
    assert safe("Run echo horses…") == "Run echo horses…"
    assert safe("Run echo horse bat…tery; ls") == "Run echo ***…***; ls"


def test_a_key_is_masked_in_a_change_although_it_has_several_lines() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nAb3+/9==\n-----END PRIVATE KEY-----\n"
    lines = patch_lines(
        CallView("Edit", diffs=(Diff("/p/key.pem", None, key),)),
        Path("/p"),
        safe_for({}),
    )
    assert [text for [(style, text)] in lines if style == "added"] == [
        "  +-----BEGIN PRIVATE KEY-----***",
        "  +-----END PRIVATE KEY-----",
    ]


async def test_a_value_is_masked_in_questions_titles_and_results_before_they_are_broken_or_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct horse battery staple ninety nine"
    monkeypatch.setenv("DB_PASSPHRASE", secret)
    async with typing(tmp_path, columns=20) as person:
        view = ChatView(person.screen)
        view.prompt(f"Is it {secret}?")
        view.question(CallView(f"Run echo {secret}"), f"echo {secret}; exit 3")
        missing = CallView(f"Read missing {secret}")
        failed = CallFinished(
            "c", "read", missing, {}, "failed", (Text(f"{secret} is missing"),)
        )
        view.call_finished(failed, changes=True)
        await person.sees("*** is missing")
        assert [row for row in person.rows if row][:5] == [
            "> Is it ***?",
            "? Run echo ***",
            "  echo ***; exit 3",
            "✗ Read missing ***",
            "  *** is missing",
        ]


async def test_a_choice_is_named_by_its_number_or_its_name_and_what_is_none_is_asked_for_again() -> (
    None
):
    walls = tuple(
        FieldChoice(name.lower(), name) for name in ("Light grey", "Dark green", "Pink")
    )
    form = Form(
        "Choose.",
        (
            FormField(
                "colour",
                "choice",
                title="Which colour?",
                choices=(FieldChoice("r", "Red"), FieldChoice("b", "Blue")),
            ),
            FormField(
                "walls", "choices", title="Which walls?", choices=walls, required=False
            ),
        ),
    )
    typed = iter(["green", "blue", "dark GREEN, 1, pink"])
    said: list[str] = []

    async def ask(question: str) -> str | None:
        said.append(question)
        return next(typed)

    answer = await TerminalQuestions(said.append, ask).fill(form)
    assert answer == {"colour": "b", "walls": ["dark green", "light grey", "pink"]}
    assert said.count("  number or name> ") == 2
    assert any("should be 'r' or 'b'" in line for line in said)
    assert said[-1] == "  numbers or names, with commas (or nothing)> "
