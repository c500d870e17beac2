"""ACP version 1: its enumerations at once, the models of what an agent reads when they
are asked for.

`from acp_agent.protocol.v1 import PromptRequest` loads pydantic and the models;
everything else here needs the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_agent.lazy import on_demand
from acp_agent.protocol.v1._words import *  # noqa: F403

if TYPE_CHECKING:
    from acp_agent.protocol.v1._models import *  # noqa: F403

__getattr__ = on_demand(__name__, ("_models",))
