"""The log file: private, rotating, and without secrets."""

from __future__ import annotations

import logging
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_agent.logfile import MAX_BYTES, start_logging
from acp_agent.secrets.known import MASK


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    yield root
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)
    logging.raiseExceptions = True


def test_a_secret_of_the_environment_never_reaches_the_log(
    tmp_path: Path, root_logger: logging.Logger
) -> None:
    path = start_logging(
        tmp_path, {"SOME_API_KEY": "correct-horse-battery", "EDITOR": "a-plain-value"}
    )
    assert path is not None
    try:
        raise ValueError("refused: correct-horse-battery")
    except ValueError:
        logging.getLogger("acp_agent.test").exception(
            "the provider said %s to %s", "correct-horse-battery", "a-plain-value"
        )
    text = path.read_text()
    assert "correct-horse-battery" not in text
    assert MASK in text
    assert "a-plain-value" in text


def test_a_full_log_is_rotated_and_stays_private(
    tmp_path: Path, root_logger: logging.Logger
) -> None:
    path = start_logging(tmp_path, {})
    assert path is not None
    for number in range(12):
        logging.getLogger("acp_agent.test").info(
            "%d %s", number, "x" * (MAX_BYTES // 2 - 100)
        )
    files = sorted(tmp_path.iterdir())
    assert [file.name.removeprefix(path.name) for file in files] == [
        "",
        ".1",
        ".2",
        ".3",
    ]
    assert [
        line.split("test: ")[1][:2].strip()
        for line in files[1].read_text().splitlines()
    ] == ["8", "9"]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_a_folder_that_cannot_be_made_is_no_reason_not_to_work(
    tmp_path: Path, root_logger: logging.Logger
) -> None:
    (tmp_path / "file").write_text("")
    assert start_logging(tmp_path / "file" / "logs", {}) is None
    assert start_logging(tmp_path / "home" / "logs", {}) is None, (
        "whose parents are not the log's to make"
    )
    assert not (tmp_path / "home").exists()
    logging.getLogger("acp_agent.test").error("goes nowhere")


def test_a_log_whose_folder_is_gone_when_it_is_full_is_no_reason_not_to_work(
    tmp_path: Path, root_logger: logging.Logger
) -> None:
    folder = tmp_path / "logs"
    assert start_logging(folder, {}) is not None
    logging.getLogger("acp_agent.test").info("x" * MAX_BYTES)
    shutil.rmtree(folder)
    for _ in range(2):
        logging.getLogger("acp_agent.test").info("goes nowhere")
