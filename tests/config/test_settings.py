"""What is said in which layer, and what a project may not say."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config import (
    MODES,
    CompactionChoices,
    ModelPrices,
    ModelSettings,
    ProviderSettings,
    Settings,
    Share,
    api_key,
    load_settings,
)
from acp_agent.errors import ConfigError


class Machine:
    """A user's folder and a project's, and the environment that names the first."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.cwd = root / "project"
        self.user_file = self.home / "config.yaml"
        self.project_file = self.cwd / ".acp-agent" / "config.yaml"
        self.user_file.parent.mkdir(parents=True)
        self.project_file.parent.mkdir(parents=True)
        self.env = {"ACP_AGENT_HOME": str(self.home)}

    def user(self, text: str) -> None:
        self.user_file.write_text(text)

    def project(self, text: str) -> None:
        self.project_file.write_text(text)

    def load(self, **env: str) -> Settings:
        return load_settings({**self.env, **env}, self.cwd)

    def error(self, **env: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(**env)
        return caught.value


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_any_file_the_defaults_hold(machine: Machine) -> None:
    assert load_settings(machine.env) == Settings(home=machine.home)
    assert machine.load() == Settings(home=machine.home, project=machine.project_file.parent)


def test_a_home_that_does_not_exist_is_not_made_by_reading(tmp_path: Path) -> None:
    home = tmp_path / "none"
    assert load_settings({"ACP_AGENT_HOME": str(home)}).home == home
    assert not home.exists()


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "{}\n", "model:\ncompaction:\nmodels:\nproviders:\n"])
def test_a_file_that_says_nothing_changes_nothing(machine: Machine, text: str) -> None:
    machine.user(text)
    assert load_settings(machine.env) == Settings(home=machine.home)


def test_the_users_file_can_set_everything(machine: Machine) -> None:
    machine.user("""\
model: local/qwen3:8b
small_model: local/qwen3:1b
mode: accept-edits
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
""")
    assert load_settings(machine.env) == Settings(
        home=machine.home,
        model="local/qwen3:8b",
        small_model="local/qwen3:1b",
        mode="accept-edits",
        thought_level="high",
        context_window=100_000,
        max_output_tokens=4000,
        max_turn_requests=50,
        max_turn_cost=2.5,
        shell_timeout=30.0,
        compaction_choices=CompactionChoices(False, 0.7, 0.6, True, 30_000, "mask", "a/small"),
        models={
            "anthropic/claude-sonnet-4-5": ModelSettings(
                200_000,
                64_000,
                ModelPrices(3.0, 0.3, 3.75, 15.0),
                CompactionChoices(True, 0.9, False, False, Share(0.3), "summary", "a/b"),
            ),
        },
        providers={
            "local": ProviderSettings("local", None, "http://127.0.0.1:8080/v1", "LOCAL_KEY", {"X-Team": "blue"}),
            "demo": ProviderSettings("demo", "scripted", script=machine.home / "demo.yaml"),
        },
    )


def test_the_project_overrides_the_user_key_by_key_and_the_environment_overrides_both(machine: Machine) -> None:
    machine.user("model: a/user\ncontext_window: 1000\nshell_timeout: 5\ncompaction: {auto: false, threshold: 0.5}\n")
    machine.project("model: a/project\ncontext_window: 2000\ncompaction: {threshold: 0.6}\n")
    settings = machine.load()
    assert (settings.model, settings.context_window, settings.shell_timeout) == ("a/project", 2000, 5.0)
    assert (settings.compaction.auto, settings.compaction.threshold) == (False, 0.6)
    settings = machine.load(ACP_AGENT_MODEL="a/env/with/slashes", ACP_AGENT_CONTEXT_WINDOW="3000")
    assert (settings.model, settings.context_window) == ("a/env/with/slashes", 3000)
    settings = machine.load(ACP_AGENT_MODEL="", ACP_AGENT_CONTEXT_WINDOW=" ")
    assert (settings.model, settings.context_window) == ("a/project", 2000)


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
PROJECT = st.fixed_dictionaries({}, optional={**SIMPLE, "mode": st.sampled_from(["plan", "ask"])})


@settings(deadline=None, max_examples=50)
@given(USER, PROJECT)
def test_a_project_chooses_freely_where_it_is_harmless_and_only_downwards_where_it_is_not(
    tmp_path_factory: pytest.TempPathFactory, user: dict[str, Any], project: dict[str, Any]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.user(yaml.safe_dump(user))
    machine.project(yaml.safe_dump(project))
    mine, ours = load_settings(machine.env), machine.load()
    assert {key: getattr(mine, key) for key in user} == user
    for key in ("model", "thought_level", "context_window", "max_output_tokens", "shell_timeout"):
        assert getattr(ours, key) == project.get(key, getattr(mine, key))
    assert MODES.index(ours.mode) == min(MODES.index(mine.mode), MODES.index(project.get("mode", mine.mode)))
    assert ours.max_turn_requests == min(mine.max_turn_requests, project.get("max_turn_requests", 10**9))
    unlimited = float("inf")
    cost = min(mine.max_turn_cost or unlimited, project.get("max_turn_cost", unlimited))
    assert (ours.max_turn_cost or unlimited) == cost


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("model: a/b\nproviders:\n  anthropic:\n    base_url: https://evil.example\n", 2, "providers"),
        ("# x\n\nproviders: {a: {headers: {X: y}}}\n", 3, "providers"),
        ("providers:\n", 1, "providers"),
        ("model: a/b\nmodels: {a/b: {prices: {input: 0}}}\n", 2, "models"),
        ("context_window: 5\nmode: full-access\n", 2, "mode"),
        ("mode: accept-edits\n", 1, "mode"),
    ],
)
def test_a_project_may_not_move_keys_or_widen_permissions_and_is_sent_to_the_users_file(
    machine: Machine, text: str, line: int, key: str
) -> None:
    machine.user("mode: full-access\n")
    machine.project(text)
    error = machine.error()
    assert (error.source, error.line, error.key) == (str(machine.project_file), line, key)
    assert str(machine.user_file) in str(error)


def test_a_projects_file_that_is_a_link_out_of_the_project_is_refused(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("token: abc\n")
    machine.project_file.symlink_to(tmp_path / "secret")
    assert "is a link that leads out of" in str(machine.error())


def test_the_users_file_may_be_a_link_as_dotfile_managers_make_them(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "dotfile").write_text("model: a/b\n")
    machine.user_file.symlink_to(tmp_path / "dotfile")
    assert machine.load().model == "a/b"


def test_a_home_that_is_the_projects_folder_is_the_users(machine: Machine) -> None:
    machine.project("mode: full-access\n")
    settings = load_settings({"ACP_AGENT_HOME": str(machine.project_file.parent)}, machine.cwd)
    assert (settings.mode, settings.project) == ("full-access", None)


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("model: a/b\nmodell: c\n", 2, "modell", "unknown key; did you mean `model`?"),
        ("max-turn-cost: 1\n", 1, "max-turn-cost", "did you mean `max_turn_cost`?"),
        ("zebra: 1\n", 1, "zebra", "unknown key; known here: model, thought_level,"),
        ("compaction:\n  auto: true\n  treshold: 0.5\n", 3, "compaction.treshold", "did you mean `threshold`?"),
        ("providers:\n  x:\n    api_key: sk-123\n", 3, "providers.x.api_key", "did you mean `api_key_env`?"),
        ("models:\n  a/b:\n    prices:\n      inputs: 1\n", 4, "models.a/b.prices.inputs", "did you mean `input`?"),
        ("models:\n  ab: {}\n", 2, "models.ab", "should be provider/model"),
        ("model: claude\n", 1, "model", "should be provider/model"),
        ("mode: god\n", 1, "mode", "should be 'plan', 'ask', 'accept-edits' or 'full-access'"),
        ("\nthought_level: huge\n", 2, "thought_level", "should be 'off', 'low', 'medium' or 'high'"),
        ("context_window: '100'\n", 1, "context_window", "should be a valid integer"),
        ("context_window: 0\n", 1, "context_window", "should be greater than 0, not 0"),
        ("context_window: yes\n", 1, "context_window", "should be a valid integer"),
        ("max_turn_cost: .inf\n", 1, "max_turn_cost", "should be a finite number"),
        ("compaction: {threshold: 80}\n", 1, "compaction.threshold", "should be less than or equal to 0.95, not 80"),
        ("compaction: 0.8\n", 1, "compaction", "should be `key: value` lines"),
        ("compaction: {auto: maybe}\n", 1, "compaction.auto", "should be a valid boolean"),
        ("providers:\n  a b: {}\n", 2, "providers.a b", "neither blanks nor slashes"),
        ("providers:\n  x:\n    kind: grpc\n", 3, "providers.x.kind", "should be 'openai-chat'"),
        ("providers:\n  x:\n    base_url: localhost:8080\n", 3, "providers.x.base_url", "http or https URL"),
        ("providers:\n  x:\n    base_url: https://me:pw@h\n", 3, "providers.x.base_url", "without user and password"),
        ("providers:\n  x:\n    base_url: 'http://[::1'\n", 3, "providers.x.base_url", "http or https URL"),
        ("providers:\n  x: {kind: scripted}\n", 2, "providers.x", "need each other"),
        (
            "providers:\n  x:\n    headers:\n      'a b': c\n",
            4,
            "providers.x.headers.a b",
            "name of an HTTP header",
        ),
        ('providers:\n  x:\n    headers:\n      a: "b\\nc"\n', 4, "providers.x.headers.a", "on one line"),
        ("mode: god\nmodel: claude\nzebra: 1\n", 1, "mode", "should be"),
        ("model: [\n", 2, None, "is not valid YAML"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(
    machine: Machine, text: str, line: int, key: str | None, words: str
) -> None:
    machine.user(text)
    error = machine.error()
    assert (error.source, error.line, error.key) == (str(machine.user_file), line, key)
    assert words in str(error)
    assert str(error).startswith(f"{machine.user_file}:{line}: ")


def test_a_key_in_the_place_of_its_variables_name_is_not_repeated_in_the_error(machine: Machine) -> None:
    machine.user("providers:\n  x:\n    api_key_env: sk-ant-secret\n    headers: {X: 'täter-secret'}\n")
    error = machine.error()
    assert (error.line, error.key) == (3, "providers.x.api_key_env")
    assert "never the key itself" in str(error)
    assert "secret" not in str(error)


def test_headers_do_not_show_in_a_printed_setting(machine: Machine) -> None:
    machine.user("providers: {x: {headers: {Authorization: Bearer secret}}}\n")
    assert "secret" not in repr(machine.load())


@pytest.mark.parametrize("window", ["0", "-1", "many", "1e5", "1" * 5000, "²"])
def test_a_window_that_is_no_number_of_tokens_names_its_variable(machine: Machine, window: str) -> None:
    error = machine.error(ACP_AGENT_CONTEXT_WINDOW=window)
    assert str(error) == "ACP_AGENT_CONTEXT_WINDOW: should be a number of tokens above 0, such as 200000"


def test_a_model_without_a_provider_names_its_variable(machine: Machine) -> None:
    assert str(machine.error(ACP_AGENT_MODEL="claude")).startswith("ACP_AGENT_MODEL: should be provider/model")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_a_sentence(machine: Machine) -> None:
    machine.user("model: a/b\n")
    machine.user_file.chmod(0)
    assert str(machine.error()) == f"{machine.user_file}: cannot be read (Permission denied)"


def test_a_key_is_read_from_the_variable_that_the_provider_names() -> None:
    provider = ProviderSettings("x", api_key_env="X_KEY")
    assert api_key({"X_KEY": " abc\n"}, provider) == "abc"
    assert api_key({"X_KEY": " "}, provider) is None
    assert api_key({}, provider) is None
    assert api_key({"X_KEY": "abc"}, replace(provider, api_key_env=None)) is None


def test_settings_are_plain_data(machine: Machine) -> None:
    machine.user("models: {a/b: {context_window: 5}}\n")
    assert asdict(machine.load())["models"]["a/b"]["context_window"] == 5


def test_without_a_file_neither_yaml_nor_pydantic_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from acp_agent.config import load_settings;"
        f"load_settings({{'ACP_AGENT_HOME': {str(tmp_path)!r}, 'ACP_AGENT_MODEL': 'a/b'}}, Path({str(tmp_path)!r}));"
        "print([name for name in ('yaml', 'pydantic', 'jinja2', 'asyncio') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "[]"
