"""`acp-agent run` and `acp-agent compact`, as a person types them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.called import call_command
from support.models import Reply, model_server
from support.repo import make_git_directory
from support.terminal import AGENT, Ran, in_a_shell

SIZES = re.compile(
    r"^(sess_\w+): (\d+) → (\d+) messages, ([\d,]+) → ([\d,]+) tokens \(\w+\)$",
    re.MULTILINE,
)


def session_of(ran: Ran) -> str:
    """The session that the command's last line names."""
    return _last_line(ran)[1]


def _last_line(ran: Ran) -> re.Match[str]:
    found = SIZES.search(ran.err)
    assert found is not None, ran
    return found


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
async def test_output_that_cannot_be_written_is_said_in_one_sentence(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Yes.")], "openai") as server:
        ran = await in_a_shell(tmp_path, f"{AGENT} run Hi. >/dev/full", server.env())
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert SIZES.search(ran.err)
    assert (
        "acp-agent: cannot read or write: No space left on device"
        in ran.err.splitlines()
    )


@pytest.mark.process
async def test_who_reads_no_further_ends_the_command_with_the_session_named_and_no_other_word(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Yes. " * 50_000)], "openai") as server:
        ran = await in_a_shell(tmp_path, f"{AGENT} run Hi. | head -c 3", server.env())
    assert ran.out == "Yes"
    assert [session_of(ran)] == [
        line.partition(":")[0] for line in ran.err.splitlines()
    ]


async def test_a_compaction_in_the_terminal_shows_its_receipt(tmp_path: Path) -> None:
    async with model_server(
        [Reply("Yes. " * 2_000), Reply("# Goal\nCount.")], "openai"
    ) as server:
        await call_command(tmp_path, "run", "One?", env=server.env())
        ran = await call_command(tmp_path, "compact", "--follow", env=server.env())
    assert (ran.code, ran.out) == (0, "# Goal\nCount.\n")
    assert re.search(
        r"^[\d,]+ → [\d,]+ tokens · 2 messages replaced · ", ran.err, re.MULTILINE
    )


async def test_a_compaction_in_the_terminal_that_is_vetoed_or_finds_nothing_is_no_success(
    tmp_path: Path,
) -> None:
    config = tmp_path / "state" / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        "hooks:\n  before_compaction:\n  - command: echo Not on Fridays. >&2; exit 2\n"
    )
    async with model_server([Reply("Yes. " * 2_000)], "openai") as server:
        await call_command(tmp_path, "run", "One?", env=server.env())
        vetoed = await call_command(tmp_path, "compact", "--follow", env=server.env())
        assert (vetoed.code, vetoed.out, len(server.calls)) == (4, "", 1)
        assert "A hook did not allow the compaction. Not on Fridays." in vetoed.err
        assert (
            await call_command(
                tmp_path, "compact", "--follow", "preview", env=server.env()
            )
        ).code == 0
        assert (
            await call_command(
                tmp_path, "run", "--follow", "-r", "compact", env=server.env()
            )
        ).code == 4


async def test_follow_goes_on_with_the_session_of_the_project_from_a_folder_in_it(
    tmp_path: Path,
) -> None:
    async with model_server(
        [Reply("Yes."), Reply("No."), Reply("Well.")], "openai"
    ) as server:
        env = server.env()
        below = tmp_path / "shop" / "src" / "cart"
        below.mkdir(parents=True)
        first = await call_command(
            tmp_path, "run", "One?", env=env, cwd=tmp_path / "shop"
        )
        again = await call_command(
            tmp_path, "run", "--follow", "Two?", env=env, cwd=below
        )
        assert session_of(again) == session_of(first)

        # A session of the home, or above a repository, is no session of the project.
        home = await call_command(tmp_path, "run", "Three?", env=env, cwd=tmp_path)
        assert session_of(home) != session_of(first)
        make_git_directory(tmp_path / "shop" / "src")
        (tmp_path / "other").mkdir()
        for folder in (tmp_path / "other", below):
            none = await call_command(
                tmp_path, "run", "--follow", "Four?", env=env, cwd=folder
            )
            assert (none.code, none.out) == (1, "")
            assert f"There is no session of {folder}." in none.err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "/compact"),
        ("run", "-r", "compact"),
        ("run", "/compact keep it"),
        ("run", "/compact-brief"),
    ],
)
async def test_a_compaction_with_nothing_to_do_is_no_success_however_it_is_started(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    async with model_server([], "openai") as server:
        ran = await call_command(tmp_path, *words, env=server.env())
    assert ran.code == 1
    assert "There is nothing to compact yet." in ran.out + ran.err
    assert "acp-agent: The command failed; its answer says why." in ran.err


async def test_a_model_that_gives_no_answer_is_the_error_that_is_told(
    tmp_path: Path,
) -> None:
    async with model_server([Reply(""), Reply("")], "openai") as server:
        ran = await call_command(
            tmp_path, "run", "--output", "json", "Go.", env=server.env()
        )
    assert ran.code == 1
    told = json.loads(ran.out)
    assert told["status"] == "failed"
    assert told["error"].startswith("The model gave an empty answer twice.")


async def test_a_report_about_compactions_that_is_typed_is_a_success(
    tmp_path: Path,
) -> None:
    async with model_server([], "openai") as server:
        assert (
            await call_command(tmp_path, "run", "/compact status", env=server.env())
        ).code == 0
