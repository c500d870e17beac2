"""A project's settings of the sandbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acp_agent.config.sandbox import tightened
from acp_agent.config.settings import SandboxSettings


@pytest.mark.parametrize("users", ["off", "auto", "required"])
@pytest.mark.parametrize("projects", ["off", "auto", "required"])
def test_a_project_can_only_make_the_sandbox_stricter(
    users: str, projects: str
) -> None:
    own = SandboxSettings(
        commands=users,  # type: ignore[arg-type]
        network=False,
        read_deny=("~/a",),
        write=("~/mine",),
        env=("A_*",),
    )
    brought = SandboxSettings(
        commands=projects,  # type: ignore[arg-type]
        network=True,
        read_deny=("b",),
        write=("/",),
        env=("B_*",),
    )
    strictness = ("off", "auto", "required")
    made = tightened(own, brought, ("commands", "network", "read_deny", "write", "env"))
    assert made.commands == max(users, projects, key=strictness.index)
    assert not made.network
    assert (made.read_deny, made.write, made.env) == (
        ("~/a", "b"),
        ("~/mine",),
        ("A_*", "B_*"),
    )


@pytest.mark.parametrize(
    "own", [SandboxSettings(commands="off"), SandboxSettings(network=True)]
)
def test_keys_that_a_project_s_file_does_not_set_keep_the_user_s_values(
    own: SandboxSettings,
) -> None:
    assert tightened(
        own, SandboxSettings(read_deny=("vault",)), ("read_deny",)
    ) == replace(own, read_deny=("vault",))
