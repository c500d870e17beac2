"""Reads Chat Completions answers, from OpenAI and from compatible servers.

Parsing is lenient; see `calls.py` for tool calls. Content may be a list of chunks, as
Mistral's reasoning models send it. An answer without a `finish_reason` is complete if
no tool call is cut off and the stream ends with `[DONE]` or with the usage chunk, which
OpenAI's API sends last. It is also complete if the model wrote malformed arguments. A
call may arrive as `function_call`, which `tool_calls` replaced in 2023; some servers
send both.

Source: the types of the openai SDK 3.54; Mistral's OpenAPI description for its chunks;
OpenRouter's page on reasoning tokens; LiteLLM's on thinking, for `thinking_blocks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from io import StringIO

from acp_agent.conversation.messages import (
    AssistantPart,
    JsonObject,
    JsonValue,
    Text,
    Thinking,
    Usage,
)
from acp_agent.conversation.strict_json import (
    MAX_COUNT,
    get_object,
    get_objects,
    get_text,
)
from acp_agent.llm.adapters.calls import (
    ArgumentsState,
    ChatCalls,
    is_ended_by_malformed,
)
from acp_agent.llm.adapters.fold import Fold, build_answer, openai_usage
from acp_agent.llm.adapters.think_tags import ThinkTags
from acp_agent.llm.errors import stream_error
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta

CONTENT = "content"
DETAILS = "reasoning_details"
EXTRA = "extra_content"
BLOCKS = "thinking_blocks"
REASONING = "reasoning_content"
TEXT_KEYS = (REASONING, "reasoning")
"""Members that hold reasoning as text. vLLM, Ollama and Cerebras use the second; most
others use the first.
"""
_GROWING = {
    "reasoning.text": "text",
    "reasoning.summary": "summary",
    "thinking": "thinking",
}
"""Types of entries in `reasoning_details` and `thinking_blocks` that arrive in
fragments, each with the member that the fragments extend. All other entries arrive
whole.
"""


class _Fragments:
    """A block of reasoning that arrives in fragments.

    The fragments must be merged, since the model's vendor refuses a signature without
    the text that it signs.

    :param fragment: the first fragment.
    """

    def __init__(self, fragment: JsonObject) -> None:
        self._members = dict(fragment)
        self._growing = _GROWING.get(get_text(fragment, "type"), "")
        self._text = StringIO()
        self._text.write(get_text(fragment, self._growing))

    def add(self, fragment: JsonObject) -> bool:
        """Add a fragment if it belongs to this block, and return whether it does."""
        members = self._members
        if (
            not self._growing
            or fragment.get("type") != members["type"]
            or members.get("signature")
        ):
            return False
        for key in ("index", "id"):
            known = members.get(key)
            if known is not None and fragment.get(key, known) not in (known, None):
                return False
        self._text.write(get_text(fragment, self._growing))
        for key, value in fragment.items():
            if members.get(key) is None:
                members[key] = value
        return True

    def merged(self) -> JsonObject:
        """Return the block, as received so far."""
        text = self._text.getvalue()
        return {**self._members, self._growing: text} if text else self._members


class ChatFold(Fold):
    """Folds the chunks of one stream, or the single object of an answer that is not
    streamed.

    :param tools: names of the tools that the request offered.
    """

    ends_with_done = True

    def __init__(self, provider: str, tools: Collection[str] = ()) -> None:
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._tags = ThinkTags()
        self._key = ""
        self._fragments: dict[str, list[_Fragments]] = {DETAILS: [], BLOCKS: []}
        self._tool_calls = ChatCalls(tools)
        self._function_calls = ChatCalls(tools)
        self._has_text = False
        self._finish = ""
        self._usage: JsonObject = {}
        self._counts_last = False

    @property
    def is_empty(self) -> bool:
        return not (self._has_text or self._calls or any(self._fragments.values()))

    @property
    def _calls(self) -> ChatCalls:
        return self._tool_calls or self._function_calls

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        if event.get("error"):
            raise stream_error(event)
        self._usage = get_object(event, "usage") or self._usage
        choices = get_objects(event, "choices")[:1]
        if not choices and event.get("usage"):
            self._counts_last = True
        deltas: list[TextDelta | ThinkingDelta] = []
        for choice in choices:
            delta = get_object(choice, "delta") or get_object(choice, "message")
            if get_object(choice, "message") and "delta" not in choice:
                self.complete = True  # the answer is not streamed
            if thought := self._thought(delta):
                self._thinking.append(thought)
                deltas.append(ThinkingDelta(thought))
            refusal = get_text(delta, "refusal")
            text = (
                get_text(delta, CONTENT)
                or "".join(_chunk_texts(delta, "text"))
                or refusal
            )
            self._has_text = self._has_text or bool(thought or text)
            deltas += self._said(text)
            for call in get_objects(delta, "tool_calls") or filter(
                None, [get_object(delta, "tool_calls")]
            ):
                self._tool_calls.add(call)
            function_call = get_object(delta, "function_call")
            if any(function_call.values()):
                self._function_calls.add({"index": 0, "function": function_call})
            if refusal:
                self._finish = "refusal"
            if finish := get_text(choice, "finish_reason"):
                self._finish = self._finish or finish
                deltas += self._rest()
                self.complete = True
                if finish == "error":
                    raise stream_error(
                        get_object(choice, "error")
                        or {"message": "the provider reported an error"}
                    )
        return deltas

    def close(self, *, done: bool) -> None:
        is_ended = self._counts_last or done
        if is_ended:
            list(self._rest())  # too late to be shown
        states: list[ArgumentsState] = [call.state() for call in self._calls]
        if states:
            is_whole = is_ended and "cut" not in states
            self.complete = is_whole or is_ended_by_malformed(states)
        elif is_ended:
            has_counted = self._counts_last and bool(self._thinking)
            self.complete = has_counted or bool(self._text)

    def answer(self) -> Answered:
        extra: JsonObject = {
            str(index): call.extra
            for index, call in enumerate(self._calls)
            if call.extra
        }
        parts: list[AssistantPart] = []
        data: JsonObject = {}
        if self._key:
            data["key"] = self._key
        for kind, fragments in self._fragments.items():
            if fragments:
                data[kind] = [each.merged() for each in fragments]
        if extra:
            data[EXTRA] = extra
        if self._thinking or data:
            parts.append(Thinking("".join(self._thinking), self._provider, data))
        if self._tags.reasoning:
            # The models' templates drop it from earlier answers.
            parts.append(Thinking(self._tags.reasoning))
        if text := "".join(self._text):
            parts.append(Text(text))
        parts += [call.call() for call in self._calls]
        return build_answer(parts, self._finish, self._counted())

    def _said(self, text: str) -> Iterable[TextDelta | ThinkingDelta]:
        """Collect a piece of the text, and yield the part that can already be shown."""
        reasoning, answer = self._tags.add(text)
        if reasoning:
            yield ThinkingDelta(reasoning)
        if answer:
            self._text.append(answer)
            yield TextDelta(answer)

    def _rest(self) -> Iterable[TextDelta]:
        """Collect the text that was held back, and yield it."""
        is_whole = self._finish in ("", "stop") and not self._calls
        if rest := self._tags.finish(is_whole=is_whole):
            self._text.append(rest)
            yield TextDelta(rest)

    def _thought(self, delta: JsonObject) -> str:
        """Collect the reasoning in a delta, remember which key to send it back under,
        and return its text.
        """
        repeated = ""
        for kind, known in self._fragments.items():
            fragments = get_objects(delta, kind)
            for fragment in fragments:
                if not known or not known[-1].add(fragment):
                    known.append(_Fragments(fragment))
            said = [
                get_text(each, _GROWING.get(get_text(each, "type"), ""))
                for each in fragments
            ]
            repeated = repeated or "".join(said)
        for key in TEXT_KEYS:
            if thought := get_text(delta, key):
                self._key = self._key or key
                return thought
        if thought := "".join(_chunk_texts(delta, "thinking")):
            self._key = self._key or CONTENT
            return thought
        # OpenRouter and LiteLLM repeat the reasoning as text, but servers that imitate
        # them may not.
        return repeated

    def _counted(self) -> Usage:
        price = self._usage.get("cost")  # from OpenRouter
        cost = None
        if (
            isinstance(price, int | float)
            and not isinstance(price, bool)
            and 0 <= price < MAX_COUNT
        ):
            cost = float(price)
        return openai_usage(self._usage, "prompt", "completion", cost)


def _chunk_texts(delta: JsonObject, kind: str) -> Iterable[str]:
    """Yield the texts of one kind if the content is a chunk or a list of chunks.

    :param kind: `text`, or `thinking`, whose chunks hold text or nested text chunks.
    """
    content = delta.get(CONTENT)
    for chunk in content if isinstance(content, list) else [content]:
        if isinstance(chunk, str) and kind == "text" and isinstance(content, list):
            yield chunk
        elif isinstance(chunk, dict):
            yield from _texts_in(chunk, kind)


def _texts_in(chunk: JsonObject, kind: str) -> Iterable[str]:
    found: JsonValue = chunk.get("type")
    if kind == "text":
        if found in ("text", "output_text", None):
            yield get_text(chunk, "text")
    elif found in ("thinking", "reasoning"):
        yield get_text(chunk, "thinking") or get_text(chunk, "text")
        for inner in get_objects(chunk, "thinking"):
            yield get_text(inner, "text")
