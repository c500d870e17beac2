"""What the pages on hooks show works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import acp_agent.hooks as room
from acp_agent.conversation.messages import Text
from acp_agent.hooks import AfterToolCall, BeforeToolCall, Moment, Outcome, Services
from acp_agent.hooks.python_hooks import load
from acp_agent.hooks.rules import load as load_rules
from support.checkout import REPOSITORY

DOCS = REPOSITORY / "docs"


def examples(page: str, info: str) -> list[str]:
    """Every example of a page with this info string."""
    return re.findall(rf"^```{info}\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    section = (DOCS / page).read_text().partition(f"## {heading}\n")[2]
    lines = re.findall(r"^\|(?! key| `then`| ---| event| argument)(.*)\|$", section.partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.replace(r"\|", "/").split("|")] for line in lines]


@pytest.mark.parametrize("text", examples("hooks-rules.md", "yaml rule"))
def test_a_rule_in_the_documentation_is_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(text)
    found = load_rules(tmp_path / "rule.yaml", "user")
    assert found.errors == ()
    assert found.hooks


def test_the_events_and_outcomes_in_the_documentation_have_what_is_said_of_them() -> None:
    for name, cls, has in rows("hooks-python.md", "What it is told"):
        event = getattr(room, cls.strip("`"))
        assert event.name == name.strip("`")
        assert all(hasattr(event, word) for word in re.findall(r"`(\w+)`", has))
    wanted = {row[0].strip("`") for row in rows("hooks-python.md", "What it may want")}
    assert wanted == set(Outcome.__dataclass_fields__) - {"decision"}


async def transcript() -> str:
    return ""


async def test_the_functions_in_the_documentation_do_what_is_said_of_them(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    services = cast("Services", SimpleNamespace(log=SimpleNamespace(info=lambda *words: None)))
    at = Moment("s", "/shop", transcript)
    push = BeforeToolCall(at, "c", "shell", {"command": "git push --force"})
    read = AfterToolCall(at, "c", "read", {}, (Text(f"KEY=sk-{'a' * 20}"),))
    for number, text in enumerate(examples("hooks-python.md", "python hook")):
        path = tmp_path / f"{number}.py"
        path.write_text(text)
        [hook] = load(path, "user").hooks
        outcomes += [await hook.run(event, services) for event in (push, read) if event.name in hook.events]
    assert outcomes == [
        Outcome.block("Nobody pushes with --force here. Use --force-with-lease."),
        Outcome(tool_output="KEY=[a key]"),
    ]
