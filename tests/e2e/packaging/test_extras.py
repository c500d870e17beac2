"""Extras: what the agent and its pages say of how they are installed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from acp_agent.errors import Extra, install_command

ROOT = Path(__file__).parents[3]
PAGES: dict[Extra, tuple[str, ...]] = {
    "images": ("docs/attachments.md",),
    "keyring": ("docs/login.md",),
    "serve": ("docs/serving.md", "editors/marimo/README.md"),
}


def test_every_extra_of_the_package_is_one_that_can_be_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(get_args(Extra)) == set(PAGES)


@pytest.mark.parametrize("extra", PAGES)
def test_a_page_says_how_an_extra_is_installed_as_the_agent_does(extra: Extra) -> None:
    for page in PAGES[extra]:
        assert install_command(extra) in " ".join((ROOT / page).read_text().split()), page


def test_nothing_tells_a_person_to_install_a_package_of_this_name_from_the_index() -> None:
    files = [
        file for folder in ("acp_agent", "docs", "editors") for file in (ROOT / folder).rglob("*") if file.is_file()
    ]
    texts = [file for file in (*files, *ROOT.glob("*.md")) if file.suffix in (".py", ".md", ".sh", ".yaml", ".json")]
    assert len(texts) > 100
    assert [file for file in texts if "acp-agent[" in file.read_text() or "install acp-agent" in file.read_text()] == []
