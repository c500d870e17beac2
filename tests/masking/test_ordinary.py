"""What people have to be able to read stays as it is, and what lets somebody in is hidden wherever it stands."""

from __future__ import annotations

import json
import string
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acp_agent.masking.commands import mask_argument, mask_command
from acp_agent.masking.messages import masked
from acp_agent.masking.streams import StreamMask
from acp_agent.masking.texts import MASK, mask, mask_broken

ORDINARY = (
    "function(){a=1;key=e.key;code=200;token=t}", "for(i=0;key=next();){x=1;code=3}", "if(a<b;code=3)y",
    "a=1&key=5&b=2", '<div class="sk-cube-grid"><div class="sk-cube sk-cube1"></div></div>',
    ".sk-fading-circle .sk-circle12:before{top:0}", "sk-toggleable__label-arrow:before{content:'x'}",
    "#sk-container-id-1 div.sk-parallel-item", "pip install sk-learn-classifier", "rk-manhattan", "sk_learn_estimator",
    "gsk-helper-functions-index.js", "xapp-status-service", "pypi-server", "risk-sk-something-very-long-name.css",
    "glrt-a-test-of-likelihood-ratios", "hf_hub_download", "MAX_TOKEN=4096", "run --token=auto", "SECRET=True",
    "API_KEY=process.env.API_KEY", 'SECRET_KEY=os.getenv("X")', "SECRET_KEY=os.getenv", "API_KEY=$API_KEY make",
    "API_KEY=${API_KEY:-none}", "GITHUB_TOKEN=${{ secrets.X }}", "TOKEN=", "API_KEY=<your-key>", "API_KEY=your-api-key",
    'TOKEN="$(pass show shop)"', "PASSWORD=password", "API_KEY=xxxx", "const TOKEN=config.token;",
    "SECRET=settings.SECRET_KEY", "--auth=basic", "--password=prompt", "PAT=this.pat",
    "GET /search?key=name&page=2&code=200 HTTP/1.1", "https://a.example/?page=2&key=name&code=200&sid=3",
    "https://docs.example/#session=start", "Location: https://a.example/next?sort=key", "https://medium.com/@user/post",
    "https://unpkg.com/react@18/umd/react.js", "http://localhost:8000/a@b", "postgres://$USER:$PASSWORD@db/shop",
    "https://x-access-token:${TOKEN}@github.com/a/b", "mailto:me@example.org", "Bearer authentication is used",
    "a bearer internationalization", "Bearer oauth2-token", "Bearer tokens-v2-are",
    "curl -H 'Accept: text/html' -H 'Content-Type: application/json' -H 'User-Agent: me/1.0' https://a.example/",
    'curl --header "Authorization: Bearer $TOKEN" https://a.example', "Cookie: is a header", "cookie: yes",
    "X-Key: true", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "a -----BEGIN PRIVATE KEY----- line comes first",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit d217132b1bfe8914c114aa00bb11cc22dd33", "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==",
    "key;value;token\n1;a;b", "日本語のkeyとtoken: 5", "token: NEWLINE",
    "PWD=/home/me", "OLDPWD=/home/me", "SORT_KEY=name", "TITLE_KEY=home.title", "sk_ASN1_UTF8STRING_num(a)",
    '<a href="x" ACCESSKEY="P">',
    "token = next_token()", "TOKEN=(process.env.T||t1)", "password = get_password(user1)", "self.api_key = api_key",
    "token: OAuth2Token",
    "private_key: ed25519.Ed25519PrivateKey", "KEM = rust.MLKEM768X25519PrivateKey", "secret = base64.b64decode(raw1)",
    "token = t2 if fresh else t1", "def f(self, *, token=None, secret: str = ''):", "tokens: list[Token2] = []",
    'const token = "if"', '{"token": "if", "id": 5}', "password: at least 8 characters",
    'password: "Min. 8 characters"', "token_url = https://a.example/v2/token1", "secret: prod-db-secret-2",
    "publicKeyToken=b77a5c561934e089", "auth: v2AuthCapabilities(a?.b)", "api_key = settings.api_key_v2",
    "pagination_token: str", "sort_key = a7b3c9d1e5f7", "  -- password", "the ENV variable API_KEY names it",
    "set -x; echo token", "set the token now", "secret := r.Secret2", 'LS32_PAT = "(?:{hex}:{hex}|{ipv4})"',
    "SignedHeaders=host;x-amz-date, Signature=SIGNATURE", "key = 5", "API_KEY: $KEY",
    "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "12:30:AAA", "AGE-SECRET-KEY-1...",
    "Authorization: AWS4-HMAC-SHA256 Credential=x", "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ",
    "api-key: is a header", "a.py,sha256=r8_aB3dE5fG7haB3dE5fG7haB3dE5fG7haB3dE5,12",
)  # fmt: skip
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
    {"flows": {"authorizationCode": {"authorizationUrl": "https://a.example/a", "tokenUrl": "https://a.example/t"}}},
    {"token_type": "bearer", "expires_in": 3600, "tokenExpiry": "2030-01-01", "passwordHint": "your cat", "auth": None},
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
        "token": 5,
    },
    {"prompt_tokens_details": {"cached_tokens": 150000}, "tokens": [1, 200000], "tokens_per_second": 41.5},
    {"auth": {"type": "oauth2", "required": True}, "cookie": None, "secret": True, "password": False},
    {"headers": ["Name", "Age"], "rows": [["Ann", 5]]},
    {
        "headers": {
            "Accept": "text/html",
            "Content-Type": "application/json",
            "User-Agent": "me/1.0",
            "X-Request-Id": "7",
        }
    },
    {"headers": [{"name": "Accept", "value": "text/html"}], "responseHeaders": ["ETag: abc"]},
    {"url": "https://a.example/?page=2&code=200", "command": "grep -rn token src", "args": ["--max-tokens", "5"]},
    {"publicKey": "a", "primaryKey": "id", "cacheKey": "b", "sortKey": "c", "partitionKey": "d", "tokens": ["hello"]},
    {"token": "if"},
    {"token": "\u0120the", "logprob": -0.25},
    {"token": "international", "logprob": -7.5, "bytes": [105, 110], "top_logprobs": [{"token": " a1", "logprob": -9}]},
    {"cookies": [{"domain": "a.example", "path": "/", "expires": 1800000000, "httpOnly": True, "sameSite": "Lax"}]},
    {"env": None, "cwd": "/a", "_meta": {"progressToken": "a-1"}, "path": "src/token.py"},
    {"env": "prod", "secretName": "db", "tokenFile": "/run/token", "api_key_env": "OPENAI_API_KEY"},
)
ALPHABET = string.ascii_letters + string.digits


def drawn(size: int, letters: str = ALPHABET) -> st.SearchStrategy[str]:
    """Characters as a provider draws them: letters and digits mixed."""
    rest = st.text(letters, min_size=size - 6, max_size=size - 6)
    return rest.map(lambda text: f"a7{letters[10]}3{text}9{letters[11]}")


KEYS = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["sk-", "sk-proj-", "sk-svcacct-", "sk-or-v1-"]), drawn(48)),
    st.builds("sk-ant-{}-{}".format, st.sampled_from(["api03", "oat01", "admin01"]), drawn(93, ALPHABET + "-_")),
    st.builds("sk-lf-{0}-a1b2-4c3d-9e8f-7a6b5c4d3e2f".format, drawn(8, "0123456789abcdef")),
    st.builds("{}{}".format, st.sampled_from(["sk_live_", "rk_live_", "sk_test_"]), drawn(24)),
    st.builds("{}{}".format, st.sampled_from(["xai-", "gsk_", "nvapi-", "pplx-", "csk-", "hf_", "npm_"]), drawn(52)),
    st.builds("{}{}".format, st.sampled_from(["ghp_", "gho_", "ghs_", "github_pat_", "r8_"]), drawn(36)),
    st.builds("glpat-{}".format, drawn(20)),
    st.builds("AIza{}".format, drawn(35)),
    st.from_regex(r"\A(AKIA|ASIA)[A-Z2-7]{16}\Z"),
    st.builds("eyJhbGciOiJIUzI1NiJ9.{}.{}".format, drawn(40), drawn(43)),
    st.builds("xoxb-123456789012-{}".format, drawn(24)),
)  # fmt: skip
BESIDE = st.lists(st.sampled_from(ORDINARY), max_size=4).map("\n".join)
AROUND = st.sampled_from(
    ["{}", '"{}"', "({})", "`{}`", "key {}.", "[{}]", "日本{}語", "a={};b", "<{}>", "x\t{}\n", "\\n{}\\n"]
)
OPAQUE = st.builds("{}".format, drawn(20))
PLACES = (
    "https://a.example/cb?access_token={}&x=1", "GET /cb?code={}&state=1 HTTP/1.1", "https://me:{}@a.example/",
    "x ws://{}@a.example", "https://a.example/a;sid={}", "https://a.example/#id_token={}", "Authorization: Bearer {}",
    "authorization: token {}", '"Authorization": "Basic {}"', "X-Api-Key: {}", "Cookie: lang=en; sid={}",
    "Set-Cookie: sid={}; Path=/", "export GITHUB_TOKEN={}", "API_KEY='{}'", "DB_PASSWORD='correct horse {} staple'",
    'DB_PASSWORD="it\'s {}" make', "serve --api-key={}", "PGPASSWORD={} psql",
    "MYSQL_PWD={}", "DB_PASS={}", "OPENAI_KEY={}", "API_KEY_1={}", "OPENAI_API_KEY_PROD={}", "PRIVATE-TOKEN: {}",
    "> api-key: {}", "Authorization: {}", "use bearer {} there",
    'A\\n\\"Authorization\\": \\"Bearer {}\\"', 'a\\nAPI_KEY=\\"{}\\"\\nB',
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "aws_secret_access_key = {}", "[db]\ndb_password={}\nport = 1", "  db_password: {}", "token: '{}'",
    'password = "{}"', "SECRET_KEY_BASE={}", "config.client_secret = {}  # ours", "$secret = '{}';",
    '{{"access_token": "{}"}}', "'secret' => '{}',", "AccountName=a;AccountKey={}==;EndpointSuffix=x",
    "SharedAccessKeyName=Root;SharedAccessKey={}=;EntityPath=q", "ENV API_KEY {}", "set -gx API_KEY {}; echo",
    "setenv DB_PASSWORD {}", "client_secret={}&grant_type=a", "//registry.example/:_authToken={}",
    "DB_PASSWORD=a$b&{}(x)", 'secret := "{}"', 'a\\n\\"client_secret\\": \\"{}\\"',
    "https://hooks.slack.com/services/T01AB2CD3/B02AB2CD3/{}",
)  # fmt: skip
COMMANDS = (
    "run --token {}", "run --password='{}'", "db_pass={} make", 'curl -H "X-Session: {}" a', "curl --cookie 'sid={}' a",
    "curl -H 'Authorization: Bearer {}' -H 'Accept: text/html' https://a.example", *PLACES,
)  # fmt: skip
MEMBERS = (
    '{"password": "§"}', '{"auth": {"type": "basic", "data": "§"}}', '{"credentials": ["me", "§"]}',
    '{"apiKey": {"value": ["§"]}}', '{"headers": {"Authorization": "§"}}', '{"headers": {"x-api-key": "§"}}',
    '{"headers": {"X-Other": "§"}}', '{"headers": ["Cookie: §"]}', '{"headers": [["Proxy-Authorization", "§"]]}',
    '{"http_headers": [{"name": "Set-Cookie", "value": "§"}]}', '{"env": {"type": "§"}}',
    '{"env": [{"name": "LANG", "value": "§"}]}', '{"env": ["LANG=§"]}', '{"args": ["--token", "§"]}',
    '{"command": ["run", "--api-key=§"]}', '{"args": ["-H", "X-Session: §"]}', '{"command": "TOKEN=§ run"}',
    '{"url": "https://a.example/?key=§"}', '{"name": "client_secret", "value": "§"}',
    '{"action": "accept", "content": {"a": "§"}}', '{"access_token": "§", "token_type": "bearer"}',
)  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert mask(text, []) == text
    assert mask(f"Of it: {text} and more", []) == f"Of it: {text} and more"


@given(st.lists(st.sampled_from(ORDINARY), max_size=6), st.sampled_from(["\n", " ", "\n\n    ", " | "]))
def test_ordinary_texts_stay_together(texts: list[str], between: str) -> None:
    assert mask(between.join(texts), []) == between.join(texts)


@pytest.mark.parametrize("message", MESSAGES)
def test_ordinary_members_stay(message: Any) -> None:
    assert masked(message, []) == message
    assert masked({"params": [{"update": message}]}, []) == {"params": [{"update": message}]}


@given(KEYS, AROUND, BESIDE, BESIDE)
def test_a_providers_key_is_hidden_whatever_is_around_it(key: str, around: str, before: str, after: str) -> None:
    text = "\n".join((before, around.format(key), after))
    assert key not in mask(text, [])
    assert key[-20:] not in mask(text, [])
    assert key not in json.dumps(masked({"a": [text], key: 1, "command": text, "args": [text]}, []))
    assert mask(text, []).startswith(before)
    assert mask(text, []).endswith(after)


@given(OPAQUE, st.sampled_from(PLACES), BESIDE, BESIDE)
def test_what_stands_where_a_secret_does_is_hidden(secret: str, place: str, before: str, after: str) -> None:
    text = "\n".join((before, place.format(secret), after))
    assert secret not in mask(text, [])
    assert mask(text, []).startswith(before)
    assert mask(text, []).endswith(after)


@given(OPAQUE, st.sampled_from(COMMANDS))
def test_what_a_command_is_given_is_hidden(secret: str, line: str) -> None:
    assert secret not in mask_command(line.format(secret), [])


@pytest.mark.parametrize("member", MEMBERS)
@given(secret=OPAQUE | st.sampled_from(["hunter2", "swordfish", "Tr0ub4dor&3"]))
@settings(max_examples=20)
def test_what_a_member_says_is_hidden(member: str, secret: str) -> None:
    assert secret not in json.dumps(masked(json.loads(member.replace("§", secret)), []))


@pytest.mark.parametrize("password", ["hunter2", "Tr0ub4dor&3", "pa$$w0rd(1)", "Summer2024!", "%9(yxz"])
@pytest.mark.parametrize(
    "place", ["DB_PASSWORD={}", "db_password={}", "db_password: {}", "password = {}", "ENV DB_PASS {}"]
)
def test_a_password_that_somebody_made_up_is_hidden_at_the_end_of_a_line_of_settings(password: str, place: str) -> None:
    line = place.format(password)
    assert mask(line, []) == place.format(MASK)
    assert mask(f"[a]\n{line}\nport = 1\n", []) == f"[a]\n{place.format(MASK)}\nport = 1\n"


BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"it says -----BEGIN PRIVATE KEY----- first and then we have {BODY} there", None),
        (f"-----BEGIN RSA PRIVATE KEY-----\nand here is the body of it\n{BODY}\n{BODY}\n-----END", None),
        (f"(mine): {BODY}\n> {BODY}\n", "(mine): ***\n"),
        (f'f("{BODY}\\n{BODY}=", "a")', 'f("***", "a")'),
        (f"key b3BlbnNzaC1rZXktdjEA{BODY} is it", "key *** is it"),
    ],
)
def test_a_private_key_among_words_or_without_its_marks_is_hidden(text: str, left: str | None) -> None:
    assert mask(text, []) == (left or text.replace(f"{BODY}\n{BODY}", BODY).replace(BODY, MASK))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33.", "***."),
        ("SignedHeaders=host, Signature=" + "5d672d79c15b1316" * 4, "SignedHeaders=host, Signature=***"),
        ("is 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0", "is ***"),
        ("https://a.example/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0/getMe", "https://a.example/bot***/getMe"),
        (
            "https://hooks.slack.com/services/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",
            "https://hooks.slack.com/services/***",
        ),
    ],
)
def test_keys_of_other_forms_are_hidden_alone(text: str, left: str) -> None:
    assert mask(text, []) == left


def test_a_number_in_the_environment_is_hidden_as_its_texts_are() -> None:
    assert masked({"env": {"PORT": 8080, "A": [1, {"b": 2.5}]}}, []) == {
        "env": {"PORT": MASK, "A": [MASK, {"b": MASK}]}
    }


def test_the_number_of_a_password_is_hidden_and_a_count_is_not() -> None:
    message = {
        "password": 1,
        "pin": 1234,
        "otp": 0,
        "client_secret": 1.5,
        "token": 123456,
        "auth": {"type": "a", "code": 7},
    }
    assert masked(message, []) == dict.fromkeys(message, MASK) | {"auth": {"type": "a", "code": 7}}
    counted: dict[str, Any] = {
        "token": 99_999,
        "tokens": 200_000,
        "api_key": 5,
        "is_password": 1,
        "password_length": 12,
    }
    assert masked(counted, []) == counted


JUNK = st.lists(
    st.sampled_from([*ORDINARY, *PLACES, *COMMANDS, *MEMBERS, MASK, *"\"'=: \n@", "hunter2x", f"sk-{'aB3' * 9}"]),
    max_size=5,
).map("".join)


@given(JUNK, st.sampled_from([[], ["hunter2x"], ["correct horse", "horse s"]]))
@example("run --token=autohttps://docs.example/#session=startfunction(){a=1;key=e.key;code=200;token=t}", [])
def test_what_is_masked_once_is_masked_for_good_and_hardly_longer(text: str, secrets: list[str]) -> None:
    for masks in (mask, mask_command, mask_broken, lambda text, secrets: mask_argument(text, "-e", secrets)):
        once = masks(text, secrets)
        assert masks(once, secrets) == once
        assert len(once) <= len(text) + 2 * text.count("S") + 2 * len(text.split())
        assert not [secret for secret in secrets if secret in once]


@given(JUNK, st.lists(st.integers(0, 200), max_size=4))
def test_the_same_is_hidden_of_a_text_that_comes_in_pieces(text: str, cuts: list[int]) -> None:
    stream, ends = StreamMask(["hunter2x"]), sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    shown = "".join(stream.feed(text[start:end]) for start, end in pairwise(ends))
    assert shown + stream.flush() == mask(text, ["hunter2x"])
