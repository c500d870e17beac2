"""A permanent refusal must not block a session, whether of a turn's last step, of
images or of an earlier turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.editors import TOAD
from support.lines import AgentError
from support.memory import stage
from support.pictures import encoded, png
from support.replies import Reply, ToolCall

READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])
IMAGE = {"type": "image", "data": encoded(png()), "mimeType": "image/png"}
DIALECTS = ["anthropic", "openai", "chat"]


def told(it: Any) -> str:
    return str(it.agent.updates())


def refuses(what: str, *replies: Reply, status: int = 400) -> Any:
    """Return a script whose model refuses each request that contains the given text."""
    waiting = list(replies)

    def answer(body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            return Reply("A title")
        if what in str(body):
            return Reply(
                http_status=status, body={"error": {"message": "I take no such thing."}}
            )
        return waiting.pop(0)

    return answer


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_step_that_is_refused_twice_leaves_the_context_and_the_prompt_is_answered(
    tmp_path: Path, dialect: Any
) -> None:
    script = refuses("poison", Reply("One."), READ, Reply("Two."), Reply("Three."))
    async with stage(
        tmp_path, script=script, dialect=dialect, files={"a.txt": "poison\n"}, config={}
    ) as it:
        await it.prompt("First")
        with pytest.raises(AgentError, match="no such thing"):
            await it.prompt("Second")
        assert await it.prompt("Third") == {"stopReason": "end_turn"}
        assert "the last step of the earlier turn was left out" in told(it)
        sent = str(it.server.calls[-1].body)
        assert [
            word in sent for word in ("First", "One.", "Second", "poison", "Third")
        ] == [True] * 3 + [False, True]
        asked = len(it.server.calls)
        assert await it.prompt("Fourth") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == asked + 1


def conversation(body: dict[str, Any]) -> str:
    return str(body.get("messages") or body.get("input"))


def reads_again(*others: Reply, each_prompt: int = 1) -> Any:
    """Return a script whose model reads the file whenever a prompt that asks for it is
    in the request, and whose provider refuses each request with the file's text.

    :param others: answers to the requests without such a prompt.
    :param each_prompt: in how many requests of a prompt the model reads the file.
    """
    waiting = list(others)
    asked: list[int] = []

    def answer(body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            return Reply("A title")
        text = conversation(body)
        if "poison" in text:
            return Reply(http_status=400, body={"error": {"message": "No such thing."}})
        count = text.count("PROMPT")
        asked.append(count)
        if "Read it" in text and asked.count(count) <= each_prompt:
            return READ
        return waiting.pop(0)

    return answer


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_that_repeats_the_refused_step_does_not_block_the_session(
    tmp_path: Path, dialect: Any
) -> None:
    script = reads_again(Reply("One."), Reply("Two."), each_prompt=9)
    async with stage(
        tmp_path, script=script, dialect=dialect, files={"a.txt": "poison\n"}, config={}
    ) as it:
        with pytest.raises(AgentError, match="No such thing"):
            await it.prompt("Read it")
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        assert "the last step of the earlier turn was left out" in told(it)
        assert "it and the rest of the earlier turn were left out" in told(it)
        sent = str(it.server.calls[-1].body)
        assert [word in sent for word in ("Read it", "poison", "Go on")] == [
            False,
            False,
            True,
        ]
        assert "Do not repeat" in sent
        asked = len(it.server.calls)
        assert await it.prompt("And now") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == asked + 1


async def test_a_model_that_insists_on_the_refused_step_fails_its_prompt_and_no_later_one(
    tmp_path: Path,
) -> None:
    script = reads_again(Reply("Done."), each_prompt=99)
    async with stage(tmp_path, script=script, files={"a.txt": "poison\n"}) as it:
        with pytest.raises(AgentError, match="No such thing"):
            await it.prompt("Read it")
        before = len(it.server.calls)
        with pytest.raises(AgentError, match="The prompt was left out"):
            await it.prompt("Read it again: Read it")
        assert len(it.server.calls) - before < 12
        assert await it.prompt("Something else") == {"stopReason": "end_turn"}
        assert "Read it" not in str(it.server.calls[-1].body)


async def test_a_step_that_is_repeated_after_a_restart_is_left_out_at_its_first_refusal(
    tmp_path: Path,
) -> None:
    script = reads_again(Reply("One."), Reply("Two."), each_prompt=2)
    async with stage(tmp_path, script=script, files={"a.txt": "poison\n"}) as it:
        with pytest.raises(AgentError, match="No such thing"):
            await it.prompt("Read it")
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("Read it PROMPT") == {"stopReason": "end_turn"}
            assert "after another step of the model" in told(later)


LIST = Reply(tool_calls=[ToolCall("list", {"path": "."})])


def read(number: int) -> Reply:
    return Reply(tool_calls=[ToolCall("read", {"path": "a.txt", "limit": number})])


VARIED = {
    "the same call behind another step": [READ, LIST, READ, LIST, READ],
    "other calls with the same result": [read(1), read(2), read(3), read(4)],
    "other calls behind other steps": [
        *(READ, LIST, read(2), LIST, read(3)),
        *(LIST, read(4), LIST, read(5), LIST, read(6)),
    ],
}


@pytest.mark.parametrize("kind", VARIED)
async def test_a_step_that_is_refused_like_an_earlier_one_fails_at_most_the_first_prompt(
    tmp_path: Path, kind: str
) -> None:
    waiting = [*VARIED[kind]]

    def answer(body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            return Reply("A title")
        if "poison" in conversation(body):
            return Reply(http_status=400, body={"error": {"message": "No such thing."}})
        # The model tries as long as the first prompt is in the conversation.
        if "Read it" in conversation(body) and waiting:
            return waiting.pop(0)
        return Reply("Done.")

    async with stage(tmp_path, script=answer, files={"a.txt": "poison\n" * 9}) as it:
        outcomes: list[bool] = []
        for text in ("Read it", "Second", "Third", "Fourth"):
            try:
                await it.prompt(text)
            except AgentError:
                outcomes.append(False)
            else:
                outcomes.append(True)
        assert outcomes == [False, True, True, True]


async def test_a_step_that_was_refused_before_a_restart_leaves_the_context_after_it(
    tmp_path: Path,
) -> None:
    script = refuses("poison", READ, Reply("Two."))
    async with stage(tmp_path, script=script, files={"a.txt": "poison\n"}) as it:
        with pytest.raises(AgentError, match="no such thing"):
            await it.prompt("First")
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("Second") == {"stopReason": "end_turn"}
            assert "was left out of it" in told(later)
        async with it.restarted() as last:
            await last.agent.load(it.session, it.folder)
            # The log still contains everything.
            assert "poison" in str(last.agent.updates())


async def test_a_whole_turn_leaves_the_context_if_its_last_step_is_not_to_blame(
    tmp_path: Path,
) -> None:
    seen = 0

    def answer(body: dict[str, Any]) -> Reply:
        nonlocal seen
        if not body.get("tools"):
            return Reply("A title")
        seen += 1
        # The provider accepts the prompt twice, and refuses it from then on.
        if "strange" in str(body) and seen > 2:
            return Reply(http_status=400, body={"error": {"message": "No."}})
        return READ if seen < 3 else Reply("Yes.")

    async with stage(tmp_path, script=answer) as it:
        with pytest.raises(AgentError):
            await it.prompt("Something strange")
        assert await it.prompt("Something else") == {"stopReason": "end_turn"}
        assert "the rest of the earlier turn was left out" in told(it)
        assert "strange" not in str(it.server.calls[-1].body)


async def test_what_does_not_help_is_an_error_that_names_ways_out(
    tmp_path: Path,
) -> None:
    replies = [Reply("One."), *[Reply(http_status=400)] * 2]
    async with stage(tmp_path, *replies) as it:
        await it.prompt("First")
        with pytest.raises(AgentError, match="The prompt was left out") as first:
            await it.prompt("Second")
        assert "fork" not in str(first.value)
        with pytest.raises(
            AgentError,
            match=r"most likely the cause is something earlier.*sessions fork sess_\w+ --at \d",
        ):
            await it.prompt("Third")


REFUSALS = {
    "a type": (400, "Invalid content type: webp"),
    "text alone": (400, "Only 'text' content type is supported."),
    "no vision": (400, "x-ai/grok does not support vision input"),
    "a picture": (400, "Failed to load picture"),
    "no word of it": (400, "invalid input"),
    "a list": (422, "messages[1].content: invalid type: sequence, expected a string"),
    "by a router": (404, "No endpoints found that support image input"),
    "as a failure": (500, "failed to decode image bytes"),
    "a model for text": (415, "This model is text-only"),
    "an unknown type": (415, "Nope"),
    "what is not implemented": (501, "multimodal not implemented"),
    "as a failure without a word": (500, "Internal server error"),
    "by the model": (500, "image input is not supported - hint: provide the mmproj"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("words", REFUSALS)
async def test_images_that_are_refused_are_left_out_once_and_the_user_is_told(
    tmp_path: Path, words: str, dialect: Any
) -> None:
    status, said = REFUSALS[words]

    def answer(body: dict[str, Any]) -> Reply:
        if "image/png" in str(body):
            return Reply(
                http_status=status,
                body={"error": {"message": said}},
                headers={"retry-after-ms": "1"},
            )
        return Reply("Yes.")

    async with stage(
        tmp_path, script=answer, dialect=dialect, editor=TOAD, config={}
    ) as it:
        assert await it.prompt([{"type": "text", "text": "Look"}, IMAGE]) == {
            "stopReason": "end_turn"
        }
        assert "because of an image. The session continues without 1 image." in told(it)
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
        with_image = sum("image/png" in str(call.body) for call in it.server.calls)
        assert with_image == (2 if "without a word" in words else 1)


async def test_images_stay_if_the_request_is_refused_without_them_as_well(
    tmp_path: Path,
) -> None:
    odd = Reply(http_status=400, body={"error": {"message": "invalid input"}})
    async with stage(tmp_path, Reply("One."), odd, odd, Reply("Three.")) as it:
        await it.prompt([{"type": "text", "text": "Look"}, IMAGE])
        with pytest.raises(AgentError, match="invalid input"):
            await it.prompt("And now?")
        assert await it.prompt("And then?") == {"stopReason": "end_turn"}
        assert "image/png" in str(it.server.calls[-1].body)


EMPTY = {
    "nothing": Reply(""),
    "a blank": Reply(" \n"),
    "thinking alone": Reply("", thinking="Hm."),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", EMPTY)
async def test_the_user_is_told_of_an_empty_answer_and_the_model_is_asked_once_more(
    tmp_path: Path, kind: str, dialect: Any
) -> None:
    async with stage(
        tmp_path, EMPTY[kind], Reply("Yes."), dialect=dialect, editor=TOAD, config={}
    ) as it:
        assert await it.prompt("First") == {"stopReason": "end_turn"}
        assert "The model gave an empty answer. Asking it once more." in told(it)
        assert "Yes." in it.agent.text()
        assert "Your last answer was empty" in str(it.server.calls[1].body)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_that_gives_no_answer_twice_is_not_asked_again(
    tmp_path: Path, dialect: Any
) -> None:
    replies = [READ, Reply(""), Reply("", thinking="Hm."), Reply("Later.")]
    async with stage(tmp_path, *replies, dialect=dialect, config={}) as it:
        assert await it.prompt("First") == {"stopReason": "end_turn"}
        assert "gave an empty answer twice" in it.agent.text()
        assert await it.prompt("Second") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == 4


async def test_a_model_of_an_unknown_window_that_gives_no_answer_may_have_been_asked_too_much(
    tmp_path: Path,
) -> None:
    replies = [Reply(""), Reply("")]
    async with stage(tmp_path, *replies, dialect="chat", config={}) as it:
        await it.prompt("First")
        assert "Set `context_window` in config.yaml" in it.agent.text()


async def test_only_the_newest_image_is_left_out_if_older_ones_have_been_answered_to(
    tmp_path: Path,
) -> None:
    good = {**IMAGE, "data": encoded(png(8, 8, seed=3))}

    def answer(body: dict[str, Any]) -> Reply:
        if IMAGE["data"] in str(body):
            return Reply(
                http_status=400, body={"error": {"message": "Could not process image"}}
            )
        return Reply("Yes.")

    async with stage(tmp_path, script=answer, editor=TOAD) as it:
        await it.prompt([{"type": "text", "text": "Look"}, good])
        assert await it.prompt([{"type": "text", "text": "And here"}, IMAGE]) == {
            "stopReason": "end_turn"
        }
        assert good["data"] in str(it.server.calls[-1].body)
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt(
                [{"type": "text", "text": "Once more"}, good]
            ) == {"stopReason": "end_turn"}
        assert str(it.server.calls[-1].body).count(good["data"]) == 2


async def test_a_refusal_in_words_that_nobody_knows_is_learned_for_what_is_new_in_the_request(
    tmp_path: Path,
) -> None:
    """A gateway configured under the provider's own name rejects system messages in the
    middle of a conversation.
    """
    said = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.2: no such turn",
        },
    }

    def answer(body: dict[str, Any]) -> Reply:
        if any(message["role"] == "system" for message in body["messages"]):
            return Reply(http_status=400, body=said)
        return Reply("Yes.")

    env = {"ACP_AGENT_MODEL": "anthropic/claude-opus-5-5"}
    async with stage(tmp_path, script=answer, dialect="anthropic", env=env) as it:
        await it.prompt("One")
        await it.agent.set_config_option(it.session, "thought_level", "low")
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        assert await it.prompt("Three") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == 4
        assert it.server.calls[-1].body["output_config"] == {"effort": "low"}
        assert (
            "thinking-binding-controls" in it.server.calls[-1].headers["anthropic-beta"]
        )


async def test_what_did_not_help_when_it_was_left_out_is_sent_again(
    tmp_path: Path,
) -> None:
    """The server enforces DeepSeek's rule about reasoning, and refuses one request for
    another reason.
    """
    refusals = [
        {
            "error": {
                "message": "messages.5.tool_calls.0.index: Extra inputs are not permitted"
            }
        }
    ]

    def answer(body: dict[str, Any]) -> Reply:
        answers = [
            message for message in body["messages"] if message["role"] == "assistant"
        ]
        if any("reasoning_content" not in each for each in answers):
            return Reply(
                http_status=400,
                body={
                    "error": {"message": "The `reasoning_content` must be passed back."}
                },
            )
        if len(answers) == 1 and refusals:
            return Reply(http_status=400, body=refusals.pop())
        return Reply("Yes.", thinking="Hm.")

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        await it.prompt("One")
        with pytest.raises(AgentError, match="must be passed back"):
            await it.prompt("Two")
        for _ in range(2):
            assert await it.prompt("Three") == {"stopReason": "end_turn"}


async def test_of_two_guesses_at_a_refusal_only_the_one_that_helped_is_learned(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "image/png" in str(body):
            return Reply(http_status=400, body={"error": {"message": "invalid input"}})
        return Reply("Yes.")

    env = {"ACP_AGENT_MODEL": "anthropic/claude-opus-5-5"}
    async with stage(
        tmp_path, script=answer, dialect="anthropic", env=env, editor=TOAD
    ) as it:
        assert await it.prompt([{"type": "text", "text": "Look"}, IMAGE]) == {
            "stopReason": "end_turn"
        }
        await it.prompt("And now?")
        assert "image/png" not in str(it.server.calls[-1].body)
        assert (
            "thinking-binding-controls" in it.server.calls[-1].headers["anthropic-beta"]
        )
