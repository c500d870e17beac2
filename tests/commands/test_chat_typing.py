"""`acp-agent chat`: what is typed, completed, mentioned and kept, and what the model gets of it."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import anyio

from support.compactions import asked_last, messages
from support.models import Reply, ToolCall, model_server
from support.pictures import png
from support.screens import CTRL_C, CTRL_D, CTRL_R, ENTER, ESCAPE, TAB, UP, leaves, sends, watching

READY = "context empty"


async def test_tab_completes_commands_and_paths_and_a_mention_is_sent_as_a_link(tmp_path: Path) -> None:
    for name in ("src/cart.py", "src/cards.txt", "node_modules/left.js", ".gitignore"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("node_modules/\n")
    async with model_server([Reply("Seen.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env(), columns=120) as person:
                await person.until(READY)
                person.type("/cont")
                await person.until("Show what fills the context window, in tokens")
                person.type(TAB)
                await person.until("> /context")
                person.type(CTRL_C)
                await person.until_gone("> /context")
                person.type("/pi")
                await person.until("/pin [text]")
                person.type(CTRL_C)
                await person.until_gone("/pin [text]")
                person.type("See @")
                await person.until(" src/")
                assert "node_modules" not in person.text
                person.type("src/cart")
                await person.until(" cart.py")
                person.type(TAB)
                await person.until("See @src/cart.py")
                person.type(f" now{ENTER}")
                await person.until("Seen.")
                link = (tmp_path / "src" / "cart.py").as_uri()
                texts = [part["text"] for part in messages(server.calls[0].body)[-1]["content"]]
                assert texts == ["See ", f"[link: cart.py | {link}]", " now"]
                await leaves(person)


async def test_tab_goes_into_the_only_folder_that_is_meant(tmp_path: Path) -> None:
    for name in ("my notes/deep/cart.py", "my notes/deep/card.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    async with model_server([], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                person.type("See @my")
                await person.until(" my notes/")
                person.type(TAB)
                await person.until('See @"my notes/')
                await person.until(" deep/")
                person.type(TAB)
                await person.until('See @"my notes/deep/')
                await person.until(" cart.py")
                person.type(TAB)
                await person.until('See @"my notes/deep/card.py"')
                person.type(TAB)
                await person.until('See @"my notes/deep/cart.py"')
                person.type(CTRL_C)
                await person.until_gone("cart.py")
                person.type(CTRL_D)
                assert await person.ended() == 0


async def test_a_tab_that_comes_at_once_behind_the_word_completes_it(tmp_path: Path) -> None:
    for name in ("my notes.txt", "src/cart.py", "src/sub/left.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    async with model_server([], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                for typed, completed in {
                    "/conte": "> /context",
                    'See @"my': '> See @"my notes.txt"',
                    "See @src/ca": "> See @src/cart.py",
                    "cat src/ca": "> cat src/cart.py",
                }.items():
                    person.type(typed + TAB)
                    await person.until(completed)
                    person.type(CTRL_C)
                    await person.until_gone(completed)
                person.type(f"See @sr{TAB}")
                await person.until("> See @src/")
                await person.until(" cart.py")
                person.type(CTRL_C)
                await person.until_gone("See")
                person.type(CTRL_D)
                assert await person.ended() == 0


async def test_an_image_that_is_mentioned_is_seen_by_the_model_and_what_is_none_is_a_link(tmp_path: Path) -> None:
    picture = png(20, 10, seed=3)
    (tmp_path / "shot.PNG").write_bytes(picture)
    (tmp_path / "half.png").write_bytes(picture[:-20])
    (tmp_path / "words.png").write_text("No picture.")
    (tmp_path / "shot.txt").write_bytes(picture)
    os.mkfifo(tmp_path / "pipe.png")
    links = ("half.png", "words.png", "shot.txt", "pipe.png")
    async with model_server([Reply("Seen.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, f"Is @shot.PNG, like {' '.join(f'@{name}' for name in links)}")
                await person.until("Seen.")
                words, image, *rest = server.calls[0].body["input"][-1]["content"]
                assert words == {"type": "input_text", "text": "Is @shot.PNG"}
                assert image["type"] == "input_image"
                assert image["image_url"] == f"data:image/png;base64,{base64.b64encode(picture).decode()}"
                sent = " ".join(part["text"] for part in rest)
                assert [f"[link: {name} | {(tmp_path / name).as_uri()}]" in sent for name in links] == [True] * 4
                await leaves(person)


async def test_lines_that_were_typed_or_pasted_stay_one_prompt_and_are_there_again_after_a_restart(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("One."), Reply("Two."), Reply("Three.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                person.type(f"First{ESCAPE}{ENTER}line")
                await person.until("  line")
                person.type(ENTER)
                await person.until("One.")
                person.paste("a\n\nb")
                await person.until("  b")
                person.type(ENTER)
                await person.until("Two.")
                assert [asked_last(call.body) for call in server.calls] == ["First\nline", "a\n\nb"]
                await leaves(person)
            history = tmp_path / "state" / "chat_history"
            assert history.stat().st_mode & 0o777 == 0o600
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                person.type(UP)
                await person.until("  b")
                person.type(CTRL_C)
                await person.until_gone("  b")
                person.type(f"{CTRL_R}irst")
                await person.until("> First")
                person.type(ENTER * 2)
                await person.until("Three.")
                assert asked_last(server.calls[2].body) == "First\nline"
                assert "Two." not in person.text  # this is another conversation
                await leaves(person)


async def test_what_was_being_typed_is_there_again_after_a_question_of_the_model(tmp_path: Path) -> None:
    asked = [{"question": "Which way?", "options": [{"label": "Rewrite"}, {"label": "Mend"}]}]
    hold = anyio.Event()
    script = [
        Reply(tool_calls=[ToolCall("ask_user", {"questions": asked})], hold=hold),
        Reply("So be it."),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "Ask me.")
                person.type("my next")
                await person.until("> my next")
                hold.set()
                await person.until("2. Mend")
                await person.until("number or name>")
                await person.until_gone("> my next")
                person.type(f"2{ENTER}")
                await person.until("So be it.")
                await person.until("> my next")
                assert messages(server.calls[1].body)[-1]["content"][0]["content"][0]["text"] == "Which way?\n→ Mend"
                person.type(CTRL_C)
                await person.until_gone("> my next")
                await leaves(person)


async def test_prompts_keep_their_order_where_the_first_one_brings_a_file(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(png(600, 600, seed=3))
    (tmp_path / "large.png").write_bytes(png(2_500, 2_500, seed=3))
    async with model_server([Reply("One."), Reply("Two."), Reply("Three.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                person.type(f"See @shot.png{ENTER}Then this.{ENTER}And @shot.png{ENTER}")
                await person.until("Three.")
                assert [row for row in person.rows if row.startswith("> ")][:3] == [
                    "> See @shot.png",
                    "> Then this.",
                    "> And @shot.png",
                ]
                assert [("image_url" in str(call.body["input"][-1])) for call in server.calls] == [True, False, True]
                person.type(f"Bye @large.png @large.png{ENTER}{CTRL_D}")
                assert await person.ended() == 0
                assert "> Bye @large.png @large.png" in person.rows
