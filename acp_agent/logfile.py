"""The log file: rotating, private, with secrets masked.

Nothing is logged to standard error, since several editors show each of its lines as an
error.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import cast

from acp_agent.secrets.known import secrets_of

NAME = "acp-agent.log"
MAX_BYTES = 2_000_000
BACKUPS = 3


def start_logging(folder: Path, env: Mapping[str, str]) -> Path | None:
    """Send the project's log records to a file in this folder.

    :param folder: created if it is missing, with access only for the user. Its parent
        must exist.
    :param env: environment variables. The values of variables that look like secrets
        are masked.
    :returns: the file, or None if it cannot be written, which does not stop the agent.
    """
    path = folder / NAME
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        handler = _PrivateFile(
            path,
            maxBytes=MAX_BYTES,
            backupCount=BACKUPS,
            encoding="utf-8",
            errors="replace",
        )
    except OSError:
        do_not_log()
        return None
    handler.setFormatter(_Masking(env))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("acp_agent").setLevel(logging.INFO)
    logging.raiseExceptions = False  # do not report a full disk on standard error
    return path


def log_file() -> Path | None:
    """Return the log file, or None if records are dropped."""
    files = [
        Path(each.baseFilename)
        for each in logging.getLogger().handlers
        if isinstance(each, _PrivateFile)
    ]
    return files[-1] if files else None


def log_failure(log: logging.Logger, what: str, error: Exception) -> str:
    """Log an unexpected error with its traceback.

    :param what: the beginning of a sentence, such as "The agent failed inside".
    :returns: the message for the user: that sentence with the error's class and text,
        and the path of the log file.
    """
    log.error("%s", what, exc_info=error)
    kind = type(error).__name__
    text = str(error)
    path = log_file()
    details = f" The details are in {path}." if path else ""
    return f"{what} ({f'{kind}: {text}' if text else kind}).{details}"


def do_not_log() -> None:
    """Drop all records. Without any handler, Python would write warnings to standard
    error.
    """
    logging.getLogger().addHandler(logging.NullHandler())


class _PrivateFile(RotatingFileHandler):
    """The log file and its rotated files, which only the user can access."""

    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        file = open(  # noqa: SIM115 - the handler closes it
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            errors=self.errors,
            opener=opener,
        )
        return cast(TextIOWrapper, file)


class _Masking(logging.Formatter):
    """Formats a record including its exception, and masks everything that looks like a
    secret.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
        self._env = env

    def format(self, record: logging.LogRecord) -> str:
        # Its patterns take milliseconds to compile.
        from acp_agent.secrets.text import (
            mask,
        )

        return mask(super().format(record), secrets_of(self._env))
