"""What is masked in texts and commands, and that nothing else is."""

from __future__ import annotations

import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.secrets.known import remember_secret, secrets_of
from acp_agent.secrets.text import mask, mask_broken_json
from support.checkout import REPOSITORY

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
    "function(){a=1;key=e.key;code=200;token=t}", "for(i=0;key=next();){x=1;code=3}", "if(a<b;code=3)y",
    "a=1&key=5&b=2", '<div class="sk-cube-grid"><div class="sk-cube sk-cube1"></div></div>',
    ".sk-fading-circle .sk-circle12:before{top:0}", "sk-toggleable__label-arrow:before{content:'x'}",
    "#sk-container-id-1 div.sk-parallel-item", "pip install sk-learn-classifier", "rk-manhattan", "sk_learn_estimator",
    "gsk-helper-functions-index.js", "xapp-status-service", "pypi-server", "risk-sk-something-very-long-name.css",
    "glrt-a-test-of-likelihood-ratios", "hf_hub_download", "MAX_TOKEN=4096", "run --token=auto", "SECRET=True",
    "API_KEY=process.env.API_KEY", 'SECRET_KEY=os.getenv("X")', "SECRET_KEY=os.getenv", "API_KEY=$API_KEY make",
    "API_KEY=${API_KEY:-none}", "GITHUB_TOKEN=${{ secrets.X }}", "TOKEN=", "API_KEY=<your-key>", "API_KEY=your-api-key",
    'TOKEN="$(pass show shop)"', "API_KEY=xxxx", "const TOKEN=config.token;",
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
    'password: "Min. 8 characters"', "token_url = https://a.example/v2/token1",
    "publicKeyToken=b77a5c561934e089", "auth: v2AuthCapabilities(a?.b)", "api_key = settings.api_key_v2",
    "pagination_token: str", "sort_key = a7b3c9d1e5f7", "  -- password", "the ENV variable API_KEY names it",
    "set -x; echo token", "set the token now", "secret := r.Secret2", 'LS32_PAT = "(?:{hex}:{hex}|{ipv4})"',
    "SignedHeaders=host;x-amz-date, Signature=SIGNATURE", "key = 5", "API_KEY: $KEY",
    "12:30:AAA", "AGE-SECRET-KEY-1...",
    "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ",
    "api-key: is a header", "a.py,sha256=r8_aB3dE5fG7haB3dE5fG7haB3dE5fG7haB3dE5,12",
)  # fmt: skip
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
    [
        "{}",
        '"{}"',
        "({})",
        "`{}`",
        "key {}.",
        "[{}]",
        "日本{}語",
        "a={};b",
        "<{}>",
        "x\t{}\n",
        "\\n{}\\n",
    ]
)
OPAQUE = st.builds("{}".format, drawn(20))
PLACES = (
    "https://hooks.slack.com/services/T01AB2CD3/B02AB2CD3/{}",
    "https://a.example/cb?access_token={}&x=1", "GET /cb?code={}&state=1 HTTP/1.1", "https://me:{}@a.example/",
    "x ws://{}@a.example", "https://a.example/#id_token={}", "Authorization: Bearer {}",
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
    "SharedAccessKeyName=Root;SharedAccessKey={}=;EntityPath=q",
    "client_secret={}&grant_type=a", "//registry.example/:_authToken={}",
    'secret := "{}"', 'a\\n\\"client_secret\\": \\"{}\\"',
)  # fmt: skip
COMMANDS = (
    "run --token {}", "run --password='{}'", 'curl -H "X-Session: {}" a', "curl --cookie 'sid={}' a",
    "curl -H 'Authorization: Bearer {}' -H 'Accept: text/html' https://a.example", *PLACES,
)  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert mask(text, []) == text
    assert mask(f"Of it: {text} and more", []) == f"Of it: {text} and more"


def test_source_and_documents_stay() -> None:
    for path in (
        *(REPOSITORY / "acp_agent").rglob("*.py"),
        *(REPOSITORY / "docs").glob("*.md"),
    ):
        text = path.read_text()
        assert path.parent.name == "secrets" or mask(text, []) == text, path


@given(KEYS, AROUND, BESIDE, BESIDE)
def test_a_providers_key_is_masked_whatever_is_around_it(
    key: str, around: str, before: str, after: str
) -> None:
    shown = mask("\n".join((before, around.format(key), after)), [])
    assert key[-20:] not in shown
    assert shown.startswith(before)
    assert shown.endswith(after)


@given(OPAQUE, st.sampled_from(PLACES), BESIDE, BESIDE)
def test_what_stands_where_a_secret_does_is_masked(
    secret: str, place: str, before: str, after: str
) -> None:
    shown = mask("\n".join((before, place.format(secret), after)), [])
    assert secret not in shown
    assert shown.startswith(before)
    assert shown.endswith(after)


@given(OPAQUE, st.sampled_from(COMMANDS))
def test_what_a_command_is_given_is_masked(secret: str, line: str) -> None:
    assert secret not in mask(line.format(secret), [])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgres://me:hunter2@db/x", "postgres://***@db/x"),
        (
            "see https://hunter2@host.example/a, then",
            "see https://***@host.example/a, then",
        ),
        ("redis://:hunter2@cache:6379/0 ok", "redis://***@cache:6379/0 ok"),
        ("amqp://me:p@hunter2@mq/v and a@b.c", "amqp://***@mq/v and a@b.c"),
        ("ssh://me:hunter2@host/", "ssh://***@host/"),
        (
            "GET /a?page=1&sig=hunter2&token=hunter2&key=hunter2#x",
            "GET /a?page=1&sig=***&token=***&key=***#x",
        ),
        (
            "https://a.example/cb#access_token=hunter2",
            "https://a.example/cb#access_token=***",
        ),
        ("Authorization: Basic hunter2", "Authorization: Basic ***"),
        ('"authorization": "Bearer hunter2",', '"authorization": "Bearer ***",'),
        ("X-Api-Key: hunter2", "X-Api-Key: ***"),
        ("Cookie: sid=hunter2; lang=en", "Cookie: ***"),
        ("GITHUB_TOKEN=hunter2 npx x", "GITHUB_TOKEN=*** npx x"),
        ('export DB_PASSWORD="hunter2"', 'export DB_PASSWORD="***"'),
        ("serve --api-key=hunter2 --port 1", "serve --api-key=*** --port 1"),
    ],
)
def test_a_text_loses_its_secret_alone(text: str, left: str) -> None:
    assert mask(text, []) == left


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("run --token hunter2 --verbose", "run --token *** --verbose"),
        (
            "run --apiToken=hunter2 --auth 'hunter2' -v",
            "run --apiToken=*** --auth '***' -v",
        ),
        (
            """curl -H "X-Session: hunter2" -H 'Accept: *' u""",
            """curl -H "X-Session: ***" -H 'Accept: *' u""",
        ),
        (
            "TOKEN=$TOKEN run --token $TOKEN --max-tokens 5",
            "TOKEN=$TOKEN run --token $TOKEN --max-tokens 5",
        ),
        (
            "git log --author me && grep -n token src",
            "git log --author me && grep -n token src",
        ),
    ],
)
def test_a_command_loses_what_is_given_to_options_that_are_called_like_secrets(
    line: str, left: str
) -> None:
    assert mask(line, []) == left


BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize("end", ["\n", "\\n", "\n> ", '",\n"'])
def test_a_private_key_is_masked_however_its_lines_end(end: str) -> None:
    key = end.join(
        [
            "-----BEGIN PRIVATE KEY-----",
            BODY,
            BODY,
            "Ab3/=",
            "-----END PRIVATE KEY-----",
        ]
    )
    assert (
        mask(f"it is {key}.", [])
        == f"it is -----BEGIN PRIVATE KEY-----***{end}-----END PRIVATE KEY-----."
    )
    assert mask(key.partition("Ab3")[0], []) == f"-----BEGIN PRIVATE KEY-----***{end}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33.",
            "***.",
        ),
        (
            "https://a.example/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0/getMe",
            "https://a.example/***/getMe",
        ),
        (
            "https://hooks.slack.com/services/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",
            "https://hooks.slack.com/***",
        ),
    ],
)
def test_keys_of_other_forms_are_masked_alone(text: str, left: str) -> None:
    assert mask(text, []) == left


def test_variables_with_the_names_of_secrets_and_what_was_met_are_known() -> None:
    env = {
        "GITHUB_PAT": "12345678-pat",
        "MYSQL_PWD": "12345678-pwd",
        "KEY_OF_SHOP": "12345678-key",
        "SHORT_TOKEN": "1234567",
        "PWD": "/home/me/shop",
        "OLDPWD": "/home/me/other",
        "SSH_AUTH_SOCK": "/tmp/socket",
        "GIT_ASKPASS": "/usr/bin/ask",
        "API_KEY_FILE": "/run/secrets/key",
        "TOKEN_URL": "https://a.example/token",
    }
    remember_secret("a phrase that was met in this process")
    longest, *others = secrets_of(env)
    assert longest == "a phrase that was met in this process"
    assert sorted(others) == ["12345678-key", "12345678-pat", "12345678-pwd"]


def test_known_secrets_are_masked_wherever_they_stand_and_where_they_overlap() -> None:
    assert (
        mask("xcorrect horse battery y", ["correct horse", "horse battery"]) == "x*** y"
    )
    assert (
        mask_broken_json('{"value": "x", "a": "y", "apiKey": "z', [])
        == '{"value": "***", "a": "y", "apiKey": "***'
    )


@pytest.mark.process
def test_an_agent_that_starts_does_not_load_the_patterns() -> None:
    code = "import sys, acp_agent.app; print('acp_agent.secrets.text' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    assert ran.stdout == "False\n"
