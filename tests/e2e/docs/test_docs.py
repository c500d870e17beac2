"""The examples in the documentation are run: what a reader copies must work."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import anyio
import pytest

from acp_agent.app import RESERVED, recipe_known
from acp_agent.compaction import ENTRY_POINTS, CompactionService
from acp_agent.config import load_settings
from acp_agent.hooks.handlers import known_handlers
from acp_agent.llm.scripted import _load_script
from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary
from acp_agent.recipes.model import Known
from acp_agent.recipes.template import render
from acp_agent.session.commands import BUILT_IN
from acp_agent.session.recipes.run import surroundings
from support.checkout import REPOSITORY
from support.compactions import shown_compactions
from support.models import Reply, model_server
from support.pages import DOCS, PAGES, examples, section
from support.plugins import install
from support.repo import make_repo
from support.stage import stage


@pytest.mark.parametrize(("page", "text"), examples("yaml config"))
def test_a_configuration_in_the_documentation_is_accepted(
    page: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    settings = load_settings({"ACP_AGENT_HOME": str(tmp_path)})
    assert settings.model, page


@pytest.mark.parametrize(("page", "text"), examples("yaml project"))
def test_a_project_configuration_in_the_documentation_is_accepted(
    page: str, text: str, tmp_path: Path
) -> None:
    project = tmp_path / "repository" / ".acp-agent"
    project.mkdir(parents=True)
    (project / "config.yaml").write_text(text)
    settings = load_settings({"ACP_AGENT_HOME": str(tmp_path / "home")}, project.parent)
    assert settings.mode == "plan", page


@pytest.mark.parametrize(("page", "text"), examples("markdown recipe"))
def test_a_recipe_in_the_documentation_loads_and_is_rendered_with_what_is_typed(
    page: str, text: str, tmp_path: Path
) -> None:
    name = re.search(r"^name: (\S+)$", text, re.MULTILINE)
    assert name, page
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{name[1]}.md").write_text(text)
    known = recipe_known(load_settings({"ACP_AGENT_HOME": str(tmp_path / "home")}))
    # As somebody's own: of those that are built in, the template is not looked at
    # before it is used.
    library = RecipeLibrary.read(
        [RecipeFolder("user", tmp_path / "recipes")], known, RESERVED
    )
    assert not library.errors
    [recipe] = library.recipes.values()
    assert recipe.name == name[1]
    repo = make_repo(tmp_path / "shop")
    rendered = render(
        recipe, {}, "mind the {{ tea }}", surroundings("sess_1", str(repo.path), recipe)
    )
    assert rendered.count("mind the {{ tea }}") == 1
    assert "{%" not in rendered


@pytest.mark.parametrize(("page", "text"), examples("yaml script"))
def test_a_script_in_the_documentation_can_be_played(
    page: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "story.yaml").write_text(text)
    assert _load_script(tmp_path / "story.yaml"), page


@pytest.mark.process
@pytest.mark.parametrize(("page", "text"), examples("python library"))
async def test_a_program_in_the_documentation_runs_and_prints_what_is_said_of_it(
    page: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(text)
    async with model_server(lambda _: Reply("## Goal\nA cart.")) as server:
        state = {
            "ACP_AGENT_HOME": str(tmp_path / "home"),
            "PYTHONPATH": str(REPOSITORY),
        }
        ran = await anyio.run_process(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**server.env(), **state},
            check=False,
        )
    assert (ran.returncode, ran.stderr.decode()) == (0, "")
    printed = ran.stdout.decode()
    if "model.provider.stream" in text:
        assert len(server.calls) == 1
        assert "## Goal\nA cart." in printed
        assert "Never touch `prices.py`." in printed
    else:
        lines = " and ".join(f"`{line}`" for line in printed.splitlines())
        assert f"It prints {lines}:" in (DOCS / page).read_text()


@pytest.mark.process
async def test_the_strategy_in_the_documentation_works_once_it_is_installed(
    tmp_path: Path,
) -> None:
    [(_, code)], [(_, project)] = (
        examples("python strategy"),
        examples("toml entry-point"),
    )
    [(name, target)] = tomllib.loads(project)["project"]["entry-points"][
        ENTRY_POINTS
    ].items()
    env = install(
        tmp_path / "packages",
        target.partition(":")[0],
        code,
        ENTRY_POINTS,
        f"{name} = {target}",
    )
    config = {"compaction": {"strategy": name}}
    async with stage(
        tmp_path, Reply("A cart. " * 400), Reply("Tea."), env=env, config=config
    ) as it:
        await it.prompt("What is this?\nTell me all.")
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        await it.prompt("And this?")
    assert compaction.statuses[-1] == "completed"
    assert compaction.text.startswith("The user asked:\n- What is this? [#")
    assert "of talk left out" in compaction.receipt
    assert it.server.calls[-1].mentions("- What is this? [#")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_strategies_in_the_documentation_are_those_that_can_be_chosen() -> None:
    page = (DOCS / "strategies.md").read_text()
    named = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(named) == sorted(CompactionService().choices)


def test_the_built_in_recipes_and_commands_in_the_documentation_are_those_that_there_are() -> (
    None
):
    table = section("recipes.md", "Built in")
    rows = re.findall(r"^\| `([\w-]+)` \|([^|]*)\|([^|]*)\|", table, re.MULTILINE)
    said = {
        name: (
            re.findall(r"`(\w+)`", arguments),
            "mode `plan`" in runs,
            "everything" in runs,
            "nothing" in runs,
        )
        for name, arguments, runs in rows
    }
    known = Known(known_handlers())
    library = RecipeLibrary.read(
        [RecipeFolder("builtin", REPOSITORY / "recipes")], known
    )
    assert said == {
        recipe.name: (
            [argument.name for argument in recipe.arguments],
            recipe.mode == "plan",
            {"edit", "shell"} <= set(recipe.allowed_tools or ())
            and recipe.allowed_commands is None,
            recipe.allowed_tools == (),
        )
        for recipe in library.recipes.values()
    }
    page = (DOCS / "commands.md").read_text()
    commands = re.findall(r"^\| `/(\w+)(?: ([^`]+))?` \|", page, re.MULTILINE)
    assert commands == [(command.name, command.hint or "") for command in BUILT_IN]


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = re.findall(
        r"^make (\w+)", (REPOSITORY / "README.md").read_text(), re.MULTILINE
    )
    makefile = (REPOSITORY / "Makefile").read_text()
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
