"""What is read of a configuration file of earlier versions, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.config import Settings, load_settings
from acp_agent.errors import ConfigError

STRATEGIES = ("summary", "excerpts", "mask")
SIZE = "`compaction.size` says how much the new context may take."


def load(root: Path, user: str, project: str = "") -> Settings:
    home, cwd = root / "home", root / "project"
    for folder, text in ((home, user), (cwd / ".acp-agent", project)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(text)
    return load_settings({"ACP_AGENT_HOME": str(home)}, cwd, strategies=STRATEGIES)


@pytest.mark.parametrize("key", ["tail", "ledger", "requests", "summary", "target"])
@pytest.mark.parametrize("value", ["0.5", "nonsense", "null", "{a: 1}"])
def test_a_removed_key_is_ignored_whatever_it_says_and_named_with_its_line(
    tmp_path: Path, key: str, value: str
) -> None:
    settings = load(tmp_path, f"compaction:\n  threshold: 0.7\n  {key}: {value}\n")
    assert settings.compaction.threshold == 0.7
    assert settings.notices == (
        f"{tmp_path / 'home' / 'config.yaml'}: `compaction.{key}` (line 3) is no longer used: {SIZE}",
    )


def test_several_old_keys_of_a_file_are_one_notice(tmp_path: Path) -> None:
    text = """\
compaction:
  target: 0.5
  strategy: ledger
models:
  a/b:
    compaction: {tail: 10%, strategy: truncate, size: 30%}
"""
    settings = load(tmp_path, text)
    assert settings.compaction.strategy == settings.compaction_for("a/b").strategy == "excerpts"
    [notice] = settings.notices
    assert notice == (
        f"{tmp_path / 'home' / 'config.yaml'}: `compaction.target` (line 2) and `models.a/b.compaction.tail` (line 6) "
        f"are no longer used: {SIZE} `compaction.strategy: ledger` (line 3) means `strategy: excerpts` now. "
        "`models.a/b.compaction.strategy: truncate` (line 6) means `strategy: excerpts` now."
    )


def test_each_file_has_a_notice_of_its_own(tmp_path: Path) -> None:
    settings = load(tmp_path, "compaction: {target: 0.5}\n", "compaction: {strategy: truncate}\n")
    user, project = settings.notices
    assert user.startswith(f"{tmp_path / 'home' / 'config.yaml'}: `compaction.target` (line 1)")
    assert project.startswith(f"{tmp_path / 'project' / '.acp-agent' / 'config.yaml'}: `compaction.strategy: truncate`")
    assert settings.compaction.strategy == "excerpts"


def test_a_file_without_old_keys_has_no_notice(tmp_path: Path) -> None:
    assert load(tmp_path, "compaction: {size: 20%, strategy: mask}\n").notices == ()


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("compaction:\n  target: 0.5\n  targets: 0.5\n", 3, "compaction.targets", "unknown key"),
        ("compaction:\n  target: 0.5\n  size: 5\n", 3, "compaction.size", "should be a share of the window"),
        ("target: 0.5\n", 1, "target", "unknown key"),
        ("providers:\n  x: {target: 0.5}\n", 2, "providers.x.target", "unknown key"),
        ("models:\n  - compaction: {target: 0.5}\n", 1, "models", "should be `key: value` lines"),
        ("compaction:\n  strategy: chunked\n", 2, "compaction.strategy", "there is no strategy 'chunked'"),
    ],
)
def test_what_was_a_mistake_is_one_still(tmp_path: Path, text: str, line: int, key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, text)
    assert (caught.value.line, caught.value.key) == (line, key)
