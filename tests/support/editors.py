"""The editors that real users have, as far as an agent can see them.

    async with start_agent(home=tmp_path, capabilities=ZED_BETA) as agent: ...
    async with start_agent(home=tmp_path, capabilities=replace(ZED, terminal=False)) as agent: ...

`session.compaction` is advertised by ZED_BETA alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Editor:
    """One editor.

    :ivar info: `clientInfo`; None leaves it out.
    :ivar files: advertises `fs/read_text_file` and `fs/write_text_file`.
    :ivar terminal: advertises `terminal/*`.
    :ivar more: further keys of `clientCapabilities`.
    :ivar says_capabilities: False leaves `clientCapabilities` out of `initialize`.
    :ivar missing_file_is_empty: reading a file that does not exist gives "" instead of
        error -32002.
    :ivar write_result: what `fs/write_text_file` is answered with: `{}` or None.
    :ivar loses: reads files with line ends made plain and without the bytes that are no
        UTF-8, and writes as it reads.
    :ivar pseudo_terminals: runs commands in pseudo-terminals, as real editors do,
        instead of pipes.
    :ivar kill_fails: `terminal/kill` is answered with an error.
    :ivar refuses: kinds of `session/update` that are answered with an error whose id is
        null.
    :ivar shows_every_option: its dialogs show several options of one kind.
    :ivar sends_mcp_servers: False leaves `mcpServers` out of `session/new`, `load` and
        `resume`.
    """

    info: Mapping[str, Any] | None = None
    files: bool = False
    terminal: bool = False
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    says_capabilities: bool = True
    missing_file_is_empty: bool = False
    write_result: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    loses: bool = False
    pseudo_terminals: bool = False
    kill_fails: bool = False
    refuses: frozenset[str] = frozenset()
    shows_every_option: bool = False
    sends_mcp_servers: bool = True

    @property
    def capabilities(self) -> dict[str, Any]:
        """The object that stands in `initialize` under `clientCapabilities`."""
        capabilities: dict[str, Any] = {}
        if self.files:
            capabilities["fs"] = {"readTextFile": True, "writeTextFile": True}
        if self.terminal:
            capabilities["terminal"] = True
        return {**capabilities, **self.more}

    def advertises(self, *path: str) -> bool:
        """Whether `clientCapabilities` has something other than null or false at a path
        of keys.
        """
        value: Any = self.capabilities
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value is not None and value is not False


_ZED_INFO = {"name": "zed", "title": "Zed", "version": "0.260.0"}
_ZED_MORE = {
    "session": {"configOptions": {"boolean": {}}},
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}

ZED = Editor(info=_ZED_INFO, files=True, terminal=True, more=_ZED_MORE)
ZED_BETA = Editor(
    info=_ZED_INFO,
    files=True,
    terminal=True,
    more={
        **_ZED_MORE,
        "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
    },
)
ACPX = Editor(info={"name": "acpx", "version": "0.19.1"}, files=True, terminal=True)
CODECOMPANION = Editor(
    info={"name": "CodeCompanion.nvim", "version": "1.0.0"},
    files=True,
    missing_file_is_empty=True,
    write_result=None,
    sends_mcp_servers=False,
)
AVANTE = Editor(files=True)
TOAD = Editor(
    info={"name": "toad", "title": "Toad", "version": "0.6.20"},
    files=True,
    terminal=True,
    missing_file_is_empty=True,
    write_result=None,
    loses=True,
    kill_fails=True,
    shows_every_option=True,
    refuses=frozenset(
        {
            "config_option_update",
            "session_info_update",
            "compaction_update",
            "compaction_summary_chunk",
            "notice",
        }
    ),
)
JUPYTER = Editor(
    info={"name": "Jupyter AI", "title": "Jupyter AI ACP Client", "version": "0.1.0"},
    files=True,
    terminal=True,
    shows_every_option=True,
)
AGENTIC = Editor(
    info={"name": "Agentic.nvim", "version": "0.0.1"}, shows_every_option=True
)
OLD_AGENTIC = Editor(
    files=True,
    more={"clientInfo": {"name": "Agentic.nvim", "version": "0.0.1"}},
    shows_every_option=True,
)
BARE = Editor(says_capabilities=False)
