"""The sandbox on macOS, which is experimental: builds the command line of
`sandbox-exec` with a profile.

Source: sandbox-exec(1). Apple does not document the profile's language; this module
uses it in the same way as Chromium's and Bazel's profiles. A later rule overrides an
earlier one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from acp_agent.sandbox.policy import Policy

_PROGRAM = "/usr/bin/sandbox-exec"
_ALWAYS_WRITABLE = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")


def command_line(
    policy: Policy, argv: Sequence[str], temporary: Path
) -> tuple[str, ...]:
    """Return the command line that runs a program in the sandbox.

    :param temporary: a folder for the command's temporary files, resolved.
    """
    words = ("/usr/bin/env", f"TMPDIR={temporary}", *argv)
    return (_PROGRAM, "-p", "\n".join(_profile(policy, temporary)), *words)


def fault() -> str:
    """Return why there is no sandbox here; empty if there may be one."""
    return "" if shutil.which(_PROGRAM) else f"{_PROGRAM} is missing."


def _profile(policy: Policy, temporary: Path) -> Iterator[str]:
    """Yield the rules. Everything is allowed by default; later rules deny some of it,
    and allow parts of that again.
    """
    yield "(version 1)"
    yield "(allow default)"
    if not policy.network:
        yield "(deny network*)"
        yield '(allow network* (local ip "localhost:*") (remote ip "localhost:*"))'
    # Deny sockets and services that lead out of the sandbox.
    yield "(deny network-outbound (remote unix-socket))"
    yield "(deny appleevent-send)"
    yield "(deny process-info* (target others))"
    yield "(deny signal (target others))"
    yield "(allow signal (target same-sandbox))"
    yield "(deny file-write*)"
    yield from _rule("allow file-write*", (temporary, *policy.write, *policy.open))
    yield (
        "(allow file-write-data "
        + " ".join(f"(literal {_quoted(path)})" for path in _ALWAYS_WRITABLE)
        + ")"
    )
    yield from _rule("deny file-read* file-write*", policy.read_deny)
    # A root may be in a denied folder, such as a worktree in another agent's folder.
    yield from _rule("allow file-read* file-write*", policy.roots)
    yield from _rule(
        "deny file-read* file-write*", _inside(policy.read_deny, policy.roots)
    )
    yield from _rule("deny file-write*", policy.protected)
    for folder in policy.holders:
        yield f"(deny file-write-unlink (literal {_quoted(str(folder))}))"


def _inside(paths: Iterable[Path], roots: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(
        path
        for path in paths
        if any(path.is_relative_to(root) and path != root for root in roots)
    )


def _rule(verb: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield f"({verb} (subpath {_quoted(str(path))}))"


def _quoted(text: str) -> str:
    """Return a string literal in the profile's language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
