"""What a session's first turn needs of modules and of what is made with them, loaded beside the loop.

On the loop it would take 0.1 s and more, in which neither the end of the connection nor a cancel is seen. An SDK is the
adapters' to load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module

from acp_agent.tools.registry import ToolRegistry

_one_at_a_time = threading.Lock()
"""Sessions share the tools, and pydantic does not make one model's schema in two threads."""


def load_for_a_turn(tools: ToolRegistry, load_provider: Callable[[], None]) -> None:
    """Load it; run this in a thread.

    :param tools: those whose schemas a request holds.
    :param load_provider: loads the adapter of the model that will be asked.
    """
    with _one_at_a_time:
        import_module("acp_agent.session.compaction")
        from acp_agent.session.hooking import load_modules

        load_modules()
        load_provider()
        for tool in tools:
            _ = tool.input_schema
