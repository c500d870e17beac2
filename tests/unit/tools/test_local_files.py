"""Files on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.tools.files import local as local_files
from acp_agent.tools.files.local import LocalFiles

files = LocalFiles()


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
async def test_a_text_is_read_back_as_it_was_written(tmp_path: Path, text: str) -> None:
    await files.write_text(tmp_path / "a", text)
    assert await files.read_text(tmp_path / "a") == text
    assert (tmp_path / "a").read_bytes() == text.encode()


async def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(
    tmp_path: Path,
) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    await files.write_text(script, "new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    before = os.umask(0o027)
    try:
        await files.write_text(tmp_path / "fresh", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


async def test_writing_through_a_link_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("old")
    (tmp_path / "link").symlink_to("real/a")
    await files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_text() == "new"
    (tmp_path / "dangling").symlink_to("real/b")
    await files.write_text(tmp_path / "dangling", "made")
    assert (tmp_path / "real" / "b").read_text() == "made"


async def test_a_reader_never_sees_a_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with path.open() as before:
        await files.write_text(path, "new")
        assert before.read() == "old"
    assert path.read_text() == "new"


async def test_a_failed_write_leaves_the_file_and_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(local_files.os, "fsync", full)
    with pytest.raises(ToolError, match="no space left on device"):
        await files.write_text(path, "new")
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["a"]


async def test_an_unwritable_file_is_refused_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for path in (
        tmp_path,
        tmp_path / "pipe",
        tmp_path / "file" / "b",
        tmp_path / ("x" * 300),
        Path("/proc/nothing"),
    ):
        with pytest.raises(ToolError, match=r"\.$"):
            await files.write_text(path, "x")
    with pytest.raises(ToolError, match="surrogate"):
        await files.write_text(tmp_path / "a", "\ud800")
    with pytest.raises(ToolError, match="10 MiB"):
        await files.write_text(tmp_path / "a", "x" * (10 * 1024 * 1024 + 1))
    assert names_in(tmp_path) == ["file", "loop", "pipe"]


async def test_a_file_that_is_not_text_is_refused_with_a_message(
    tmp_path: Path,
) -> None:
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(20 * 1024 * 1024)
    for name, reason in {
        "binary": "binary",
        "latin": "UTF-8",
        "loop": "symbolic",
        "large": "10 MiB",
    }.items():
        with pytest.raises(ToolError, match=reason):
            await files.read_text(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        await files.read_text(tmp_path / "absent")
