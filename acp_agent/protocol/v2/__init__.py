"""ACP version 2, which is a draft: ids and enumerations at once, the models when they are asked for.

`from acp_agent.protocol.v2 import PromptRequest` loads pydantic and the models of what an agent reads;
`PROTOCOL_VERSION`, the ids and enumerations, and the modules `methods`, `updates`, `results` and `requests` need the
standard library alone. Messages that are the same in both versions are made by version 1's constructors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from acp_agent.protocol.v2._words import *  # noqa: F403

if TYPE_CHECKING:
    from acp_agent.protocol.v2._incoming import *  # noqa: F403

PROTOCOL_VERSION: Final = 2


def __getattr__(name: str) -> object:
    if name[:1].isupper():  # a model; anything else may be a sub-module that is not loaded yet
        models = import_module(f"{__name__}._incoming")
        if name in models.__all__:
            return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
