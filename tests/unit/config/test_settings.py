"""The layers of settings, the keys that a project cannot set, and error messages."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config import Settings, load_settings
from acp_agent.config.forms import Share
from acp_agent.config.settings import (
    MODES,
    CompactionSettings,
    McpServer,
    ModelPrices,
    ModelSettings,
    ProtocolSettings,
    ProviderSettings,
)
from support.configuration import Machine

EVERYTHING = """\
model: local/qwen3:8b
small_model: local/qwen3:1b
mode: accept-edits
remember_permissions: session
prompts_while_working: steer
thought_level: high
context_window: 100000
max_output_tokens: 4000
max_turn_requests: 50
max_turn_cost: 2.5
shell_timeout: 30
compaction: {auto: false, threshold: 0.7, prepare: 0.6, wait: true, size: 30000, strategy: mask, model: a/small}
models:
  anthropic/claude-sonnet-4-5:
    context_window: 200000
    max_output_tokens: 64000
    prices: {input: 3, cached_input: 0.3, cache_write: 3.75, output: 15}
    compaction: {auto: true, threshold: 0.9, prepare: off, wait: false, size: 30%, strategy: summary, model: a/b}
providers:
  local:
    base_url: http://127.0.0.1:8080/v1/
    api_key_env: LOCAL_KEY
    headers: {X-Team: blue}
  demo: {kind: scripted, script: demo.yaml}
mcp_servers:
  files: {command: mcp-files, args: [--root, .], env: {TOKEN: '${TOKEN}'}, timeout: 5}
  web: {url: https://mcp.example.com/, headers: {X-Team: blue}}
  old: {url: https://old.example.com, transport: sse}
wire_log: true
protocol: {versions: [1]}
"""


def test_without_files_the_defaults_apply_and_no_home_is_created(
    machine: Machine, tmp_path: Path
) -> None:
    machine.project_file.parent.rmdir()
    assert load_settings(machine.env, machine.cwd) == Settings(home=machine.home)
    (machine.project_file.parent / "hooks").mkdir(parents=True)
    assert load_settings(machine.env, machine.cwd) == Settings(
        home=machine.home, project=machine.project_file.parent
    )
    assert (
        load_settings({"ACP_AGENT_HOME": str(tmp_path / "none")}).home
        == tmp_path / "none"
    )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# nothing\n",
        "{}\n",
        "model:\ncompaction:\nmodels:\nproviders:\n",
        "models: {a/b: {prices: }}",
    ],
)
def test_an_empty_file_changes_nothing(machine: Machine, text: str) -> None:
    found = machine.load(text)
    assert found.models in ({}, {"a/b": ModelSettings()})
    project = machine.project_file.parent
    expected = Settings(
        home=machine.home,
        project=project,
        root=machine.cwd,
        models=found.models,
        places=found.places,
    )
    assert asdict(found) == asdict(expected)


def test_the_user_s_file_can_set_everything(machine: Machine) -> None:
    assert machine.load(EVERYTHING) == Settings(
        home=machine.home,
        project=machine.project_file.parent,
        model="local/qwen3:8b",
        small_model="local/qwen3:1b",
        mode="accept-edits",
        remember_permissions="session",
        prompts_while_working="steer",
        thought_level="high",
        context_window=100_000,
        max_output_tokens=4000,
        max_turn_requests=50,
        max_turn_cost=2.5,
        shell_timeout=30.0,
        compaction=CompactionSettings(
            False, 0.7, 0.6, None, True, 30_000, "mask", "a/small"
        ),
        models={
            "anthropic/claude-sonnet-4-5": ModelSettings(
                200_000,
                64_000,
                ModelPrices(3.0, 0.3, 3.75, 15.0),
                CompactionSettings(
                    True, 0.9, False, None, False, Share(0.3), "summary", "a/b"
                ),
            )
        },
        providers={
            "local": ProviderSettings(
                "local",
                None,
                "http://127.0.0.1:8080/v1",
                "LOCAL_KEY",
                {"X-Team": "blue"},
            ),
            "demo": ProviderSettings(
                "demo", "scripted", script=machine.home / "demo.yaml"
            ),
        },
        mcp_servers={
            "files": McpServer(
                "files",
                "stdio",
                "mcp-files",
                ("--root", "."),
                {"TOKEN": "${TOKEN}"},
                timeout=5.0,
                variables=True,
            ),
            "web": McpServer(
                "web",
                "http",
                url="https://mcp.example.com",
                headers={"X-Team": "blue"},
                variables=True,
            ),
            "old": McpServer(
                "old", "sse", url="https://old.example.com", variables=True
            ),
        },
        wire_log=True,
        protocol=ProtocolSettings((1,)),
    )


def test_the_project_overrides_the_user_s_keys_and_the_environment_overrides_both(
    machine: Machine,
) -> None:
    user = "model: a/user\ncontext_window: 1000\nshell_timeout: 5\ncompaction: {auto: false, threshold: 0.5}\n"
    project = "model: a/project\ncontext_window: 2000\ncompaction: {threshold: 0.6}\n"
    found = machine.load(user, project)
    assert (found.model, found.context_window, found.shell_timeout) == (
        "a/project",
        2000,
        5.0,
    )
    assert (found.compaction.auto, found.compaction.threshold) == (False, 0.6)
    found = machine.load(
        user,
        project,
        ACP_AGENT_MODEL="a/env/with/slashes",
        ACP_AGENT_CONTEXT_WINDOW="3000",
    )
    assert (found.model, found.context_window) == ("a/env/with/slashes", 3000)
    found = machine.load(
        user, project, ACP_AGENT_MODEL="", ACP_AGENT_CONTEXT_WINDOW=" "
    )
    assert (found.model, found.context_window) == ("a/project", 2000)


SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "model": st.sampled_from(["a/b", "c/d"]),
    "thought_level": st.sampled_from(["off", "low", "medium", "high"]),
    "context_window": st.integers(1, 1_000_000),
    "max_output_tokens": st.integers(1, 1_000_000),
    "shell_timeout": st.floats(1, 1000),
    "max_turn_requests": st.integers(1, 500),
    "max_turn_cost": st.floats(0.01, 100),
}
USER = st.fixed_dictionaries({}, optional={**SIMPLE, "mode": st.sampled_from(MODES)})
PROJECT = st.fixed_dictionaries(
    {}, optional={**SIMPLE, "mode": st.sampled_from(["plan", "ask"])}
)


@given(USER, PROJECT)
def test_a_project_sets_harmless_keys_freely_and_others_only_more_strictly(
    tmp_path_factory: pytest.TempPathFactory,
    user: dict[str, Any],
    project: dict[str, Any],
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    ours = machine.load(yaml.safe_dump(user), yaml.safe_dump(project))
    mine = load_settings(machine.env)
    assert {key: getattr(mine, key) for key in user} == user
    for key in (
        "model",
        "thought_level",
        "context_window",
        "max_output_tokens",
        "shell_timeout",
    ):
        assert getattr(ours, key) == project.get(key, getattr(mine, key))
    assert MODES.index(ours.mode) == min(
        MODES.index(mine.mode), MODES.index(project.get("mode", mine.mode))
    )
    assert ours.max_turn_requests == min(
        mine.max_turn_requests, project.get("max_turn_requests", 10**9)
    )
    unlimited = float("inf")
    cost = min(mine.max_turn_cost or unlimited, project.get("max_turn_cost", unlimited))
    assert (ours.max_turn_cost or unlimited) == cost


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (
            "model: a/b\nproviders:\n  anthropic:\n    base_url: https://evil.example\n",
            2,
            "providers",
        ),
        ("small_model: a/b\n", 1, "small_model"),
        ("remember_permissions: project\n", 1, "remember_permissions"),
        ("prompts_while_working: steer\n", 1, "prompts_while_working"),
        ("model: a/b\nmodels: {a/b: {prices: {input: 0}}}\n", 2, "models"),
        ("mcp_servers: {x: {command: y}}\n", 1, "mcp_servers"),
        ("wire_log: true\n", 1, "wire_log"),
        ("protocol: {versions: [1]}\n", 1, "protocol"),
        ("sandbox:\n  write: [/]\n", 2, "sandbox.write"),
        ("context_window: 5\nmode: full-access\n", 2, "mode"),
    ],
)
def test_a_project_s_disallowed_keys_are_ignored_with_a_notice(
    machine: Machine, text: str, line: int, key: str
) -> None:
    found = machine.load("mode: plan\n", f"{text}max_turn_requests: 7\n")
    kept = replace(
        found, max_turn_requests=200, model=None, context_window=None, notices=()
    )
    assert kept == machine.load("mode: plan\n")
    assert found.max_turn_requests == 7
    [notice] = found.notices
    assert notice.startswith(f"{machine.project_file}:{line}: {key}: ")
    assert notice.endswith(f" {machine.user_file}. The key was ignored.")


def test_a_project_s_unknown_keys_are_ignored_with_a_notice_each(
    machine: Machine,
) -> None:
    project = "modle: a/b\ncompaction:\n  treshold: 0.5\n  prepare: off\ncontext_window: 5\nprovider: {a: b}\n"
    found = machine.load("", project)
    assert (found.context_window, found.compaction) == (
        5,
        CompactionSettings(prepare=False),
    )
    first, second, third = found.notices
    assert (
        first
        == f"{machine.project_file}:1: modle: unknown key; did you mean `model`? The key was ignored."
    )
    assert second.startswith(
        f"{machine.project_file}:6: provider: unknown key; use one of: compaction, context_window, "
    )
    assert "providers" not in second
    assert third == (
        f"{machine.project_file}:3: compaction.treshold: unknown key; did you mean `threshold`? The key was ignored."
    )


def test_the_user_s_file_may_be_a_link_but_a_project_s_must_stay_inside(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "dotfile").write_text("model: a/b\n")
    machine.user_file.symlink_to(tmp_path / "dotfile")
    assert machine.load().model == "a/b"
    machine.project_file.unlink()
    machine.project_file.symlink_to(tmp_path / "dotfile")
    assert "is a link to a file outside" in str(machine.error())


def test_a_home_that_is_the_project_s_folder_counts_as_the_user_s(
    machine: Machine,
) -> None:
    machine.project_file.write_text("mode: full-access\n")
    found = load_settings(
        {"ACP_AGENT_HOME": str(machine.project_file.parent)}, machine.cwd
    )
    assert (found.mode, found.project) == ("full-access", None)


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("model: a/b\nmodell: c\n", 2, "modell", "unknown key; did you mean `model`?"),
        ("max-turn-cost: 1\n", 1, "max-turn-cost", "did you mean `max_turn_cost`?"),
        (
            "zebra: 1\n",
            1,
            "zebra",
            "unknown key; use one of: additional_directories, compaction,",
        ),
        ("home: /tmp\n", 1, "home", "unknown key; "),
        (
            "compaction:\n  auto: true\n  treshold: 0.5\n",
            3,
            "compaction.treshold",
            "did you mean `threshold`?",
        ),
        (
            "providers:\n  x:\n    api_key: sk-123\n",
            3,
            "providers.x.api_key",
            "did you mean `api_key_env`?",
        ),
        (
            "providers:\n  x:\n    name: y\n",
            3,
            "providers.x.name",
            "unknown key; use one of: api_key_env, base_url,",
        ),
        (
            "models:\n  a/b:\n    prices:\n      inputs: 1\n",
            4,
            "models.a/b.prices.inputs",
            "did you mean `input`?",
        ),
        ("models:\n  ab: {}\n", 2, "models.ab", "should be provider/model"),
        (
            "mode: god\n",
            1,
            "mode",
            "should be 'plan', 'ask', 'accept-edits' or 'full-access'",
        ),
        ("context_window: '100'\n", 1, "context_window", "should be a valid integer"),
        ("max_turn_cost: .inf\n", 1, "max_turn_cost", "should be a valid number"),
        (
            "compaction: 0.8\n",
            1,
            "compaction",
            "should be a mapping: `key: value` lines",
        ),
        (
            "providers:\n  a b: {}\n",
            2,
            "providers.a b",
            "neither white space nor slashes",
        ),
        (
            "providers:\n  x:\n    kind: grpc\n",
            3,
            "providers.x.kind",
            "should be 'openai-chat'",
        ),
        (
            "providers:\n  x:\n    base_url: localhost:8080\n",
            3,
            "providers.x.base_url",
            "http or https URL",
        ),
        (
            "providers:\n  x:\n    base_url: https://me:pw@h\n",
            3,
            "providers.x.base_url",
            "without user and password",
        ),
        (
            "providers:\n  x: {kind: scripted}\n",
            2,
            "providers.x",
            "`script` requires `kind: scripted`",
        ),
        (
            "providers:\n  x:\n    headers:\n      'a b': c\n",
            4,
            "providers.x.headers.a b",
            "name of an HTTP header",
        ),
        (
            'providers:\n  x:\n    headers:\n      a: "b\\nc"\n',
            4,
            "providers.x.headers.a",
            "on one line",
        ),
        (
            "mcp_servers:\n  x: {}\n",
            2,
            "mcp_servers.x",
            "either `command: PROGRAM` or `url: ADDRESS`",
        ),
        (
            "mcp_servers:\n  x: {command: y, headers: {}}\n",
            2,
            "mcp_servers.x",
            "`headers` can only be used with `url`",
        ),
        (
            "mcp_servers:\n  x: {url: https://x, args: []}\n",
            2,
            "mcp_servers.x",
            "can only be used with `command`",
        ),
        (
            "mcp_servers:\n  x: {command: y, args: z}\n",
            2,
            "mcp_servers.x.args",
            "should be a list",
        ),
        ("protocol: {versions: [2]}\n", 1, "protocol.versions", "should include 1"),
        ("mode: god\nmodel: claude\nzebra: 1\n", 1, "mode", "should be"),
        ("model: [\n", 2, None, "is not valid YAML"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(
    machine: Machine, text: str, line: int, key: str | None, words: str
) -> None:
    error = machine.error(text)
    assert (error.source, error.line, error.key) == (str(machine.user_file), line, key)
    assert words in str(error)
    assert str(error).startswith(f"{machine.user_file}:{line}: ")


def test_errors_and_printed_settings_do_not_repeat_secrets(
    machine: Machine,
) -> None:
    error = machine.error(
        "providers:\n  x:\n    api_key_env: sk-ant-hidden\n    headers: {X: 'täter-hidden'}\n"
    )
    assert (error.line, error.key) == (3, "providers.x.api_key_env")
    assert "not the key itself" in str(error)
    assert "hidden" not in str(error)
    assert "secret" not in repr(
        machine.load("providers: {x: {headers: {Authorization: Bearer secret}}}\n")
    )


@pytest.mark.parametrize("window", ["0", "-1", "many", "1e5", "1" * 5000, "²"])
def test_an_invalid_variable_is_named(machine: Machine, window: str) -> None:
    error = machine.error(ACP_AGENT_CONTEXT_WINDOW=window)
    assert (
        str(error)
        == "ACP_AGENT_CONTEXT_WINDOW: should be a number of tokens above 0, such as 200000"
    )
    assert str(machine.error(ACP_AGENT_MODEL="claude")).startswith(
        "ACP_AGENT_MODEL: should be provider/model"
    )


@pytest.mark.process
def test_without_a_file_neither_yaml_nor_pydantic_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from acp_agent.config import load_settings;"
        f"load_settings({{'ACP_AGENT_HOME': {str(tmp_path)!r}, 'ACP_AGENT_MODEL': 'a/b'}}, Path({str(tmp_path)!r}));"
        "print([name for name in ('yaml', 'pydantic', 'jinja2', 'asyncio') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert run.stdout.strip() == "[]"
