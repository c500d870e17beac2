"""What is taken for a secret in a text, and that nothing else is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.masking.commands import mask_argument, mask_command
from acp_agent.masking.texts import mask, secrets_of
from support.checkout import REPOSITORY

TAIL = "aB3" * 14
TOKENS = (
    f"github_pat_{TAIL}",
    f"ghp_{TAIL}",
    f"glpat-{TAIL[:20]}",
    f"hf_{TAIL}",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def-ghi",
    f"sk-proj-{TAIL}",
    "xoxb-1234567890-abcdef",
    f"AIza{TAIL}",
    f"npm_{TAIL}",
)
ORDINARY = (
    "the key of the door", "a token of thanks", "password: required",
    "see https://example.org:8080/a/@scope/b?page=2#top",
    "ssh://git@github.com/me/shop.git", "git@github.com:me/shop.git", "-    token = next(tokens)", "+    key=key,",
    "def login(password: str, *, token: str | None = None) -> bool:", "src/auth/token_store.py",
    "@@ -1,3 +1,4 @@ secret",
    "client = Client(api_key=key, auth=auth)", 'API_KEY = os.environ["API_KEY"]', 'TOKEN="$(pass show shop)" make',
    "Authorization: Bearer ${TOKEN}", "bearer authentication", "max_tokens=4096", "/home/me/.ssh/id_ed25519.pub",
    "curl -H 'Accept: text/plain' http://localhost:3000/users/me@example.org", "12:30 me@example.org wrote:",
    "authorization: true", '{"x-api-key": KEY}', "run it with --token or without",
    "sha256:9f86d081884c7d659a2feaa0c55ad015",
)  # fmt: skip
WORDS = st.lists(st.sampled_from(ORDINARY), max_size=6)
BETWEEN = st.sampled_from(["\n", "\n\n", "\n    "])


@given(WORDS, BETWEEN)
def test_ordinary_text_stays_as_it_is(words: list[str], between: str) -> None:
    text = between.join(words)
    assert mask(text, []) == text


@given(WORDS, st.sampled_from(TOKENS), WORDS)
def test_what_has_the_form_of_a_key_is_masked_and_nothing_around_it(
    before: list[str], token: str, after: list[str]
) -> None:
    start, end = "\n".join([*before, "it is "]), "\n".join([".", *after])
    assert mask(start + token + end, []).removeprefix(start).lstrip("*").removeprefix(".") == end.removeprefix(".")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgres://me:hunter2@db/x", "postgres://***@db/x"),
        ("see https://hunter2@host.example/a, then", "see https://***@host.example/a, then"),
        ("redis://:hunter2@cache:6379/0 ok", "redis://***@cache:6379/0 ok"),
        ("amqp://me:p@hunter2@mq/v and a@b.c", "amqp://***@mq/v and a@b.c"),
        ("ssh://me:hunter2@host/", "ssh://***@host/"),
        ("GET /a?page=1&sig=hunter2&token=hunter2&key=hunter2#x", "GET /a?page=1&sig=***&token=***&key=***#x"),
        ("https://a.example/cb#access_token=hunter2", "https://a.example/cb#access_token=***"),
        ("Authorization: Basic hunter2", "Authorization: Basic ***"),
        ('"authorization": "Bearer hunter2",', '"authorization": "Bearer ***",'),
        ("X-Api-Key: hunter2", "X-Api-Key: ***"),
        ("Cookie: sid=hunter2; lang=en", "Cookie: ***"),
        ("GITHUB_TOKEN=hunter2 npx x", "GITHUB_TOKEN=*** npx x"),
        ('export DB_PASSWORD="hunter2"', 'export DB_PASSWORD="***"'),
        ("serve --api-key=hunter2 --port 1", "serve --api-key=*** --port 1"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_a_text_loses_its_secret_alone(text: str, left: str) -> None:
    assert mask(text, []) == left


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("run --token hunter2 --verbose", "run --token *** --verbose"),
        ("run --apiToken=hunter2 --auth 'hunter2' -v", "run --apiToken=*** --auth '***' -v"),
        ("db_pass=hunter2 make all", "db_pass=*** make all"),
        ("""curl -H "X-Session: hunter2" -H 'Accept: *' u""", """curl -H "X-Session: ***" -H 'Accept: *' u"""),
        ("TOKEN=$TOKEN run --token $TOKEN --max-tokens 5", "TOKEN=$TOKEN run --token $TOKEN --max-tokens 5"),
        ("git log --author me && grep -n token src", "git log --author me && grep -n token src"),
    ],
)
def test_a_command_loses_what_is_given_to_options_that_are_called_like_secrets(line: str, left: str) -> None:
    assert mask_command(line, []) == left


@pytest.mark.parametrize(
    ("before", "argument", "left"),
    [
        ("--header", "Authorization: Basic hunter2", "Authorization: ***"),
        ("-H", "X-Session:hunter2", "X-Session:***"),
        (None, "--header=X-Session: hunter2", "--header=X-Session: ***"),
        ("--apiToken", "hunter2", "***"),
        ("--auth", "hunter2", "***"),
        ("-e", "GITHUB_PAT=hunter2", "GITHUB_PAT=***"),
        (None, "--password=my hunter2 word", "--password=***"),
        (None, "X-Api-Key: hunter2", "X-Api-Key: ***"),
        ("-c", "TOKEN=hunter2 npx x", "TOKEN=*** npx x"),
        (None, "https://a/?key=hunter2", "https://a/?key=***"),
        ("--token", "--verbose", "--verbose"),
        ("--token", "$TOKEN", "$TOKEN"),
        ("--port", "8080", "8080"),
        ("-m", "note: a key", "note: a key"),
    ],
)
def test_an_argument_loses_its_secret_alone(before: str | None, argument: str, left: str) -> None:
    assert mask_argument(argument, before, []) == left


def test_source_and_documents_stay_as_they_are() -> None:
    for path in (*(REPOSITORY / "acp_agent").rglob("*.py"), *(REPOSITORY / "docs").glob("*.md")):
        text = path.read_text()
        assert path.parent.name == "masking" or mask(text, []) == text, path


def test_variables_that_are_called_like_secrets_are_known() -> None:
    env = {
        "GITHUB_PAT": "12345678-pat",
        "MYSQL_PWD": "12345678-pwd",
        "DB_PASSWD": "12345678-passwd",
        "PWD": "/home/me/shop",
        "OLDPWD": "/home/me/other",
        "SSH_AUTH_SOCK": "/tmp/socket",
        "GIT_ASKPASS": "/usr/bin/ask",
        "API_KEY_FILE": "/run/secrets/key",
        "TOKEN_URL": "https://a.example/token",
    }
    assert sorted(secrets_of(env)) == ["12345678-passwd", "12345678-pat", "12345678-pwd"]


def test_an_agent_that_starts_does_not_load_what_finds_secrets_in_texts() -> None:
    code = "import sys, acp_agent.app; print('acp_agent.masking.forms' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert ran.stdout == "False\n"


@pytest.mark.parametrize("piece", ["token=", "A_TOKEN=(", "token = ", "password: x9&", 'token="', "set -x A_TOKEN "])
def test_a_text_of_many_names_takes_no_long_time(piece: str) -> None:
    assert mask(piece * 20_000, []) == piece * 20_000


def test_a_line_of_many_names_takes_no_long_time() -> None:
    for line in ("curl http://x/?" + "a=b?" * 100_000, "x='" + "a=1," * 100_000):
        assert mask_command(line, []) == line
