"""Ends the process groups of an agent that was killed by SIGKILL.

Some editors kill the agent as they close. So a helper process waits in a session of its own until its stdin, a pipe
from the agent, is closed, which happens however the agent ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess

_SCRIPT = """\
cd /
trap '' HUP INT TERM
groups=
while read -r word group; do
  case $word in
    begun) groups="$groups $group" ;;
    ended)
      others=
      for one in $groups; do [ "$one" = "$group" ] || others="$others $one"; done
      groups=$others ;;
  esac
done
[ -n "$groups" ] || exit 0
for one in $groups; do kill -TERM "-$one"; done
sleep 0.1
for one in $groups; do kill -KILL "-$one"; done
"""


class Keeper:
    """Ends process groups with the agent, by a helper shell that is started with the first group.

    Without a shell on the machine, they are not ended.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def begun(self, group: int) -> None:
        """Note that a group was started."""
        self._groups.add(group)
        if not self._tell("begun", group):  # there is no helper yet, or it was killed
            self._shell = _start()
            for one in self._groups:
                self._tell("begun", one)

    def ended(self, group: int) -> None:
        """Note that no process of the group is left."""
        self._groups.discard(group)
        self._tell("ended", group)

    def _tell(self, word: str, group: int) -> bool:
        if self._shell is None or self._shell.poll() is not None:
            return False
        assert self._shell.stdin
        with contextlib.suppress(OSError):
            self._shell.stdin.write(f"{word} {group}\n".encode())
            return True
        return False


def _start() -> subprocess.Popen[bytes] | None:
    with contextlib.suppress(OSError):
        shell = subprocess.Popen(
            # What a person reads in a list of processes is short, and says whose it is.
            ("/bin/sh", "-c", 'eval "$KEEPER"', "acp-agent-keeper"),
            env={"PATH": os.defpath, "KEEPER": _SCRIPT},  # it needs nothing of the agent's, least of all keys
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert shell.stdin
        os.set_blocking(shell.stdin.fileno(), False)
        atexit.register(shell.communicate)
        return shell
    return None
