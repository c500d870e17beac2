"""The agents that are measured: this one, and those of npm/peers.toml where npm could
install them.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from benchmarks.agent import CHECKOUT, COMMAND
from benchmarks.model_server import KEY, MODEL, JsonObject, ModelServer

NPM = CHECKOUT / "benchmarks" / "npm"


@dataclass(frozen=True, slots=True)
class Program:
    """An agent that can be measured.

    :ivar packages: of npm; the first one is started. None are ours.
    :ivar shell: the tool that runs a command, and its argument.
    :ivar mode: of a session, to run commands unasked; "" where there are no modes.
    :ivar env: of the process, and `files` in the home, with `$url`, `$key` and `$model`
        of the model server.
    """

    name: str
    shell: Sequence[str]
    mode: str = ""
    packages: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> tuple[str, ...]:
        """The words that start it."""
        if not self.packages:
            return COMMAND
        return shutil.which("node", path=_path()) or "node", str(
            self._folders[0] / "dist" / "index.js"
        )

    @property
    def installed(self) -> bool:
        """Whether all of its packages are there."""
        return all(folder.is_dir() for folder in self._folders)

    @property
    def version(self) -> str:
        """Of each package."""
        found = [
            json.loads((folder / "package.json").read_bytes())["version"]
            for folder in self._folders
        ]
        return ", ".join(
            f"{name} {version}"
            for name, version in zip(self.packages, found, strict=True)
        )

    @property
    def _folders(self) -> list[Path]:
        return [NPM / "node_modules" / package for package in self.packages]

    def prepare(self, home: Path, model: ModelServer) -> dict[str, str]:
        """Write its files.

        :returns: its environment.
        """
        if not self.packages:
            return model.env
        known = {"url": model.url, "key": KEY, "model": MODEL}
        for name, text in self.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(Template(text).substitute(known))
        # A proxy that refuses keeps what their switches leave, such as codex's plugins,
        # from any other machine.
        env = {
            "PATH": _path(),
            "HTTPS_PROXY": model.url,
            "https_proxy": model.url,
            "NO_PROXY": "127.0.0.1",
        }
        return env | {
            name: Template(text).substitute(known) for name, text in self.env.items()
        }

    def call(self, command: str) -> tuple[str, JsonObject]:
        """The model's call of the tool that runs a command."""
        tool, argument = self.shell
        return tool, {argument: command}


def _path() -> str:
    return f"{NPM / 'node_modules' / '.bin'}:{os.environ.get('PATH', os.defpath)}"


OURS = Program("acp-agent", ("shell", "command"), "full-access")
PEERS = [
    Program(name, **table)
    for name, table in tomllib.loads((NPM / "peers.toml").read_text()).items()
]
