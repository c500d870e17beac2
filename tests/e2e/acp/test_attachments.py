"""Images, sounds and files of a prompt: stored once, given to the model as it takes them, shown again as they came."""

from __future__ import annotations

import base64
import hashlib
import random
import sqlite3
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import TOAD, ZED_BETA
from support.memory import stage
from support.models import DialectName
from support.pictures import BROKEN, encoded, png
from support.replies import Reply
from support.stage import Stage, conversation

NOISE = random.Random(7).randbytes(30_000)
PICTURE = encoded(png(100, 100, seed=7))
SOUND = base64.b64encode(b"RIFF" + NOISE).decode()
FILE = base64.b64encode(b"A word. " * 2000).decode()
IMAGE: dict[str, Any] = {"type": "image", "data": PICTURE, "mimeType": "image/png", "uri": "file:///shop/a.png"}
AUDIO: dict[str, Any] = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}
BLOB: dict[str, Any] = {"type": "resource", "resource": {"uri": "file:///shop/words", "blob": FILE}}
LINK: dict[str, Any] = {"type": "resource_link", "uri": "file:///shop/b.py", "name": "b.py"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def stored(it: Stage) -> tuple[list[str], str]:
    """Names of the bytes that are kept, and all that the logs hold."""
    with closing(sqlite3.connect(it.home / "state" / "sessions.db")) as connection:
        blobs = [digest for (digest,) in connection.execute("SELECT sha256 FROM blobs ORDER BY sha256")]
        return blobs, "".join(data for (data,) in connection.execute("SELECT data FROM events"))


def digests(*encoded: str) -> list[str]:
    return sorted(hashlib.sha256(base64.b64decode(each)).hexdigest() for each in encoded)


async def shown(it: Stage) -> list[dict[str, Any]]:
    """What an editor that opens the session is shown of the user's messages."""
    await it.agent.load(it.session, it.folder)
    return [dict(update["content"]) for update in it.agent.updates(kind="user_message_chunk")]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_what_is_large_is_stored_once_and_there_for_every_request_and_every_editor_until_its_session_goes(
    tmp_path: Path, dialect: DialectName
) -> None:
    replies = [Reply("A long story. " * 3000), Reply("I see it still."), Reply("Short."), Reply("Gone on.")]
    async with stage(tmp_path, *replies, editor=TOAD, dialect=dialect) as it:
        first, second = [IMAGE, text("Compare. " * 300), BLOB, LINK], [text("And "), IMAGE]
        await it.prompt(first)
        await it.prompt(second)
        assert stored(it)[0] == digests(PICTURE, FILE)
        assert PICTURE not in stored(it)[1]
        for call, times in zip(it.server.calls, (1, 2), strict=True):
            assert str(call.body).count(PICTURE) == times
            assert "A word. A word. " in str(call.body)
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            await later.prompt([text("/compact keep "), LINK, text("the picture "), IMAGE])
            await later.prompt("Go on")
            assert str(later.server.calls[-1].body).count(PICTURE) == 1  # in the tail
            assert "Short." in str(later.server.calls[-1].body)
        async with it.restarted() as later:
            blocks = await shown(later)
            assert blocks[:6] == [*first, *second]
            assert stored(it)[0] == digests(PICTURE, FILE)
            await later.agent.request("session/delete", {"sessionId": it.session})
            assert stored(it)[0] == []


async def test_a_sound_is_heard_by_a_model_that_takes_it_wherever_it_stands(tmp_path: Path) -> None:
    replies = [Reply("I hear."), Reply("I hear it too."), Reply("Still."), Reply("Yes.")]
    recipe = {".acp-agent/recipes/listen.md": "---\ndescription: Listen\n---\nListen closely.\n"}
    async with stage(tmp_path, *replies, dialect="google", config={}, files=recipe, trusted=True) as it:
        await it.prompt([AUDIO, text("What is said?"), LINK])
        part = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
        content = it.server.calls[0].body["messages"][-1]["content"]
        assert [block["type"] for block in content] == ["input_audio", "text", "text"]
        assert content[0] == part
        file = {"type": "resource", "resource": {"uri": "file:///a.wav", "blob": SOUND, "mimeType": "audio/wav"}}
        await it.prompt([file, text("And in this file?")])
        assert it.server.calls[1].body["messages"][-1]["content"][0] == part
        await it.prompt([text("/listen "), LINK, AUDIO, text("to the end")])
        content = it.server.calls[2].body["messages"][-1]["content"]
        assert content.count(part) == 1
        assert "Listen closely." in str(content)
        assert stored(it)[0] == digests(SOUND)
        assert (await shown(it))[:3] == [AUDIO, text("What is said?"), LINK]
        with pytest.raises(AgentError, match="as WAV and MP3, and this one is audio/ogg") as error:
            await it.prompt([{**AUDIO, "mimeType": "audio/ogg"}])
        assert error.value.code == -32602


async def test_a_sound_that_the_model_cannot_take_is_refused_and_kept_for_the_user_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        with pytest.raises(AgentError, match=r"does not take sounds.*send the words as text") as error:
            await it.prompt([text("Listen: "), AUDIO])
        assert error.value.code == -32602
        assert it.server.calls == []
        await it.prompt("Hello")
        assert [role for role, _ in conversation(it.server.calls[0].body) if role == "user"] == ["user"]
        assert "Listen" not in str(it.server.calls[0].body["input"])
        assert (await shown(it))[:2] == [text("Listen: "), AUDIO]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_an_image_is_scaled_to_what_the_model_takes_and_shown_again_as_it_was(
    tmp_path: Path, dialect: DialectName
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    out = BytesIO()
    pillow.new("RGB", (5000, 1000), "teal").save(out, "TIFF", compression="tiff_deflate")
    image = {"type": "image", "data": base64.b64encode(out.getvalue()).decode(), "mimeType": "image/tiff"}
    async with stage(tmp_path, Reply("Teal."), Reply("Still."), editor=ZED_BETA, dialect=dialect) as it:
        await it.prompt([text("Which colour?"), image])
        await it.prompt("Sure?")
        body = it.server.calls[0].body
        content = body["messages" if dialect == "anthropic" else "input"][-1]["content"]
        if dialect == "anthropic":
            assert content[1]["source"]["media_type"] == "image/png"
            data = content[1]["source"]["data"]
        else:
            kind, _, data = content[1]["image_url"].partition(";base64,")
            assert kind == "data:image/png"
        with pillow.open(BytesIO(base64.b64decode(data))) as sent:
            assert sent.size == ((1568, 314) if dialect == "anthropic" else (2048, 410))
        assert data in str(it.server.calls[1].body)
        assert (await shown(it))[1] == image
        broken = {**image, "data": base64.b64encode(b"II*\0" + bytes(500)).decode()}
        with pytest.raises(AgentError, match="it is damaged"):
            await it.prompt([broken])


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_image_is_refused_before_anything_is_sent(tmp_path: Path, kind: str) -> None:
    data, mime_type = BROKEN[kind]
    image = {"type": "image", "data": data, "mimeType": mime_type, "uri": "file:///shop/a.png"}
    file = {"type": "resource", "resource": {"uri": "file:///shop/a.png", "blob": data, "mimeType": mime_type}}
    async with stage(tmp_path, Reply("Hello.")) as it:
        for block in (image, file):
            with pytest.raises(AgentError, match=r"file:///shop/a\.png cannot be sent to .* Nothing was sent") as error:
                await it.prompt([text("Look: "), block])
            assert error.value.code == -32602
        assert it.server.calls == []
        assert await it.prompt("Hello") == {"stopReason": "end_turn"}
        assert "Look" not in str(it.server.calls[0].body["input"])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (422, "messages[1]: unknown variant `image_url`, expected `text`"),
        (400, "the model does not take the type 'input_image'"),
        (404, "No endpoints found that support image input"),
    ],
)
async def test_images_from_before_are_left_out_for_a_model_that_takes_none_in_whatever_words_its_provider_says_so(
    tmp_path: Path, status: int, said: str
) -> None:
    small = encoded(png(9, 9, seed=1))

    def answer(request: dict[str, Any]) -> Reply:
        if request["model"] == "text-test" and small in str(request):
            return Reply(http_status=status, body={"error": {"message": said, "type": "invalid_request_error"}})
        return Reply("Gone on.")

    async with stage(tmp_path, script=answer) as it:
        await it.prompt([text("Look: "), {**IMAGE, "data": small}])
        await it.agent.set_config_option(it.session, "model", "openai/text-test")
        for words in ("And now?", "And then?"):
            assert await it.prompt(words) == {"stopReason": "end_turn"}
        await it.agent.set_config_option(it.session, "model", it.server.model)
        assert await it.prompt("Look again") == {"stopReason": "end_turn"}
        assert [small in str(call.body) for call in it.server.calls] == [True, True, False, False, True]
