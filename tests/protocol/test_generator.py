"""The generator keeps the modules, the stripped schema and its record in step, and finds where they are not."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = Path("acp_agent/protocol")
ROOM = ROOMS / "v1"


def generate(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / ".ci" / "generate_protocol.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the generator and of what it owns."""
    (tmp_path / ".ci").mkdir()
    for module in (ROOT / ".ci").glob("*protocol*.py"):
        shutil.copy(module, tmp_path / ".ci")
    shutil.copytree(ROOT / ROOMS, tmp_path / ROOMS, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_generated_modules_are_up_to_date() -> None:
    done = generate(ROOT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "name", ["v1/_words.py", "v1/_incoming.py", "v1/_outgoing.py", "v2/_words.py", "v2/_incoming.py"]
)
def test_a_module_that_was_edited_by_hand_is_found_and_written_anew(copy: Path, name: str) -> None:
    module = copy / ROOMS / name
    generated = module.read_text()
    module.write_text(generated + "\n# by hand\n")
    done = generate(copy, "--check")
    assert done.returncode == 1
    assert name in done.stderr
    assert generate(copy).returncode == 0
    assert module.read_text() == generated


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_taking_over_a_schema_drops_its_prose_and_records_where_it_is_from(
    copy: Path, tmp_path: Path, protocol: str
) -> None:
    room = copy / ROOMS / f"v{protocol}"
    schema: dict[str, Any] = json.loads((room / "schema.json").read_text())
    stripped = (room / "schema.json").read_bytes()
    schema["description"] = "Prose."
    schema["$defs"]["AuthMethodAgent"]["description"] = "Prose."
    schema["$defs"]["AuthMethodAgent"]["properties"]["description"]["description"] = "Prose about a property."
    original = tmp_path / "original.json"
    original.write_text(json.dumps(schema, indent=4))

    assert generate(copy, "--schema", str(original), "--version", "9.9.9", "--protocol", protocol).returncode == 0

    assert (room / "schema.json").read_bytes() == stripped
    pin = json.loads((room / "schema.pin.json").read_text())
    assert (pin["version"], pin["file"]) == ("9.9.9", f"schema/v{protocol}/schema.json")
    assert pin["sha256"] == hashlib.sha256(original.read_bytes()).hexdigest()


def test_a_new_definition_in_the_schema_reaches_the_models(copy: Path) -> None:
    path = copy / ROOM / "schema.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    schema["$defs"]["SessionMode"]["properties"]["iconName"] = {"type": ["string", "null"]}
    path.write_text(json.dumps(schema))
    assert generate(copy, "--check").returncode == 1
    assert generate(copy).returncode == 0
    assert "icon_name: str | None = None" in (copy / ROOM / "_outgoing.py").read_text()
