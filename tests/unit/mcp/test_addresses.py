"""The addresses that an MCP server may send the user to: hosts as browsers show them,
no access and no secrets.
"""

from __future__ import annotations

import base64
import ipaddress
import string
from contextlib import suppress
from urllib.parse import quote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.mcp.addresses import check_address

KEY = "hunter2-Correct/Horse+Battery"
REFUSED = {
    "https://0x7f.1/": "four decimal numbers",
    "https://2130706433/": "four decimal numbers",
    "https://0x7f000001/": "four decimal numbers",
    "https://017700000001/": "four decimal numbers",
    "https://127.1/": "four decimal numbers",
    "https://127.0.0.1.1/": "four decimal numbers",
    "https://127.0.0.01/": "four decimal numbers",
    "https://0177.0.0.1/": "four decimal numbers",
    "https://example.0x/": "four decimal numbers",
    "https://256.1.1.1/": "four decimal numbers",
    "https://127.0.0.1./": "leave it out",
    "https://example.com./": "leave it out",
    "http://localhost.:80/": "leave it out",
    "https://[::ffff:127.0.0.1]/": "contains an IPv4 address",
    "https://[::ffff:7f00:1]/": "contains an IPv4 address",
    "https://[::7f00:1]/": "contains an IPv4 address",
    "https://[64:ff9b::7f00:1]/": "contains an IPv4 address",
    "https://[2002:7f00:1::]/": "contains an IPv4 address",
    "https://[2a00:0:0:0::1]/": "write `[2a00::1]`",
    "https://[2A00::1]/": "write `[2a00::1]`",
    "http://[0:0:0:0:0:0:0:1]:80/": "write `[::1]`",
    "https://[fe80::1%25eth0]/": "not valid",
    "https://\uff11\uff12\uff17.0.0.1/": "in ASCII",
    "https://ex\u0430mple.com/": "in ASCII",
    "https://example\u3002com/": "in ASCII",
    "https://%65xample.com/": "without percent-encoding",
    "https://example.com%2fevil.example/": "without percent-encoding",
    "https://PayPaI.com/": "write `paypai.com`",
    "https://a..b/": "is empty",
    "https://-/": "a hyphen",
    "https://example.com:/": "its port",
    "https://example.com:0443/": "its port",
    "https://example.com:65536/": "not valid",
    "https://user@example.com/": "before the host",
    "https://@example.com/": "before the host",
    "https://example.com\\@evil.example/": "a backslash",
    "https:example.com": "not valid",
    "https:///example.com": "not valid",
    "http://example.com/": "use `https`",
    "ftp://example.com/": "only `https` addresses",
    "https://example.com/?access_token=1": "`access_token`",
    "https://example.com/#id_token=1": "`id_token`",
    "https://example.com/?x=bo@example.com": "`x`",
    "https://example.com/?x=eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.x": "`x`",
    "https://example.com/in/ghp_0123456789abcdef0123456789abcdef0123": "looks like a key",
    "https://example.com/?x=ghp_0123456789abcdef0123456789abcdef0123": "looks like a key",
    "https://example.com/%67hp_0123456789abcdef0123456789abcdef0123": "looks like a key",
}
PASSED = """
https://example.com
https://example.com/in?a=b#c
https://example.com:443/
https://xn--e1afmkfd.example/
https://my_host.example/
https://intranet/
https://1.example.com/
https://192.0.2.7/in
https://[2a00::1]/in
http://localhost:8080/in
http://127.0.0.1:8123/callback?code=SplxlOBeZQQYbYS6WxSbIA&state=xyz
http://[::1]:80/
https://login.example/device?user_code=WDJB-MJHT
https://github.com/login/oauth/authorize?client_id=Iv1.8a61f9b3a7aba766&scope=repo%20read%3Aorg&allow_signup=false
"""
OAUTH = {
    "response_type": "code",
    "client_id": "1-a0b1c2d3e4f5.apps.googleusercontent.com",
    "scope": "openid email",
    "redirect_uri": "https://example.com/callback",
    "nonce": "0394852-3190485-2490358",
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "code_challenge_method": "S256",
    "resource": "https://mcp.example.com/mcp",
}
STATES = (
    "af0ifjsldkj9Zx81",
    "security_token=138r5719ru3e1&url=https://example.com/token",
    "eyJhbGciOiJIUzI1NiJ9.eyJyIjoiMSJ9.c2ln",
)


@pytest.mark.parametrize("url", REFUSED)
def test_a_host_that_is_not_written_as_browsers_show_it_is_refused_with_the_reason(
    url: str,
) -> None:
    with pytest.raises(ToolError, match="not passed on") as refused:
        check_address(url)
    assert REFUSED[url] in str(refused.value)


@pytest.mark.parametrize("url", PASSED.split())
def test_ordinary_addresses_are_passed_on(url: str) -> None:
    check_address(url, [KEY])


@pytest.mark.parametrize("state", STATES)
def test_addresses_of_oauth_are_passed_on(state: str) -> None:
    request = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJzNkJoZFJrcXQzIn0."
    for parameters in (
        {**OAUTH, "state": state},
        {**OAUTH, "state": state, "request": request},
    ):
        check_address(
            f"https://accounts.example.com/o/oauth2/v2/auth?{urlencode(parameters)}",
            [KEY],
        )


def forms(secret: str) -> list[str]:
    """Return ways to write a secret into an address."""
    data = secret.encode()
    encoded = quote(secret, safe="")
    everywhere = "".join(f"%{byte:02x}" for byte in data)
    shifted = [
        base64.urlsafe_b64encode(b"x" * count + data + b"yz").decode()
        for count in range(3)
    ]
    return [
        encoded,
        quote(encoded, safe=""),
        everywhere,
        data.hex(),
        data.hex().upper(),
        *shifted,
    ]


@given(
    st.text(string.ascii_letters + string.digits + "-_+/=.~!", min_size=8, max_size=60)
)
@example(KEY)
def test_an_address_that_contains_a_known_secret_in_any_spelling_is_refused(
    secret: str,
) -> None:
    for form in forms(secret):
        for url in (
            f"https://example.com/{form}/x",
            f"https://example.com/?state={form}",
            f"https://example.com/#{form}",
        ):
            with pytest.raises(ToolError):
                check_address(url, ["another-secret", secret])


def test_a_known_secret_in_the_host_is_refused() -> None:
    with pytest.raises(ToolError, match="one of the user's secrets"):
        check_address("https://correct-horse-7.evil.example/", ["Correct-Horse-7"])


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(("{}", "0x{:x}", "0{:o}")),
    st.sampled_from((1, 2, 3, 4)),
)
def test_of_all_spellings_of_an_ipv4_address_one_is_passed_on(
    number: int, form: str, count: int
) -> None:
    parts = [number >> 8 * (3 - place) & 255 for place in range(count - 1)]
    parts.append(number & (1 << 8 * (5 - count)) - 1)
    host = ".".join(form.format(part) for part in parts)
    is_canonical = host == str(ipaddress.IPv4Address(number))
    if is_canonical:
        check_address(f"https://{host}/")
    else:
        with pytest.raises(ToolError):
            check_address(f"https://{host}/")


@given(
    st.text(max_size=40),
    st.sampled_from(("", "https://", "https://[", "https://a:", "http://localhost")),
)
def test_any_text_is_refused_or_passed_on(text: str, before: str) -> None:
    with suppress(ToolError):
        check_address(before + text, [KEY])
