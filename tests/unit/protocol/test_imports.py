"""What is loaded when: start-up time is a promise, and a module that is not imported
costs nothing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.checkout import REPOSITORY

pytestmark = pytest.mark.process

CODE = """
import sys
from acp_agent.protocol import methods, updates
from acp_agent.protocol.v1 import ToolKind
assert not [name for name in sys.modules if name.startswith("pydantic") or name.endswith("._models")]
from acp_agent.protocol import v1
v1.CancelNotification.from_params({"sessionId": "s"}, "session/cancel")
assert v1.CancelNotification.__pydantic_complete__
assert not v1.PromptRequest.__pydantic_complete__
assert not [name for name in sys.modules if name.startswith("acp_agent.protocol.v2")]
assert not hasattr(v1, "NoSuchModel")
"""


def test_names_load_no_models_and_version_1_builds_the_models_alone_that_are_used() -> (
    None
):
    subprocess.run([sys.executable, "-c", CODE], cwd=REPOSITORY, check=True, timeout=30)
