"""`acp-agent run` and `acp-agent compact`, as a person types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.called import call_command
from support.models import ModelServer, Reply, ToolCall, Usage, model_server
from support.terminal import AGENT, Ran, in_a_shell

LONG = "The cart adds prices. " * 60
SIZES = re.compile(r"^(sess_\w+): (\d+) → (\d+) messages, ([\d,]+) → ([\d,]+) tokens \(\w+\)$", re.MULTILINE)


def session_of(ran: Ran) -> str:
    """The session that the command's last line names."""
    return _last_line(ran)[1]


def sizes(ran: Ran) -> list[int]:
    """From that line: messages before and after, tokens before and after."""
    return [int(number.replace(",", "")) for number in _last_line(ran).groups()[1:]]


def _last_line(ran: Ran) -> re.Match[str]:
    found = SIZES.search(ran.err)
    assert found is not None, ran
    return found


async def asked(server: ModelServer, home: Path, *words: str, stdin: str = "") -> Ran:
    return await call_command(home, *words, env=server.env(), stdin=stdin)


async def test_a_turn_that_the_provider_refuses_names_its_session_all_the_same(tmp_path: Path) -> None:
    script = [Reply(LONG, usage=Usage(9_000, 400)), Reply(http_status=400), Reply(http_status=400)]
    async with model_server(script, "openai") as server:
        session = session_of(await asked(server, tmp_path, "run", "One?"))
        two = await asked(server, tmp_path, "run", "--follow", "Two?")
        assert (two.code, session_of(two)) == (1, session)
        assert sizes(two)[::2] == [2, 9_400]
        assert two.err.splitlines()[-1].startswith("acp-agent: ")
        assert "(error)" in two.err
        compact = await asked(server, tmp_path, "compact", "--follow")
        assert (compact.code, session_of(compact)) == (1, session)
        assert sizes(compact)[0] == sizes(compact)[1] == sizes(two)[1]


async def test_a_first_prompt_that_is_refused_leaves_a_session_with_what_was_done(tmp_path: Path) -> None:
    write = ToolCall("write", {"path": "made.txt", "content": "x"})
    script = [Reply("I write.", tool_calls=[write]), Reply("No.", stop="refusal"), Reply(http_status=400)]
    async with model_server(script, "openai") as server:
        refused = await asked(server, tmp_path, "run", "--mode", "full-access", "Go.")
        assert refused.code == 1
        assert "The model refused to answer." in refused.err
        assert sizes(refused)[:2] == [0, 0]
        assert (tmp_path / "made.txt").exists()
        by_provider = await asked(server, tmp_path, "run", "Go.")
        assert by_provider.code == 1
        listed = (await asked(server, tmp_path, "sessions")).out
        assert session_of(refused) in listed
        assert session_of(by_provider) in listed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
async def test_output_that_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    async with model_server([Reply("Yes.")], "openai") as server:
        ran = await in_a_shell(tmp_path, f"{AGENT} run Hi. >/dev/full", server.env())
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert SIZES.search(ran.err)
    assert "acp-agent: cannot read or write: No space left on device" in ran.err.splitlines()


async def test_who_reads_no_further_ends_the_command_with_the_session_named_and_no_other_word(tmp_path: Path) -> None:
    async with model_server([Reply("Yes. " * 50_000)], "openai") as server:
        ran = await in_a_shell(tmp_path, f"{AGENT} run Hi. | head -c 3", server.env())
    assert ran.out == "Yes"
    assert [session_of(ran)] == [line.partition(":")[0] for line in ran.err.splitlines()]
