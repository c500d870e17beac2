"""What the tests with real providers need: keys of the environment, the options of
`make live`, and the cost.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from pluggy import Result

from acp_agent.config import load_settings
from acp_agent.config.keys import KeyStore
from acp_agent.config.settings import ProviderKind, Settings
from acp_agent.llm.credentials import ModelAccess
from acp_agent.llm.places import BUILT_IN, Places, key_variables
from support.checkout import REPOSITORY
from support.client import AgentProcess, connected_agent
from support.editors import ZED_BETA

MODELS = [
    f"{name}/{place.small or place.offered[-1]}"
    for name, place in BUILT_IN.items()
    if place.variables
]
REASONING_MODELS = ["anthropic/claude-haiku-5-5", "openai/gpt-6.2-sol"]
"""Cheap models whose providers check where reasoning stands."""
LIMITS: dict[str, Any] = {
    "max_output_tokens": 4_000,
    "max_turn_requests": 8,
    "max_turn_cost": 0.25,
}
LIMITS |= {"thought_level": "off", "compaction": {"auto": False}}
ALSO_PASSED = (
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
)
ALSO_PASSED += ("SSL_CERT_FILE", "SSL_CERT_DIR")
SPENT = defaultdict[str, list[float | None]](list)
"""By model, what each session cost; None where no price is known."""
FOUND: list[str] = []
"""What `test_reasoning.py` has found out."""
SECRETS = set[str]()


@dataclass(frozen=True)
class Live:
    """A model of a provider whose key is there.

    :ivar session: connects to a new process, and opens a session in `folder`.
    """

    kind: ProviderKind
    folder: Path
    session: AbstractAsyncContextManager[tuple[AgentProcess, str]]


@dataclass(frozen=True)
class Asked:
    """A provider that is asked without the agent.

    :ivar token: for Anthropic, in place of a key.
    :ivar put: see `note`.
    :ivar clients: closes the clients of the provider's SDK at the end of the test.
    """

    provider: str
    model: str
    kind: ProviderKind
    base_url: str | None
    key: str | None
    token: str | None
    headers: Mapping[str, str]
    put: Callable[[str, str, str], None]
    clients: ExitStack

    def note(self, question: str, answer: str) -> None:
        """Print an answer at the end of the run."""
        self.put(f"{self.provider}/{self.model}", question, answer)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--model",
        metavar="PROVIDER/MODEL",
        help="this model alone, in place of a cheap one of each",
    )
    parser.addoption(
        "--config",
        metavar="FILE",
        help="a config.yaml of the agent, which may name further providers",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The others print arguments, among them environments with keys.
    config.option.tbstyle = "short"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "model" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--model")
        models = REASONING_MODELS if "asked" in metafunc.fixturenames else MODELS
        metafunc.parametrize("model", [chosen] if chosen else models)


def provider_settings(
    model: str, home: Path, request: pytest.FixtureRequest
) -> tuple[Settings, dict[str, str]]:
    """Write the agent's configuration, and return it with the providers' keys, or skip
    the test if there is none.

    :param home: of the agent.
    """
    home.mkdir(parents=True, mode=0o700)
    own = request.config.getoption("--config")
    config = (
        LIMITS
        | (yaml.safe_load(Path(own).read_text()) if own else {})
        | {"model": model}
    )
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    settings = load_settings({"ACP_AGENT_HOME": str(home)})
    keys = {
        each: os.environ[each]
        for each in key_variables(settings)
        if os.environ.get(each)
    }
    SECRETS.update(keys.values())
    SECRETS.update(
        filter(
            None, (urlsplit(os.environ.get(each, "")).password for each in ALSO_PASSED)
        )
    )
    name = model.partition("/")[0]
    given = settings.providers.get(name)
    built_in = BUILT_IN.get(name)
    wanted = (
        (given.api_key_env,)
        if given and given.api_key_env
        else built_in.variables
        if built_in
        else ()
    )
    if wanted and not keys.keys() & set(wanted):
        pytest.skip(f"{name} wants a key in {' or '.join(wanted)}")
    return settings, keys


@pytest.fixture
def live(model: str, tmp_path: Path, request: pytest.FixtureRequest) -> Live:
    home = tmp_path / "home"
    folder = tmp_path / "project"
    folder.mkdir()
    settings, keys = provider_settings(model, home / "state", request)
    (home / "state" / "recipes").mkdir()
    compact = (REPOSITORY / "recipes" / "compact.md").read_text()
    native = compact.replace("\ncompaction:\n", "\ncompaction:\n  strategy: native\n")
    (home / "state" / "recipes" / "native.md").write_text(
        native.replace("name: compact", "name: native")
    )
    env = keys | {
        each: os.environ[each] for each in ALSO_PASSED if os.environ.get(each)
    }

    @asynccontextmanager
    async def session() -> AsyncGenerator[tuple[AgentProcess, str]]:
        command = [str(Path(sys.executable).with_name("acp-agent"))]
        async with connected_agent(
            home=home, env=env, argv=command, capabilities=ZED_BETA
        ) as agent:
            id = await agent.new_session(folder)
            await agent.wait_update("available_commands_update", timeout=30)
            try:
                yield agent, id
            finally:
                costs = [
                    update["cost"]
                    for update in agent.updates(kind="usage_update")
                    if "cost" in update
                ]
                SPENT[model].append(costs[-1]["amount"] if costs else None)

    kind = Places(settings, env, ModelAccess(KeyStore(home))).kind(
        model.partition("/")[0]
    )
    return Live(kind, folder, session())


@pytest.fixture
def note() -> Callable[[str, str, str], None]:
    """Keep an answer for the end of the run."""

    def put(model: str, question: str, answer: str) -> None:
        line = f"{model}, {question}: {answer}"
        for secret in SECRETS:
            line = line.replace(secret, "[key]")
        FOUND.append(line)

    return put


@pytest.fixture
def asked(
    model: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    note: Callable[[str, str, str], None],
) -> Generator[Asked]:
    home = tmp_path / "state"
    settings, keys = provider_settings(model, home, request)
    name, _, id = model.partition("/")
    env = keys | {
        each: os.environ[each] for each in ALSO_PASSED if os.environ.get(each)
    }
    endpoint = Places(settings, env, ModelAccess(KeyStore(home))).endpoint(name)
    SECRETS.update(endpoint.secrets)
    with ExitStack() as clients:
        yield Asked(
            name,
            id,
            endpoint.kind,
            endpoint.base_url,
            endpoint.key,
            endpoint.token,
            endpoint.headers,
            note,
            clients,
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, Result[pytest.TestReport], None]:
    """Report a failure without keys."""
    report = (yield).get_result()
    if call.excinfo is not None and report.failed:
        text = str(report.longrepr)
        for secret in SECRETS:
            text = text.replace(secret, "[key]")
        report.longrepr = text
        report.sections = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for model, costs in SPENT.items():
        known = [cost for cost in costs if cost is not None]
        amount = (
            f"${sum(known):.4f} by the agent's own figures"
            if known
            else "no price is known to the agent"
        )
        terminalreporter.write_line(f"{model}: {amount} (sessions: {len(costs)})")
    for line in FOUND:
        terminalreporter.write_line(line)
