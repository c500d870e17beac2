"""`Attachments`: the bytes of images, audio and files that a session's log refers to.

The bytes are read when a request is built or a session is replayed. Images are
converted to a form that the model's provider accepts. A prompt is refused if the model
cannot take one of its attachments. If the attachment is already in the conversation, a
line of text replaces it. This happens if the model was changed since, or if another
version stored the attachment.
"""

from __future__ import annotations

import base64
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import replace
from typing import TypeAlias

import anyio
from anyio import to_thread

from acp_agent.accumulator import Accumulator
from acp_agent.compaction.budget import LIMIT_SHARE
from acp_agent.conversation.attachments import Part, data_of, stored_in, with_data
from acp_agent.conversation.encoding import decoded, plain
from acp_agent.conversation.messages import (
    AssistantMessage,
    Audio,
    Data,
    Image,
    Message,
    Stored,
    Text,
    ToolResult,
    UserPart,
)
from acp_agent.conversation.updates import CallFinished, Update, UserSaid
from acp_agent.errors import InvalidParamsError, PromptTooLargeError
from acp_agent.llm.parts import (
    REFUSED,
    image_left_out,
    is_picture,
    picture_of,
)
from acp_agent.llm.pictures import Unusable, prepared
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest

CACHED = 24_000_000
"""How many characters of converted images are cached, since the session's next request
sends them again.
"""

ReadBlob: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""Reads stored bytes by their SHA-256; returns None if they are gone."""
_Key: TypeAlias = tuple[str, str, ModelProfile]
_Converted: TypeAlias = "tuple[str, str] | str"
"""The data and MIME type of an image as sent, or why it is not sent."""


def _with_data(
    before: tuple[int, tuple[int, ...]], added: Sequence[Message]
) -> tuple[int, tuple[int, ...]]:
    """Return the number of messages, and the indexes of the messages that contain
    images, audio or files.
    """
    count, places = before
    more = (
        count + at
        for at, message in enumerate(added)
        if not isinstance(message, AssistantMessage)
        and any(data_of(part) is not None for part in message.parts)
    )
    return count + len(added), (*places, *more)


class Attachments:
    """Prepares the attachments of one session for its models."""

    def __init__(self, read: ReadBlob) -> None:
        self._read = read
        self._cache: dict[_Key, _Converted] = {}
        # Convert one image at a time, since a decoded image may take a quarter of a
        # gigabyte.
        self._limiter = anyio.CapacityLimiter(1)
        self._with_data = Accumulator[Message, tuple[int, tuple[int, ...]]](
            (0, ()), _with_data
        )

    async def check(
        self,
        parts: Iterable[UserPart],
        profile: ModelProfile,
        model: str,
        refused: Collection[str],
    ) -> None:
        """Refuse attachments of a new prompt that the model cannot take.

        :param model: `provider/model`.
        :param refused: SHA-256 digests of the images that the provider has refused.
        :raises InvalidParamsError: if there is such an attachment. The message names it
            and says what to do.
        :raises PromptTooLargeError: if the attachments together exceed the size of a
            request.
        """
        pictures = size = 0
        for part in parts:
            if isinstance(part, Audio):
                raise _refusal(
                    "Sounds are not sent to models", "send the words as text"
                )
            picture = picture_of(part)
            if picture is None or not profile.images:
                continue
            pictures += 1
            converted = await self._convert(picture, profile, refused)
            if isinstance(converted, str):
                name = f"The image {picture.uri}" if picture.uri else "An image"
                raise _refusal(
                    f"{name} cannot be sent to {model}: {converted}",
                    "make it smaller or leave it out",
                )
            size += len(converted[0])
        if pictures > profile.max_images:
            reason = f"The prompt has {pictures} images, but {model} accepts only {profile.max_images} in one request"
            raise _refusal(reason, "leave some out")
        most = profile.max_request_bytes * LIMIT_SHARE
        if size > most:
            reason = (
                f"The images of the prompt take {size / 1e6:.3g} MB as they are sent, but {model} accepts only "
                f"{most / 1e6:.3g} MB in one request"
            )
            raise PromptTooLargeError(
                f"{reason}. Nothing was sent or stored. Leave some out, and prompt again."
            )

    async def resolved(
        self, request: ModelRequest, profile: ModelProfile
    ) -> ModelRequest:
        """Return the request with its attachments' bytes filled in."""
        with_data = self._with_data.over(request.messages)[1]
        if not with_data:
            return request
        messages = list(request.messages)
        for at in with_data:
            messages[at] = await self._message(
                messages[at], profile, request.refused_images
            )
        return replace(request, messages=tuple(messages))

    async def lengths(
        self,
        messages: Iterable[Message],
        profile: ModelProfile,
        refused: Collection[str],
    ) -> dict[str, int]:
        """Return how many characters each stored image takes in a request, by SHA-256
        digest.

        :param refused: see `check`.
        """
        lengths: dict[str, int] = {}
        for picture in _pictures(messages):
            if isinstance(picture.data, Stored):
                converted = (
                    await self._convert(picture, profile, refused)
                    if profile.images
                    else ""
                )
                lengths[picture.data.sha256] = (
                    0 if isinstance(converted, str) else len(converted[0])
                )
        return lengths

    async def _message(
        self, message: Message, profile: ModelProfile, refused: Collection[str]
    ) -> Message:
        if isinstance(message, AssistantMessage):
            return message
        if isinstance(message, ToolResult):
            results = [
                await self._picture(part, profile, refused) for part in message.parts
            ]
            return replace(message, parts=tuple(results))
        parts = [await self._part(part, profile, refused) for part in message.parts]
        return replace(message, parts=tuple(parts))

    async def _part(
        self, part: UserPart, profile: ModelProfile, refused: Collection[str]
    ) -> UserPart:
        if is_picture(part):
            return await self._picture(part, profile, refused)
        data = data_of(part)
        is_read = isinstance(data, Stored) and data.text
        return await _whole_part(part, self._read) if is_read else part

    async def _picture(
        self, part: Part, profile: ModelProfile, refused: Collection[str]
    ) -> Part | Image | Text:
        picture = picture_of(part)
        if picture is None or not profile.images:
            return part
        converted = await self._convert(picture, profile, refused)
        if isinstance(converted, str):
            return image_left_out(picture.uri, converted)
        return Image(converted[0], converted[1], picture.uri)

    async def _convert(
        self, picture: Image, profile: ModelProfile, refused: Collection[str]
    ) -> _Converted:
        """Return an image in a form that the provider accepts. Each image is converted
        only once.
        """
        data = picture.data
        digest = _digest(data)
        if digest in refused:
            return REFUSED
        key = digest, picture.mime_type, profile
        if key not in self._cache:
            content = (
                data if isinstance(data, str) else await _encoded(data, self._read)
            )
            if content is None:
                return "it no longer exists"
            # A cancel does not wait for the thread, since a conversion may take
            # seconds.
            converted = await to_thread.run_sync(
                _prepared,
                content,
                picture.mime_type,
                profile,
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
            if sum(len(each[0]) for each in self._cache.values()) > CACHED:
                self._cache.clear()
            self._cache[key] = converted
        return self._cache[key]


def images_in(request: ModelRequest, first: int) -> tuple[str, ...]:
    """Return the SHA-256 digests of the images that were sent with a request.

    :param first: index of the first message to search.
    """
    found = {_digest(picture.data) for picture in _pictures(request.messages[first:])}
    return tuple(sorted(found - request.refused_images))


async def whole(update: Update, read: ReadBlob) -> Update:
    """Return a replayed update with the original bytes of its attachments."""
    match update:
        case UserSaid():
            return replace(update, part=await _whole_part(update.part, read))
        case CallFinished() if any(stored_in(update.parts)):
            return replace(
                update,
                parts=tuple([await _whole_part(part, read) for part in update.parts]),
            )
        case _:
            return update


async def _whole_part(part: Part, read: ReadBlob) -> Part:
    data = data_of(part)
    content = await _encoded(data, read) if isinstance(data, Stored) else None
    return part if content is None else with_data(part, content)


async def _encoded(stored: Stored, read: ReadBlob) -> str | None:
    found = await read(stored.sha256)
    return None if found is None else base64.b64encode(found).decode("ascii")


def _pictures(messages: Iterable[Message]) -> Iterator[Image]:
    for message in messages:
        for part in () if isinstance(message, AssistantMessage) else message.parts:
            if (picture := picture_of(part)) is not None:
                yield picture


def _digest(data: Data) -> str:
    """Return the SHA-256 digest of inline or stored bytes, or of the text itself if it
    is not base64.
    """
    if isinstance(data, Stored):
        return data.sha256
    import hashlib  # loads OpenSSL

    content = decoded(plain(data))
    return hashlib.sha256(
        data.encode("utf-8", "surrogatepass") if content is None else content
    ).hexdigest()


def _prepared(data: str, kind: str, profile: ModelProfile) -> _Converted:
    try:
        return prepared(data, kind, profile)
    except Unusable as error:
        return str(error)


def _refusal(reason: str, advice: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"{reason}. Nothing was sent; {advice}, and prompt again."
    )
