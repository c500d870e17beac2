"""The models of a local server, asked with the standard library, so that no SDK is loaded for one that is not there."""

from __future__ import annotations

from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from acp_agent.conversation.strict_json import get_objects, get_text, parse_object

_SECONDS = 0.3


async def list_models(base_url: str) -> tuple[str, ...]:
    """Return the ids of the models that an OpenAI-compatible server offers; none where no server answers at once.

    :param base_url: with `/v1` at its end.
    """
    with anyio.move_on_after(_SECONDS):
        return await to_thread.run_sync(_listed, base_url, abandon_on_cancel=True)
    return ()


def _listed(base_url: str) -> tuple[str, ...]:
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(base_url)
    if parts.scheme != "http" or not parts.hostname:  # as local servers are reached
        return ()
    connection = HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/models", headers={"Connection": "close"})
        answer = connection.getresponse()
        found = parse_object(answer.read()) if answer.status == 200 else None
        return tuple(name for model in get_objects(found or {}, "data") if (name := get_text(model, "id")))
    except (OSError, HTTPException, ValueError):
        return ()
    finally:
        connection.close()
