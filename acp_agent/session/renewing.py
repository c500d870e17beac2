"""`Renewing`: when a session takes its settings anew from the disk, and shows what may be chosen now.

Knows that they may have been mended, and not what a session does with them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from acp_agent.config import Settings
from acp_agent.turn.updates import OptionsUpdated

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost


class Renewing:
    """Doubts and renews the settings of one session.

    :param read: the settings for a directory, as they are on the disk.
    :param cwd: the session's.
    """

    def __init__(self, host: SessionHost, read: Callable[[Path], Settings], cwd: Path) -> None:
        self._host = host
        self._read = read
        self._cwd = cwd
        self._doubted = False
        self._version = host.models.version()

    def doubt(self) -> None:
        """A turn failed for what the user may mend in a file: the next one reads the settings anew."""
        self._doubted = True

    async def renew(self) -> None:
        """Take the settings as they are on the disk now, where they were doubted. Without doubt, show what may be
        chosen where the providers are reached in another way than at the last turn.

        :raises ConfigError: they are wrong. They stay in doubt, and all is as it was.
        """
        host = self._host
        former, self._version = self._version, host.models.version()
        if self._doubted:
            await host.work_with(await anyio.to_thread.run_sync(self._read, self._cwd))
            self._doubted = False
        elif self._version == former:
            return
        await host.show(OptionsUpdated(await host.options()))
