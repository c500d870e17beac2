"""The advice on how to install an extra fits how the agent was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.installing import install_command


@pytest.mark.parametrize(
    ("prefix", "files", "said"),
    [
        (
            "pipx/venvs/acp-agent-server",
            ["pipx_metadata.json"],
            "`pipx install --force 'acp-agent-server[serve]'`",
        ),
        (
            "uv/tools/acp-agent-server",
            ["uv-receipt.toml"],
            "`uv tool install --force 'acp-agent-server[serve]'`",
        ),
        (
            "uv/archive-v0/x1",
            [],
            "start it with `uvx --from 'acp-agent-server[serve]' acp-agent`",
        ),
        (
            "uv/environments-v2/x1",
            [],
            "start it with `uvx --from 'acp-agent-server[serve]' acp-agent`",
        ),
        (
            "venv",
            ["pyvenv.cfg"],
            "`{prefix}/bin/python -m pip install 'acp-agent-server[serve]'`",
        ),
        (
            "venv",
            ["uv = 0.9\n"],
            "`uv pip install --python {prefix}/bin/python 'acp-agent-server[serve]'`",
        ),
    ],
)
def test_the_advice_on_an_extra_fits_how_the_agent_was_installed(
    tmp_path: Path, prefix: str, files: list[str], said: str
) -> None:
    place = tmp_path / prefix
    package = place / "lib" / "python3.11" / "site-packages" / "acp_agent"
    package.mkdir(parents=True)
    for name in files:
        (place / ("pyvenv.cfg" if "=" in name else name)).write_text(
            name if "=" in name else ""
        )
    assert install_command("serve", place, package) == said.format(prefix=place)


def test_in_a_checkout_the_advice_names_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "pyproject.toml").touch()
    said = install_command("images", tmp_path / ".venv", tmp_path / "acp_agent")
    assert (
        said == f"`{tmp_path}/.venv/bin/python -m pip install -e '{tmp_path}[images]'`"
    )
