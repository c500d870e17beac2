"""The schemas where people meet them: generated, printed, beside a file, and true of
our own recipes and pages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from acp_agent.schemas import SchemaName, schema_path
from support.checkout import REPOSITORY

EXAMPLES: Mapping[str, SchemaName] = {
    "yaml config": "config",
    "yaml project": "project",
    "yaml hooks": "config",
    "yaml hooks-of-claude": "config",
    "yaml rule": "rule",
}
"""Info strings of the documentation's examples."""


@pytest.mark.parametrize(
    "page", sorted((REPOSITORY / "docs").glob("*.md")), ids=lambda page: page.name
)
def test_examples_in_the_documentation_are_what_the_schemas_accept(page: Path) -> None:
    for info, name in EXAMPLES.items():
        for text in re.findall(
            rf"^```{info}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            document = yaml.safe_load(
                re.sub(r"^(- |  )?on:", r"\1'on':", text, flags=re.MULTILINE)
            )
            Draft202012Validator(
                json.loads(schema_path(name).read_text("utf-8"))
            ).validate(document)
    for text in re.findall(
        r"^```markdown recipe\n---\n(.*?)^---$",
        page.read_text(),
        re.MULTILINE | re.DOTALL,
    ):
        Draft202012Validator(
            json.loads(schema_path("recipe").read_text("utf-8"))
        ).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "recipes").glob("*.md")), ids=lambda path: path.stem
)
def test_the_schema_accepts_the_built_in_recipes(path: Path) -> None:
    matter = yaml.safe_load(path.read_text().split("---\n")[1])
    Draft202012Validator(json.loads(schema_path("recipe").read_text("utf-8"))).validate(
        matter
    )


@pytest.mark.process
def test_the_command_prints_a_schema() -> None:
    command = [sys.executable, "-m", "acp_agent", "schema", "rule"]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert json.loads(printed.stdout) == json.loads(
        schema_path("rule").read_text("utf-8")
    )


@pytest.mark.process
def test_the_schemas_and_the_tables_of_the_documentation_are_up_to_date() -> None:
    command = [
        sys.executable,
        str(REPOSITORY / ".ci" / "generate_reference.py"),
        "--check",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
