"""ACP version 1: ids and enumerations at once, the models when they are asked for.

`from acp_agent.protocol.v1 import PromptRequest` loads pydantic and the models of that side (what an agent reads, or
what it writes); `PROTOCOL_VERSION`, the ids and enumerations, and the modules `methods`, `updates`, `results` and
`requests` need the standard library alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from acp_agent.protocol.v1._words import *  # noqa: F403

if TYPE_CHECKING:
    from acp_agent.protocol.v1._incoming import *  # noqa: F403
    from acp_agent.protocol.v1._outgoing import *  # noqa: F403

PROTOCOL_VERSION: Final = 1


def __getattr__(name: str) -> object:
    if name[:1].isupper():  # a model; anything else may be a sub-module that is not loaded yet
        for module in ("_incoming", "_outgoing"):
            models = import_module(f"{__name__}.{module}")
            if name in models.__all__:
                return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
