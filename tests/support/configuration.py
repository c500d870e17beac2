"""A user's configuration file and a project's, and what is read of them.

machine = Machine(tmp_path); machine.load("mode: plan\\n", "model: a/b\\n"); machine.error("mode: god\\n")
"""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.config import Settings, load_settings
from acp_agent.errors import ConfigError


class Machine:
    """The home of an agent and a project, below a folder."""

    STRATEGIES = ("summary", "mask", "excerpts")
    PROVIDERS = ("a", "c", "anthropic")

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.cwd = root / "project"
        self.user_file = self.home / "config.yaml"
        self.project_file = self.cwd / ".acp-agent" / "config.yaml"
        self.user_file.parent.mkdir(parents=True)
        self.project_file.parent.mkdir(parents=True)
        self.env = {"ACP_AGENT_HOME": str(self.home)}

    def load(self, user: str = "", project: str = "", **env: str) -> Settings:
        if not self.user_file.is_symlink():
            self.user_file.write_text(user)
        if not self.project_file.is_symlink():
            self.project_file.write_text(project)
        return load_settings(
            {**self.env, **env},
            self.cwd,
            strategies=lambda: self.STRATEGIES,
            providers=self.PROVIDERS,
        )

    def error(self, user: str = "", project: str = "", **env: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(user, project, **env)
        return caught.value
