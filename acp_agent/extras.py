"""How what is optional is installed: the extras of the package, as pyproject.toml names them.

It is installed from its own folder, as README.md has it: on the Python package index its name is somebody else's.
"""

from __future__ import annotations

from typing import Literal

Extra = Literal["images", "keyring", "serve"]


def installing(extra: Extra) -> str:
    """What installs the agent with an extra, for the middle of a sentence."""
    return f"`pipx install --force '.[{extra}]'`, or `pip install '.[{extra}]'`, in acp-agent's folder"
