"""What a project may say of the sandbox."""

from __future__ import annotations

import pytest

from acp_agent.config.sandbox import tightened
from acp_agent.config.settings import SandboxSettings


@pytest.mark.parametrize("users", ["off", "auto", "required"])
@pytest.mark.parametrize("projects", ["off", "auto", "required"])
def test_a_project_makes_the_sandbox_stricter_and_never_freer(users: str, projects: str) -> None:
    own = SandboxSettings(commands=users, network=False, read_deny=("~/a",), write=("~/mine",), env=("A_*",))  # type: ignore[arg-type]
    brought = SandboxSettings(commands=projects, network=True, read_deny=("b",), write=("/",), env=("B_*",))  # type: ignore[arg-type]
    strictness = ("off", "auto", "required")
    made = tightened(own, brought)
    assert made.commands == max(users, projects, key=strictness.index)
    assert not made.network
    assert (made.read_deny, made.write, made.env) == (("~/a", "b"), ("~/mine",), ("A_*", "B_*"))
