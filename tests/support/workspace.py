"""A session's directory with the tools in it, on the real disk and with real processes.

workspace = Workspace(tmp_path)
text = await workspace.text("read", path="a.py")
"""

from __future__ import annotations

from pathlib import Path

from acp_agent.conversation.messages import JsonValue, Text
from acp_agent.tools.environment import Environment, Progress
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.registry import built_in_tools
from acp_agent.tools.shell.run import LocalCommands
from acp_agent.tools.tool import CallResult, PreparedCall


class Workspace:
    """What a turn does with tools, without asking anybody: prepare, run, remember the
    versions seen.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = built_in_tools()
        self.seen: dict[str, str | None] = {}
        self.progress: list[Progress] = []
        self.environment = Environment(
            root, (root,), LocalFiles(), LocalCommands(), self.seen, shell_timeout=20
        )

    async def prepare(self, name: str, /, **arguments: JsonValue) -> PreparedCall:
        tool = self.tools.get(name)
        assert tool
        return await tool.prepare(arguments, self.environment)

    async def run(self, prepared: PreparedCall) -> CallResult:
        async def report(progress: Progress) -> None:
            self.progress.append(progress)

        outcome = await prepared.run(report)
        self.seen.update({version.path: version.digest for version in outcome.files})
        return outcome

    async def call(self, name: str, /, **arguments: JsonValue) -> CallResult:
        return await self.run(await self.prepare(name, **arguments))

    async def text(self, name: str, /, **arguments: JsonValue) -> str:
        outcome = await self.call(name, **arguments)
        return "\n".join(part.text for part in outcome.parts if isinstance(part, Text))

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path
