"""`acp-agent sessions`: what names a session, its title, forks, and the list for
scripts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.session.log import fork_title
from support.called import call_command
from support.models import Reply, model_server


async def begun(home: Path, *prompts: str) -> list[str]:
    """The ids of new sessions, oldest first."""
    async with model_server([Reply("Yes.")] * len(prompts), "openai") as server:
        for prompt in prompts:
            assert (await call_command(home, "run", prompt, env=server.env())).code == 0
    return [
        row.split()[0]
        for row in reversed((await call_command(home, "sessions")).out.splitlines())
    ]


async def test_the_list_is_an_array_of_objects_with_the_names_of_the_protocol(
    tmp_path: Path,
) -> None:
    first, second = await begun(tmp_path, "One?", "Zwölf?")
    await call_command(tmp_path, "sessions", "archive", first)
    for words in (("sessions", "--json"), ("sessions", "list", "--json")):
        ran = await call_command(tmp_path, *words)
        [shown] = json.loads(ran.out)
        assert ran.out.isascii()
        assert (shown["sessionId"], shown["title"], shown["cwd"]) == (
            second,
            "Zwölf?",
            str(tmp_path),
        )
        assert shown["updatedAt"] >= shown["createdAt"] > "2020-01-01T00:00:00"
    for words in (
        ("sessions", "--archived", "list", "--json"),
        ("sessions", "list", "--archived", "--json"),
    ):
        [shown] = json.loads((await call_command(tmp_path, *words)).out)
        assert (shown["sessionId"], shown["archived"]) == (first, True)
    assert (await call_command(tmp_path, "sessions", "list")).out.startswith(second)


async def test_the_beginning_of_an_id_names_a_session_in_every_command(
    tmp_path: Path,
) -> None:
    first, second = await begun(tmp_path, "One?", "Two?")
    short = second[:12]
    bare = first.removeprefix("sess_")[:8]
    for words, said in (
        (("rename", short, "The", "cart"), f"{second} is now called: The cart\n"),
        (("archive", bare), f"Archived {first}.\n"),
        (("unarchive", bare), f"Listed again {first}.\n"),
        (("move", short, "."), f"{second} now belongs to {tmp_path}.\n"),
    ):
        ran = await call_command(tmp_path, "sessions", *words)
        assert (ran.code, ran.out) == (0, said)
    fork = (await call_command(tmp_path, "sessions", "fork", short)).out.strip()
    rows = {
        row.split()[0]: row
        for row in (await call_command(tmp_path, "sessions")).out.splitlines()
    }
    assert rows[second].endswith("  The cart")
    assert rows[fork].endswith("  The cart (fork)")
    assert (await call_command(tmp_path, "inspect", bare, "-o", "page.html")).code == 0
    assert (await call_command(tmp_path, "sessions", "rm", bare, short)).code == 0
    assert [
        row.split()[0]
        for row in (await call_command(tmp_path, "sessions")).out.splitlines()
    ] == [fork]


@pytest.mark.parametrize("action", ["rm", "archive", "fork", "rename"])
async def test_a_name_that_fits_no_session_or_several_changes_none(
    tmp_path: Path, action: str
) -> None:
    first, second = await begun(tmp_path, "One?", "Two?")
    more = ("x",) if action == "rename" else ()
    several = await call_command(tmp_path, "sessions", action, "sess_", *more)
    assert (
        several.code,
        "is the beginning of 2 session ids. Type more of it." in several.err,
    ) == (1, True)
    for words in (
        ((first, "sess_none"), ("none",))
        if action in ("rm", "archive")
        else (("none", *more),)
    ):
        ran = await call_command(tmp_path, "sessions", action, *words)
        assert (ran.code, ran.out) == (1, "")
        assert "is not a session. `acp-agent sessions` lists them." in ran.err
    listed = [
        row.split()[0]
        for row in (await call_command(tmp_path, "sessions")).out.splitlines()
    ]
    assert listed == [second, first]


@pytest.mark.parametrize("only", ["sess_", ""])
async def test_what_every_id_begins_with_names_no_session_even_if_there_is_only_one(
    tmp_path: Path, only: str
) -> None:
    [session] = await begun(tmp_path, "One?")
    ran = await call_command(tmp_path, "sessions", "rm", only)
    assert (ran.code, "Type more of it" in ran.err) == (1, True)
    assert (await call_command(tmp_path, "sessions")).out.startswith(session)


async def test_a_title_without_a_printable_character_is_refused(tmp_path: Path) -> None:
    [session] = await begun(tmp_path, "One?")
    ran = await call_command(tmp_path, "sessions", "rename", session, "\x1b")
    assert (ran.code, ran.out) == (1, "")


@given(st.text(max_size=20), st.integers(0, 6))
def test_forks_of_a_session_and_of_its_forks_have_titles_of_their_own(
    title: str, count: int
) -> None:
    titles = [title]
    for number in range(count):
        titles.append(fork_title(titles[number // 2], titles))
    assert len({*titles}) == len(titles)
    assert all(each.count("(fork") <= title.count("(fork") + 1 for each in titles)
