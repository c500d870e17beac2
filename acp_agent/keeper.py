"""What ends the process groups of an agent that had no time to: one that was killed outright.

Some editors kill the agent as they close, and nothing of it runs after SIGKILL. So another process waits beside it, in
a session of its own, as long as there is a group to keep: its stdin ends with the agent, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

import anyio

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
_LEAVING_SECONDS = 0.05
_POLL_SECONDS = 0.001


class Keeper:
    """Knows the groups that are to end with the agent. Where there is no shell to wait, they are not kept."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._waiting: subprocess.Popen[bytes] | None = None
        self._leaving: list[subprocess.Popen[bytes]] = []

    def begun(self, group: int) -> None:
        """A group was started."""
        self._groups.add(group)
        if self._waiting is not None and _tell(self._waiting, "begun", group):
            return
        self._leaving = [process for process in self._leaving if process.poll() is None]
        if self._waiting is not None:  # somebody has ended it
            self._leaving.append(self._waiting)
        self._waiting = waiting = _start()
        if waiting is not None:
            for one in self._groups:
                _tell(waiting, "begun", one)

    async def ended(self, group: int) -> None:
        """No process of the group is left. With the last one, what waits is gone as well."""
        self._groups.discard(group)
        waiting = self._waiting
        if waiting is None:
            return
        if self._groups:
            _tell(waiting, "ended", group)
            return
        self._waiting = None
        _tell(waiting, "ended", group)
        assert waiting.stdin
        waiting.stdin.close()
        self._leaving.append(waiting)
        with anyio.move_on_after(_LEAVING_SECONDS):
            while waiting.poll() is None:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(_POLL_SECONDS)


def _start() -> subprocess.Popen[bytes] | None:
    with contextlib.suppress(OSError):
        process = subprocess.Popen(
            # What a person reads in a list of processes is short, and says whose it is.
            ("/bin/sh", "-c", 'eval "$KEEPER"', "acp-agent-keeper"),
            env={"PATH": os.defpath, "KEEPER": _SCRIPT},  # it needs nothing of the agent's, least of all keys
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert process.stdin
        os.set_blocking(process.stdin.fileno(), False)
        return process
    return None


def _tell(process: subprocess.Popen[bytes], word: str, group: int) -> bool:
    """Whether it was there to hear it."""
    assert process.stdin
    with contextlib.suppress(OSError):
        process.stdin.write(f"{word} {group}\n".encode())
        return True
    return False
