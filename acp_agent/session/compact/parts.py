"""`CompactionParts`: the parts of one session that compact it."""

from __future__ import annotations

from acp_agent.frozen import frozen
from acp_agent.session.compact.background import BackgroundSummary
from acp_agent.session.compact.compactor import Compactor
from acp_agent.session.compact.idle import IdleSummaries
from acp_agent.session.compact.order import Orders
from acp_agent.session.compact.prompt_cache import PromptCache


@frozen
class CompactionParts:
    """The parts that compact a session. They live as long as the session.

    :ivar orders: builds one compaction as plain values.
    :ivar compactor: runs it.
    :ivar background: the background summary, which is being written or ready.
    :ivar idle: prepares a summary while the user pauses.
    :ivar cache: knows when the provider's prompt cache expires.
    """

    orders: Orders
    compactor: Compactor
    background: BackgroundSummary
    idle: IdleSummaries
    cache: PromptCache
