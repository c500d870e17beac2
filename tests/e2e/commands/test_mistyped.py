"""Mistyped models, providers and keys of the configuration, refused keys, and what else
a run says of its failures.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.called import call_command
from support.models import Reply, ToolCall, model_server


@pytest.mark.parametrize(
    ("config", "env", "said"),
    [
        (
            "mode: ask\nmodle: openai/gpt-test\n",
            {},
            "config.yaml:2: modle: unknown key; did you mean `model`?",
        ),
        ("modee: ask\n", {}, "config.yaml:1: modee: unknown key; did you mean `mode`?"),
        (
            "mode: ask\nmodel: opneai/gpt-test\n",
            {},
            "config.yaml:2: model: there is no provider 'opneai'",
        ),
        ("model: opneai/gpt-test\n", {}, "did you mean `openai`?"),
        (
            "",
            {"ACP_AGENT_MODEL": "antropic/x"},
            "ACP_AGENT_MODEL: there is no provider 'antropic'",
        ),
        ("", {"ACP_AGENT_MODEL": "antropic/x"}, "did you mean `anthropic`?"),
        (
            "compaction:\n  treshold: 0.5\n",
            {},
            "2: compaction.treshold: unknown key; did you mean `threshold`?",
        ),
    ],
)
async def test_a_mistyped_name_is_an_error_with_its_place_and_the_right_name(
    tmp_path: Path, config: str, env: dict[str, str], said: str
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "config.yaml").write_text(config)
    async with model_server([], "openai") as server:
        its = server.env()
        if config:
            del its["ACP_AGENT_MODEL"]
        ran = await call_command(tmp_path, "run", "Hi.", env={**its, **env})
        assert (ran.code, ran.out, server.calls) == (1, "", [])
        assert said in ran.err


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "openai/gpt-6.2-slo",
            "Check the name openai/gpt-6.2-slo: did you mean `openai/gpt-6.2-sol`?",
        ),
        ("openai/none-such", "`acp-agent models` lists the known models."),
    ],
)
async def test_a_model_that_the_provider_does_not_have_is_named_with_the_one_that_may_be_meant(
    tmp_path: Path, model: str, said: str
) -> None:
    error = {
        "error": {
            "message": "The model does not exist or is not yours.",
            "code": "model_not_found",
        }
    }
    async with model_server([Reply(http_status=404, body=error)], "openai") as server:
        ran = await call_command(
            tmp_path, "run", "--model", model, "Hi.", env=server.env()
        )
        assert ran.code == 1
        assert said in ran.err


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Incorrect API key provided",
            "refused the key (status 401): check OPENAI_API_KEY.",
        ),
        (
            "Incorrect API key provided",
            "The key may be mistyped or revoked.",
        ),
        (
            "This API key has been revoked.",
            "refused the key (status 401), since it was revoked or has expired: check",
        ),
        (
            "API key expired. Please renew it.",
            "(status 401), since it was revoked or has expired: check",
        ),
    ],
)
async def test_a_refused_key_is_said_to_be_revoked_if_that_may_be_so(
    tmp_path: Path, message: str, said: str
) -> None:
    error = {"error": {"message": message, "code": "invalid_api_key"}}
    async with model_server([Reply(http_status=401, body=error)], "openai") as server:
        ran = await call_command(tmp_path, "run", "Hi.", env=server.env())
        assert ran.code == 1
        assert said in ran.err
        assert "`acp-agent login openai` checks a key and stores it." in ran.err


async def test_a_failed_call_is_shown_with_the_reason(tmp_path: Path) -> None:
    calls = [
        ToolCall("read", {"path": "gone.txt"}),
        ToolCall("shell", {"command": "true"}),
    ]
    async with model_server(
        [Reply(tool_calls=calls), Reply("Hm.")], "openai"
    ) as server:
        ran = await call_command(tmp_path, "run", "Read it.", env=server.env())
    lines = ran.err.splitlines()
    assert lines[lines.index("✗ Read gone.txt") + 1].startswith(
        "  gone.txt does not exist."
    )
    assert "  Not allowed: nobody is here to ask. " in ran.err
    assert "Do not try it in another way" not in ran.err


async def test_a_prompt_that_is_shortened_to_fit_the_window_says_so(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Long.")], "openai") as server:
        env = {**server.env(), "ACP_AGENT_CONTEXT_WINDOW": "20000"}
        ran = await call_command(
            tmp_path,
            "run",
            "Review this",
            env=env,
            stdin="The cart adds prices. " * 8_000,
        )
    assert (ran.code, ran.out) == (0, "Long.\n")
    assert (
        "Your prompt does not fit the model's window, so the model sees only its beginning and end."
        in ran.err
    )


@pytest.mark.parametrize("words", [("run", "Hi."), ("run", "/context")])
async def test_a_wrong_key_of_the_projects_configuration_is_told_once_by_every_run(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / ".acp-agent").mkdir()
    (tmp_path / ".acp-agent" / "config.yaml").write_text(
        "compaction: {treshold: 0.5}\n"
    )
    said = "config.yaml:1: compaction.treshold: unknown key; did you mean `threshold`?"
    async with model_server([Reply("Hello.")], "openai") as server:
        ran = await call_command(tmp_path, *words, env=server.env())
        assert (ran.code, ran.err.count(said)) == (0, 1), ran.err
        failed = await call_command(
            tmp_path,
            *words,
            env={**server.env(), "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        )
        assert failed.err.count(said) == 1, failed.err


async def test_a_mention_that_names_no_file_is_told_and_sent_as_text(
    tmp_path: Path,
) -> None:
    (tmp_path / "there.txt").write_text("There.")
    text = "Compare @gone.txt, @there.txt and @someone."
    async with model_server([Reply("Hm.")], "openai") as server:
        ran = await call_command(tmp_path, "run", text, env=server.env())
    assert ran.code == 0
    assert ran.err.count("There is no file ") == 1
    assert "There is no file gone.txt: `@gone.txt` is sent as text." in ran.err
