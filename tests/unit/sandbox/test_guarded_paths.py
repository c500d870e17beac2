"""The table of what other programs run by themselves."""

from __future__ import annotations

import csv
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.sandbox import guarded_paths as module
from acp_agent.sandbox.guarded_paths import (
    How,
    guarded_paths,
    is_guarded,
    matches_pattern,
    pattern_paths,
)
from support.checkout import REPOSITORY

TABLE = Path(module.__file__).with_name("guarded.csv")


def test_every_guarded_path_says_who_runs_it_and_where_that_is_documented() -> None:
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["path"] == str(Path(row["path"])), row
        assert not row["path"].startswith(("/", "..")), row
        assert row["how"] in get_args(How), row
        assert len(row["run_by"]) > 5, row
        source = row["source"]
        is_documented = (
            urlsplit(source).scheme == "https" or (REPOSITORY / source).is_file()
        )
        assert is_documented, row
    assert (
        len({row["path"].lower() for row in rows}) == len(rows) == len(guarded_paths())
    )


def test_wildcards_stand_in_the_last_part_of_a_path_and_never_for_a_placeholder() -> (
    None
):
    for row in guarded_paths():
        assert "*" not in "".join(row.parts[:-1])
    assert all(len(row.parts) == 1 for row in guarded_paths("covered", "private"))
    assert pattern_paths("covered", "private", "asked") == ()


@given(
    st.sampled_from(guarded_paths()),
    st.booleans(),
    st.sampled_from(["", "packages/one"]),
    st.booleans(),
)
def test_an_edit_of_each_is_asked_for_wherever_it_lies_and_however_it_is_written(
    row: module.Guarded, upper: bool, above: str, deeper: bool
) -> None:
    name = "/".join(row.parts).replace("*", "shop")
    path = Path("/project", above, name.upper() if upper else name)
    assert is_guarded(path)
    assert is_guarded(path / "inner" / "file.json" if deeper else path)


@pytest.mark.parametrize(
    "name",
    [
        "src/app.py", "package.json", "Makefile", ".gitignore", ".env", "Taskfile.yml", "pyproject.toml", "hooks/x",
        "gradle/libs.versions.toml", ".yarn/cache/x", "cargo/config", "requires", "code-workspace", "mise/x.py",
        "tsconfig.json", ".editorconfig", ".python-version", "docs/cursor.md", ".config/app.toml",
        "mise/conf.py", "config/lefthook.py", ".config/prek/x", "envrc.md", "docs/gitmodules.md", "nix/pkgs.nix",
    ],
)  # fmt: skip
def test_ordinary_files_are_edited_without_a_question(name: str) -> None:
    assert not is_guarded(Path("/project", name))


@pytest.mark.parametrize(
    ("names", "how"),
    [
        (
            (
                "lefthook.yml .lefthook.yaml lefthook.toml .lefthook.json lefthook.jsonc .config/lefthook.toml "
                "lefthook-local.yml .lefthook-local.json .config/lefthook-local.yaml .lefthook-local/pre-commit/x.sh "
                "prek.toml .pre-commit-config.yml hk.pkl .config/hk.local.pkl .huskyrc.json "
                "captainhook.json grumphp.yml"
            ),
            "closed",
        ),
        (
            (
                "mise/config.toml mise/conf.d/x.toml .config/mise/conf.d/x.toml .config/mise/config.ci.toml "
                ".envrc.local .prototools .Renviron mise.ci.toml .mise.test.local.toml mise/config.ci.toml "
                ".config/mise.ci.toml .rtx.local.toml .miserc.toml .envrc.staging .envrc.d/10-x .direnv/flake.rc "
                "shop.code-workspace shop.sublime-project"
            ),
            "closed",
        ),
        (
            (
                ".amp/settings.json .grok/config.toml .grok/hooks/x.json .iflow/settings.json "
                ".codebuddy/settings.local.json .tabnine/agent/settings.json .air/mcp.json .p4config"
            ),
            "closed",
        ),
        (
            (
                ".envrc.example .direnv/bin/x flake.nix devenv.nix .bsp/sbt.json "
                ".gitattributes .gitmodules .lfsconfig bunfig.toml .bundle/config .yarn/sdks/x .RData Jenkinsfile "
                ".woodpecker/x.yml .forgejo/workflows/x.yml azure-pipelines.yml .travis.yml"
            ),
            "asked",
        ),
    ],
    ids=["hooks of git", "shells", "agents", "asked"],
)
def test_files_that_hook_managers_shells_and_git_read_automatically_are_guarded(
    names: str, how: How
) -> None:
    assert [name for name in names.split() if not is_guarded(Path(name))] == []
    if how == "closed":
        rows = ["/".join(row.parts) for row in guarded_paths("closed")]
        left = [
            name
            for name in names.split()
            if not any(fnmatchcase(f"{name}/", f"{row}/*") for row in rows)
        ]
        assert left == []


def test_a_template_does_not_match_the_pattern_of_what_it_is_copied_to() -> None:
    assert matches_pattern((".ENVRC.staging",), (".envrc.*",))
    for name in (".envrc.example", ".envrc.SAMPLE", ".envrc"):
        assert not matches_pattern((name,), (".envrc.*",))
