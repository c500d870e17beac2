"""What a script gets of `acp-agent run`: the answer or JSON on stdout, all else on
stderr, and the exit status.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.cli.terminal.output import EXIT_STATUSES
from support.called import call_command
from support.checkout import environment
from support.compactions import asked_last
from support.editors import BARE
from support.memory import stage
from support.models import Reply, ToolCall, Usage, model_server
from support.schema import validate_params
from support.terminal import AGENT, Ran, at_a_terminal, in_a_shell

READ = ToolCall("read", {"path": "a.txt"})
LISTED = "---\nhooks:\n  turn_end: {handler: validate_output, params: {schema: {type: array}}}\n---\nList the TODOs.\n"


def result_of(ran: Ran) -> dict[str, Any]:
    """The object in the last line of stdout."""
    return json.loads(ran.out.splitlines()[-1])


def last_word(ran: Ran) -> str:
    """The one sentence that says why a command did not end well."""
    [line] = [line for line in ran.err.splitlines() if line.startswith("acp-agent: ")]
    return line


async def play(
    home: Path,
    replies: Sequence[Reply],
    *words: str,
    config: dict[str, Any] | None = None,
) -> Ran:
    """Run `acp-agent run` with a model that answers this."""
    (home / "a.txt").write_text("one\n")
    async with model_server(replies, "openai") as server:
        server.write_config(home, config)
        return await call_command(home, "run", *words, env=server.env())


async def test_the_final_answer_alone_is_on_stdout(tmp_path: Path) -> None:
    ran = await play(
        tmp_path, [Reply("I look.", tool_calls=[READ]), Reply("A list.")], "What?"
    )
    assert (ran.code, ran.out) == (0, "A list.\n")
    assert ran.err.index("I look.") < ran.err.index("→ Read a.txt")


@pytest.mark.parametrize(
    "drafts", [["Some.", "[]"], ["Some."] * 6], ids=["mended", "never mended"]
)
async def test_drafts_that_a_hook_rejects_are_on_stderr(
    tmp_path: Path, drafts: list[str]
) -> None:
    (tmp_path / "state" / "recipes").mkdir(parents=True)
    (tmp_path / "state" / "recipes" / "list.md").write_text(LISTED)
    ran = await play(tmp_path, [Reply(draft) for draft in drafts], "-r", "list")
    assert ran.err.splitlines().count("Some.") == drafts.count("Some.")
    if drafts[-1] == "[]":
        assert (ran.code, ran.out) == (0, "[]\n")
    else:
        assert (ran.code, ran.out) == (4, "")
        assert re.search(
            r"go on 5 times .* not have the required format: .* `acp-agent hooks list`",
            last_word(ran),
        )


BLOCKED = {
    "hooks": {"UserPromptSubmit": [{"command": "echo Not on Fridays. >&2; exit 2"}]}
}
ENDED = {
    "hooks": {
        "PostToolUse": [
            {"command": """echo '{"continue": false, "stopReason": "Enough."}'"""}
        ]
    }
}
STOPPED = {"hooks": {"Stop": ENDED["hooks"]["PostToolUse"]}}
ENDS = [
    ("completed", "end_turn", [Reply("Yes.")], {}, "Yes."),
    ("refused", "refusal", [Reply("I can", stop="refusal")], {}, None),
    ("limit", "max_tokens", [Reply("Ye", stop="max_tokens")], {}, "Ye"),
    (
        "limit",
        "max_turn_requests",
        [Reply("I look.", tool_calls=[READ])],
        {"max_turn_requests": 1},
        None,
    ),
    ("vetoed", "end_turn", [], BLOCKED, None),
    ("vetoed", "end_turn", [Reply("I look.", tool_calls=[READ])], ENDED, None),
    ("vetoed", "end_turn", [Reply("Yes.")], STOPPED, None),
    ("failed", None, [Reply(http_status=400)], {}, None),
    ("failed", None, [Reply(["Ye", "s."], drop_after=1)], {}, None),
]


@pytest.mark.parametrize(("status", "stop", "replies", "config", "answer"), ENDS)
async def test_each_end_of_a_turn_has_an_exit_status_and_a_sentence(
    tmp_path: Path,
    status: str,
    stop: str | None,
    replies: list[Reply],
    config: dict[str, Any],
    answer: str | None,
) -> None:
    ran = await play(tmp_path, replies, "Well?", config=config)
    assert (ran.code, ran.out) == (
        EXIT_STATUSES[status],
        f"{answer}\n" if answer else "",
    )
    assert all("".join(reply.text)[:2] in ran.err for reply in replies if not answer)
    as_json = await play(tmp_path, replies, "Well?", "--output", "json", config=config)
    result = result_of(as_json)
    assert (as_json.code, result["status"], result["stopReason"]) == (
        ran.code,
        status,
        stop,
    )
    assert (result["answer"], as_json.out.count("\n")) == (answer, 1)
    if status != "completed":
        assert last_word(as_json) == f"acp-agent: {result['error']}"


async def test_a_refusal_has_the_providers_reason_and_a_second_one_offers_a_fork(
    tmp_path: Path,
) -> None:
    details = {
        "type": "refusal",
        "category": "cyber",
        "explanation": "It asks for malware",
    }
    refused = Reply("", stop="refusal", stop_details=details)
    async with model_server(
        [Reply("Hello."), refused, refused, refused], "anthropic"
    ) as server:
        env = server.env()
        await call_command(tmp_path, "run", "Hi.", env=env)
        one = await call_command(tmp_path, "run", "--follow", "One?", env=env)
        two = await call_command(tmp_path, "run", "--follow", "Two?", env=env)
        as_json = await call_command(
            tmp_path, "run", "--follow", "--output=json", "Three?", env=env
        )
    why = "acp-agent: anthropic/claude-test refused to answer: cyber: It asks for malware. "
    assert last_word(one).startswith(
        f"{why}The prompt and what followed it were left out"
    )
    assert "sessions fork" not in one.err
    result = result_of(as_json)
    fork = f"`acp-agent sessions fork {result['sessionId']} --at "
    for ran in (two, as_json):
        assert last_word(ran).startswith(why)
        assert fork in last_word(ran)
    assert last_word(as_json) == f"acp-agent: {result['error']}"
    assert [(ran.code, ran.out) for ran in (one, two)] == [(3, "")] * 2


@pytest.mark.parametrize("blank", ["", " \n"], ids=["empty", "blank"])
async def test_two_answers_without_words_are_told_as_such_and_are_not_on_stdout(
    tmp_path: Path, blank: str
) -> None:
    ran = await play(tmp_path, [Reply(blank)] * 2, "Go.")
    assert (ran.code, ran.out) == (1, "")
    told = "The model gave an empty answer twice."
    assert last_word(ran).startswith(f"acp-agent: {told}")
    as_json = await play(tmp_path, [Reply(blank)] * 2, "Go.", "--output", "json")
    result = result_of(as_json)
    assert (result["status"], result["answer"]) == ("failed", "")
    assert result["error"].startswith(told)


async def test_a_blank_answer_before_a_good_one_is_no_part_of_it(
    tmp_path: Path,
) -> None:
    ran = await play(tmp_path, [Reply(" \n"), Reply("Fine.")], "Go.")
    assert (ran.code, ran.out) == (0, "Fine.\n")


async def test_a_command_is_answered_and_one_that_is_not_carried_out_is_no_success(
    tmp_path: Path,
) -> None:
    done = await play(tmp_path, [], "/help", "--output", "json")
    assert (done.code, result_of(done)["status"]) == (0, "completed")
    assert "/compact" in result_of(done)["answer"]
    not_done = await play(tmp_path, [], "/model", "nonsense")
    assert (not_done.code, last_word(not_done)) == (
        1,
        "acp-agent: The command failed; its answer says why.",
    )
    assert "nonsense" in not_done.out


async def test_the_result_has_the_tokens_of_the_turn_and_the_cost_of_the_session(
    tmp_path: Path,
) -> None:
    config = {
        "models": {
            "openai/gpt-test": {
                "prices": {"input": 1_000, "cached_input": 0, "output": 10_000}
            }
        }
    }
    one = Usage(1_000, 5, cache_read=100)
    two = Usage(2_000, 10)
    replies = [
        Reply("I look.", tool_calls=[READ], usage=one),
        Reply("A list.", usage=two),
        Reply("Yes.", usage=two),
    ]
    async with model_server(replies, "openai") as server:
        server.write_config(tmp_path, config)
        (tmp_path / "a.txt").write_text("one\n")
        first = result_of(
            await call_command(
                tmp_path, "run", "--output=json", "What?", env=server.env()
            )
        )
        again = result_of(
            await call_command(
                tmp_path, "run", "--output=json", "--follow", "Sure?", env=server.env()
            )
        )
    assert first == {
        "type": "result",
        "status": "completed",
        "sessionId": first["sessionId"],
        "stopReason": "end_turn",
        "answer": "A list.",
        "refusedCalls": [],
        "usage": {
            "totalTokens": 3_115,
            "inputTokens": 3_000,
            "outputTokens": 15,
            "cachedReadTokens": 100,
            "cachedWriteTokens": 0,
        },
        "cost": {"amount": pytest.approx(3.15), "currency": "USD"},
        "error": None,
    }
    assert (again["sessionId"], again["usage"]["totalTokens"]) == (
        first["sessionId"],
        2_010,
    )
    assert again["cost"]["amount"] == pytest.approx(5.25)


def without_ids(updates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The updates with the first id as 1, and so on, and adjacent pieces of one text
    joined.
    """
    text = json.dumps(updates)
    ids = dict[str, int]()
    text = re.sub(
        r"(?:msg|call)_\w+", lambda found: str(ids.setdefault(found[0], len(ids))), text
    )
    joined: list[dict[str, Any]] = []
    for update in json.loads(text):
        before = joined[-1] if joined else {}
        if "messageId" in update and {**before, "content": 0} == {
            **update,
            "content": 0,
        }:
            before["content"]["text"] += update["content"]["text"]
        else:
            joined.append(update)
    return joined


async def test_stream_json_has_each_update_as_over_the_protocol_and_the_result_as_its_last_line(
    tmp_path: Path,
) -> None:
    replies = [
        Reply("I look.", thinking="Hm.", tool_calls=[READ], usage=Usage(2_000, 9)),
        Reply("A.", usage=Usage(2_000, 9)),
    ]
    ran = await play(tmp_path, replies, "What?", "--output", "stream-json")
    *lines, result = map(json.loads, ran.out.splitlines())
    assert (ran.code, result["type"], result["answer"]) == (0, "result", "A.")
    for line in lines:
        validate_params("session/update", line)
        assert line["sessionId"] == result["sessionId"]
    async with stage(
        tmp_path / "editor", *replies, files={"a.txt": "one\n"}, editor=BARE
    ) as it:
        begun = len(it.agent.lines)
        await it.prompt("What?")
        over_acp = without_ids(
            [dict(update) for update in it.agent.updates(since=begun)]
        )
    assert str(without_ids([line["update"] for line in lines])).replace(
        str(tmp_path), str(it.folder)
    ) == str(over_acp)


@pytest.mark.process
async def test_an_answer_streams_to_a_terminal_and_is_there_once(
    tmp_path: Path,
) -> None:
    more = anyio.Event()
    async with (
        model_server(
            [Reply(["One. ", "Two."], hold=more, hold_after=1)], "openai"
        ) as server,
        at_a_terminal(tmp_path, "run", "Count.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("One.")
            more.set()
            assert await person.ended() == 0
    assert (person.shown.count("One."), person.shown.count("Two.")) == (1, 1)


async def test_an_answer_that_goes_on_after_it_was_cut_off_is_one_answer(
    tmp_path: Path,
) -> None:
    long = Reply("The cart adds prices. " * 400)
    full = Reply(
        "The first ha", stop="model_context_window_exceeded", usage=Usage(19_000, 100)
    )
    async with model_server(
        [long, full, Reply("lf, and the second.")], "anthropic"
    ) as server:
        env = {**server.env(), "ACP_AGENT_CONTEXT_WINDOW": "20000"}
        await call_command(tmp_path, "run", "One?", env=env)
        ran = await call_command(tmp_path, "run", "--follow", "Tell me.", env=env)
    assert (ran.code, ran.out) == (0, "The first half, and the second.\n")


async def test_the_summary_of_a_compaction_that_was_not_asked_for_is_on_stderr(
    tmp_path: Path,
) -> None:
    answer = "The cart adds prices. " * 400
    config = {"hooks": {"Stop": [{"command": """echo '{"action": "compact"}'"""}]}}
    ran = await play(
        tmp_path, [Reply(answer), Reply("# Goal\nCount.")], "One?", config=config
    )
    assert (ran.code, ran.out) == (0, f"{answer}\n")
    assert "# Goal\nCount.\n" in ran.err


async def test_what_is_piped_stands_behind_the_words(tmp_path: Path) -> None:
    async with model_server([Reply("Fine.")], "openai") as server:
        await call_command(
            tmp_path,
            "run",
            "Review",
            "this:",
            "-",
            env=server.env(),
            stdin="- a\n+ b\n",
        )
        assert asked_last(server.calls[0].body) == "Review this:\n\n- a\n+ b\n"


@pytest.mark.process
async def test_who_reads_only_the_first_line_of_the_updates_ends_the_command_without_a_word(
    tmp_path: Path,
) -> None:
    async with model_server([Reply(["Yes. "] * 2_000)], "openai") as server:
        ran = await in_a_shell(
            tmp_path, f"{AGENT} run --output stream-json Hi. | head -n 1", server.env()
        )
    assert json.loads(ran.out)["sessionId"].startswith("sess_")
    assert [line for line in ran.err.splitlines() if not line.startswith("sess_")] == []


@pytest.mark.process
async def test_a_signal_leaves_the_result_behind(tmp_path: Path) -> None:
    line = [sys.executable, "-P", "-m", "acp_agent", "run", "--output", "json", "Go."]
    async with model_server(
        [Reply(["I think", " on."], hold=anyio.Event(), hold_after=1)], "openai"
    ) as server:
        env = {**environment(tmp_path), **server.env()}
        async with await anyio.open_process(
            line, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL
        ) as process:
            with anyio.fail_after(40):
                await server.wait_held(timeout=30)
                process.send_signal(signal.SIGINT)
                assert process.stdout is not None
                out = b"".join([piece async for piece in process.stdout])
                assert await process.wait() == 128 + signal.SIGINT
    result = json.loads(out)
    assert (result["status"], result["stopReason"], result["answer"]) == (
        "cancelled",
        "cancelled",
        None,
    )
    assert f"-c {result['sessionId']} " in result["error"]


@pytest.mark.process
async def test_a_new_session_gets_its_title_from_the_small_model_after_the_answer(
    tmp_path: Path,
) -> None:
    more = anyio.Event()
    script = [
        Reply("The cart adds prices."),
        Reply("Adding prices in a cart", hold=more),
        Reply("Yes."),
    ]
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "config.yaml").write_text("small_model: openai/gpt-test\n")
    async with model_server(script, "openai") as server:
        async with at_a_terminal(
            tmp_path, "run", "What is it?", env=server.env()
        ) as person:
            with anyio.fail_after(40):
                await person.until("The cart adds prices.")
                await server.wait_held(timeout=30)
                more.set()
                assert await person.ended() == 0
        assert (await call_command(tmp_path, "sessions")).out.endswith(
            "  Adding prices in a cart\n"
        )
        assert (
            await call_command(tmp_path, "run", "--follow", "Really?", env=server.env())
        ).code == 0
        assert len(server.calls) == 3
