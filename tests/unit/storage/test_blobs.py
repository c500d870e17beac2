"""Data of attachments: stored once outside the logs, and deleted with the last session
that refers to it.
"""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acp_agent.conversation.attachments import (
    STORED_FROM,
    data_of,
    extract_blobs,
    extract_texts,
    restore_texts,
)
from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    Event,
    MessageSupplied,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    Audio,
    Entry,
    Image,
    RecipePrompt,
    Resource,
    Stored,
    Text,
    ToolResult,
    UserMessage,
    UserPart,
    data_length,
)
from acp_agent.conversation.swaps import Pinned, Rewritten
from acp_agent.conversation.views import CallView
from acp_agent.storage.database import open_database
from acp_agent.storage.rows import read_events
from acp_agent.storage.store import SessionStore
from support.events import EXAMPLES
from support.stores import START, Open, opened, read

PICTURE = bytes(range(256)) * 40
ENCODED = base64.b64encode(PICTURE).decode()
DIGEST = hashlib.sha256(PICTURE).hexdigest()
IMAGE = Image(ENCODED, "image/png", "file:///shop/a.png")
WORDS = "Behind the door stood a lantern, and nobody knew why. " * 100
FILE = Resource("file:///shop/a.txt", text=WORDS, mime_type="text/plain")
BYTES = [bytes([number]) * 5000 for number in range(3)]
PICTURES = [Image(base64.b64encode(data).decode(), "image/png") for data in BYTES]
NAMES = [hashlib.sha256(data).hexdigest() for data in BYTES]

any_bytes = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda seed, count: seed * count,
        st.binary(min_size=1, max_size=40),
        st.integers(100, 400),
    ),
)
any_data = st.one_of(
    any_bytes.map(lambda data: base64.b64encode(data).decode()),
    st.text("AB=+/\n é", max_size=9000),
)
any_words = st.builds(
    lambda text, times: text * times,
    st.text(st.characters(codec=None), max_size=9),
    st.sampled_from([1, 1000]),
)
any_part = st.one_of(
    st.builds(Text, st.text(max_size=9)),
    st.builds(Image, any_data, st.just("image/png")),
    st.builds(Audio, any_data, st.just("audio/wav")),
    st.builds(lambda data: Resource("file:///x", blob=data), any_data),
    st.builds(
        lambda text: Resource("file:///x", text=text, mime_type="text/plain"), any_words
    ),
)


def prompt(*parts: UserPart) -> UserPrompted:
    return UserPrompted("msg_1", parts)


def blobs_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            digest
            for (digest,) in connection.execute(
                "SELECT sha256 FROM blobs ORDER BY sha256"
            )
        ]


def storable(part: UserPart) -> UserPart:
    """Return the text with lone surrogates replaced, as in every event."""
    if not isinstance(part, Resource) or part.text is None:
        return part
    return replace(
        part, text="".join("\ufffd" if is_half(each) else each for each in part.text)
    )


def is_half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


@given(st.lists(any_part, max_size=4))
@example([Resource("file:///x", text="a\ud800", mime_type="text/plain")])
def test_extracted_data_is_restored_exactly(
    parts: list[UserPart],
) -> None:
    blobs: dict[str, bytes] = {}
    event = extract_blobs(prompt(*parts), blobs)
    assert isinstance(event, UserPrompted)
    assert decode(event.kind, encode(event)) == replace(
        event, shown=tuple(map(storable, event.shown))
    )
    assert extract_blobs(event, {}) == event
    for before, after in zip(parts, event.shown, strict=True):
        data = data_of(after)
        if isinstance(data, Stored):
            assert base64.b64encode(blobs[data.sha256]).decode() == data_of(before)
            assert hashlib.sha256(blobs[data.sha256]).hexdigest() == data.sha256
            assert data_length(data) == data_length(data_of(before)) >= STORED_FROM
            assert replace(after, type=before.type).type == before.type
        else:
            assert after == before


@given(st.lists(any_part, max_size=4), st.lists(any_part, max_size=2))
@example([Resource("file:///x", text="\ud800" * STORED_FROM)], [])
def test_extracted_text_is_restored_exactly(
    shown: list[UserPart], sent: list[UserPart]
) -> None:
    blobs: dict[str, bytes] = {}
    event = UserPrompted("msg_1", tuple(shown), tuple(sent))
    kept = extract_texts(event, blobs)
    data = encode(kept)
    assert extract_texts(kept, {}) == kept
    # Lone surrogates are replaced, as in every event.
    assert restore_texts(decode(event.kind, data), blobs.get) == decode(
        event.kind, encode(event)
    )
    assert restore_texts(decode(event.kind, data), {}.get) == decode(event.kind, data)
    assert all(
        hashlib.sha256(content).hexdigest() == digest
        for digest, content in blobs.items()
    )
    long = {
        part.text
        for part in (*shown, *sent)
        if isinstance(part, Resource) and len(part.text or "") >= STORED_FROM
    }
    whole = {text for text in long if text and not any(map(is_half, text))}
    assert {content.decode() for content in blobs.values()} == whole


def test_data_and_texts_are_extracted_from_every_event_with_parts() -> None:
    swap = EXAMPLES["context_swapped"]
    restored = EXAMPLES["context_restored"]
    assert isinstance(swap, ContextSwapped)
    assert isinstance(restored, ContextRestored)

    def events(part: Image | Resource) -> list[Event]:
        message = UserMessage("msg_1", (part,))
        recipe = RecipePrompt("msg_1", (part,), typed=(part,))
        results = (
            [ToolReturned(ToolResult("call_1", (part,)), CallView("Read"))]
            if isinstance(part, Image)
            else []
        )
        return [
            *results,
            prompt(part),
            UserPrompted("msg_1", (Text("/recipe"), part), (part,)),
            MessageSupplied(message),
            replace(
                swap,
                sent=(part,),
                pinned=(Pinned(1, message),),
                rewritten=(Rewritten(2, recipe),),
            ),
            replace(restored, entries=(Entry(1, recipe),)),
        ]

    for event in events(IMAGE):
        assert ENCODED in encode(event)
        blobs: dict[str, bytes] = {}
        assert ENCODED not in encode(extract_blobs(event, blobs))
        assert blobs == {DIGEST: PICTURE}
    for event in events(FILE):
        assert WORDS in encode(event)
        blobs = {}
        data = encode(extract_texts(event, blobs))
        assert WORDS not in data
        assert blobs == {hashlib.sha256(WORDS.encode()).hexdigest(): WORDS.encode()}
        assert restore_texts(decode(event.kind, data), blobs.get) == event


async def test_the_text_of_a_file_is_stored_once_and_read_with_each_event(
    open_store: Open, tmp_path: Path
) -> None:
    digest = hashlib.sha256(WORDS.encode()).hexdigest()
    path = tmp_path / "sessions.db"
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START])
        whole = [
            prompt(FILE),
            UserPrompted(
                "msg_2", (Text("/explain"), FILE), (Text("Explain"), FILE, IMAGE)
            ),
        ]
        logged = await store.append("s1", 1, whole)
        assert logged[0].event == whole[0]
        with closing(sqlite3.connect(path)) as connection:
            assert (
                connection.execute("SELECT sum(length(data)) FROM events").fetchone()[0]
                < STORED_FROM
            )
        assert blobs_in(path) == sorted([digest, DIGEST])
        await store.fork("s1", "s2", 3, "/shop", [], [])
        await store.delete("s1")
    async with opened(open_store) as store:
        assert (await read(store, "s2"))[1:] == list(logged)
        assert await store.read("s2", [2]) == logged[:1]
        assert (await store.context("s2")).messages[0] == UserMessage("msg_1", (FILE,))
        assert (await store.context_at("s2", 2)).messages == (
            UserMessage("msg_1", (FILE,)),
        )
        # Found with the index, by a scan, and as part of a word.
        for words in (
            "lantern",
            '"a lantern, and"',
            "antern",
        ):
            assert [
                found.seq for found in await store.search("s2", words, limit=9)
            ] == [3, 2], words
        await store.delete("s2")
        assert blobs_in(path) == []
        assert not any(b"a lantern" in file.read_bytes() for file in tmp_path.iterdir())


async def test_long_texts_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    store = await SessionStore.open(tmp_path / "sessions.db")
    await store.create("s1", "/shop", [], [START])
    await store.append(
        "s1", 1, [prompt(Resource("file:///x", text="x" * 3_000_000)) for _ in range(4)]
    )
    await store.aclose()
    connection = open_database(tmp_path / "sessions.db")
    with closing(connection):
        assert [entry.seq for entry in read_events(connection, 1, 1, 5, 4_000_000)] == [
            1,
            2,
            3,
        ]


async def test_blobs_cannot_be_changed_or_removed_while_a_log_refers_to_them(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, prompt(IMAGE)])
        with closing(
            sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            for statement in ("UPDATE blobs SET data = x'00'", "DELETE FROM blobs"):
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute(statement)
        assert await store.blobs("s1", [DIGEST]) == {DIGEST: PICTURE}


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "append", "fork", "delete"]),
        st.integers(0, 3),
        st.integers(0, 2),
    )
)


@given(steps)
@settings(max_examples=25, deadline=None)
def test_the_store_has_exactly_the_blobs_that_existing_sessions_refer_to(
    work: list[Step],
) -> None:
    """:param work: steps, each with an action, the session's number, and the number of a
    picture or of another session.
    """

    async def run(path: Path) -> None:
        store = await SessionStore.open(path)
        referred: dict[str, set[str]] = {}
        heads: dict[str, int] = {}
        for number, (what, which, other) in enumerate(work):
            session = list(referred)[which % len(referred)] if referred else ""
            if what == "create" or not referred:
                referred[f"s{number}"], heads[f"s{number}"] = set(), 1
                await store.create(f"s{number}", "/shop", [], [START])
            elif what == "append":
                await store.append(session, heads[session], [prompt(PICTURES[other])])
                referred[session].add(NAMES[other])
                heads[session] += 1
            elif what == "fork":
                await store.fork(session, f"s{number}", heads[session], "/shop", [], [])
                referred[f"s{number}"], heads[f"s{number}"] = (
                    set(referred[session]),
                    heads[session],
                )
            else:
                await store.delete(session)
                del referred[session], heads[session]
        assert set(blobs_in(path)) == set[str]().union(*referred.values())
        for session, names in referred.items():
            found = await store.blobs(session, NAMES)
            assert {
                name: hashlib.sha256(data).hexdigest() for name, data in found.items()
            } == {n: n for n in names}
        await store.aclose()

    with TemporaryDirectory() as folder:
        anyio.run(run, Path(folder) / "sessions.db")
