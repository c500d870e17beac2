"""`install_command`: what installs the agent with an extra, by how it was installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, TypeAlias

Extra: TypeAlias = Literal["images", "keyring", "serve"]
"""An extra of the package, as pyproject.toml names it."""
_NAME = "acp-agent-server"


def install_command(
    extra: Extra, prefix: Path | None = None, package: Path | None = None
) -> str:
    """Return what installs the agent with an extra, for the middle of a sentence.

    The files that tell tools apart are those of their environments: pipx writes
    `pipx_metadata.json`, `uv tool` `uv-receipt.toml`, `uvx` uses folders of uv's cache,
    and uv adds its version to `pyvenv.cfg` and no pip.

    :param prefix: the environment's folder; this process's if None.
    :param package: the package's folder.
    """
    prefix = prefix or Path(sys.prefix)
    package = package or Path(__file__).parent
    wanted = f"'{_NAME}[{extra}]'"
    if (package.parent / "pyproject.toml").is_file() and (
        package.parent / "recipes"
    ).is_dir():
        return _into(prefix, f"-e '{package.parent}[{extra}]'")
    if (prefix / "pipx_metadata.json").is_file():
        return f"`pipx install --force {wanted}`"
    if (prefix / "uv-receipt.toml").is_file():
        return f"`uv tool install --force {wanted}`"
    if any(part.startswith(("archive-v", "environments-v")) for part in prefix.parts):
        return f"start it with `uvx --from {wanted} acp-agent`"
    return _into(prefix, wanted)


def _into(prefix: Path, wanted: str) -> str:
    """Return what installs into an environment: with pip, or with uv if that made it,
    since it then has no pip.
    """
    python = prefix / "bin" / "python"
    try:
        by_uv = any(
            line.startswith("uv =")
            for line in (prefix / "pyvenv.cfg").read_text().splitlines()
        )
    except (OSError, ValueError):
        by_uv = False
    return (
        f"`uv pip install --python {python} {wanted}`"
        if by_uv
        else f"`{python} -m pip install {wanted}`"
    )
