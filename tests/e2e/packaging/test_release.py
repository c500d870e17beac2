"""What is made of a checkout for others: distributions, a container, a site; and what a
release lacks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from acp_agent import __version__
from acp_agent.cli.main import parse
from support.checkout import REPOSITORY, succeed

pytestmark = pytest.mark.process

FOLDERS = (".ci", "acp_agent", "docs", "editors", "recipes")
FILES = ("CHANGELOG.md", "LICENSE", "Makefile", "README.md", "pyproject.toml")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def checkout(folder: Path, umask: int, time: int) -> Path:
    """A copy of what is packed, as another machine may have it."""
    before = os.umask(umask)
    try:
        for name in FOLDERS:
            shutil.copytree(
                REPOSITORY / name, folder / name, copy_function=shutil.copyfile
            )
        for name in FILES:
            shutil.copyfile(REPOSITORY / name, folder / name)
        (folder / ".installed").touch()
    finally:
        os.umask(before)
    for path in folder.rglob("*"):
        os.utime(path, (time, time))
    return folder


def test_the_distributions_are_the_same_bytes_wherever_they_are_made_and_come_with_checksums(
    tmp_path: Path,
) -> None:
    copies = [
        checkout(tmp_path / "one", 0o022, 1_700_000_000),
        checkout(tmp_path / "other", 0o077, 1_800_000_000),
    ]
    for copy in copies:
        succeed("make", "dist", f"VENV={sys.prefix}", "DEV=.installed", cwd=copy)
        succeed("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=copy / "dist")
    one, other = ((copy / "dist" / "SHA256SUMS").read_text() for copy in copies)
    assert one == other
    name = f"acp_agent_server-{__version__}"
    assert [line.split()[1] for line in one.splitlines()] == [
        f"{name}.tar.gz",
        f"{name}-py3-none-any.whl",
    ]


def release_check(folder: Path) -> tuple[int, str]:
    command = [
        sys.executable,
        str(REPOSITORY / ".ci" / "release_check.py"),
        str(folder),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30
    )
    return done.returncode, done.stdout


def test_a_release_is_refused_until_the_address_of_the_source_and_the_changelog_are_there(
    tmp_path: Path,
) -> None:
    folder = checkout(tmp_path / "copy", 0o022, 1_700_000_000)
    project = folder / "pyproject.toml"
    changelog = folder / "CHANGELOG.md"
    readme = folder / "README.md"
    entry = folder / "editors" / "registry" / "acp-agent" / "agent.json"
    changelog.write_text("## [Unreleased]\n\n### Added\n\n- A thing.\n")
    readme.write_text("It is not published yet.\n")
    code, said = release_check(folder)
    assert code == 1
    assert [line.split(":")[0] for line in said.splitlines()[:-1]] == [
        *("- pyproject.toml", "- CHANGELOG.md", "- CHANGELOG.md", "- README.md")
    ]
    urls = '[project.urls]\nRepository = "https://example.org/acp-agent"\n'
    project.write_text(
        project.read_text().replace("[project.scripts]", f"{urls}\n[project.scripts]")
    )
    code, said = release_check(folder)
    assert "agent.json: `repository` is not the `Repository` of pyproject.toml" in said

    entry.write_text(
        json.dumps(
            {
                **json.loads(entry.read_text()),
                "repository": "https://example.org/acp-agent",
            }
        )
    )
    changelog.write_text(
        f"## [Unreleased]\n\n## [{__version__}] - 2026-12-01\n\n- A thing.\n"
    )
    readme.write_text("Install it.\n")
    assert release_check(folder)[0] == 0


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, a continued line as one."""
    text = (
        (REPOSITORY / "editors" / "docker" / "Dockerfile")
        .read_text()
        .replace("\\\n", " ")
    )
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], " ".join(line.split()[1:])) for line in lines]


def test_the_container_serves_the_wheel_of_make_dist_as_a_user_without_rights() -> None:
    parts = instructions()
    (first, image), *_ = parts
    assert (first, image) in {
        ("FROM", f"python:{version}-slim") for version in VERSIONS
    }
    assert {word for word, _ in parts} <= {
        *(
            "FROM",
            "RUN",
            "COPY",
            "USER",
            "ENV",
            "VOLUME",
            "WORKDIR",
            "EXPOSE",
            "ENTRYPOINT",
            "CMD",
        )
    }
    [copied] = [text.split() for word, text in parts if word == "COPY"]
    assert copied == ["dist/*.whl", "/tmp/dist/"]
    steps = [text for word, text in parts if word == "RUN"]
    [install] = [text for text in steps if text.startswith("pip install ")]
    assert '"$(ls /tmp/dist/*.whl)[serve]"' in install
    assert "serve" in PROJECT["optional-dependencies"]
    for step in steps:
        subprocess.run(["sh", "-n", "-c", step], check=True, timeout=30)
    assert [word for word, _ in parts].index("USER") > max(
        at for at, (word, _) in enumerate(parts) if word == "RUN"
    )
    last = {word: text for word, text in parts if word not in ("RUN", "COPY")}
    assert last["USER"] == "agent"
    assert last["ENV"] == f"ACP_AGENT_HOME={last['VOLUME']}"
    assert json.loads(last["ENTRYPOINT"]) == ["acp-agent"]
    assert parse(json.loads(last["CMD"])).addresses == [f"0.0.0.0:{last['EXPOSE']}"]


def test_the_site_has_every_page_once_and_no_mark_that_its_generator_misreads(
    tmp_path: Path,
) -> None:
    succeed(
        sys.executable,
        REPOSITORY / ".ci" / "make_site.py",
        tmp_path / "site",
        cwd=REPOSITORY,
    )
    project = tomllib.loads((tmp_path / "site" / "zensical.toml").read_text())[
        "project"
    ]
    sections = [pages for section in project["nav"] for pages in section.values()]
    named = [
        name
        for pages in sections
        for name in ([pages] if isinstance(pages, str) else pages)
    ]
    assert len(named) == len({*named})
    assert {f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md")} <= {
        *named
    }
    for name in named:
        page = (tmp_path / "site" / "pages" / name).read_text()
        assert re.findall(r"^<!-- .*|^ *```\w+ .*", page, re.MULTILINE) == [], name
    assert project["theme"] == {"font": False}, "a font would be loaded from elsewhere"
