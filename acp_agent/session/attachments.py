"""`Attachments`: the bytes of images, sounds and files that a session's log refers to, where they are needed.

They are read when a request is built or something is shown again, and made such as the model's provider accepts them.
What a model cannot be given is refused with the prompt that brings it; what is in the conversation already (the model
was changed since, another version stored it) is left out with a line that says so, so that it goes on.
"""

from __future__ import annotations

import base64
import logging
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TypeAlias

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from acp_agent.compaction.budget import LIMIT_SHARE
from acp_agent.conversation.attachments import STORED_FROM, Part, data_of, stored_in, with_data
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
    UserMessage,
    UserPart,
    data_length,
)
from acp_agent.errors import InvalidParamsError
from acp_agent.llm.attached import audio_format, is_picture, picture_of, sound_of
from acp_agent.llm.parts import heard, image_left_out
from acp_agent.llm.pictures import Limits, Unusable, prepared
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.session.attaching import Refused
from acp_agent.storage.store import SessionStore
from acp_agent.turn.updates import CallFinished, Update, UserSaid

CACHED = 24_000_000
"""Characters of images that are ready to be sent, which the next request of the same session sends again."""

_log = logging.getLogger(__name__)

_Key: TypeAlias = tuple[str, str, Limits]
_Sent: TypeAlias = "tuple[str, str] | str"
"""An image as it is sent, or why it is not."""


class _Making:
    """An image that is being made.

    :ivar error: what has gone wrong, where it is not the image's fault.
    """

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: Exception | None = None


class Attachments:
    """Those of one session."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._ready: OrderedDict[_Key, _Sent] = OrderedDict()
        self._making: dict[_Key, _Making] = {}
        self._lengths: dict[_Key, int] = {}
        # By the model's id too: what one model's provider refuses, another one may take.
        self._fine: set[Hashable] = set()
        self._refused: set[Hashable] = set()
        self._tasks: TaskGroup | None = None
        # One image at a time: decoded, each may take a quarter of a gigabyte.
        self._limiter = anyio.CapacityLimiter(1)

    def run_in(self, tasks: TaskGroup) -> None:
        """Make images in this task group, which ends with the session: no cancelled turn waits for one, and what it has
        begun is there for the next."""
        self._tasks = tasks

    async def check(self, parts: Iterable[UserPart], profile: ModelProfile, model: str) -> None:
        """Refuse what comes with a prompt and cannot be given to the model.

        :param model: its name, as `provider/model`.
        :raises InvalidParamsError: says what, why, and what to do.
        """
        pictures = size = 0
        for part in parts:
            sound = sound_of(part)
            if sound is not None:
                await _check_sound(sound, profile, model)
                size += data_length(sound.data)
            picture = picture_of(part)
            if picture is None or not profile.images:
                continue
            pictures += 1
            sent = await self._sent(picture, profile, model.partition("/")[2])
            if isinstance(sent, str):
                name = f"The image {picture.uri}" if picture.uri else "An image"
                raise InvalidParamsError(
                    f"{name} cannot be sent to {model}: {sent}. Nothing was sent; make it smaller or of another type, "
                    "or leave it out, and prompt again."
                )
            size += len(sent[0])
        if pictures > profile.max_images:
            raise InvalidParamsError(
                f"The prompt has {pictures} images, and {model} takes {profile.max_images} in one request. Nothing was "
                "sent; leave some out, and prompt again."
            )
        most = profile.max_request_bytes * LIMIT_SHARE
        if size > most:
            raise InvalidParamsError(
                f"The images and sounds of the prompt take {size / 1e6:.3g} MB as they are sent, and {model} takes "
                f"{most / 1e6:.3g} MB in one request. Nothing was sent; leave some out, and prompt again."
            )

    async def resolved(self, request: ModelRequest, profile: ModelProfile) -> ModelRequest:
        """The request with the bytes that its messages refer to, images as the provider accepts them."""
        messages = [await self._message(message, profile, request.model) for message in request.messages]
        if all(new is old for new, old in zip(messages, request.messages, strict=True)):
            return request
        return replace(request, messages=tuple(messages))

    async def lengths(self, messages: Iterable[Message], profile: ModelProfile, model: str) -> dict[str, int]:
        """Characters that the stored images of messages take as they are sent, by their SHA-256.

        :param model: the provider's own id.
        """
        lengths: dict[str, int] = {}
        for message in messages:
            for part in () if isinstance(message, AssistantMessage) else message.parts:
                picture = picture_of(part)
                if picture is not None and isinstance(picture.data, Stored):
                    lengths[picture.data.sha256] = await self._length(picture, profile, model)
        return lengths

    def answered(self, request: ModelRequest, profile: ModelProfile) -> None:
        """See `Resolver.answered`."""
        self._fine.update(_keys(request.model, request.messages, profile))

    def refused(self, request: ModelRequest, profile: ModelProfile) -> Refused:
        """See `Resolver.refused`."""
        # What the newest prompt brings is left out with that prompt, by who tells the user of it.
        before = list(request.messages)
        while before and isinstance(before[-1], UserMessage):
            before.pop()
        may_be = _keys(request.model, before, profile) - self._refused
        suspected = may_be - self._fine or may_be
        self._refused |= suspected
        if suspected:
            _log.warning("a request was refused for an image; it is sent again without %s", len(suspected))
        return frozenset(suspected)

    def acquit(self, images: Refused) -> None:
        """See `Resolver.acquit`."""
        self._refused -= images

    async def shown(self, update: Update) -> Update:
        """What an editor is shown again, with its bytes as they came."""
        match update:
            case UserSaid():
                return replace(update, part=await self._whole(update.part))
            case CallFinished() if any(stored_in(update.parts)):
                return replace(update, parts=tuple([await self._whole(part) for part in update.parts]))
            case _:
                return update

    async def _message(self, message: Message, profile: ModelProfile, model: str) -> Message:
        if isinstance(message, AssistantMessage) or all(data_of(part) is None for part in message.parts):
            return message
        if isinstance(message, ToolResult):
            return replace(message, parts=tuple([await self._picture(part, profile, model) for part in message.parts]))
        return replace(message, parts=tuple([await self._part(part, profile, model) for part in message.parts]))

    async def _part(self, part: UserPart, profile: ModelProfile, model: str) -> UserPart:
        if is_picture(part):
            return await self._picture(part, profile, model)
        data = data_of(part)
        is_read = isinstance(data, Stored) and (data.text or (profile.audio and heard(part) is not None))
        return await self._whole(part) if is_read else part

    async def _picture(self, part: Part, profile: ModelProfile, model: str) -> Part | Image | Text:
        picture = picture_of(part)
        if picture is None or not profile.images:
            return part
        sent = await self._sent(picture, profile, model)
        if isinstance(sent, str):
            return image_left_out(picture.uri, sent)
        return Image(sent[0], sent[1], picture.uri)

    async def _sent(self, picture: Image, profile: ModelProfile, model: str) -> _Sent:
        """An image as the provider accepts it, made once."""
        data = picture.data
        key = _key(picture, profile)
        if (model, key) in self._refused:
            return "the model's provider refused it"
        while (sent := self._ready.get(key)) is None:
            if key not in self._making:
                content = data if isinstance(data, str) else await self._read(data)
                if content is None:
                    return "it is no longer there"
                await self._begin(key, content)
            making = self._making.get(key)
            if making is not None:
                await making.over.wait()
                if making.error is not None:
                    raise making.error
        self._ready.move_to_end(key)
        return sent

    async def _length(self, picture: Image, profile: ModelProfile, model: str) -> int:
        key = _key(picture, profile)
        if not profile.images or (model, key) in self._refused:
            return 0  # a line stands in its place
        if key not in self._lengths:
            await self._sent(picture, profile, model)
        return self._lengths.get(key, 0)

    async def _begin(self, key: _Key, content: str) -> None:
        if key in self._making:  # somebody else has, meanwhile
            return
        making = self._making[key] = _Making()
        if self._tasks is None:
            await self._make(key, content, making)
        else:
            self._tasks.start_soon(self._make, key, content, making)

    async def _make(self, key: _Key, data: str, making: _Making) -> None:
        _, kind, limits = key
        try:
            made = await to_thread.run_sync(
                _prepared, data, kind, limits, abandon_on_cancel=True, limiter=self._limiter
            )
            self._keep(key, made)
        except Exception as error:  # it is the matter of who waits for the image, and not of the session
            making.error = error
        finally:
            del self._making[key]
            making.over.set()

    def _keep(self, key: _Key, sent: _Sent) -> None:
        self._ready[key] = sent
        self._lengths[key] = len(sent[0]) if isinstance(sent, tuple) else 0
        size = sum(len(each[0]) for each in self._ready.values())
        while size > CACHED and len(self._ready) > 1:
            size -= len(self._ready.popitem(last=False)[1][0])

    async def _whole(self, part: Part) -> Part:
        data = data_of(part)
        content = await self._read(data) if isinstance(data, Stored) else None
        return part if content is None else with_data(part, content)

    async def _read(self, stored: Stored) -> str | None:
        found = (await self._store.blobs(self._session_id, (stored.sha256,))).get(stored.sha256)
        return None if found is None else base64.b64encode(found).decode("ascii")


def _key(picture: Image, profile: ModelProfile) -> _Key:
    return _name_of(picture.data), picture.mime_type, Limits.of(profile)


def _keys(model: str, messages: Iterable[Message], profile: ModelProfile) -> set[Hashable]:
    """The images of messages, for one model."""
    parts = (part for message in messages if not isinstance(message, AssistantMessage) for part in message.parts)
    pictures = (picture_of(part) for part in parts)
    return {(model, _key(picture, profile)) for picture in pictures if picture is not None}


def _name_of(data: Data) -> str:
    """What bytes are called that are in a prompt now and stored later on."""
    if isinstance(data, Stored):
        return data.sha256
    if len(data) < STORED_FROM:
        return data
    import hashlib  # loads OpenSSL

    content = decoded(plain(data))
    return data if content is None else hashlib.sha256(content).hexdigest()


def _prepared(data: str, kind: str, limits: Limits) -> _Sent:
    try:
        return prepared(data, kind, limits)
    except Unusable as error:
        return str(error)


async def _check_sound(sound: Audio, profile: ModelProfile, model: str) -> None:
    if not profile.audio:
        raise InvalidParamsError(
            f"{model} does not take sounds. Nothing was sent; send the words as text, or choose a model that takes "
            "sounds (Gemini's, or one of OpenAI's audio models over Chat Completions), and prompt again."
        )
    if audio_format(sound.mime_type) is None:
        raise InvalidParamsError(
            f"{model} takes sounds as WAV and MP3, and this one is {sound.mime_type}. Nothing was sent; convert it, "
            "and prompt again."
        )
    if isinstance(sound.data, Stored):
        return
    content = await to_thread.run_sync(decoded, sound.data, abandon_on_cancel=True)
    if not content:
        reason = "its data is no base64" if content is None else "it is empty"
        raise InvalidParamsError(
            f"A sound cannot be sent to {model}: {reason}. Nothing was sent; leave it out or record it again, and "
            "prompt again."
        )
