"""What the pages on hooks show works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import acp_agent.hooks as room
from acp_agent.conversation.messages import Text
from acp_agent.hooks import AfterToolCall, BeforeToolCall, Moment, Outcome, Services
from acp_agent.hooks.conditions import Conditions
from acp_agent.hooks.declarative import load as load_rules
from acp_agent.hooks.events import EVENT_NAMES, OBSERVED
from acp_agent.hooks.plugins import ENTRY_POINTS, load
from acp_agent.hooks.rule_schema import POSSIBLE, When
from support.checkout import REPOSITORY
from support.plugins import install

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
    hooks, errors = load_rules(tmp_path / "rule.yaml", "user")
    assert errors == ()
    assert hooks


def test_the_conditions_in_the_documentation_are_those_that_there_are() -> None:
    named = [row[0].strip("`") for row in rows("hooks-rules.md", "Conditions")]
    assert set(named) == set(When.model_fields)
    assert set(named) == set(Conditions.__dataclass_fields__)


def test_what_is_possible_at_which_event_is_told_as_it_is() -> None:
    here = [name for name in EVENT_NAMES if name not in OBSERVED]
    told: dict[str, list[str]] = {}
    for key, _, _, where in rows("hooks-rules.md", "What should happen"):
        for name, at in [part.split(": ") for part in where.split("; ")] if key == "`action`" else [(key, where)]:
            named = re.findall(r"`(\w+)`", at)
            told[name.strip("`")] = [event for event in here if event not in named] if at.startswith("all") else named
    assert told.pop("messages") == []
    assert {key: set(names) for key, names in told.items()} == {key: set(names) for key, names in POSSIBLE.items()}


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
        [hook], errors = load(path, "user")
        assert errors == ()
        outcomes += [await hook.run(event, services) for event in (push, read) if event.name in hook.events]
    assert outcomes == [
        Outcome.block("Nobody pushes with --force here. Use --force-with-lease."),
        Outcome(tool_output="KEY=[a key]"),
    ]


def test_the_package_in_the_documentation_brings_its_hook(tmp_path: Path) -> None:
    [project] = examples("hooks-python.md", "toml hook-entry-point")
    [(_, target)] = tomllib.loads(project)["project"]["entry-points"][ENTRY_POINTS].items()
    code = examples("hooks-python.md", "python hook")[0]
    env = install(tmp_path, target.partition(":")[0], code, ENTRY_POINTS, target)
    program = "from acp_agent.hooks.plugins import installed; print(*[hook.name for hook in installed()[0]])"
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "no_force_push\n"
