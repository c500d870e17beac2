"""The profile of the sandbox on macOS, where a later rule outweighs an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.seatbelt import command_line

ROOT = Path("/home/me/.claude/worktree")
OTHER = Path("/home/me/.claude")


def profile(policy: Policy) -> list[str]:
    program, flag, rules, *words = command_line(
        policy, ("make", "test"), Path("/tmp/own")
    )
    assert (program, flag) == ("/usr/bin/sandbox-exec", "-p")
    assert words == ["/usr/bin/env", "TMPDIR=/tmp/own", "make", "test"]
    return rules.splitlines()


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_denied_but_for_loopback_unless_it_is_allowed(
    network: bool,
) -> None:
    rules = profile(Policy((ROOT,), (), (), network))
    assert ("(deny network*)" in rules) == (not network)
    assert "(deny network-outbound (remote unix-socket))" in rules


def test_what_is_protected_in_a_root_is_denied_behind_what_allows_the_root() -> None:
    rules = profile(
        Policy((ROOT,), (Path("/home/me/.cache"),), (OTHER, ROOT / "secret"))
    )
    order = (
        "(deny file-write*)",
        '(allow file-write* (subpath "/tmp/own"))',
        '(allow file-write* (subpath "/home/me/.cache"))',
        '(deny file-read* file-write* (subpath "/home/me/.claude"))',
        '(allow file-read* file-write* (subpath "/home/me/.claude/worktree"))',
        '(deny file-read* file-write* (subpath "/home/me/.claude/worktree/secret"))',
        '(deny file-write* (subpath "/home/me/.claude/worktree/.vscode"))',
    )
    places = [
        max(at for at, each in enumerate(rules) if each == rule) for rule in order
    ]
    assert places == sorted(places)


def test_a_path_is_one_string_of_the_profile_whatever_it_holds() -> None:
    rules = profile(Policy((Path('/a"b\\c'),), (), ()))
    assert '(allow file-write* (subpath "/a\\"b\\\\c"))' in rules
