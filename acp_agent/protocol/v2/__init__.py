"""ACP version 2, a draft: its enumerations at once, the models of what an agent reads
when they are asked for.

`from acp_agent.protocol.v2 import PromptRequest` loads pydantic and the models;
everything else here needs the standard library alone. What version 1 has in the same
form is imported from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_agent.lazy import on_demand
from acp_agent.protocol.v2._words import *  # noqa: F403

if TYPE_CHECKING:
    from acp_agent.protocol.v2._models import *  # noqa: F403

__getattr__ = on_demand(__name__, ("_models",))
