"""`acp-agent compact-eval`, as a person types it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.called import call_command
from support.checkout import REPOSITORY
from support.models import Reply, model_server
from support.recordings import as_transcript, cart_session, write
from support.terminal import Ran

DOCUMENTATION = (REPOSITORY / "docs" / "compact-eval.md").read_text()


def rows(text: str) -> dict[str, dict[str, str]]:
    """The table: method, then column, then cell."""
    lines = text.splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("method "))
    columns = re.split(r"  +", lines[head])
    end = next(
        index
        for index, line in enumerate(lines)
        if index > head and line in ("", "```")
    )
    body = lines[head + 2 : end]
    return {
        cells[0]: dict(zip(columns, cells, strict=True))
        for cells in (re.split(r"  +", line) for line in body)
    }


def needed(text: str) -> dict[str, str]:
    """How many facts of each class the table rests on."""
    lines = (
        line for line in text.splitlines() if line.startswith(("method", "(needed)"))
    )
    head, counts = (re.split(r"  +", line.strip()) for line in lines)
    return dict(zip(head[head.index("need") :], counts[1:], strict=False))


def one_sentence(ran: Ran) -> str:
    """What a command that could not begin says."""
    assert (ran.code, ran.out) == (1, "")
    [line] = ran.err.splitlines()
    assert line.startswith("acp-agent: ")
    return line


async def test_the_table_in_the_documentation_has_the_rows_and_columns_that_are_printed(
    tmp_path: Path,
) -> None:
    write(tmp_path / "cart.json", as_transcript(cart_session()))
    ran = await call_command(tmp_path, "compact-eval", "cart.json")
    assert ran.code == 0, ran.err
    shown = rows(DOCUMENTATION)
    printed = rows(ran.out)
    assert {
        re.sub(r" \d+%(?=\*?$)", "", name) for name in shown if name != "newest 40%"
    } | {"newest 40%"} <= {*printed}
    columns = [list(cells) for cells in (*shown.values(), *printed.values())]
    assert all(each == columns[0] for each in columns)
    # What the words around the table say of it.
    explained = re.findall(
        r"^\| `([^`]+)` \|",
        DOCUMENTATION[DOCUMENTATION.index("| column |") :],
        re.MULTILINE,
    )
    assert {*explained} == {*columns[0]} - {"method"}
    assert re.search(
        r"figures are of version \d+\.\d+\.\d+ on \d+ \w+ \d{4}", DOCUMENTATION
    )


async def test_sessions_of_this_agent_are_found_by_the_beginning_of_their_id(
    tmp_path: Path,
) -> None:
    replies = [
        Reply("The port is 8347. " * 300),
        *(Reply("More. " * 400) for _ in range(3)),
        Reply("Port 8347 it is."),
    ]
    async with model_server([*replies, Reply("Other.")], "openai") as server:
        session = ""
        for number in range(len(replies)):
            words = [
                "run",
                *(["--follow"] if number else []),
                "Go on with it. Never touch setup.py.",
            ]
            session = (
                await call_command(tmp_path, *words, env=server.env())
            ).err.partition(":")[0]
        ran = await call_command(tmp_path, "compact-eval", session[:-4])
        assert ran.code == 0, ran.err
        assert "1 session (acp-agent)" in ran.out
        assert int(needed(ran.out)["numbers"]) > 0

        other = (
            await call_command(tmp_path, "run", "Other.", env=server.env())
        ).err.partition(":")[0]
        ran = await call_command(tmp_path, "compact-eval", session[:4])
        assert f"{session[:4]!r} is the beginning of 2 session ids" in one_sentence(ran)
        ran = await call_command(tmp_path, "compact-eval", other)
        assert "These sessions are too short to compact" in one_sentence(ran)


async def test_a_model_writes_the_summaries_where_one_is_named(tmp_path: Path) -> None:
    script = "scenes:\n  - when: '*'\n    answers: [{text: 'The port is 8347. See `shop/invented_thing.py`.'}]\n"
    (tmp_path / "story.yaml").write_text(script)
    (tmp_path / "state").mkdir()
    config = f"providers:\n  story:\n    kind: scripted\n    script: {tmp_path / 'story.yaml'}\n"
    (tmp_path / "state" / "config.yaml").write_text(config)
    write(tmp_path / "cart.json", as_transcript(cart_session()))
    words = (
        "compact-eval",
        "cart.json",
        "--recipe",
        "compact",
        "--model",
        "story/story",
    )
    ran = await call_command(tmp_path, *words)
    assert ran.code == 0, ran.err
    found = rows(ran.out)["/compact"]
    assert found["numbers"] == "100.0"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sess_unknown"], "'sess_unknown' is not a session"),
        (["broken.jsonl"], "broken.jsonl:2: is not a JSON object"),
        (["short.json"], "These sessions are too short to compact"),
        (
            ["cart.json", "--size", "much"],
            "--size much: give a share of the conversation, such as 20%, or tokens",
        ),
        (
            ["cart.json", "--recipe", "nothing"],
            "There is no recipe 'nothing'. The recipes are: commit, compact",
        ),
        (["cart.json", "--recipe", "wrong.md"], "wrong.md:3: "),
        (
            ["cart.json", "--recipe", "parts.md"],
            "parts.md:5: compaction.strategy: there is no strategy 'chunked'",
        ),
        (
            ["cart.json", "--recipe", "plain.md"],
            "The recipe 'plain.md' does not compact",
        ),
        (
            ["cart.json", "--model", "nobody"],
            "'nobody': a model name has the form provider/model",
        ),
        (["."], "is not a file"),
    ],
)
async def test_what_cannot_be_measured_is_said_in_one_sentence(
    words: list[str], expected: str, tmp_path: Path
) -> None:
    write(tmp_path / "cart.json", as_transcript(cart_session()))
    write(tmp_path / "short.json", as_transcript(cart_session()[:3]))
    (tmp_path / "broken.jsonl").write_text(
        '{"type": "user", "message": {"content": "a"}}\n{{\n{}\n'
    )
    (tmp_path / "wrong.md").write_text("---\nname: wrong\nhocks: {}\n---\nText.\n")
    (tmp_path / "parts.md").write_text(
        "---\nhooks:\n  turn_end: {handler: swap_context}\ncompaction:\n  strategy: chunked\n---\nText.\n"
    )
    (tmp_path / "plain.md").write_text("Explain it.\n")
    assert expected in one_sentence(
        await call_command(tmp_path, "compact-eval", *words)
    )
