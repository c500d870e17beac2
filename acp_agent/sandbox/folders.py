"""The folders that commands may write to, or may not read, by default."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

READ_DENIED = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".colima", ".lima", ".rd", ".netrc", ".git-credentials",
    ".config/git/credentials", ".pypirc", ".config/gh", ".config/gcloud", ".config/op", ".password-store",
    ".vault-token", ".local/share/keyrings", ".local/share/kwalletd", ".mozilla", ".config/mozilla", "snap/firefox",
    "snap/chromium", ".var/app", ".config/google-chrome", ".config/vivaldi", ".config/opera", ".config/chromium",
    ".config/BraveSoftware", ".config/microsoft-edge", ".claude", ".claude.json", ".codex", ".cursor", ".gemini",
    ".qwen", ".copilot", ".config/github-copilot", ".config/goose", ".config/opencode", ".local/share/opencode",
    ".config/amp", ".local/share/amp", ".continue", ".config/aider", ".aider", ".cache/git/credential",
    ".config/glab-cli", ".config/hub", ".config/rclone", ".terraform.d", ".pgpass", ".cargo/credentials.toml",
    ".librewolf", ".thunderbird", ".local/share/acp-agent", "Library/Keychains", "Library/Safari",
    "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
)  # fmt: skip
"""Paths in the user's home that hold keys, keyrings, browser profiles, folders of
agents, and sockets of virtual machines.
"""
OF_AGENTS = (
    ".claude", ".codex", ".cursor", ".gemini", ".qwen", ".copilot", ".config/goose", ".config/opencode",
    ".local/share/opencode", ".config/amp", ".local/share/amp", ".continue", ".config/aider", ".aider",
)  # fmt: skip
"""The entries of `READ_DENIED` that belong to other agents."""
CACHES = (".cache", ".npm", ".cargo/registry")
"""The folders in the user's home that commands may write to."""


def writable_folders(first: Path, write: Iterable[str]) -> tuple[Path, ...]:
    """Return the folders that commands may write to in addition to the roots.

    :param first: the first root; relative paths are resolved against it.
    :param write: further folders as named by the user, possibly with `~`.
    """
    home = Path.home()
    return (
        *(home / each for each in CACHES),
        *(first / Path(each).expanduser() for each in write),
    )
