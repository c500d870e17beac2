"""That a message without its secrets is the same message otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acp_agent.secrets.messages import masked

SECRET = "hunter2"
NAMES = st.sampled_from(
    [
        "env",
        "headers",
        "args",
        "url",
        "command",
        "name",
        "value",
        "token",
        "auth",
        "properties",
        "action",
        "content",
        "a",
    ]
)
TEXTS = st.sampled_from(
    [
        "word",
        "src/a.py",
        f"TOKEN={SECRET}",
        f"https://me:{SECRET}@a.example/?key={SECRET}",
        "accept",
    ]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=4)
    ),
    max_leaves=15,
)


def shape(value: Any) -> Any:
    """What is left without what the texts and numbers say."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    return None if value is None or isinstance(value, bool) else "scalar"


@example({"args": []})
@given(JSON)
def test_a_masked_message_has_the_shape_it_had_and_no_secret(value: Any) -> None:
    left = masked(value, [])
    assert SECRET not in json.dumps(left)
    assert shape(left) == shape(value)


def test_a_calls_command_and_title_lose_what_is_given_to_an_option() -> None:
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_1",
        "title": f"deploy --token {SECRET} --dry",
        "rawInput": {"command": f"deploy --token {SECRET} --dry"},
    }
    assert masked(update, []) == update | {
        "title": "deploy --token *** --dry",
        "rawInput": {"command": "deploy --token *** --dry"},
    }
    assert masked({"title": "Say what --token means"}, []) == {
        "title": "Say what --token means"
    }


MESSAGES: tuple[Any, ...] = (
    {
        "issuer": "https://a.example",
        "authorization_endpoint": "https://a.example/authorize",
        "token_endpoint": "https://a.example/token",
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
        "authorization_servers": ["https://a.example"],
        "code_challenge_methods_supported": ["S256"],
        "bearer_methods_supported": ["header"],
    },
    {
        "flows": {
            "authorizationCode": {
                "authorizationUrl": "https://a.example/a",
                "tokenUrl": "https://a.example/t",
            }
        }
    },
    {
        "token_type": "bearer",
        "expires_in": 3600,
        "tokenExpiry": "2030-01-01",
        "passwordHint": "your cat",
        "auth": None,
    },
    {
        "eos_token": "</s>",
        "bos_token": {"content": "<s>", "lstrip": False},
        "stop_token": "<|end|>",
        "pad_token_id": 151643,
    },
    {
        "additional_special_tokens": ["<a>", "<b>"],
        "tokenizer_class": "X",
        "added_tokens_decoder": {"0": {"content": "<s>"}},
    },
    {
        "max_tokens": 200000,
        "total_tokens": 1234567,
        "usage": {"cachedReadTokens": 300000, "thoughtTokens": 5},
    },
    {
        "prompt_tokens_details": {"cached_tokens": 150000},
        "tokens": [1, 200000],
        "tokens_per_second": 41.5,
    },
    {"auth": {"required": True}, "cookie": None, "secret": True, "password": False},
    {"headers": ["Name", "Age"], "rows": [["Ann", 5]]},
    {
        "headers": {
            "Accept": "text/html",
            "Content-Type": "application/json",
            "User-Agent": "me/1.0",
            "X-Request-Id": "7",
        }
    },
    {"headers": [{"name": "Accept", "value": "text/html"}]},
    {
        "url": "https://a.example/?page=2&code=200",
        "command": "grep -rn token src",
        "args": ["--max-tokens", "5"],
    },
    {
        "publicKey": "a",
        "primaryKey": "id",
        "cacheKey": "b",
        "sortKey": "c",
        "partitionKey": "d",
        "tokens": ["hello"],
    },
    {
        "env": None,
        "cwd": "/a",
        "_meta": {"progressToken": "a-1"},
        "path": "src/token.py",
    },
    {
        "env": "prod",
        "secretName": "db",
        "tokenFile": "/run/token",
        "api_key_env": "OPENAI_API_KEY",
    },
)

MEMBERS = (
    '{"password": "§"}', '{"auth": {"type": "basic", "data": "§"}}', '{"credentials": ["me", "§"]}',
    '{"apiKey": {"value": ["§"]}}', '{"headers": {"Authorization": "§"}}', '{"headers": {"x-api-key": "§"}}',
    '{"headers": {"X-Other": "§"}}', '{"headers": ["Cookie: §"]}', '{"headers": [["Proxy-Authorization", "§"]]}',
    '{"http_headers": [{"name": "Set-Cookie", "value": "§"}]}', '{"env": {"type": "§"}}',
    '{"env": [{"name": "LANG", "value": "§"}]}', '{"env": ["LANG=§"]}', '{"args": ["--token", "§"]}',
    '{"command": ["run", "--api-key=§"]}', '{"args": ["-H", "X-Session: §"]}', '{"command": "TOKEN=§ run"}',
    '{"url": "https://a.example/?access_token=§"}', '{"name": "client_secret", "value": "§"}',
    '{"action": "accept", "content": {"a": "§"}}', '{"access_token": "§", "token_type": "bearer"}',
)  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_ordinary_members_stay(message: Any) -> None:
    assert masked(message, []) == message
    assert masked({"params": [{"update": message}]}, []) == {
        "params": [{"update": message}]
    }


@pytest.mark.parametrize("member", MEMBERS)
@given(secret=st.sampled_from([SECRET, "swordfish", "Tr0ub4dor&3"]))
@settings(max_examples=5)
def test_what_a_member_says_is_masked(member: str, secret: str) -> None:
    assert secret not in json.dumps(masked(json.loads(member.replace("§", secret)), []))


def test_numbers_are_masked_where_texts_are_and_counts_are_not() -> None:
    message = {
        "password": 1,
        "client_secret": 1.5,
        "token": 123456,
        "env": {"PORT": 8080, "A": [1, {"b": 2.5}]},
    }
    hidden = {
        "password": "***",
        "client_secret": "***",
        "token": "***",
        "env": {"PORT": "***", "A": ["***", {"b": "***"}]},
    }
    assert masked(message, []) == hidden
    counted: dict[str, Any] = {
        "tokens": 200_000,
        "is_password": 1,
        "password_length": 12,
    }
    assert masked(counted, []) == counted


def test_the_bytes_of_a_terminal_are_masked() -> None:
    updates: Any = [
        {"terminalId": "t", **each}
        for each in ({"data": "c2U="}, {"output": {"data": "c2U="}})
    ]
    assert "c2U=" not in json.dumps(masked(updates, []))
