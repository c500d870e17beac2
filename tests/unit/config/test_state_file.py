"""The small files in the agent's home that several processes change: `keys.json`,
`permissions.json` and `trust.json`.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_agent.config.keys import KeyStore
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.config.trust import ProjectCode, TrustStore, _CodeFile
from acp_agent.errors import ConfigError

CODE = ProjectCode(Path("/shop/.acp-agent"), (_CodeFile("hooks/a", "1"),))
PROJECT = Path("/shop")

Attempts = tuple[Callable[[], object], ...]


def keys(home: Path) -> Attempts:
    store = KeyStore(home)
    return store.read, lambda: store.store("openai", "secret"), store.remove


def rules(home: Path) -> Attempts:
    store = PermissionRules(home)
    return (
        lambda: store.of(PROJECT),
        lambda: store.allow(PROJECT, "edit"),
        lambda: store.revoke(PROJECT),
    )


def trust(home: Path) -> Attempts:
    store = TrustStore(home)
    return (
        lambda: store.trusts(CODE),
        lambda: store.trust([CODE]),
        lambda: store.revoke(PROJECT),
    )


FILES = {
    "keys.json": (keys, "the stored keys cannot be used; remove the file", "providers"),
    "permissions.json": (
        rules,
        '"Always allow" of earlier sessions has no effect; remove the file',
        "projects",
    ),
    "trust.json": (
        trust,
        "no hooks and recipes of projects are allowed; remove the file",
        "folders",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_entries_are_stored_privately_and_read_by_the_next_process(
    tmp_path: Path, name: str
) -> None:
    attempts, _, member = FILES[name]
    read, write, remove = attempts(tmp_path / "home")
    before = read()
    write()
    assert stat.S_IMODE((tmp_path / "home" / name).stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "home").iterdir()] == [name]
    written = json.loads((tmp_path / "home" / name).read_text())
    assert len(written[member]) == 1
    again, _, _ = attempts(tmp_path / "home")
    assert again() == read() != before
    remove()
    assert again() == read() == before


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"version": 9, "MEMBER": {}}', '{"version": 1}', "\udcff"],
)
def test_an_invalid_file_allows_nothing_and_is_not_changed(
    tmp_path: Path, name: str, text: str
) -> None:
    attempts, advice, member = FILES[name]
    contents = (
        [text, "[" * 100_000]
        if text == "[]"
        else [text, f'{{"version": 1, "{member}": {{"/shop": 1}}}}']
    )
    for content in contents:
        written = content.replace("MEMBER", member).encode(errors="surrogateescape")
        (tmp_path / name).write_bytes(written)
        for attempt in attempts(tmp_path):
            with pytest.raises(ConfigError) as caught:
                attempt()
            assert caught.value.source == str(tmp_path / name)
            assert advice in str(caught.value)
        assert (tmp_path / name).read_bytes() == written
