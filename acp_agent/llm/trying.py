"""Whether a provider takes a key: asked with one small request that costs nothing.

No SDK is loaded for it, httpx2 alone. Knows nothing of where a key is kept.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.errors import ModelAuthError, ModelRequestError
from acp_agent.llm.access import check_key, check_network
from acp_agent.llm.error_body import read_error
from acp_agent.llm.failures import CallFailed, Endpoint, error_of, verdict
from acp_agent.llm.making import Reach
from acp_agent.llm.transport import host_of, inquire

TRY_SECONDS = 15.0
_LISTS_FOR_ANYBODY = {"openrouter": "key"}
"""Whose models are listed without a key, and what is asked for in their place."""
_ANTHROPIC_VERSION = "2026-10-21"
"""As the SDK sends it."""

Tried: TypeAlias = Literal["taken", "not tried"]


async def try_key(reach: Reach, default_url: str, limit: float = TRY_SECONDS) -> Tried:
    """Ask for the list of models.

    :param reach: where the provider is; with the key.
    :param default_url: its base URL where `reach` has none.
    :param limit: seconds.
    :returns: `not tried` where the server has no such list.
    :raises ModelAuthError: the key is refused, or no header can carry it.
    :raises ModelError: no answer came that tells.
    :raises ConfigError: a variable of the network is wrong.
    """
    import httpx2

    if not reach.key:
        raise ModelAuthError(f"No key for {reach.name} was given.")
    key = reach.key
    check_key(reach.name, key, reach.hint)
    check_network()
    base = (reach.base_url or default_url).rstrip("/")
    if reach.kind == "anthropic":
        url, more = f"{base}/v1/models", {"anthropic-version": _ANTHROPIC_VERSION}
    else:
        url, more = f"{base}/{_LISTS_FOR_ANYBODY.get(reach.name, 'models')}", {}
    headers = {"authorization": f"Bearer {key}", **more, **reach.headers}
    endpoint = Endpoint(
        reach.name, host_of(url), reach.hint, (key, *(value for value in reach.headers.values() if value))
    )

    async def question() -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=limit) as client:
            return await client.get(url, headers=headers)

    try:
        answer = await inquire(question, limit)
    except CallFailed as failure:
        raise error_of(failure, endpoint, shown=False) from failure
    if answer.is_success:
        return "taken"
    if answer.status_code in (404, 405):
        return "not tried"
    if answer.is_redirect:
        raise ModelRequestError(
            f"{endpoint.name} ({endpoint.host}) answered by sending the request elsewhere. Check its base URL."
        )
    said = read_error(answer.text)
    failure = CallFailed("status", said.message, status=answer.status_code, code=said.code)
    if verdict(failure) == "again" and answer.status_code == 429:
        return "taken"  # a limit is for those who are known
    raise error_of(failure, endpoint, shown=False)
