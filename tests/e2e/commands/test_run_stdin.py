"""What `acp-agent run` takes besides its words: what is piped in, and mentioned files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.called import call_command
from support.compactions import asked_last, messages
from support.models import Reply, model_server
from support.pictures import png
from support.terminal import AGENT, in_a_shell

DIFF = "diff --git a/x b/x\n+@cart.py ä\n"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("Review", "this"), f"Review this\n\n{DIFF}"),
        ((), DIFF),
        (("-r", "note", "It:"), f"Note: It:\n\n{DIFF}".strip()),
        (("/note It:",), f"Note: It:\n\n{DIFF}".strip()),
    ],
)
async def test_what_is_piped_in_follows_the_words_without_a_dash(
    tmp_path: Path, words: tuple[str, ...], asked: str
) -> None:
    recipes = tmp_path / "state" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "note.md").write_text("Note: {{ instructions }}\n")
    (tmp_path / "cart.py").touch()
    async with model_server([Reply("Fine.")], "openai") as server:
        ran = await call_command(tmp_path, "run", *words, env=server.env(), stdin=DIFF)
        assert (ran.code, ran.out) == (0, "Fine.\n")
        assert asked_last(server.calls[0].body).strip() == asked.strip()


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (f"printf 'a\\nb\\n' | {AGENT} run Review", ["Review\n\na\nb\n"]),
        (f"{AGENT} run Review < notes.txt", ["Review\n\none\ntwo\n"]),
        # The rest of the file belongs to the loop.
        (
            f"while read -r line; do {AGENT} run Do $line; done < notes.txt",
            ["Do one", "Do two"],
        ),
        (f"{AGENT} run Review < /dev/null", ["Review"]),
        (f"{AGENT} run Review <&-", ["Review"]),
    ],
)
async def test_a_pipe_and_a_file_are_read_and_nothing_that_belongs_to_somebody_else(
    tmp_path: Path, line: str, asked: list[str]
) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    async with model_server([Reply("Fine.")] * len(asked), "openai") as server:
        ran = await in_a_shell(tmp_path, line, server.env())
        assert (ran.code, ran.err.count("acp-agent:")) == (0, 0)
        assert [asked_last(call.body) for call in server.calls] == asked


@pytest.mark.process
async def test_a_pipe_into_which_nobody_writes_holds_nothing_up(tmp_path: Path) -> None:
    async with model_server([Reply("Fine.")], "openai") as server:
        ran = await in_a_shell(
            tmp_path, f"mkfifo pipe; exec 3<>pipe; {AGENT} run Review <&3", server.env()
        )
        assert asked_last(server.calls[0].body) == "Review"
    assert (
        "Nothing arrived on stdin within 3 seconds. The prompt is sent without it."
        in ran.err
    )


@pytest.mark.process
async def test_a_pipe_that_holds_no_text_is_an_error_that_names_the_way_to_attach_a_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "dot.png").write_bytes(png())
    async with model_server([], "openai") as server:
        ran = await in_a_shell(
            tmp_path, f"{AGENT} run What is it? < dot.png", server.env()
        )
    assert (ran.code, ran.out) == (1, "")
    assert (
        "The piped input is not UTF-8 text. Save an image to a file, and attach it as @its/path."
        in ran.err
    )


@pytest.mark.parametrize(
    "text",
    ["@shots/dot.png", 'What is @"shots/a dot.png"?', "/tell about @shots/dot.png"],
)
async def test_a_mentioned_image_is_attached(tmp_path: Path, text: str) -> None:
    (tmp_path / "shots").mkdir()
    recipes = tmp_path / "state" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "tell.md").write_text("Tell me {{ instructions }}\n")
    for name in ("dot.png", "a dot.png"):
        (tmp_path / "shots" / name).write_bytes(png())
    async with model_server([Reply("A dot.")], "openai") as server:
        ran = await call_command(tmp_path, "run", text, env=server.env())
        assert (ran.code, ran.out) == (0, "A dot.\n")
        assert "data:image/png;base64," in json.dumps(server.calls[0].body)


async def test_a_mentioned_file_is_named_to_the_model_by_its_path_from_the_directory_of_the_person(
    tmp_path: Path,
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "cart.py").touch()
    async with model_server([Reply("A cart.")], "openai") as server:
        ran = await call_command(
            tmp_path, "run", "Read @cart.py.", env=server.env(), cwd=tmp_path / "src"
        )
        assert ran.code == 0
        assert str(tmp_path / "src" / "cart.py") in json.dumps(
            messages(server.calls[0].body)[-1]
        )
