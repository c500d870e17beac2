"""Images and files of a prompt: stored once, given to the model as it takes them, shown
again as they came.
"""

from __future__ import annotations

import base64
import hashlib
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import TOAD
from support.memory import stage
from support.models import DialectName
from support.pictures import encoded, png
from support.replies import Reply
from support.stage import Stage, conversation

NOISE = random.Random(7).randbytes(30_000)
PICTURE = encoded(png(100, 100, seed=7))
SOUND = base64.b64encode(b"RIFF" + NOISE).decode()
FILE = base64.b64encode(b"A word. " * 2000).decode()
IMAGE: dict[str, Any] = {
    "type": "image",
    "data": PICTURE,
    "mimeType": "image/png",
    "uri": "file:///shop/a.png",
}
AUDIO: dict[str, Any] = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}
BLOB: dict[str, Any] = {
    "type": "resource",
    "resource": {"uri": "file:///shop/words", "blob": FILE},
}
LINK: dict[str, Any] = {
    "type": "resource_link",
    "uri": "file:///shop/b.py",
    "name": "b.py",
}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def stored(it: Stage) -> tuple[list[str], str]:
    """Names of the bytes that are kept, and all that the logs hold."""
    with closing(sqlite3.connect(it.home / "state" / "sessions.db")) as connection:
        blobs = [
            digest
            for (digest,) in connection.execute(
                "SELECT sha256 FROM blobs ORDER BY sha256"
            )
        ]
        return blobs, "".join(
            data for (data,) in connection.execute("SELECT data FROM events")
        )


def digests(*encoded: str) -> list[str]:
    return sorted(
        hashlib.sha256(base64.b64decode(each)).hexdigest() for each in encoded
    )


async def shown(it: Stage) -> list[dict[str, Any]]:
    """What an editor that opens the session is shown of the user's messages."""
    await it.agent.load(it.session, it.folder)
    return [
        dict(update["content"])
        for update in it.agent.updates(kind="user_message_chunk")
    ]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_what_is_large_is_stored_once_and_there_for_every_request_and_every_editor_until_its_session_goes(
    tmp_path: Path, dialect: DialectName
) -> None:
    replies = [
        Reply("A long story. " * 12_000),
        Reply("I see it still."),
        Reply("# Goal\nShort."),
        Reply("Gone on."),
    ]
    async with stage(tmp_path, *replies, editor=TOAD, dialect=dialect) as it:
        first = [IMAGE, text("Compare. " * 300), BLOB, LINK]
        second = [text("And "), IMAGE]
        await it.prompt(first)
        await it.prompt(second)
        assert stored(it)[0] == digests(PICTURE, FILE)
        assert PICTURE not in stored(it)[1]
        for call, times in zip(it.server.calls, (1, 2), strict=True):
            assert str(call.body).count(PICTURE) == times
            assert "A word. A word. " in str(call.body)
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            await later.prompt(
                [text("/compact keep "), LINK, text("the picture "), IMAGE]
            )
            await later.prompt("Go on")
            assert str(later.server.calls[-1].body).count(PICTURE) == 1  # in the tail
            assert "Short." in str(later.server.calls[-1].body)
        async with it.restarted() as later:
            blocks = await shown(later)
            assert blocks[:6] == [*first, *second]
            assert stored(it)[0] == digests(PICTURE, FILE)
            await later.agent.request("session/delete", {"sessionId": it.session})
            assert stored(it)[0] == []


async def test_a_sound_is_refused_and_kept_for_the_user_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        with pytest.raises(
            AgentError, match=r"Sounds are not sent to models.*send the words as text"
        ) as error:
            await it.prompt([text("Listen: "), AUDIO])
        assert error.value.code == -32602
        assert it.server.calls == []
        await it.prompt("Hello")
        assert [
            role for role, _ in conversation(it.server.calls[0].body) if role == "user"
        ] == ["user"]
        assert "Listen" not in str(it.server.calls[0].body["input"])
        assert (await shown(it))[:2] == [text("Listen: "), AUDIO]


async def test_images_that_take_more_bytes_than_a_request_are_neither_sent_nor_stored(
    tmp_path: Path,
) -> None:
    large = {**IMAGE, "data": encoded(png(900, 900, seed=7))}
    async with stage(tmp_path, Reply("Hello."), dialect="google", config={}) as it:
        with pytest.raises(
            AgentError,
            match=r"take 19\.\d MB as they are sent.*accepts only 18 MB in one request.*or stored",
        ):
            await it.prompt([text("Look: "), *[large] * 6])
        assert it.server.calls == []
        assert await it.prompt("Hello") == {"stopReason": "end_turn"}
        assert stored(it)[0] == []
        assert await shown(it) == [text("Hello")]


async def test_a_prompt_that_is_refused_for_an_image_from_before_is_sent_again_without_it_and_so_is_every_later_one(
    tmp_path: Path,
) -> None:
    refusal = Reply(
        http_status=400, body={"error": {"message": "Could not process image"}}
    )
    async with stage(
        tmp_path,
        Reply("I see."),
        refusal,
        Reply("Gone on."),
        Reply("And on."),
        editor=TOAD,
    ) as it:
        await it.prompt([IMAGE, text("What is it?")])
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
        assert ["image/" in str(call.body) for call in it.server.calls] == [
            True,
            True,
            False,
        ]
        assert "because of an image. The session continues without 1 image." in str(
            it.agent.updates()
        )
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("And tomorrow?") == {"stopReason": "end_turn"}
        assert "image/" not in str(it.server.calls[3].body)
