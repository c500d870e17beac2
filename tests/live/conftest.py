"""What the tests with real providers need: keys of the environment, the options of `make live`, and the cost."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from pluggy import Result

from acp_agent.config import load_settings
from acp_agent.config.settings import ProviderKind
from acp_agent.llm.places import BUILT_IN, key_variables
from support.checkout import REPOSITORY
from support.client import AgentProcess, connected_agent
from support.editors import ZED_BETA

MODELS = [f"{name}/{place.small or place.offered[-1]}" for name, place in BUILT_IN.items() if place.variables]
LIMITS: dict[str, Any] = {"max_output_tokens": 4_000, "max_turn_requests": 8, "max_turn_cost": 0.25}
LIMITS |= {"thought_level": "off", "compaction": {"auto": False}}
ALSO_PASSED = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
ALSO_PASSED += ("SSL_CERT_FILE", "SSL_CERT_DIR")
SPENT = defaultdict[str, list[float | None]](list)
"""By model, what each session cost; None where no price is known."""
SECRETS = set[str]()


@dataclass(frozen=True)
class Live:
    """A model of a provider whose key is there.

    :ivar session: connects to a new process, and opens a session in `folder`.
    """

    kind: ProviderKind
    folder: Path
    session: AbstractAsyncContextManager[tuple[AgentProcess, str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--model", metavar="PROVIDER/MODEL", help="this model alone, in place of a cheap one of each")
    parser.addoption("--config", metavar="FILE", help="a config.yaml of the agent, which may name further providers")


def pytest_configure(config: pytest.Config) -> None:
    config.option.tbstyle = "short"  # the others print arguments, among them environments with keys


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--model")
    metafunc.parametrize("model", [chosen] if chosen else MODELS)


@pytest.fixture
def live(model: str, tmp_path: Path, request: pytest.FixtureRequest) -> Live:
    name, home, folder = model.partition("/")[0], tmp_path / "home", tmp_path / "project"
    (home / "state" / "recipes").mkdir(parents=True, mode=0o700)
    folder.mkdir()
    own = request.config.getoption("--config")
    config = LIMITS | (yaml.safe_load(Path(own).read_text()) if own else {}) | {"model": model}
    (home / "state" / "config.yaml").write_text(yaml.safe_dump(config))
    compact = (REPOSITORY / "recipes" / "compact.md").read_text()
    native = compact.replace("\ncompaction:\n", "\ncompaction:\n  strategy: native\n")
    (home / "state" / "recipes" / "native.md").write_text(native.replace("name: compact", "name: native"))
    settings = load_settings({"ACP_AGENT_HOME": str(home / "state")})
    given, built_in = settings.providers.get(name), BUILT_IN.get(name)
    variables = key_variables(settings)
    keys = {each: os.environ[each] for each in variables if os.environ.get(each)}
    SECRETS.update(keys.values())
    SECRETS.update(filter(None, (urlsplit(os.environ.get(each, "")).password for each in ALSO_PASSED)))
    wanted = (given.api_key_env,) if given and given.api_key_env else built_in.variables if built_in else ()
    if wanted and not keys.keys() & set(wanted):
        pytest.skip(f"{name} wants a key in {' or '.join(wanted)}")
    env = keys | {each: os.environ[each] for each in ALSO_PASSED if os.environ.get(each)}

    @asynccontextmanager
    async def session() -> AsyncGenerator[tuple[AgentProcess, str]]:
        command = [str(Path(sys.executable).with_name("acp-agent"))]
        async with connected_agent(home=home, env=env, argv=command, capabilities=ZED_BETA) as agent:
            id = await agent.new_session(folder)
            await agent.wait_update("available_commands_update", timeout=30)
            try:
                yield agent, id
            finally:
                costs = [update["cost"] for update in agent.updates(kind="usage_update") if "cost" in update]
                SPENT[model].append(costs[-1]["amount"] if costs else None)

    kind = (given and given.kind) or (built_in.kind if built_in else "openai-chat")
    return Live(kind, folder, session())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Result[pytest.TestReport], None]:
    """Report a failure without keys."""
    report = (yield).get_result()
    if call.excinfo is not None and report.failed:
        text = str(report.longrepr)
        for secret in SECRETS:
            text = text.replace(secret, "[key]")
        report.longrepr, report.sections = text, []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for model, costs in SPENT.items():
        known = [cost for cost in costs if cost is not None]
        amount = f"${sum(known):.4f} by the agent's own figures" if known else "no price is known to the agent"
        terminalreporter.write_line(f"{model}: {amount} (sessions: {len(costs)})")
