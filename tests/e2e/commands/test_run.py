"""`acp-agent run` and `acp-agent compact`, as a person types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.models import Reply, model_server
from support.terminal import AGENT, Ran, in_a_shell

SIZES = re.compile(r"^(sess_\w+): (\d+) → (\d+) messages, ([\d,]+) → ([\d,]+) tokens \(\w+\)$", re.MULTILINE)


def session_of(ran: Ran) -> str:
    """The session that the command's last line names."""
    return _last_line(ran)[1]


def _last_line(ran: Ran) -> re.Match[str]:
    found = SIZES.search(ran.err)
    assert found is not None, ran
    return found


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
