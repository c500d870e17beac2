"""`install_command`: returns the command that installs the agent with an extra,
depending on how the agent was installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, TypeAlias

Extra: TypeAlias = Literal["images", "keyring", "serve"]
"""An extra of the package, as named in pyproject.toml."""
_NAME = "acp-agent-server"


def install_command(
    extra: Extra, prefix: Path | None = None, package: Path | None = None
) -> str:
    """Return the command that installs the agent with an extra, for use in the middle
    of a sentence.

    The installer is recognised by the files in the environment: pipx writes
    `pipx_metadata.json`, and `uv tool` writes `uv-receipt.toml`. `uvx` uses folders in
    uv's cache. uv adds its version to `pyvenv.cfg` and does not install pip.

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
    """Return the command that installs into an environment: with pip, or with uv if uv
    created the environment, since it then has no pip.
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
