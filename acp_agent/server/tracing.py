"""The trace context that a client sends along with a prompt, in whatever version of the protocol.

All else in `_meta` belongs to others and is passed over.

ACP, "Extensibility"; W3C, "Trace Context", "Baggage".
"""

from __future__ import annotations

from acp_agent.protocol import JsonValue

KEYS = ("traceparent", "tracestate", "baggage")
_LONGEST = 8_192


def trace_context(meta: JsonValue) -> dict[str, str]:
    """The keys of `_meta` that W3C trace context has, where they are texts of a length that it allows."""
    if not isinstance(meta, dict):
        return {}
    found = {key: meta.get(key) for key in KEYS}
    return {key: value for key, value in found.items() if isinstance(value, str) and 0 < len(value) <= _LONGEST}
