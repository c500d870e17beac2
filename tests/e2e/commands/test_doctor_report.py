"""`acp-agent doctor --report`: it has what the report of a fault needs, and no secret,
wherever one is kept.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from acp_agent import __version__
from support.called import call_command
from support.doctor import PATH, write

SECRETS = {
    "variable": "correct-horse-battery",
    "named variable": "staple-of-the-garden",
    "variable for a header": "three-blind-mice-run",
    "proxy": "tunnel-under-the-hill",
    "header": "apple-pie-with-cream",
    "key in the project": "moon-over-the-water",
    "argument": "rivers-run-to-the-sea",
    "variable of a server": "stone-on-the-road",
    "login in a URL": "gate-without-a-lock",
    "parameter of a URL": "q1w2e3r4t5y6u7",
    "stored key": "winter-is-very-long",
    "known form": "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4",
}
CONFIG = {
    "model": "shop/tea",
    "providers": {
        "shop": {
            "base_url": f"https://me:{SECRETS['login in a URL']}@127.0.0.1:9/v1",
            "api_key_env": "TEA",
            "headers": {"X-Shop-Door": SECRETS["header"]},
        }
    },
    "mcp_servers": {
        "till": {
            "command": "sh",
            "args": [
                "--api-key",
                SECRETS["argument"],
                "-p",
                "sh0rtandbare",
                "curl -u bob:l0ginofcurl https://x",
            ],
            "env": {"DOOR": SECRETS["variable of a server"]},
        },
        "web": {
            "url": f"http://127.0.0.1:9/mcp?api_key={SECRETS['parameter of a URL']}",
            "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"},
        },
    },
    "compaction": {"threshold": "80%"},
}
ENV = {
    "SHOP_TOKEN": SECRETS["variable for a header"],
    "ANTHROPIC_API_KEY": SECRETS["variable"],
    "TEA": SECRETS["named variable"],
    "HTTPS_PROXY": f"http://me:{SECRETS['proxy']}@127.0.0.1:9",
    "ACP_AGENT_TOKEN": SECRETS["variable"],
    "ACP_AGENT_MODEL": "shop/tea",
    "TERM": "xterm-256color",
    "PATH": PATH,
}


async def test_the_report_has_what_is_needed_and_no_secret_from_wherever_it_may_come(
    tmp_path: Path,
) -> None:
    write(tmp_path / "state" / "config.yaml", json.dumps(CONFIG, indent=1))
    write(
        tmp_path / "state" / "keys.json",
        json.dumps(
            {"version": 1, "providers": {"shop": {"key": SECRETS["stored key"]}}}
        ),
    )
    # A word of a command that may be a secret is masked in the log too.
    hook = {
        "command": f"curl --token {SECRETS['key in the project']}1 -H 'X-Key: {SECRETS['key in the project']}'"
    }
    project = {
        "mode": "plan",
        "hooks": {
            "session_start": [{**hook, "env": {"A": SECRETS["key in the project"]}}]
        },
    }
    write(tmp_path / ".acp-agent" / "config.yaml", json.dumps(project))
    lines = [
        f"line {number}: the {kind} is {secret}, sent"
        for number, (kind, secret) in enumerate(SECRETS.items())
    ]
    header = "Authorization: Bearer b3arer0fn0th1ngatall"
    end = [*lines, header, "sh -p sh0rtandbare failed"]
    write(
        tmp_path / "state" / "logs" / "acp-agent.log",
        "\n".join(["long ago"] + ["between"] * 30 + end),
    )

    ran = await call_command(tmp_path, "doctor", "--offline", "--report", env=ENV)

    assert ran.out.startswith("Read this before you send it")
    assert [kind for kind, secret in SECRETS.items() if secret in ran.out] == []
    assert header not in ran.out
    assert "sh0rtandbare" not in ran.out
    assert "l0ginofcurl" not in ran.out
    assert "curl -u" not in ran.out
    assert '"command": "curl ***"' in ran.out
    assert str(tmp_path) not in ran.out
    for needed in (
        f"acp-agent {__version__}",
        platform.python_version(),
        platform.platform(),
        "\nanthropic 2.",
        "TERM=xterm-256color",
        "ACP_AGENT_MODEL=shop/tea",
        "ACP_AGENT_TOKEN=***",
        "HTTPS_PROXY=http://***@127.0.0.1:9",
        '"base_url": "https://***@127.0.0.1:9/v1"',
        '"threshold": "80%"',
        '"mode": "plan"',
        "should be an http or https URL without user and password",
        "line 0: the variable is ***, sent",
    ):
        assert needed in ran.out, needed
    assert "long ago" not in ran.out


async def test_the_report_masks_whatever_may_give_access_in_an_address_of_a_server_a_provider_or_a_proxy(
    tmp_path: Path,
) -> None:
    key = "aLphabetSoup"
    addresses = [
        f"https://mcp.example.com/api/mcp/s/{key}1/mcp",
        f"https://example.com/{key}2",
        f"https://example.com/mcp?{key}3",
        f"https://example.com/mcp?a={key}4#{key}5",
        f"https://{key.lower()}6-0123456789.example.com/sse",
        f"https://example.com/mcp/short{key[:2]}7",
    ]
    servers: dict[str, object] = {
        f"s{number}": {"url": address} for number, address in enumerate(addresses)
    }
    servers["program"] = {
        "command": "sh",
        "args": [f"https://example.com/{key}8"],
        "env": {"AT": f"{key}9"},
    }
    config = {
        "providers": {"shop": {"base_url": f"https://example.com/{key}10/v1"}},
        "mcp_servers": servers,
    }
    write(tmp_path / "state" / "config.yaml", json.dumps(config))
    said = [f"the server {address} answered 500." for address in addresses]
    write(
        tmp_path / "state" / "logs" / "acp-agent.log",
        "\n".join([*said, f"left: {key}2"]),
    )
    env = {
        "PATH": PATH,
        "HTTPS_PROXY": f"http://127.0.0.1:9/{key}11",
        "ALL_PROXY": f"http://u:{key}12@127.0.0.1:9",
    }
    env["HTTP_PROXY"] = f"u:{key}12@127.0.0.1:9"  # without a scheme

    ran = await call_command(tmp_path, "doctor", "--offline", "--report", env=env)

    assert key.lower() not in ran.out.lower()
    assert "shortaL7" not in ran.out
    assert '"url": "https://mcp.example.com/api/mcp/***/***/mcp"' in ran.out
    assert "the server https://example.com/*** answered 500." in ran.out
    assert '"base_url": "https://example.com/***/v1"' in ran.out


@pytest.mark.parametrize(
    ("config", "says"),
    [(None, "is not there, or empty"), ("model: [\n", "cannot be read: ")],
)
async def test_a_report_is_made_where_the_configuration_is_missing_or_broken(
    tmp_path: Path, config: str | None, says: str
) -> None:
    if config is not None:
        write(tmp_path / "state" / "config.yaml", config)
    ran = await call_command(
        tmp_path, "doctor", "--offline", "--report", env={"PATH": PATH}
    )
    assert f"~/state/config.yaml {says}" in ran.out
    assert "~/state/logs/acp-agent.log" in ran.out
    assert "none: No such file or directory" in ran.out


async def test_a_link_in_a_project_is_not_followed_out_of_it(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere.yaml", "private: everything\n")
    (tmp_path / "project" / ".acp-agent").mkdir(parents=True)
    (tmp_path / "project" / ".acp-agent" / "config.yaml").symlink_to(
        tmp_path / "elsewhere.yaml"
    )
    ran = await call_command(
        tmp_path,
        "doctor",
        "--offline",
        "--report",
        env={"PATH": PATH},
        cwd=tmp_path / "project",
    )
    assert "cannot be read: is a link to a file outside" in ran.out
    assert "everything" not in ran.out
