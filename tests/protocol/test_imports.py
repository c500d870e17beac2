"""What is loaded when: start-up time is a promise, and a module that is not imported costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIGHT = ["content", "updates", "results", "requests", "methods"]
HEAVY = (
    "pydantic",
    "pydantic_core",
    "acp_agent.protocol.v1._incoming",
    "acp_agent.protocol.v1._outgoing",
    "acp_agent.protocol.v2._incoming",
)


def loaded_by(code: str) -> set[str]:
    """Names of the modules in a fresh interpreter after running some code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("module", LIGHT)
def test_constructors_and_the_method_table_load_neither_pydantic_nor_models(module: str, version: str) -> None:
    loaded = loaded_by(f"from acp_agent.protocol.{version} import {module}, PROTOCOL_VERSION, ToolKind")
    assert f"acp_agent.protocol.{version}.{module}" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_version_1_does_not_load_version_2() -> None:
    loaded = loaded_by("from acp_agent.protocol.v1 import content, updates, results, requests, methods, PromptRequest")
    assert not [name for name in loaded if name.startswith("acp_agent.protocol.v2")]


def test_what_an_agent_reads_does_not_load_what_it_writes() -> None:
    loaded = loaded_by("from acp_agent.protocol.v1 import PromptRequest, RequestPermissionResponse")
    assert "acp_agent.protocol.v1._incoming" in loaded
    assert "acp_agent.protocol.v1._outgoing" not in loaded


def test_only_models_that_are_used_are_built() -> None:
    loaded_by(
        "from acp_agent.protocol import v1\n"
        "from acp_agent.protocol.wire import parse\n"
        "parse(v1.CancelNotification, {'sessionId': 's'}, 'session/cancel')\n"
        "assert v1.CancelNotification.__pydantic_complete__\n"
        "assert not v1.PromptRequest.__pydantic_complete__\n"
        "assert not v1.InitializeRequest.__pydantic_complete__\n"
    )


def test_a_name_that_the_protocol_lacks_is_an_attribute_error() -> None:
    from acp_agent.protocol import v1

    with pytest.raises(AttributeError, match="NoSuchModel"):
        _ = v1.NoSuchModel  # pyright: ignore[reportAttributeAccessIssue]
