"""The examples in the documentation are run: what a reader copies must work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from acp_agent.config import load_settings
from acp_agent.llm.scripted import load_script
from acp_agent.recipes.library import RecipeLibrary
from support.checkout import REPOSITORY

PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "editors").glob("*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)


def examples(info: str) -> list[tuple[str, str]]:
    """Every example with this info string: the page's name and the text."""
    return [
        (page.name, "\n".join(line.removeprefix(found["indent"]) for line in found["text"].splitlines()) + "\n")
        for page in PAGES
        for found in FENCE.finditer(page.read_text())
        if found["info"] == info
    ]


@pytest.mark.parametrize(("page", "text"), examples("yaml config"))
def test_a_configuration_in_the_documentation_is_accepted(page: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    settings = load_settings({"ACP_AGENT_HOME": str(tmp_path)})
    assert settings.model, page


@pytest.mark.parametrize(("page", "text"), examples("yaml project"))
def test_a_project_configuration_in_the_documentation_is_accepted(page: str, text: str, tmp_path: Path) -> None:
    project = tmp_path / "repository" / ".acp-agent"
    project.mkdir(parents=True)
    (project / "config.yaml").write_text(text)
    settings = load_settings({"ACP_AGENT_HOME": str(tmp_path / "home")}, project.parent)
    assert settings.mode == "plan", page


@pytest.mark.parametrize(("page", "text"), examples("markdown recipe"))
def test_a_recipe_in_the_documentation_loads(page: str, text: str, tmp_path: Path) -> None:
    name = re.search(r"^name: (\S+)$", text, re.MULTILINE)
    assert name, page
    (tmp_path / f"{name[1]}.md").write_text(text)
    library = RecipeLibrary.discover(tmp_path, None, None, {"turn_end": {"swap_context"}})
    assert not library.errors
    assert list(library.recipes) == [name[1]]


@pytest.mark.parametrize(("page", "text"), examples("yaml script"))
def test_a_script_in_the_documentation_can_be_played(page: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "story.yaml").write_text(text)
    assert load_script(tmp_path / "story.yaml"), page


@pytest.mark.parametrize(("page", "text"), examples("json"))
def test_json_in_the_documentation_is_json(page: str, text: str) -> None:
    assert json.loads(text), page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^make (\w+)", (REPOSITORY / "README.md").read_text(), re.MULTILINE)
    makefile = (REPOSITORY / "Makefile").read_text()
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
