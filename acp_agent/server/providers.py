"""The providers in the words of ACP's draft of `providers/list`.

ACP RFD, "Configurable LLM Providers".
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.llm.places import Place
from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1 import results
from acp_agent.session.accounts import shown_url


def listed(places: Sequence[Place]) -> JsonObject:
    """The answer to `providers/list`: no provider is one that the agent cannot be without."""
    return results.list_providers_result(
        [
            results.provider(
                place.name,
                supported=[place.api],
                required=False,
                api_type=place.api if place.enabled else None,
                base_url=shown_url(place.base_url or ""),
            )
            for place in places
        ]
    )
