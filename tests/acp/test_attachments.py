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
from support.models import DialectName
from support.pictures import BROKEN, encoded, png
from support.replies import Reply, ToolCall, Usage
from support.stage import Stage, conversation, stage
from support.stored import damage_texts
from support.terminal import run_command

NOISE = random.Random(7).randbytes(30_000)
PICTURE = encoded(png(100, 100, seed=7))
SOUND = base64.b64encode(b"RIFF" + NOISE).decode()
FILE = base64.b64encode(b"A word. " * 2000).decode()
IMAGE: dict[str, Any] = {"type": "image", "data": PICTURE, "mimeType": "image/png", "uri": "file:///shop/a.png"}
AUDIO: dict[str, Any] = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}
COULD_NOT = {"type": "error", "error": {"type": "invalid_request_error", "message": "Could not process image"}}
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


async def test_the_text_of_a_file_is_stored_once_and_there_wherever_it_is_wanted(tmp_path: Path) -> None:
    words = "The lantern hangs behind the door. \n" * 2_000
    file: dict[str, Any] = {
        "type": "resource",
        "resource": {"uri": "file:///shop/a.txt", "text": words, "mimeType": "text/plain"},
    }
    replies = [Reply("A long story. " * 300), *map(Reply, ("Again.", "Mine.", "Short.", "On.", "Back.", "Fork."))]
    recipe = {".acp-agent/recipes/mine.md": "---\ndescription: Mine\n---\nDo it.\n"}
    async with stage(tmp_path, *replies, editor=ZED_BETA, files=recipe, trusted=True) as it:
        first, second, third = [text("Compare "), file], [file, text("And")], [text("/mine"), file]
        for prompt in (first, second, third):
            await it.prompt(prompt)
        assert [str(call.body).count("hangs behind") for call in it.server.calls] == [2_000, 4_000, 6_000]
        blobs, logs = stored(it)
        assert blobs == [hashlib.sha256(words.encode()).hexdigest()]
        assert "hangs behind" not in logs
        async with it.restarted() as later:
            assert [block for block in await shown(later) if block["type"] == "resource"] == [file] * 3
            await later.prompt("/compact")
            assert "hangs behind" in str(later.server.calls[3].body)
            await later.prompt("On?")
            assert str(later.server.calls[-1].body).count("hangs behind") < 6_000
            await later.prompt("/compact undo")
            assert str(stored(it)[1]).count("hangs behind") < 100
            await later.prompt("Back?")
            assert str(later.server.calls[-1].body).count("hangs behind") == 6_000
            copy = await later.agent.request(
                "session/fork", {"sessionId": it.session, "cwd": str(it.folder), "mcpServers": []}
            )
            await later.agent.request("session/delete", {"sessionId": it.session})
            await later.agent.prompt(copy["sessionId"], "Still?", 30)
            assert str(later.server.calls[-1].body).count("hangs behind") == 6_000
        page = tmp_path / "x.html"
        made = await run_command(it.home, "inspect", copy["sessionId"], "--output", str(page))
        assert made.code == 0, made.err
        assert "hangs behind" in page.read_text()


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


async def test_more_images_than_the_model_takes_at_once_are_refused(tmp_path: Path) -> None:
    small = {**IMAGE, "data": encoded(png())}
    async with stage(tmp_path, dialect="chat", config={}) as it:
        with pytest.raises(AgentError, match=r"has 21 images, and .* takes 20"):
            await it.prompt([small] * 21)
        assert it.server.calls == []


async def test_as_many_images_as_the_model_takes_are_sent_in_one_prompt_and_older_ones_give_way(tmp_path: Path) -> None:
    images = [{**IMAGE, "data": encoded(png(2, 2, seed=seed))} for seed in range(24)]
    replies = [Reply(word, usage=Usage(6_000, 10)) for word in ("Four.", "Twenty.", "Yes.")]
    async with stage(tmp_path, *replies, editor=ZED_BETA, dialect="chat", config={}) as it:
        await it.prompt(images[:4])
        await it.prompt([*images[4:], text("How many?")])
        await it.prompt("Sure?")
        sent = [[image["data"] in str(call.body) for image in images] for call in it.server.calls]
        assert sent[0] == [True] * 4 + [False] * 20
        assert sent[1] == [False] * 4 + [True] * 20
        assert 0 < sum(sent[2]) < 20
        assert sent[2][-1]


async def test_more_bytes_of_images_than_the_model_takes_at_once_are_refused(tmp_path: Path) -> None:
    # As large as one may be, so that each is sent as it is.
    images = [{**IMAGE, "data": encoded(png(1_000, 1_200, seed=seed))} for seed in range(4)]
    async with stage(tmp_path, dialect="chat", config={}) as it:
        with pytest.raises(
            AgentError, match=r"take 19\.2 MB as they are sent, and .* takes 18 MB in one request"
        ) as error:
            await it.prompt(images)
        assert error.value.code == -32602
        assert it.server.calls == []


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


async def test_images_count_with_what_is_sent_of_them_and_not_with_what_is_stored(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    photos = [{**IMAGE, "data": encoded(png(1_400, 1_400, seed=seed))} for seed in range(3)]
    assert sum(len(photo["data"]) for photo in photos) > 20_000_000  # which the model takes in one request
    replies = [Reply(word, usage=Usage(6_000, 10)) for word in ("Three.", "Sure.", "Yes.")]
    async with stage(tmp_path, *replies, editor=ZED_BETA) as it:
        await it.prompt([text("How many?"), *photos])
        await it.prompt("Sure?")
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            await later.prompt("Really?")
            for agent in (it.agent, later.agent):
                assert agent.updates(kind="compaction_update") == []
        assert [str(call.body).count("'input_image'") for call in it.server.calls] == [3, 3, 3]


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


async def test_an_image_in_lines_of_base64_is_sent_as_one_that_is_not(tmp_path: Path) -> None:
    lines = base64.encodebytes(base64.b64decode(PICTURE)).decode()
    async with stage(tmp_path, Reply("I see."), dialect="anthropic") as it:
        await it.prompt([text("Look: "), {**IMAGE, "data": lines}])
        assert it.server.calls[0].body["messages"][-1]["content"][1]["source"]["data"] == PICTURE


async def test_a_broken_image_that_is_in_the_log_already_is_left_out_with_a_line(tmp_path: Path) -> None:
    small = encoded(png())
    async with stage(tmp_path, Reply("I see."), Reply("Gone on."), Reply("Short."), dialect="anthropic") as it:
        await it.prompt([text("Look: "), {**IMAGE, "data": small}])
        damage_texts(it.home, small, f"!{small[1:]}")
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            await later.prompt("Go on. " * 300)
            await later.prompt("/compact")
            for call in later.server.calls[-2:]:
                assert "[image file:///shop/a.png left out: its data is no base64]" in str(call.body)
                assert "'type': 'image'" not in str(call.body)


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_an_image_of_a_tool_that_the_provider_refuses_is_left_out_and_the_session_goes_on(
    tmp_path: Path, dialect: DialectName
) -> None:
    fine, bad, worse = (encoded(png(9, 9, seed=seed)) for seed in (1, 2, 3))
    refusals: list[str] = []
    answers = iter([Reply("I see."), Reply(tool_calls=[ToolCall("read", {"path": "bad.png"})])])

    def answer(request: dict[str, Any]) -> Reply:
        if bad in str(request) or worse in str(request):
            refusals.append(str(request))
            return Reply(http_status=400, body=COULD_NOT)
        return next(answers, Reply("Gone on."))

    async with stage(tmp_path, script=answer, dialect=dialect) as it:
        (it.folder / "bad.png").write_bytes(base64.b64decode(bad))
        await it.prompt([text("Look: "), {**IMAGE, "data": fine}])
        assert await it.prompt("Read bad.png") == {"stopReason": "end_turn"}
        assert it.agent.text().endswith("Gone on.")
        for words in ("And now?", "/compact"):
            assert await it.prompt(words) == {"stopReason": "end_turn"}
        assert len(refusals) == 1
        assert fine in str(it.server.calls[-2].body)
        assert "left out: the model's provider refused it]" in str(it.server.calls[-2].body)
        # One that comes with a prompt is left out with that prompt, as the user is told.
        with pytest.raises(AgentError, match=r"Could not process image.* The prompt was left out of the conversation"):
            await it.prompt([text("Look: "), {**IMAGE, "data": worse}])
        assert await it.prompt("Hello?") == {"stopReason": "end_turn"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (422, "messages[1]: unknown variant `image_url`, expected `text`"),
        (400, "the model does not take the type 'input_image'"),
        (400, "text-test is not a multimodal model"),
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


async def test_images_are_not_left_out_for_a_refusal_that_has_another_reason(tmp_path: Path) -> None:
    small = encoded(png(9, 9, seed=1))
    no = Reply(http_status=400, body={"error": {"type": "invalid_request_error", "message": "The image of doom"}})
    async with stage(tmp_path, Reply("I see."), no, no, Reply("Gone on."), dialect="anthropic") as it:
        await it.prompt([text("Look: "), {**IMAGE, "data": small}])
        with pytest.raises(AgentError, match="The image of doom"):
            await it.prompt("Tell me of the image of doom")
        await it.prompt("Hello?")
        assert [small in str(call.body) for call in it.server.calls] == [True, True, False, True]
