"""Queries to a local model server: whether it runs, its models, and a model's window.

Asked with the standard library in a worker thread, so that no SDK is loaded for a server that may not be there, and
with no answer in place of an error. Sources: Ollama's, LM Studio's and OpenAI's API references.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.strict_json import get_int, get_object, get_objects, get_text, parse_object

_QUICKLY = 0.3
"""Seconds for a server that should answer at once."""
_AT_MOST = 10.0
"""Seconds until the first answer."""


LocalWindow: TypeAlias = tuple[int, int]
"""Tokens of the window that a model runs with, and of the one that it may run with once it is loaded; 0 where the
server does not say, or did not answer."""
LocalQuestion: TypeAlias = Callable[[str, str, float], Awaitable[LocalWindow]]
"""From a base URL with `/v1` at its end, a model's id and a limit in seconds."""


class LocalWindows:
    """Windows of a local server, which loads a model with the window it finds best.

    :param question: how the server is asked.
    """

    def __init__(self, question: LocalQuestion, base_url: str) -> None:
        self._question = question
        self._base_url = base_url
        self._known: dict[str, LocalWindow] = {}

    def get(self, model: str) -> int | None:
        """Return the tokens of a model's window: what it was last loaded with, else what it could be loaded with."""
        return next((tokens for tokens in self._known.get(model, ()) if tokens), None)

    async def learn(self, model: str, *, answered: bool = False) -> None:
        """Ask again. What a model was loaded with counts on where the server has unloaded it meanwhile.

        :param answered: ask only if it is not known what the model is loaded with, which has just answered.
        """
        before = self._known.get(model, (0, 0))
        if not (answered and before[0]):
            limit = _QUICKLY if answered or before[0] else _AT_MOST
            loaded, most = await self._question(self._base_url, model, limit)
            self._known[model] = loaded or before[0], most or before[1]


async def list_models(base_url: str, limit: float = _QUICKLY) -> tuple[str, ...] | None:
    """Return the ids of the models that an OpenAI-compatible server offers; None where no server answers.

    :param base_url: with `/v1` at its end.
    :param limit: seconds.
    """
    answer = await _ask(f"{base_url.rstrip('/')}/models", None, limit)
    if answer is None:
        return None
    return tuple(name for model in get_objects(answer, "data") if (name := get_text(model, "id")))


async def _ollama_window(base_url: str, model: str, limit: float) -> LocalWindow:
    """Return the window as Ollama runs a model, or would: what the model's file sets, else its most."""
    root = base_url.rstrip("/").removesuffix("/v1")
    names = {model, model if ":" in model.rpartition("/")[2] else f"{model}:latest"}
    ends = anyio.current_time() + limit
    running = await _ask(f"{root}/api/ps", None, limit)
    for entry in get_objects(running or {}, "models"):
        if names & {get_text(entry, "name"), get_text(entry, "model")} and (at := get_int(entry, "context_length")) > 0:
            return at, 0
    shown = await _ask(f"{root}/api/show", {"model": model}, ends - anyio.current_time()) or {}
    for line in get_text(shown, "parameters").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "num_ctx" and words[1].isdigit():
            return 0, int(words[1])
    info = get_object(shown, "model_info")
    sizes = [get_int(info, key) for key in info if key.endswith(".context_length")]
    return 0, next((size for size in sizes if size > 0), 0)


async def _lmstudio_window(base_url: str, model: str, limit: float) -> LocalWindow:
    """Return the window as LM Studio runs a model, or could."""
    listing = await _ask(f"{base_url.rstrip('/').removesuffix('/v1')}/api/v0/models", None, limit) or {}
    for entry in get_objects(listing, "data"):
        if get_text(entry, "id") == model:
            return max(0, get_int(entry, "loaded_context_length")), max(0, get_int(entry, "max_context_length"))
    return 0, 0


LOCAL: dict[str, LocalQuestion] = {"ollama": _ollama_window, "lmstudio": _lmstudio_window}
"""By provider, how a server is asked that has its own way to say its windows."""


async def _ask(url: str, body: JsonObject | None, limit: float) -> JsonObject | None:
    """GET, or POST with a body; return the JSON object of a 200."""
    with anyio.move_on_after(limit):
        return await to_thread.run_sync(_answer, url, body, limit, abandon_on_cancel=True)
    return None


def _answer(url: str, body: JsonObject | None, limit: float) -> JsonObject | None:
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:  # as local servers are reached
        return None
    content = None if body is None else json.dumps(body)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=limit)
    try:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("GET" if body is None else "POST", parts.path, content, headers)
        answer = connection.getresponse()
        return parse_object(answer.read()) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
