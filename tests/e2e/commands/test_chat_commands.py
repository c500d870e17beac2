"""Commands in `acp-agent chat`: what those of the agent print, the person's own, and
those of the terminal.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from acp_agent import __version__
from acp_agent.cli.chat.screen import Key
from acp_agent.cli.chat.shell import PersonalShell
from acp_agent.cli.chat.view import ChatView
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.updates import CallFinished, CallOutput, Command
from acp_agent.errors import ToolError
from acp_agent.tools.shell.run import LocalCommands
from support.called import call_command
from support.chat import typing
from support.compactions import asked_last, messages
from support.models import Reply, ToolCall, Usage, model_server
from support.processes import marked, outlive
from support.screens import CTRL_C, CTRL_D, ENTER, TAB, leaves, sends, watching

CTRL_O = "\x0f"
READY = "context empty"
LONG = Reply(["Some ", *["words "] * 5_000], delay=0.01)


def waits_for(file: str) -> str:
    return f"until [ -e {file} ]; do sleep 0.05; done"


def ended(
    raw: JsonObject | None, title: str = "pytest", call_id: str = "c"
) -> CallFinished:
    status = "cancelled" if raw is None else "completed"
    return CallFinished(
        call_id, "shell", CallView(title, "execute", raw_output=raw), {}, status, ()
    )


async def test_the_last_lines_of_an_output_are_shown_and_a_key_shows_all_the_newest_first(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path, columns=40) as person:
        view = ChatView(person.screen)
        lines = "".join(f"{number}: ok\n" for number in range(20))
        view.call_finished(
            ended({"stdout": lines, "stderr": "1 failed\n", "exitCode": 1}),
            changes=True,
        )
        view.call_finished(
            ended({"output": f"  {'漢' * 30}\n10%\r\x1b[1m100%\x1b[0m\n"}, "wide"),
            changes=True,
        )
        view.call_finished(ended({"output": "short\n"}, "echo"), changes=True)
        view.call_finished(ended({"output": "\n"}, "true"), changes=True)
        await person.sees("✓ true")
        rows = [row for row in person.rows if row]
        assert rows[:2] == ["✓ pytest", "  … of 21 lines; ctrl-o shows more"]
        assert rows[2:10] == [
            *(f"  {number}: ok" for number in range(13, 20)),
            "  1 failed",
        ]
        assert rows[10:14] == [
            "✓ wide",
            "  … of 2 lines; ctrl-o shows more",
            f"    {'漢' * 17}…",
            "  100%",
        ]
        assert rows[14:17] == ["✓ echo", "  short", "✓ true"]
        person.type(CTRL_O)
        assert await person.input() == Key.UNFOLD
        view.unfold()
        await person.sees("▾ wide")
        view.unfold()
        await person.sees("▾ pytest")
        assert "0: ok" in person.rows
        view.unfold()
        await person.sees("There is no shortened output.")


async def test_what_a_cancelled_command_has_printed_stays_and_no_secret_of_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSPHRASE", "correct horse battery")
    async with typing(tmp_path) as person:
        view = ChatView(person.screen)
        view.busy("make")
        view.call_output(CallOutput("c", "begun\nwith correct horse battery\n"))
        await person.sees("with ***")
        assert person.rows.index("  with ***") < person.rows.index("make … 0:00")
        view.call_finished(ended(None, "make"), changes=True)
        view.busy("")
        await person.sees("✗ make")
        await person.sees_that(lambda: "make … 0:00" not in person.rows)
        assert person.rows[person.rows.index("✗ make") :][:3] == [
            "✗ make",
            "  begun",
            "  with ***",
        ]


async def test_a_short_terminal_shows_what_is_typed_below_a_long_output(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path, columns=20, rows=6) as person:
        person.screen.busy("make")
        person.screen.show_printed([f"line {number}" for number in range(20)])
        person.type("next")
        await person.sees("> next")
        rows = [row for row in person.rows if row]
        assert rows == ["  line 18", "  line 19", "make … 0:00", "> next", "The meter"]


@pytest.mark.process
async def test_a_failing_command_of_the_agent_is_seen_while_it_runs_and_when_it_has_ended(
    tmp_path: Path,
) -> None:
    line = f"seq 1 30; {waits_for('go')}; echo 'assert 1 == 2' >&2; exit 3"
    script = [
        Reply(tool_calls=[ToolCall("shell", {"command": line})], usage=Usage(900, 20)),
        Reply("It fails."),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(
                tmp_path, "chat", "--mode", "full-access", env=server.env()
            ) as person:
                await person.until(READY)
                banner = f"acp-agent {__version__} · {tmp_path} · sess_"
                shown = person.text.replace("\n", " ")
                assert banner in shown
                assert " · openai/gpt-test" in shown[: shown.index("/help")]
                await sends(person, "Test it.")
                await person.until("  30\n")
                assert "assert" not in "".join(
                    row for row in person.rows if "seq 1 30" not in row
                )
                (tmp_path / "go").touch()
                await person.until("It fails.")
                at = person.rows.index("  exit status: 3")
                assert person.rows[at + 1 : at + 4] == [
                    "  … of 31 lines; ctrl-o shows more",
                    "  24",
                    "  25",
                ]
                assert person.rows[at + 9] == "  assert 1 == 2"
                assert "14" not in person.rows
                person.type(CTRL_O)
                await person.until("\n14\n")


@pytest.mark.process
async def test_a_command_of_the_persons_own_is_seen_sent_with_the_next_prompt_and_ended_alone(
    tmp_path: Path,
) -> None:
    async with model_server([LONG, Reply("Fine."), Reply("Yes.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(
                tmp_path, "chat", env={**server.env(), "MY_TOKEN": "horse battery"}
            ) as person:
                await person.until(READY)
                await sends(person, "Say it.")
                await person.until("Some words")
                await sends(person, f"!echo begun $MY_TOKEN; {waits_for('never')}")
                await person.until("  begun ***")
                person.type("half a thought")
                await person.until("> half a thought")
                person.type(CTRL_C)
                await person.until(
                    "(The user ended this command while it ran; sent with your next prompt)"
                )
                assert "Cancelled." not in person.text
                person.type(CTRL_C)
                await person.until("Cancelled.")
                await person.until("> half a thought")
                person.type(ENTER)
                await person.until("Fine.")
                sent = json.dumps(messages(server.calls[1].body)[-1])
                assert "half a thought" in sent
                assert "begun ***" in sent
                assert "horse" not in sent

                await sends(person, "!pwd; (exit 4)")
                await person.until(
                    f"\n{tmp_path}\n  (exit status: 4; sent with your next prompt)"
                )
                await sends(person, "/context")
                await person.until("has a window of")
                await sends(person, "Is that right?")
                await person.until("Yes.")
                assert (
                    f"exit status: 4\\noutput (stdout and stderr together):\\n{tmp_path}"
                    in json.dumps(messages(server.calls[2].body)[-1])
                )
                assert "begun" not in json.dumps(messages(server.calls[2].body)[-1])
                person.type(f"\x1b[200~!echo a\x00b\x1b[201~{ENTER}")
                await person.until("\na\ufffdb\n")
                # What is left behind ends with the conversation.
                await sends(
                    person,
                    f"!MARK=left-behind sh -c 'echo ready; {waits_for('never')}'",
                )
                await person.until("  ready")
                assert marked("left-behind")
                await leaves(person)
        assert not await outlive(marked("left-behind"), seconds=5)


async def test_what_could_not_be_started_is_not_sent(tmp_path: Path) -> None:
    async with typing(tmp_path) as person:
        shell = PersonalShell(LocalCommands(), ChatView(person.screen))
        with pytest.raises(ToolError, match="could not be started"):
            await shell.run("ls", tmp_path / "gone")
        assert not shell.printed


@pytest.mark.process
async def test_another_session_is_begun_and_gone_back_to_and_what_is_typed_stays(
    tmp_path: Path,
) -> None:
    script = [
        Reply("A cart.", usage=Usage(900, 20)),
        LONG,
        Reply("A tree."),
        Reply("Still a cart."),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "What is it?")
                await person.until("A cart.")
                await person.until("tokens (")
                await sends(person, "Say more.")
                await person.until("Some words")
                await sends(person, "!echo of-the-first-session")
                await person.until("sent with your next prompt)")
                await sends(person, "/new")
                person.type("And what ")
                await server.wait_aborted()
                await person.until("returns to the conversation above.")
                first = person.text.split("`/resume ")[1].split("`")[0]
                await person.until(READY)
                person.type("is this?")
                await person.until("> And what is this?")
                person.type(ENTER)
                await person.until("A tree.")
                assert len(messages(server.calls[2].body)) == len(
                    messages(server.calls[0].body)
                )
                assert "of-the-first-session" not in str(server.calls[2].body)
                await sends(person, "/sessions")
                await person.until("What is it?", 2)
                assert any(row.startswith("▸ sess_") for row in person.rows)
                assert f"  {first}" in person.text
                await sends(person, f"/resume {first}x")
                await person.until("is not a session")
                await sends(person, "/resume")
                await person.until("Which session?")
                person.type(CTRL_C)
                await person.until_gone("(or nothing)> ")
                await sends(person, "/resume")
                await person.until("Which session?", 2)
                person.type(f"1{ENTER}")
                await person.until("> Say more.", 2)
                await person.until("> What is it?", 2)
                await sends(person, "Still?")
                await person.until("Still a cart.")
                assert asked_last(server.calls[3].body) == "Still?"
                assert "A cart." in str(server.calls[3].body)
                # One in which nothing was asked is not kept.
                await sends(person, "/new")
                await person.until("returns to the conversation above.", 3)
                await person.until(READY)
                person.type(CTRL_D)
                assert await person.ended() == 0
                assert "continues this conversation" not in person.text
        assert len((await call_command(tmp_path, "sessions")).out.splitlines()) == 2


@pytest.mark.process
async def test_commands_of_the_terminal_are_listed_and_a_recipe_of_that_name_comes_first(
    tmp_path: Path,
) -> None:
    recipes = tmp_path / "state" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "cost.md").write_text(
        "---\ndescription: Estimate it\n---\nWhat would it cost?\n"
    )
    async with model_server([Reply("A lot.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "/cost")
                await person.until("A lot.")
                await sends(person, "/comapct")
                await person.until(
                    "There is no command `/comapct`. Did you mean `/compact`?"
                )
                await sends(person, "/sesions")
                await person.until("Did you mean `/sessions`?")
                await sends(person, "/mode")
                await person.until("▸ ask: ")
                await sends(person, "/mode full-access")
                await person.until_so(
                    lambda: person.bottom.startswith("full-access · ")
                )
                await sends(person, "/mode fast")
                await person.until("'fast' cannot be chosen")
                await sends(person, "/help")
                await person.until("- /new: ")
                await person.until("- /context: ")
                await sends(person, "/quit")
                assert await person.ended() == 0
        assert len(server.calls) == 1


async def test_commands_of_the_terminal_are_completed_behind_those_of_the_session(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path) as person:
        ChatView(person.screen).offer(
            [Command("cost", "A recipe"), Command("context", "What fills it")]
        )
        person.type("/sess")
        await person.sees("List the newest sessions")
        person.type(TAB)
        await person.sees("> /sessions")
        names = [command.name for command in person.completer.commands]
        assert names.count("cost") == 1


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/comapct", "`/compact`"),
        ("/comapct keep the totals", "`/compact`"),
        ("/Context", "`/context`"),
        ("/expo", "`/export`"),
        ("/new", ""),
        ("/etc/hosts is wrong", ""),
        ("/bin is gone", ""),
        ("/ is the root", ""),
        ("Run /comapct", ""),
    ],
)
async def test_what_looks_like_a_command_and_is_none_is_no_prompt(
    tmp_path: Path, text: str, meant: str
) -> None:
    async with model_server([Reply("I see.")], "openai") as server:
        ran = await call_command(tmp_path, "run", text, env=server.env())
        if text == "/new":
            assert (ran.code, len(server.calls)) == (1, 0)
            assert "`/new` is a command of `acp-agent chat`" in ran.err
        elif meant:
            assert (ran.code, ran.out, len(server.calls)) == (1, "", 0)
            assert f"Did you mean {meant}?" in ran.err
            assert (await call_command(tmp_path, "sessions")).out == ""
        else:
            assert (ran.code, asked_last(server.calls[0].body)) == (0, text)
