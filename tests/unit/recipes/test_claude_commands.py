"""Commands that were written for Claude Code, as recipes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config.document import DocumentError
from acp_agent.errors import RecipeError
from acp_agent.recipes.claude_commands import parse_command
from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary
from acp_agent.recipes.model import (
    CommandError,
    Known,
    Recipe,
    RecipeSurroundings,
    RefusedCommandError,
)
from acp_agent.recipes.template import render

KNOWN = Known(
    {}, ("shell", "read", "edit", "write", "grep"), ("compact",), providers=("openai",)
)
FREE = {"grep", "read"}


def parse(front_matter: str, body: str = "Do it.") -> Recipe:
    text = f"---\n{front_matter}\n---\n{body}"
    return parse_command(
        text, name="note", source=Path("/c/note.md"), origin="user", known=KNOWN
    )


def test_its_keys_are_understood_as_they_are_written_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    recipe = parse(
        'description: "Fix: all"\nargument-hint: [issue] [priority]\nmodel: openai/gpt-5\n'
        "allowed-tools: Bash(git add:*), Bash(npm run test), Edit, Task\ndisable-model-invocation: true"
    )
    assert (recipe.description, recipe.hint, recipe.model) == (
        "Fix: all",
        "[issue] [priority]",
        "openai/gpt-5",
    )
    assert recipe.allowed_commands == ("git add", "git add *", "npm run test")
    assert set(recipe.allowed_tools or ()) == {"shell", "edit", *FREE}
    assert not recipe.is_template
    assert "no tool like Task" in caplog.text
    assert "`disable-model-invocation` is not understood" in caplog.text


@pytest.mark.parametrize(
    ("said", "tools", "commands"),
    [
        ("Bash", {"shell"}, ("*",)),
        ("Bash(*), Bash(ls:*)", {"shell"}, ("*", "ls", "ls *")),
        ("[Read, Write]", {"write"}, None),
        ("\n  - Read\n  - Bash(ls)", {"shell"}, ("ls",)),
        ("Read, WebFetch", set[str](), None),
        (
            "mcp__github__create_issue, mcp__notes",
            {"mcp__github__create_issue", "mcp__notes"},
            None,
        ),
        ("Bash # all", {"shell"}, ("*",)),
        ("'Bash', \"Read\"", {"shell"}, ("*",)),
        ("Bash(ls) Read Bash (git log:*)", {"shell"}, ("ls", "git log", "git log *")),
    ],
)
def test_its_tools_become_ours(
    said: str, tools: set[str], commands: tuple[str, ...] | None
) -> None:
    recipe = parse(f"allowed-tools: {said}")
    assert (set(recipe.allowed_tools or ()), recipe.allowed_commands) == (
        tools | FREE,
        commands,
    )


@pytest.mark.parametrize(
    "said",
    [
        "Bash()",
        "Bash( )",
        "Read, Bash (), Edit",
        "Bash(:*)",
        "Bash( :*)",
        "Bash(git log",
        "Bash[ls]",
        "Bash: ls",
        "Bash{}",
    ],
)
def test_a_limit_that_nobody_can_read_allows_no_command(said: str) -> None:
    with pytest.raises(
        RecipeError, match=r"^/c/note\.md: allowed-tools: .* write `Bash` for all"
    ):
        parse(f"allowed-tools: {said}")


@pytest.mark.parametrize(
    "model", ["opus", "claude-sonnet-4-5", "inherit", "nobody/model"]
)
def test_a_model_that_is_not_ours_is_left_out(model: str) -> None:
    assert parse(f"model: {model}").model is None


def test_what_cannot_be_used_is_left_out_and_only_a_limit_that_nobody_can_read_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    texts = {
        "empty": "---\n---\n",
        "compact": "x",
        "größe": "x",
        "open": "---\nx",
        "pin": "x",
        "Good One": "x",
    }
    for name, text in {**texts, "limit": "---\nallowed-tools: Bash()\n---\nx"}.items():
        (tmp_path / f"{name}.md").write_text(text)
    (tmp_path / "latin.md").write_bytes("größe".encode("latin-1"))
    found = RecipeLibrary.read(
        [RecipeFolder("user", tmp_path, "claude")], KNOWN, ["pin"]
    )
    assert list(found.recipes) == ["good-one"]
    assert [error.source for error in found.errors] == [str(tmp_path / "limit.md")]
    assert caplog.text.count("left out: ") == 6


@settings(deadline=None)
@given(st.text())
def test_whatever_stands_between_the_fences_is_read_or_refused_and_never_a_crash(
    front_matter: str,
) -> None:
    try:
        recipe = parse(front_matter)
    except (DocumentError, RecipeError):
        return
    assert recipe.description


def rendered(body: str, typed: str = "") -> str:
    """A text whose commands print their words, `no` fails, and `refused` may not run."""

    def shell(*words: str) -> str:
        if words[0] == "refused":
            raise RefusedCommandError("no")
        if words[0] == "no":
            raise CommandError("`no` ended with exit status 1")
        return "".join(f"[{word}]" for word in words)

    around = RecipeSurroundings("sess_1", "/", "2026-03-31", None, shell, lambda: None)
    return render(parse("description: x", body), {}, typed, around)


def test_a_brace_is_a_brace_and_a_command_is_what_it_prints() -> None:
    body = "Set ${{ secrets.TOKEN }} {% raw %} {# here #} for $1: !`git log` and x!`ls`"
    assert rendered(body, "ci") == body.replace("$1", "ci").replace(
        "!`git log`", "[git][log]"
    )
    assert render(parse("description: x", "!`git log $1`"), {}, "-1") == "!`git log -1`"


@pytest.mark.parametrize(
    "command",
    ["refused x", "ls | wc", "ls $HOME", "ls *", "A=1 ls", "ls 'a", "ls; rm x", "$1"],
)
def test_a_command_that_may_not_run_or_needs_a_shell_stays_for_the_model(
    command: str,
) -> None:
    assert rendered(f"See !`{command}`.") == f"See !`{command.replace('$1', '')}`."


def test_a_command_that_fails_is_named_with_file_and_line() -> None:
    with pytest.raises(
        RecipeError, match=r"^/c/note\.md:5: `no` ended with exit status 1$"
    ):
        rendered("x\nThis: !`no`")
