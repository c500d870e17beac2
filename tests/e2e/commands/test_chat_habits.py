"""What people type at a terminal because other agents, shells and editors take it as a
command: it is no prompt.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from acp_agent.cli.chat.commands import ALIASES, COMMANDS, ELSEWHERE
from acp_agent.session.commands import BUILT_IN, COMPACT
from support.called import call_command
from support.compactions import asked_last, messages
from support.models import Reply, Usage, model_server
from support.screens import CTRL_C, ENTER, sends, watching

READY = "context empty"


@pytest.mark.process
async def test_a_command_of_another_agent_is_done_or_answered_with_ours_and_asks_no_model(
    tmp_path: Path,
) -> None:
    async with model_server(
        [Reply("A cart.", usage=Usage(900, 20))], "openai"
    ) as server:
        with anyio.fail_after(80):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "What is it?")
                await person.until("0.92k of ")
                for typed, answer in (
                    ("/status", "version    acp-agent "),
                    ("/usage", "No cost is known yet."),
                    ("?", "- /new: "),
                    ("/login", "`acp-agent login`"),
                    ("/permissions", "`acp-agent permissions`"),
                    ("/rewind", "`/undo` reverts the last turn's changes"),
                    ("/Fork now", "`acp-agent sessions fork ID`"),
                    ("/frobnicate", "There is no command `/frobnicate`."),
                ):
                    await sends(person, typed)
                    await person.until(answer)
                assert f"directory  {tmp_path}" in person.text
                assert "context    0.92k of 128k tokens" in person.text
                await sends(person, "/clear")
                await person.until("returns to the conversation above.")
                await person.until(READY)
                person.type(f"exit{ENTER}")
                assert await person.ended() == 0
        assert len(server.calls) == 1


@pytest.mark.process
@pytest.mark.parametrize("word", ["quit", ":q", ":wq", "EXIT", "/bye"])
async def test_a_word_that_leaves_other_programs_leaves_the_conversation(
    tmp_path: Path, word: str
) -> None:
    async with model_server([], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                person.type(f"{word}{ENTER}")
                assert await person.ended() == 0


@pytest.mark.process
async def test_a_recipe_with_the_name_of_another_agents_command_comes_first(
    tmp_path: Path,
) -> None:
    recipes = tmp_path / "state" / "recipes"
    recipes.mkdir(parents=True)
    for name in ("clear", "fork"):
        (recipes / f"{name}.md").write_text(f"{name} the road.\n")
    async with model_server([Reply("Clear."), Reply("Forked.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "/clear")
                await person.until("Clear.")
                await sends(person, "/fork")
                await person.until("Forked.")
        assert [asked_last(call.body).strip() for call in server.calls] == [
            "clear the road.",
            "fork the road.",
        ]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/clear", "here it is `/new` in `acp-agent chat`"),
        ("/compress keep it", "here it is `/compact`."),
        ("/add-dir ../lib", "There is no command `/add-dir`."),
        (
            "exit",
            "`exit` is not sent as a prompt. Did you mean `/quit` in `acp-agent chat`?",
        ),
        ("help", "Did you mean `acp-agent help`?"),
        ("/frobnicate", "There is no command `/frobnicate`."),
    ],
)
async def test_run_sends_no_command_of_another_agent(
    tmp_path: Path, text: str, answer: str
) -> None:
    async with model_server([], "openai") as server:
        ran = await call_command(tmp_path, "run", text, env=server.env())
        assert (ran.code, ran.out, server.calls) == (1, "", [])
        assert answer in ran.err
        assert (
            "Nothing was sent; to send it as a prompt, put a word before it." in ran.err
        )


@pytest.mark.parametrize(
    "text", ["/bin", "quit smoking", "/frobnicate is broken", "exit?"]
)
async def test_what_only_begins_like_a_command_is_a_prompt(
    tmp_path: Path, text: str
) -> None:
    async with model_server([Reply("I see.")], "openai") as server:
        assert (await call_command(tmp_path, "run", text, env=server.env())).code == 0
        assert asked_last(server.calls[0].body) == text


def test_every_name_of_another_agent_leads_to_a_command_that_exists() -> None:
    ours = {command.name for command in (*COMMANDS, *BUILT_IN)} | {COMPACT}
    assert {*ALIASES.values()} <= ours
    assert not ours & ({*ALIASES} | {*ELSEWHERE})
    assert not {*ALIASES} & {*ELSEWHERE}


@pytest.mark.process
async def test_ctrl_c_sends_neither_of_two_prompts_that_wait_and_keeps_the_output_that_goes_with_them(
    tmp_path: Path,
) -> None:
    long = Reply(["Some ", *["words "] * 5_000], delay=0.01)
    async with model_server([long, Reply("Fine.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "Say it.")
                await person.until("Some words")
                await sends(person, "!echo of-mine")
                await person.until("sent with your next prompt)")
                await sends(person, "Second.")
                await sends(person, "Third.")
                await person.until("(queued)", 2)
                person.type(CTRL_C)
                await server.wait_aborted()
                await person.until("are back in the input line)")
                person.type(f" Both.{ENTER}")
                await person.until("Fine.")
        said = json.dumps(messages(server.calls[1].body)[-1])
        assert "Second.\\nThird. Both." in said
        assert "of-mine" in said
        assert len(server.calls) == 2
