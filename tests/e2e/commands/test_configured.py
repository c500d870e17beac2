"""`acp-agent models` and `acp-agent config`: what is configured, from where, and which
key is missing.
"""

from __future__ import annotations

from pathlib import Path

from support.called import call_command

CONFIG = """\
model: openai/gpt-6.2-sol
compaction:
  threshold: 0.7
models:
  work/big: {context_window: 300000, prices: {input: 1.5, output: 6}}
providers:
  work:
    kind: openai-chat
    base_url: https://gateway.example/v1
    api_key_env: WORK_KEY
    headers: {X-Team: very-secret-word}
mcp_servers:
  shop: {command: shop, env: {SHOP: very-secret-word}, args: [--token, very-secret-word]}
"""


def configured(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "config.yaml").write_text(CONFIG)


async def test_the_models_are_listed_with_window_and_price_and_the_providers_with_their_keys(
    tmp_path: Path,
) -> None:
    configured(tmp_path)
    ran = await call_command(
        tmp_path, "models", env={"OPENAI_API_KEY": "very-secret-word"}
    )
    rows = ran.out.splitlines()
    assert ran.code == 0
    assert "openai: the key is in OPENAI_API_KEY" in rows
    assert (
        "anthropic: no key: run `acp-agent login anthropic`, or set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
        in rows
    )
    assert "work: no key: run `acp-agent login work`, or set WORK_KEY" in rows
    [default] = [row for row in rows if row.startswith("  ▸ ")]
    assert default.startswith("  ▸ openai/gpt-6.2-sol ")
    [big] = [row for row in rows if " work/big " in row]
    assert "300,000 tokens (configured)" in big
    assert big.endswith("$1.5 in, $6 out per million tokens")
    assert f"({tmp_path}/state/config.yaml:1)" in ran.err
    assert "very-secret-word" not in ran.out + ran.err


async def test_without_a_key_the_models_are_listed_and_the_way_to_one_is_named(
    tmp_path: Path,
) -> None:
    ran = await call_command(
        tmp_path, "models", env={"OLLAMA_HOST": "http://127.0.0.1:9"}
    )
    assert ran.code == 1
    assert "anthropic/claude-sonnet-5-5" in ran.out
    assert "No model can be used." in ran.err
    assert "acp-agent login" in ran.err


async def test_every_setting_is_shown_with_the_place_it_is_from_and_no_secret(
    tmp_path: Path,
) -> None:
    configured(tmp_path)
    project = tmp_path / "shop"
    (project / ".acp-agent").mkdir(parents=True)
    (project / ".acp-agent" / "config.yaml").write_text("mode: plan\n")
    env = {
        "ACP_AGENT_MODEL": "anthropic/claude-opus-5-5",
        "ACP_AGENT_CONTEXT_WINDOW": "50000",
    }
    ran = await call_command(tmp_path, "config", env=env, cwd=project)
    rows = {row.split()[0]: " ".join(row.split()[1:]) for row in ran.out.splitlines()}
    own = f"{tmp_path}/state/config.yaml"
    assert ran.code == 0
    assert rows["model"] == "anthropic/claude-opus-5-5 # ACP_AGENT_MODEL"
    assert rows["context_window"] == "50000 # ACP_AGENT_CONTEXT_WINDOW"
    assert rows["mode"] == f"plan # {project}/.acp-agent/config.yaml:1"
    assert rows["compaction.threshold"].endswith(f"# {own}:3")
    assert rows["max_turn_requests"] == "200 # default"
    assert rows["providers.work.headers"] == f"(not shown) # {own}:11"
    assert rows["mcp_servers.shop.args"] == f"(not shown) # {own}:13"
    assert rows["models.work/big.context_window"] == f"300000 # {own}:5"
    assert "very-secret-word" not in ran.out + ran.err


async def test_the_models_of_a_scripted_provider_are_listed_and_can_be_completed(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "play.yaml").write_text("- text: Hello.\n")
    providers = f"providers: {{demo: {{kind: scripted, script: {tmp_path}/play.yaml}}}}"
    for model, listed in {
        "demo/other": ["  ▸ demo/other ", "    demo/play "],
        "demo/play": ["  ▸ demo/play "],
    }.items():
        (tmp_path / "state" / "config.yaml").write_text(
            f"model: {model}\n{providers}\n"
        )
        ran = await call_command(tmp_path, "models")
        rows = ran.out.splitlines()
        assert (ran.code, f"demo: plays {tmp_path}/play.yaml" in rows) == (0, True)
        its = [row for row in rows if " demo/" in row]
        assert len(its) == len(listed)
        assert all(map(str.startswith, its, listed)), its
