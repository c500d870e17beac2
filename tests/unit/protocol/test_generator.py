"""The generator keeps the modules, the stripped schema and its record in step, and
finds where they are not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
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
    shutil.copytree(
        ROOT / ROOMS, tmp_path / ROOMS, ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def test_the_generated_modules_are_up_to_date() -> None:
    done = generate(ROOT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_property_in_the_schema_reaches_the_models_of_its_version(
    copy: Path,
) -> None:
    path = copy / ROOM / "schema.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    added = {"type": ["array", "null"], "items": {"type": "string"}}
    added |= {
        "x-deserialize-default-on-error": True,
        "x-deserialize-skip-invalid-items": True,
    }
    schema["$defs"]["TextContent"]["properties"]["iconNames"] = added
    path.write_text(json.dumps(schema))
    assert generate(copy, "--check").returncode == 1
    assert generate(copy).returncode == 0
    assert (
        "icon_names: Lenient[list[OnErrorOmit[str]] | None] = None"
        in (copy / ROOM / "_models.py").read_text()
    )
    # Version 2 has its own now, since it is no longer the same.
    assert (
        "class TextContent(WireModel):"
        in (copy / ROOMS / "v2" / "_models.py").read_text()
    )
