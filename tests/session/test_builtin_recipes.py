"""The recipes that come with the agent: each loads, is rendered wherever it is used, and does no more than it may."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.errors import RecipeError
from acp_agent.hooks.handlers import builtin_handlers, known_handlers
from acp_agent.recipes.library import RecipeLibrary, builtin_recipes_dir
from acp_agent.session.commands import REQUIRED_HOOKS, RecipeRun
from acp_agent.session.surroundings import surroundings
from acp_agent.tools.registry import ToolRegistry, default_tools
from support.client import AgentError
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, ToolCall
from support.repo import Repo, make_repo
from support.stage import Stage, conversation, results, stage

NAMES = ["commit", "compact", "compact-brief", "explain", "handoff", "init", "plan", "pr", "review", "test-fix"]
NEED_GIT = ("commit", "pr", "review")
SECRET_CHANGE = "return sum(line.price * line.quantity for line in self.lines)"
LIBRARY = RecipeLibrary.discover(
    builtin_recipes_dir(),
    None,
    None,
    known_handlers(builtin_handlers().values()),
    tools=ToolRegistry(default_tools()).names,
    required_hooks=REQUIRED_HOOKS,
    strategies=["summary"],
    providers=["anthropic"],
)


def rendered(name: str, folder: Path, words: str = "", **arguments: str) -> str:
    recipe = LIBRARY.recipes[name]
    around = surroundings("sess_1", str(folder), recipe)
    return RecipeRun(recipe, words, (), arguments).render(around)


def changed(tmp_path: Path) -> Repo:
    """A repository with a repair that is not committed and a file that git does not know."""
    repo = make_repo(tmp_path / "project")
    repo.fix()
    (repo.path / "notes.txt").write_text("remember\n")
    return repo


def test_all_of_them_load_with_a_line_that_describes_them() -> None:
    assert LIBRARY.errors == ()
    assert list(LIBRARY.recipes) == NAMES
    assert all(20 < len(recipe.description) <= 110 for recipe in LIBRARY.recipes.values())
    assert all(argument.description for recipe in LIBRARY.recipes.values() for argument in recipe.arguments)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_rendered_with_what_was_typed_wherever_it_is_used(name: str, tmp_path: Path) -> None:
    repo = changed(tmp_path)
    unborn, plain = tmp_path / "unborn", tmp_path / "plain"
    for folder in (unborn, plain):
        folder.mkdir()
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=unborn, check=True)
    for folder in (repo.path, unborn):
        text = rendered(name, folder, "mind the {{ tea }}")
        assert text.count("mind the {{ tea }}") == 1
        assert "{%" not in text
        assert "\n\n\n" not in text
    if name in NEED_GIT:
        with pytest.raises(RecipeError, match="not a git repository"):
            rendered(name, plain)
    else:
        assert rendered(name, plain)


def test_what_git_says_stands_in_the_text(tmp_path: Path) -> None:
    repo = changed(tmp_path)
    commit, review, handoff = (rendered(name, repo.path) for name in ("commit", "review", "handoff"))
    for text in (commit, review):
        assert "?? notes.txt" in text
        assert f"+        {SECRET_CHANGE}" in text
    assert "A cart" in commit.partition("<latest-messages>")[2]
    assert "?? notes.txt" in handoff
    assert "on the branch `main`" in handoff
    repo.git("switch", "--quiet", "--create", "total")
    repo.git("commit", "--quiet", "--all", "--message", "Count every piece")
    for name, inside in (("pr", "shop/cart.py | 2 +-"), ("review", f"+        {SECRET_CHANGE}")):
        text = rendered(name, repo.path, base="main")
        assert "Count every piece" in text
        assert inside in text
    assert "git symbolic-ref --short refs/remotes/origin/HEAD" in rendered("pr", repo.path)


def test_arguments_change_the_text(tmp_path: Path) -> None:
    assert "`docs/next.md`" in rendered("handoff", tmp_path, file="docs/next.md")
    assert "`HANDOFF.md`" in rendered("handoff", tmp_path)
    assert "Depth: overview." in rendered("explain", tmp_path, depth="overview")
    assert "make check" in rendered("test-fix", tmp_path, command="make check")
    assert "Find out how they are run" in rendered("test-fix", tmp_path)


async def test_all_of_them_are_offered_with_what_may_follow(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        [update] = it.agent.updates(kind="available_commands_update")
        offered = {offer["name"]: offer for offer in update["availableCommands"]}
        assert set(NAMES) <= offered.keys()
        assert offered["handoff"]["input"]["hint"] == "file=… instructions"
        assert offered["test-fix"]["description"] == LIBRARY.recipes["test-fix"].description


async def test_a_branch_that_there_is_not_is_a_mistake_in_the_arguments_told_in_the_words_of_git(
    tmp_path: Path,
) -> None:
    make_repo(tmp_path / "project")
    async with stage(tmp_path, script=lambda _: Reply("Never."), files={}) as it:
        with pytest.raises(AgentError) as error:
            await it.prompt("/pr base=nope")
        assert error.value.code == -32602
        assert "pr.md:" in error.value.message
        assert "did not succeed: `git log " in error.value.message
        assert "nope..HEAD` ended with exit status 128: " in error.value.message
        assert "unknown revision" in error.value.message
        assert not it.server.calls


EDIT = ToolCall("write", {"path": "shop/cart.py", "content": "gone"})
NOT_IN_RECIPE = "may not run in this recipe"
NOT_IN_PLAN = "plan mode"


@pytest.mark.parametrize(
    ("prompt", "call", "refusal"),
    [
        ("/plan count the pieces", EDIT, NOT_IN_RECIPE),
        ("/plan", ToolCall("shell", {"command": "git log"}), NOT_IN_RECIPE),
        ("/explain the cart", EDIT, NOT_IN_RECIPE),
        ("/review", EDIT, NOT_IN_RECIPE),
        ("/review", ToolCall("shell", {"command": "git stash"}), NOT_IN_RECIPE),
        ("/commit", EDIT, NOT_IN_RECIPE),
        ("/commit", ToolCall("shell", {"command": "rm shop/cart.py"}), NOT_IN_RECIPE),
        ("/commit", ToolCall("shell", {"command": "git add . && rm shop/cart.py"}), NOT_IN_RECIPE),
        ("/commit", ToolCall("shell", {"command": "git push"}), NOT_IN_RECIPE),
        ("/commit", ToolCall("shell", {"command": "git difftool -x rm"}), NOT_IN_RECIPE),
        ("/pr", ToolCall("shell", {"command": "git push origin main"}), NOT_IN_RECIPE),
        ("/pr base=main", ToolCall("shell", {"command": "gh pr create"}), NOT_IN_RECIPE),
        ("/handoff", ToolCall("shell", {"command": "git commit -am done"}), NOT_IN_RECIPE),
        ("/init", ToolCall("shell", {"command": "make"}), NOT_IN_RECIPE),
    ],
    ids=lambda value: value.arguments if isinstance(value, ToolCall) else "",
)
async def test_what_a_recipe_is_not_for_is_refused_even_where_everything_is_allowed(
    tmp_path: Path, prompt: str, call: ToolCall, refusal: str
) -> None:
    repo = changed(tmp_path)
    before = repo.program.read_text()
    replies = [Reply("Let me.", tool_calls=[call]), Reply("I may not.")]
    async with stage(tmp_path, *replies, files={}, mode="full-access", dialect="anthropic") as it:
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
    assert result.is_error
    assert refusal in result.text
    assert repo.program.read_text() == before
    assert repo.git("log", "--format=%s") == "A cart\n"


TO_LOOK = [
    "git diff --output=README.md",
    "git log --output=README.md -1",
    "git show HEAD '--output=README.md'",
    "git log -p --ext-diff",
    "git diff --no-index README.md shop/cart.py",
    "git diff /etc/hostname README.md",
    "git diff -- ../x README.md",
    "git diff .. README.md",
    "git diff -- ./.. shop",
    "git -c core.pager=touch -p log",
    "git diff *",
    "git log # --oneline",
]
TO_COMMIT = [
    *TO_LOOK,
    "git commit --amend -m x",
    "git commit -m x '--am' -a",
    "git commit --no-verify -am x",
    "git commit -anm x",
    "git restore --staged --worktree shop/cart.py",
    "git restore --staged -SW shop/cart.py",
]


async def test_no_option_of_git_makes_more_of_a_recipe_than_it_is(tmp_path: Path) -> None:
    repo = changed(tmp_path)
    for name in ("diff.external", "diff.x.textconv"):
        repo.git("config", name, "touch ran;")

    def state() -> tuple[str, str, str]:
        files = "".join(path.read_text() for path in sorted(repo.path.rglob("*.*")) if path.is_file())
        return repo.git("status", "--porcelain"), repo.git("log", "--format=%H %s"), files

    before = state()
    runs = {"/review": TO_LOOK, "/pr base=HEAD": TO_LOOK, "/handoff": TO_LOOK, "/commit": TO_COMMIT}
    replies = [
        reply
        for commands in runs.values()
        for reply in (Reply(tool_calls=[ToolCall("shell", {"command": line}) for line in commands]), Reply("No."))
    ]
    async with stage(tmp_path, *replies, files={}, mode="full-access") as it:
        for number, (prompt, commands) in enumerate(runs.items()):
            await it.prompt(prompt)
            found = results(it.server.calls[2 * number + 1].body)
            assert [
                line for line, result in zip(commands, found, strict=True) if NOT_IN_RECIPE not in result.text
            ] == []
        for prompt in ("/review base=--output=README.md", "/pr base=--output=README.md"):
            with pytest.raises(AgentError, match=r"`--output=README\.md\.\.HEAD`"):
                await it.prompt(prompt)
    assert state() == before
    assert not (repo.path / "ran").exists()


async def modes(it: Stage, prompt: str) -> list[str]:
    since = len(it.agent.lines)
    await it.prompt(prompt)
    return [update["currentModeId"] for update in it.agent.updates(kind="current_mode_update", since=since)]


async def test_plan_and_explain_run_in_plan_mode_and_the_plan_is_shown(tmp_path: Path) -> None:
    steps = {"entries": [{"content": "Count the pieces", "status": "pending"}]}
    replies = [Reply(tool_calls=[ToolCall("plan", steps)]), Reply("Goal: count."), Reply("A cart.")]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        assert await modes(it, "/plan count the pieces") == ["plan", "full-access"]
        [plan] = it.agent.updates(kind="plan")
        assert [entry["content"] for entry in plan["entries"]] == ["Count the pieces"]
        assert "count the pieces" in conversation(it.server.calls[0].body)[0][1]
        assert await modes(it, "/explain the cart") == ["plan", "full-access"]


async def test_commit_commits_with_git_alone_once_the_user_has_allowed_it(tmp_path: Path) -> None:
    repo = changed(tmp_path)
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        repo.git("config", name, value)
    (repo.path / "shop" / "$id.tsx").write_text("")
    add = ToolCall("shell", {"command": "git add shop/cart.py 'shop/$id.tsx'"})
    commit = ToolCall("shell", {"command": "git commit -m 'Count every piece' -m 'It forgot the quantity.'"})
    replies = [Reply(tool_calls=[add]), Reply(tool_calls=[commit]), Reply("Done.")]
    async with stage(tmp_path, *replies, files={}) as it:
        assert await it.prompt("/commit") == {"stopReason": "end_turn"}
        asked = [line for line in it.agent.lines if line.method == "session/request_permission"]
        assert asked[0].params["toolCall"]["title"] == "git add shop/cart.py 'shop/$id.tsx'"
    assert repo.git("log", "--format=%B", "-1").strip() == "Count every piece\n\nIt forgot the quantity."
    assert repo.git("status", "--porcelain") == "?? notes.txt\n"
    assert "shop/$id.tsx" in repo.git("show", "--name-only", "--format=")


async def test_handoff_writes_its_document_after_the_user_was_asked(tmp_path: Path) -> None:
    write = ToolCall("write", {"path": "HANDOFF.md", "content": "# Handoff\n"})
    replies = [Reply(tool_calls=[write]), Reply("Not then."), Reply(tool_calls=[write]), Reply("In HANDOFF.md.")]
    async with stage(tmp_path, *replies) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt("/handoff")
        assert not (it.folder / "HANDOFF.md").exists()
        it.agent.permission_answer = "allow_once"
        await it.prompt("/handoff for Grace")
        assert (it.folder / "HANDOFF.md").read_text() == "# Handoff\n"
        assert "for Grace" in conversation(it.server.calls[2].body)[-1][1]


async def test_init_improves_the_page_that_is_there(tmp_path: Path) -> None:
    edit = {"path": "AGENTS.md", "edits": [{"old_text": "Prices are", "new_text": "All prices are"}]}
    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "AGENTS.md"})]),
        Reply(tool_calls=[ToolCall("edit", edit)]),
        Reply("Better."),
    ]
    repo = make_repo(tmp_path / "project")
    async with stage(tmp_path, *replies, files={}, mode="accept-edits") as it:
        await it.prompt("/init")
        assert f"Write `AGENTS.md` in `{repo.path}`" in conversation(it.server.calls[0].body)[0][1]
    assert "All prices are whole cents." in (repo.path / "AGENTS.md").read_text()


async def test_test_fix_may_run_any_command_and_edit(tmp_path: Path) -> None:
    calls = [
        ToolCall("shell", {"command": "echo 1 failed; false"}),
        ToolCall("write", {"path": "b.txt", "content": "1"}),
    ]
    async with stage(tmp_path, Reply(tool_calls=calls), Reply("Done."), mode="full-access") as it:
        await it.prompt('/test-fix command="make check" the cart first')
        text = conversation(it.server.calls[0].body)[0][1]
        assert "They are run with:\n\nmake check\n" in text
        assert "the cart first" in text
        assert (it.folder / "b.txt").read_text() == "1"
        assert "1 failed" in results(it.server.calls[1].body)[0].text


async def test_compact_brief_puts_its_summary_in_the_place_of_the_conversation(tmp_path: Path) -> None:
    summary = "## Goal\nA cart.\n\n## State\nIt adds.\n\n## Next\nCount the pieces."
    replies = [Reply("The cart adds prices. " * 900), Reply(summary), Reply("Yes.")]
    async with stage(tmp_path, *replies, editor=ZED_BETA) as it:
        await it.prompt("What is it?")
        assert await it.prompt("/compact-brief the pieces") == {"stopReason": "end_turn"}
        asked = conversation(it.server.calls[1].body)[-1][1]
        assert "at most 250 words" in asked
        assert "the pieces" in asked
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        assert compaction.text.startswith("## Goal")
        await it.prompt("And now?")
        assert it.server.calls[2].mentions("Count the pieces.")
        assert not it.server.calls[2].mentions("The cart adds prices. " * 500)
