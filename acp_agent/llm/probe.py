"""Small questions to a local model server, put without any SDK: is it there, what does it offer, how large is a window.

HTTP/1.0 over a socket, with a limit to the wait, no answer instead of an error. Only for plain `http` URLs,
which is how local servers are reached. Sources: Ollama's, LM Studio's and OpenAI's API references.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio

from acp_agent.conversation.messages import JsonObject
from acp_agent.frozen import frozen
from acp_agent.llm.json_access import entry_of, get_int, get_object, get_objects, get_text, parse_object

LOCAL_SECONDS = 0.3
_MAX_ANSWER = 4 * 1024 * 1024


@frozen
class LocalWindow:
    """Tokens of a model's window; None where the server does not say, or did not answer.

    :ivar loaded: the model runs with it.
    :ivar most: the model may run with it, once it is loaded.
    """

    loaded: int | None = None
    most: int | None = None


LocalQuestion: TypeAlias = Callable[[str, str, float], Awaitable[LocalWindow]]
"""From a base URL, a model's id and a limit in seconds."""


async def list_models(base_url: str, limit: float = LOCAL_SECONDS) -> tuple[str, ...] | None:
    """Ids of the models that an OpenAI-compatible server offers.

    :param base_url: with `/v1` at its end.
    :param limit: seconds.
    :return: None where no server answers.
    """
    answer = await _ask(f"{base_url.rstrip('/')}/models", None, limit)
    if answer is None:
        return None
    return tuple(name for model in get_objects(answer, "data") if (name := get_text(model, "id")))


async def ollama_window(base_url: str, model: str, limit: float) -> LocalWindow:
    """Tokens of a model's window as Ollama runs it, or would: what the model's file sets, else its most.

    :param base_url: with `/v1` at its end.
    :param limit: seconds for both of two questions.
    """
    root = base_url.rstrip("/").removesuffix("/v1")
    names = {model, model if ":" in model.rpartition("/")[2] else f"{model}:latest"}
    ends = anyio.current_time() + limit
    running = await _ask(f"{root}/api/ps", None, limit)
    for entry in get_objects(running or {}, "models"):
        if names & {get_text(entry, "name"), get_text(entry, "model")} and (at := get_int(entry, "context_length")) > 0:
            return LocalWindow(loaded=at)
    left = ends - anyio.current_time()
    shown = (await _ask(f"{root}/api/show", {"model": model}, left) if left > 0 else None) or {}
    for line in get_text(shown, "parameters").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "num_ctx" and words[1].isdigit():
            return LocalWindow(most=int(words[1]))
    info = get_object(shown, "model_info")
    sizes = [get_int(info, key) for key in info if key.endswith(".context_length")]
    return LocalWindow(most=next((size for size in sizes if size > 0), None))


async def lmstudio_window(base_url: str, model: str, limit: float) -> LocalWindow:
    """Tokens of a model's window as LM Studio runs it, or could.

    :param base_url: with `/v1` at its end.
    :param limit: seconds.
    """
    listing = await _ask(f"{base_url.rstrip('/').removesuffix('/v1')}/api/v0/models", None, limit)
    entry = entry_of(listing or {}, "data", model)
    loaded = get_int(entry, "loaded_context_length")
    most = get_int(entry, "max_context_length")
    return LocalWindow(loaded if loaded > 0 else None, most if most > 0 else None)


async def _ask(url: str, body: JsonObject | None, limit: float) -> JsonObject | None:
    """GET, or POST with a body; the JSON object of a 200."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return None
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{'GET' if body is None else 'POST'} {parts.path} HTTP/1.0\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
        "Connection: close\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    received = bytearray()
    with anyio.move_on_after(limit) as scope:
        try:
            async with await anyio.connect_tcp(parts.hostname, parts.port or 80) as stream:
                await stream.send(head.encode("ascii", "replace") + content)
                try:
                    while len(received) < _MAX_ANSWER and not _whole(received):
                        received += await stream.receive()
                except anyio.EndOfStream:
                    pass
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None
    if scope.cancelled_caught:
        return None
    answer_head, _, answer_body = bytes(received).partition(b"\r\n\r\n")
    status = answer_head.split(b"\r\n", 1)[0].split()
    return parse_object(answer_body) if status[1:2] == [b"200"] else None


def _whole(received: bytearray) -> bool:
    """Whether as much has come as the answer said it would be; without a word on that, its end is the connection's."""
    head, found, body = received.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = line.partition(b":")[2].strip()
            return bool(found) and length.isdigit() and len(body) >= int(length)
    return False
